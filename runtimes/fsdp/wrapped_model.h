#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "runtimes/fsdp/flat_unit.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// A model in FullyShardedDataParallel: the whole and each layer wrapped, and with adapters each
/// module inside that is trained.
struct WrappedModel {
  transformers::Model model;
  std::vector<std::unique_ptr<FlatUnit>> units;  ///< Each before those inside it.
  std::vector<torch::Tensor> pieces;  ///< Trained ones, in the order of model.parameters().
  /// The policy of mixed precision holds: adapters, fp32 beside narrower weights, run under it only
  /// with autocast. Otherwise each unit keeps its own type.
  bool mixed = true;
};

/// A module inside a layer that is wrapped by itself.
inline constexpr std::int32_t kLeafModule = -4;

/// Builds the model on the host and wraps it: layer by layer, then the rest, parameters move to the
/// device (`device_id`) and are flattened. Trained modules inside come before what holds them.
/// Under autocast what is trained becomes fp32 at last. `plan` is that of the arithmetic. Source:
/// pytorch/pytorch 2.11 torch/distributed/fsdp/_init_utils.py, _init_param_handle_from_
///         module; huggingface/accelerate 1.15 accelerator.py, prepare_model; huggingface/peft 0.21
///         src/peft/utils/other.py, fsdp_auto_wrap_policy.
[[nodiscard]] std::unique_ptr<WrappedModel> load_wrapped(const Sharding& sharding,
                                                         const transformers::ModelSource& source);

/// The hooks of FullyShardedDataParallel on a model.
///
///   before a module  gather, make its parameters views; the root first casts its buffers
///   after it         release (not the root), note the order
///   its output's     gather, start the gather of the module before it (or later, or not)
///    gradient is there
///   all gradients    reduce, release; a second micro-batch's are added to the first's; what is
///                    frozen is released when its input's gradient is there
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_runtime_utils.py.
class WrapperHooks {
 public:
  WrapperHooks(torch::Eager& eager, const FsdpPlan& plan, WrappedModel& wrapped);

  void before(std::int32_t module, std::vector<torch::Tensor>& inputs);
  void after(std::int32_t module, const std::vector<torch::Tensor>& outputs);
  /// The same for modules inside a layer.
  void enter(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> inputs);
  void leave(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> outputs);
  void finish_backward();

 private:
  struct Unit {
    FlatUnit* flat = nullptr;
    bool in_backward = false;                ///< Its pre-backward hook has run.
    bool prefetched = false;                 ///< Gathered ahead of its turn.
    bool needs_forward = false;              ///< May be gathered ahead in forward,
    bool needs_backward = false;             ///< or in backward.
    bool watched = false;                    ///< Frozen, and its input's gradient releases it.
    std::optional<std::size_t> order;        ///< Where it stands in `order_`.
    std::optional<std::size_t> first_order;  ///< The same in `first_order_`.
  };
  [[nodiscard]] Unit* find(std::int32_t module);
  [[nodiscard]] Unit* find(const transformers::ModuleCall& call);
  void before(Unit& unit, const std::vector<torch::Tensor>& inputs);
  void after(Unit& unit, const std::vector<torch::Tensor>& outputs);
  void start(Unit& root);
  void watch_inputs(Unit& unit, const std::vector<torch::Tensor>& inputs);
  void before_backward(Unit& unit);
  void after_backward(Unit& unit);
  void gather_for_backward(const Unit& unit);
  void gather_before(const Unit& unit);
  void gather_after(const Unit& unit);
  void note_order(Unit& unit);

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
