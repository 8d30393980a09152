#pragma once

#include <string>

#include "gui/whatif/estimate_worker.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::gui {

/// Loads the model of `source`. A name is looked up in the catalogue in `config_dir`; a file is
/// read again each time.
///
/// Errors:  those of `load_model`, `read_hf_config` and `read_gguf`.
[[nodiscard]] Result<ir::ModelSpec> load_source(const std::string& config_dir,
                                                const ModelSource& source);

/// An `Estimator` that loads the model (`load_source`) and the GPU (from the catalogue in
/// `config_dir`), places it in its host and replays the plan.
[[nodiscard]] Estimator make_estimator(std::string config_dir);

}  // namespace headroom::gui
