#pragma once

#include <memory>
#include <vector>

#include "model_ir/runtime/fsdp/flat_unit.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::fsdp {

/// A model in FullyShardedDataParallel: the whole and each layer wrapped.
struct WrappedModel {
  transformers::Model model;
  std::vector<std::unique_ptr<FlatUnit>> units;  ///< The root, then the layers.
  std::vector<torch::Tensor> pieces;             ///< In the order of model.parameters().
};

/// Builds the model on the host and wraps it: layer by layer, then the rest, parameters move to the
/// device (`device_id`) and are flattened. `plan` is that of the arithmetic.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_init_utils.py, _init_param_handle_from_
///         module; huggingface/accelerate 1.15 accelerator.py, prepare_model.
[[nodiscard]] std::unique_ptr<WrappedModel> load_wrapped(const Sharding& sharding,
                                                         const ModelSpec& spec,
                                                         const ParallelPlan& plan,
                                                         const Graph& graph);

/// The hooks of FullyShardedDataParallel on a model.
///
///   before a module  gather, make its parameters views; the root first casts its buffers
///   after it         release (not the root), note the order
///   its output's     gather, start the gather of the module before it (or later, or not)
///    gradient is there
///   all gradients    reduce, release; a second micro-batch's are added to the first's
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_runtime_utils.py.
class WrapperHooks {
 public:
  WrapperHooks(torch::Eager& eager, const FsdpPlan& plan, WrappedModel& wrapped);

  void before(std::int32_t module);
  void after(std::int32_t module, const std::vector<torch::Tensor>& outputs);
  void finish_backward();

 private:
  struct Unit {
    FlatUnit* flat = nullptr;
    bool in_backward = false;
    std::size_t order = 0;  ///< Where it stands in `order_`.
  };
  [[nodiscard]] Unit* find(std::int32_t module);
  void start(Unit& root);
  void before_backward(Unit& unit);
  void gather_before(const Unit& unit);
  void gather_after(const Unit& unit);

  torch::Eager& eager_;
  const FsdpPlan& plan_;
  WrappedModel& wrapped_;
  std::vector<Unit> units_;
  std::vector<Unit*> order_;        ///< Of the ends of the forward calls.
  std::vector<Unit*> first_order_;  ///< Of their beginnings, in the first one.
  bool ordered_ = false;
  bool started_ = false;
};

}  // namespace headroom::ir::fsdp
