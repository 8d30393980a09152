#pragma once

#include <string>
#include <vector>

#include "model_ir/spec/checkpoint_quantisation.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// Notes on a checkpoint with quantised weights for a user who asks about training:
/// what they take when they are loaded, and what the answer assumes instead.
[[nodiscard]] std::vector<std::string> quantisation_notes(
    const ir::ModelSpec& model, const ir::CheckpointQuantisation& quantisation);

}  // namespace headroom::cli
