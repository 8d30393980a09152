#pragma once

#include <vector>

#include <QString>

#include "costmodel/estimate.h"
#include "gui/models/compare_model.h"
#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/scenario.h"
#include "model_ir/base/error.h"

namespace headroom::gui {

/// One figure of the header, with a caption and an explanation of one line.
struct Fact {
  QString caption;
  QString value;
  QString detail;
  QString tip;       ///< Exact bytes and sources.
  QString change{};  ///< The value of a pinned answer if it is another one; else empty.
};

/// The texts of the header for an estimate.
struct VerdictText {
  QString headline;  ///< "Fits"
  QString margin;    ///< "12.4 GiB to spare"
  QString basis;     ///< "15.8 % of 78.6 GiB that the allocator may reserve"
  QString sentence;  ///< Everything important, for a screen reader.
  std::vector<Fact> facts;
};

/// The texts of the header if there is no estimate.
struct ProblemText {
  QString what;    ///< One line.
  QString detail;  ///< The remedy and further notes, one per line; may be empty.
};

[[nodiscard]] ProblemText problem_text(const Error& error);
/// The text for an internal error of the program.
[[nodiscard]] ProblemText fault_text(const QString& fault);
[[nodiscard]] VerdictText verdict_text(const cost::StepEstimate& estimate);
/// The same with the chance to fit and, if price or tokens are given, what the run costs. Facts say
/// how they differ from those of `pinned`, if there is one.
[[nodiscard]] VerdictText verdict_text(const Appraisal& appraisal, const Scenario& scenario,
                                       const Pinned* pinned);

}  // namespace headroom::gui
