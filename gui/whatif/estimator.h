#pragma once

#include <memory>
#include <string>

#include "gui/whatif/estimate_worker.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::gui {

/// Loads the model of `source`. A name is looked up in the catalogue in `config_dir`.
///
/// Errors:  those of `load_model`, `read_hf_config` and `read_gguf`.
[[nodiscard]] Result<ir::ModelSpec> load_source(const std::string& config_dir,
                                                const ModelSource& source);

/// Two ways to answer a scenario. They share what they have read from the catalogue in
/// `config_dir` and may run in different threads. A file of the user is read again when it has
/// changed.
struct Engine {
  /// Replays the plan: the answer of `headroom fit`.
  Estimator estimate;
  /// The changes after which the plan fits (`cost::find_remedies`); the estimate is empty.
  Estimator remedies;
};
[[nodiscard]] Engine make_engine(std::string config_dir);

/// `Engine::estimate` alone.
[[nodiscard]] Estimator make_estimator(std::string config_dir);

}  // namespace headroom::gui
