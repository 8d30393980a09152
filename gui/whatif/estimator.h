#pragma once

#include <string>

#include "gui/whatif/estimate_worker.h"

namespace headroom::gui {

/// An `Estimator` that reads model and GPU from the catalogue in `config_dir` (a config.json from
/// its own path, each time anew) and replays the plan.
[[nodiscard]] Estimator make_estimator(std::string config_dir);

}  // namespace headroom::gui
