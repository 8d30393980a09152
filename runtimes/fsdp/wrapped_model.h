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

/// A model in FullyShardedDataParallel. The whole model and each layer are wrapped; with adapters,
/// also each trained module inside a layer.
struct WrappedModel {
  transformers::Model model;
  std::vector<std::unique_ptr<FlatUnit>> units;  ///< Each unit before the units inside it.
  std::vector<torch::Tensor> pieces;  ///< Trained ones, in the order of model.parameters().
  /// Whether the mixed-precision policy applies. Adapters that are fp32 beside narrower weights run
  /// under the policy only with autocast. Otherwise each unit keeps its own type.
  bool mixed = true;
};

/// The number of modules inside a layer that are wrapped by themselves.
inline constexpr std::int32_t kLeafModule = -4;

/// Builds the model on the host and wraps it. Parameters are moved to the device (`device_id`) and
/// flattened layer by layer, then the rest. Trained modules inside come before the module that
/// contains them. Under autocast, trained parameters become fp32 at the end. `plan` is the plan of
/// the arithmetic.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_init_utils.py,
///         _init_param_handle_from_module;
///         huggingface/accelerate 1.15 accelerator.py, prepare_model;
///         huggingface/peft 0.21 src/peft/utils/other.py, fsdp_auto_wrap_policy.
[[nodiscard]] std::unique_ptr<WrappedModel> load_wrapped(const Sharding& sharding,
                                                         const transformers::ModelSource& source);

/// The hooks of FullyShardedDataParallel on a model.
///
///   before a module  gather, make its parameters views; the root first casts its buffers
///   after it         release (not the root), note the order
///   its output's     gather, start to gather the module before it (or later, or not at all)
///    gradient is there
///   all gradients    reduce, release; those of a second micro-batch are added to the first's; a
///    are there       frozen module is released when its input's gradient is there
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_runtime_utils.py.
class WrapperHooks {
 public:
  WrapperHooks(torch::Eager& eager, const FsdpPlan& plan, WrappedModel& wrapped);

  void before(std::int32_t module, std::vector<torch::Tensor>& inputs);
  void after(std::int32_t module, const std::vector<torch::Tensor>& outputs);
  /// The same hooks for modules inside a layer.
  void enter(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> inputs);
  void leave(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> outputs);
  void finish_backward();

 private:
  struct Unit {
    FlatUnit* flat = nullptr;
    bool in_backward = false;                ///< Its pre-backward hook has run.
    bool prefetched = false;                 ///< Gathered before its turn.
    bool needs_forward = false;              ///< Whether forward may prefetch it.
    bool needs_backward = false;             ///< Whether backward may prefetch it.
    bool watched = false;                    ///< Frozen; its input's gradient releases it.
    std::optional<std::size_t> order;        ///< Its place in `order_`.
    std::optional<std::size_t> first_order;  ///< Its place in `first_order_`.
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
  std::vector<Unit*> order_;        ///< Units in the order in which their forward calls end.
  std::vector<Unit*> first_order_;  ///< In the order in which they begin, in the first forward.
  bool ordered_ = false;
  bool started_ = false;
};

}  // namespace headroom::ir::fsdp
