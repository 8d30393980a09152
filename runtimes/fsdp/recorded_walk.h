#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/fsdp/named_parameters.h"

namespace headroom::ir::fsdp {

/// A tensor that a walk over modules comes to.
struct WalkStep {
  enum class Kind : std::uint8_t {
    kParameter,  ///< For the first time.
    kAgain,      ///< A parameter under another of its names.
    kBuffer,
  };
  Kind kind = Kind::kParameter;
  std::size_t index = 0;  ///< In the list of named parameters, or of the recording's buffers.
  friend bool operator==(const WalkStep&, const WalkStep&) = default;
};

/// Parameters and buffers of a recorded model in the order in which `to_empty` gives them memory:
/// those of a module's children before its own, a tied parameter once for each of its names.
/// Source: pytorch/pytorch 2.11 torch/nn/modules/module.py, Module._apply.
[[nodiscard]] std::vector<WalkStep> walk_of(const Recording& recording,
                                            std::span<const NamedParameter> named);

/// The name of a parameter that modules in several layers share; empty if there is none.
/// fully_shard on each of the layers would make several parameters of it. Source:
/// pytorch/pytorch 2.11 _fully_shard/_fsdp_param.py, _init_sharded_param, which replaces it in
///         the modules of its group alone.
[[nodiscard]] std::string shared_by_layers(const Recording& recording);

}  // namespace headroom::ir::fsdp
