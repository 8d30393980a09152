#pragma once

#include <QString>

#include "costmodel/time/step_parts.h"
#include "gui/theme/palette.h"

namespace headroom::gui {

/// The style in which a part of a step is drawn. Parts share the styles of the tensor categories:
/// those that compute have cool ones, communication warm ones.
[[nodiscard]] SeriesStyle part_style(const Theme& theme, cost::StepPart part);

/// "matrix products", in the language of the user interface.
[[nodiscard]] QString part_name(cost::StepPart part);

/// Whether the part is communication or copies, which can overlap with computation.
[[nodiscard]] bool is_transfer_part(cost::StepPart part);

/// One of eleven styles, for series that are numbered.
[[nodiscard]] SeriesStyle numbered_style(const Theme& theme, std::size_t number);

}  // namespace headroom::gui
