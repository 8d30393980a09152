#pragma once

#include <vector>

#include <QString>

#include "costmodel/estimate.h"
#include "model_ir/base/error.h"

namespace headroom::gui {

/// One figure of the header: a caption, the figure, and a line that explains it.
struct Fact {
  QString caption;
  QString value;
  QString detail;
  QString tip;  ///< Exact bytes and sources.
};

/// An estimate in the words of the header.
struct VerdictText {
  QString headline;  ///< "Fits"
  QString margin;    ///< "12.4 GiB to spare"
  QString basis;     ///< "15.8 % of 78.6 GiB that the allocator may reserve"
  QString sentence;  ///< All that matters, for a screen reader.
  std::vector<Fact> facts;
};

/// Why there is no estimate.
struct ProblemText {
  QString what;    ///< One line.
  QString detail;  ///< The remedy and further notes, a line each; may be empty.
};

[[nodiscard]] ProblemText problem_text(const Error& error);
/// What a broken rule of the program itself says.
[[nodiscard]] ProblemText fault_text(const QString& fault);
[[nodiscard]] VerdictText verdict_text(const cost::StepEstimate& estimate);

}  // namespace headroom::gui
