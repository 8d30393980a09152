#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// An option that is no part of a plan but changes the answer, as it was typed: "node" and
/// "dgx-a100". A flag has the value "".
struct Assumption {
  std::string option;
  std::string value;
  friend bool operator==(const Assumption&, const Assumption&) = default;
};

/// A question that can be written down: which model, on which GPU, under which plan, and what was
/// assumed besides. Every verb takes it through `--plan`.
struct PlanFile {
  std::string model;   ///< The value of MODEL: a catalogue name or a path; empty: not said.
  std::string device;  ///< The value of --gpu; empty: not said.
  std::vector<Assumption> assumptions;
  /// The options that a search was given, if it found the plan.
  std::optional<std::vector<Assumption>> search;
  ParallelPlan plan;  ///< The number of GPUs is its `world`.
  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

/// The file as JSON (`configs/schema/plan_file.schema.json`).
[[nodiscard]] JsonValue plan_file_to_json(const PlanFile& file);

/// A plan file whose text has been parsed. Its plan can be read over several others without parsing
/// it again. Cheap to copy.
class PlanText {
 public:
  /// Errors:  kInvalidInput naming `file`, if the text is no JSON object.
  [[nodiscard]] static Result<PlanText> parse(std::string_view text, std::string_view file);
  /// The same of a document that was parsed by somebody else. Requires that it is an object.
  PlanText(JsonValue document, std::string_view file);

  [[nodiscard]] const std::string& file() const { return file_; }
  /// What the file says; an absent key of the plan keeps its value from `base`.
  ///
  /// Errors:  those of `parse_plan_file`.
  [[nodiscard]] Result<PlanFile> read(const ParallelPlan& base = {}) const;

 private:
  std::shared_ptr<const JsonValue> document_;
  std::string file_;
};

/// Reads a plan file, a document of a verb's `--json` that holds one under "plan_file", or a plan
/// alone (`configs/schema/plan.schema.json`). An absent key of the plan keeps its value from
/// `base`.
///
/// Errors:  kInvalidInput naming `file`, the key, its value and what is accepted: no JSON, an
///          unknown key, a value that `parse_plan` refuses, a document without a plan.
[[nodiscard]] Result<PlanFile> parse_plan_file(std::string_view text, std::string_view file,
                                               const ParallelPlan& base = {});

/// `parse_plan_file` of a file's content; "-" is standard input.
///
/// Errors:  those of `read_file` and `parse_plan_file`.
[[nodiscard]] Result<PlanFile> read_plan_file(const std::string& path,
                                              const ParallelPlan& base = {});

/// Whether `text` is JSON in one of the forms that `parse_plan_file` reads, rather than the
/// configuration of a model.
[[nodiscard]] bool is_plan_file(std::string_view text);

}  // namespace headroom::ir
