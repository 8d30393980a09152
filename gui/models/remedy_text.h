#pragma once

#include <vector>

#include <QString>

#include "costmodel/estimate.h"
#include "costmodel/remedy.h"
#include "gui/whatif/scenario.h"

namespace headroom::gui {

/// A change of the plan that helps, as a button shows it.
struct RemedyText {
  QString title;    ///< "Recompute every layer in backward"
  QString outcome;  ///< "fits, 12.4 GiB to spare; +31 % step time"
  QString tip;      ///< The options that change, and what the change costs.
  ir::ParallelPlan plan;
};

/// The remedies of an answer as buttons, at most `count`, the cheapest first. `headline` says what
/// they achieve.
struct RemedyTexts {
  QString headline;
  std::vector<RemedyText> remedies;
};
[[nodiscard]] RemedyTexts remedy_texts(const cost::Remedies& found, const Scenario& scenario,
                                       const cost::StepEstimate& estimate, std::size_t count = 3);

}  // namespace headroom::gui
