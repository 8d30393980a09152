#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// The whole model, to which `fully_shard` is applied last.
inline constexpr std::int32_t kRootModule = -1;

/// The hooks of `fully_shard` on a model, which gather, release and reduce groups.
///
///   before a module       gather; in forward the buffer lives until the next group's copy-out
///   after it              release (unless kept), note the order
///   its output's          gather, release the buffer, start to gather the group that ran before it
///    gradient is there    in forward
///   its input's           release, reduce; the input of a reduce-scatter lives until the next one
///    gradient is there
///   end of backward       reduce what has not been reduced yet, including the root
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_state.py,
///         _fsdp_param_group.py.
class FullyShard {
 public:
  /// `groups`: the root first, then the others in the order of the modules. A root may have no
  /// parameters, if all of them are in other groups.
  FullyShard(torch::Eager& eager, std::vector<std::unique_ptr<ShardedGroup>> groups);

  /// The hooks of a module. Modules without a group are ignored.
  void before(std::int32_t module, std::vector<torch::Tensor>& inputs);
  void after(std::int32_t module, const std::vector<torch::Tensor>& outputs);
  /// Called at the end of backward.
  void finish_backward();

  /// Sets what a module does until the next call. `reduces`: its gradients are reduced to shards
  /// after backward (set_requires_gradient_sync). `reshards`: its parameters are resharded after
  /// forward and backward.
  void set_module(std::int32_t module, bool reduces, bool reshards);
  /// set_modules_to_forward_prefetch and set_modules_to_backward_prefetch: the modules that a
  /// module's hooks gather after its own parameters. In backward they replace the group that ran
  /// before it.
  void set_prefetch(std::int32_t module, std::vector<std::int32_t> forward,
                    std::vector<std::int32_t> backward);
  /// `module.reshard()`
  void release(std::int32_t module);

  // --- As a stage of a pipeline ---------------------------------------------------------------
  /// `unshard(async_op=True)` of every module, and the wait for all of them.
  void unshard();
  void wait_unshard();
  /// `reshard()` of every module.
  void reshard();
  /// Until `reduce_gradients`, backward adds up whole gradients and keeps parameters gathered. A
  /// stage sets this for the backward of each micro-batch.
  /// Source: torch/distributed/pipelining/stage.py, backward_maybe_with_nosync.
  void hold_gradients();
  /// Reduces and reshards what `hold_gradients` has kept, in the order of the modules.
  /// Source: torch/distributed/pipelining/stage.py, perform_reduce_grad.
  void reduce_gradients();

 private:
  enum class State : std::uint8_t { kIdle, kForward, kBeforeBackward, kAfterBackward };
  struct Unit {
    std::unique_ptr<ShardedGroup> group;
    State module = State::kIdle;      ///< The state of FSDPState.
    State parameters = State::kIdle;  ///< The state of FSDPParamGroup.
    std::vector<std::size_t> order;   ///< The unit's positions in `order_`.
    std::vector<std::int32_t> forward_prefetch{};
    std::vector<std::int32_t> backward_prefetch{};
    bool reduces = true;
    bool reshards_after_backward = true;
  };
  [[nodiscard]] Unit* find(std::int32_t module);
  void wait_gathers(std::optional<std::uint32_t>& mark);
  void gather(Unit& unit);
  void wait(Unit& unit);
  void before_backward(Unit& unit);
  void after_backward(Unit& unit);
  void prefetch(Unit& unit);
  void gather_all(const std::vector<std::int32_t>& modules);
  void watch_inputs(Unit& unit, std::vector<torch::Tensor>& inputs);
  void watch_output(Unit& unit, const torch::Tensor& output);

  torch::Eager& eager_;
  std::vector<Unit> units_;
  std::vector<Unit*> order_;  ///< Units in the order of their forward calls.
  Streams streams_;
  bool last_backward_ = true;  ///< set_is_last_backward
  Unit* outermost_ = nullptr;  ///< The outermost running module that has hooks: iter_forward_root.
  torch::Tensor gathered_;     ///< Buffer of the last gather in forward.
  torch::Tensor reducing_;     ///< Input of the last reduce-scatter.
  std::optional<std::uint32_t> copied_out_;  ///< Mark after the copies out of `gathered_`.
  std::optional<std::uint32_t> scattered_;   ///< Mark after the last reduce-scatter.
};

}  // namespace headroom::ir::fsdp
