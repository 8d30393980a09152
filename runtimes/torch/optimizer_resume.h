#pragma once

#include <cstdint>
#include <span>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Where the states of a checkpoint are when `Optimizer.load_state_dict` gets them.
enum class StatesFrom : std::uint8_t {
  kHost,    ///< Each is copied to the device of its parameter.
  kDevice,  ///< torch.load has put all of them there, also step counts.
};

/// `optimizer.load_state_dict(torch.load(...))`: the states of all `parameters` that are defined,
/// in order. States that are there already are let go when all new ones exist.
///
/// Model:   a state that is on the device in the parameter's type is taken as it is, any other is
///          converted and copied to it (transformers' Adafactor keeps fp32 states, also of
///          parameters in 16 bits). Step counts stay where they are, except those of fused forms,
///          which belong on the device. bitsandbytes clones what it gets, on the device too, and
///          then moves every tensor: code tables that parameters shared become one pair for each,
///          and paged states become ordinary tensors of the device.
/// Source:  pytorch/pytorch 2.11 torch/optim/optimizer.py, load_state_dict and
///          _process_value_according_to_param_policy; bitsandbytes 0.50.2
///          bitsandbytes/optim/optimizer.py, load_state_dict.
void load_states(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                 StatesFrom from, OptimizerState& state);

/// A step with gradients of zeros, by which states come into being before they are loaded.
///
/// Source:  pytorch/pytorch 2.11 torch/distributed/checkpoint/state_dict.py, _init_optim_state.
void initialise_states(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                       OptimizerState& state);

}  // namespace headroom::ir::torch
