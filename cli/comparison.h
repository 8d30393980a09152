#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/estimate.h"
#include "costmodel/host_memory.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// One of the plans that are compared, as `fit` judges it.
struct ComparedPlan {
  std::string name;    ///< MODEL or the file, and what was varied.
  ir::PlanFile file;   ///< The question.
  std::string model;   ///< The model's name, for people.
  std::string device;  ///< Its name in the catalogue.
  cost::Verdict verdict{};
  bool yes = false;              ///< Whether `fit` would say yes.
  std::optional<double> chance;  ///< To fit; nothing if no measured errors apply.
  Bytes margin;
  Bytes capacity;
  Bytes peak_allocated;
  Bytes peak_reserved;
  cost::RoleBytes by_role{};
  std::string moment;
  cost::HostMemory host;  ///< Memory that the ranks of one node take on the host.
  cost::Verdict host_verdict{};
  std::string host_assumed;  ///< What is assumed of the host; empty: nothing.
  /// Nothing if nobody has measured a GPU of the kind.
  std::optional<Seconds> step;
  cost::PartTimes parts;
  double tokens_per_second = 0;    ///< All ranks together.
  std::vector<std::string> notes;  ///< Those of `fit`, and those of its times.
  std::optional<Error> refusal;    ///< There is no such plan; the figures mean nothing.
};

/// `--vary`, which may be repeated.
[[nodiscard]] OptionSpec vary_option();

/// Judges every plan that is asked for: each MODEL or plan file with each combination of the varied
/// values.
///
/// Model:   positionals that are plan files bring their model, GPU and plan; the other options
///          change every one of them. Without a positional, the file of --plan is varied.
/// Errors:  kInvalidArgument for fewer than two plans, for more than `kMostCompared`, and for a
///          variation of an option that `verb` does not have under any name. A combination that is
///          refused is in the answer; if all are, the error is the first of theirs.
[[nodiscard]] Result<std::vector<ComparedPlan>> compare_plans(const VerbSpec& verb,
                                                              const Arguments& arguments);

inline constexpr std::size_t kMostCompared = 64;

/// An option, and its value in each of the plans; "-" where a plan has no such option.
struct PlanDifference {
  std::string option;
  std::vector<std::string> values;
};
/// The notes of all plans, each with the numbers of the plans that it is about in front:
/// "(1) (3) ...".
[[nodiscard]] std::vector<std::string> numbered_notes(const std::vector<ComparedPlan>& plans);

/// What the plans differ in: model, GPU, assumptions, and the rows of the tables of options.
[[nodiscard]] std::vector<PlanDifference> differences_of(const std::vector<ComparedPlan>& plans);

}  // namespace headroom::cli
