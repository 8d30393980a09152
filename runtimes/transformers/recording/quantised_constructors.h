#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// The parameters and buffers of a recorded model whose linear layers are quantised: the floating
/// buffers, the parameters in the order of the modules, with one more weight for each further name
/// of a tied one until all are tied, and the other buffers.
void load_quantised_recording(torch::Eager& eager, Model& model);

}  // namespace headroom::ir::transformers
