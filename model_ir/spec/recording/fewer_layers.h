#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// One number for each layer. Layers with the same number run the same code, and their parameters
/// have the same sizes.
[[nodiscard]] std::vector<std::uint32_t> kinds_of_layers(const Recording& recording);

/// The recording without `count` layers from layer `first` on: without their modules, parameters
/// and buffers, what constructs them, and their calls. What a layer would have returned is what it
/// was given. nullptr if the rest would not run: layers that return more than their hidden state,
/// or code outside them that reads their parameters.
[[nodiscard]] std::shared_ptr<const Recording> with_fewer_layers(const Recording& recording,
                                                                 std::size_t first,
                                                                 std::size_t count);

}  // namespace headroom::ir
