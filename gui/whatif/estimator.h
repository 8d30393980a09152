#pragma once

#include <string>

#include "gui/whatif/estimate_worker.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::gui {

/// The model of `source`; names are looked up in the catalogue in `config_dir`, files are read
/// anew.
///
/// Errors:  those of `load_model`, `read_hf_config` and `read_gguf`.
[[nodiscard]] Result<ir::ModelSpec> load_source(const std::string& config_dir,
                                                const ModelSource& source);

/// An `Estimator` that loads model (`load_source`) and GPU (from the catalogue in `config_dir`) and
/// replays the plan.
[[nodiscard]] Estimator make_estimator(std::string config_dir);

}  // namespace headroom::gui
