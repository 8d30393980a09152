#pragma once

#include <string>
#include <vector>

#include "model_ir/spec/checkpoint_quantisation.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// What a user who asks about training should know of a checkpoint whose weights are quantised:
/// what they take when they are loaded, and what the answer assumes instead.
[[nodiscard]] std::vector<std::string> quantisation_notes(
    const ir::ModelSpec& model, const ir::CheckpointQuantisation& quantisation);

}  // namespace headroom::cli
