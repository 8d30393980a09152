#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// The module that `fully_shard` was applied to last: the whole model.
inline constexpr std::int32_t kRootModule = -1;

/// The hooks of `fully_shard` on a model: when groups are gathered, released and reduced.
///
///   before a module   gather; in forward the buffer lives until the next group's copy-out
///   after it          release (unless kept), note the order
///   its output's      gather, release the buffer, start the gather of the group before it in the
///    gradient is there  order of forward
///   its input's       release, reduce; the input of a reduce-scatter lives until the next one
///   end of backward   what has not been reduced yet, the root among it
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_state.py,
///         _fsdp_param_group.py.
class FullyShard {
 public:
  /// `groups`: the root first, then in the order of the modules. A root whose parameters are all in
  /// groups of their own is a group without any.
  FullyShard(torch::Eager& eager, std::vector<std::unique_ptr<ShardedGroup>> groups);

  /// Hooks of a module; others than those of `groups` are left alone.
  void before(std::int32_t module, std::vector<torch::Tensor>& inputs);
  void after(std::int32_t module, const std::vector<torch::Tensor>& outputs);
  /// Called when backward has come to its end.
  void finish_backward();

  /// What a module does until it is told otherwise: `reduces`, its gradients go to shards after
  /// backward (set_requires_gradient_sync); `reshards`, its parameters after forward and backward.
  void set_module(std::int32_t module, bool reduces, bool reshards);
  /// set_modules_to_forward_prefetch and set_modules_to_backward_prefetch: what a module's hooks
  /// gather once its own parameters are there; for backward in place of the group before it.
  void set_prefetch(std::int32_t module, std::vector<std::int32_t> forward,
                    std::vector<std::int32_t> backward);
  /// `module.reshard()`
  void release(std::int32_t module);

  // --- As a pipeline's stage ------------------------------------------------------------------
  /// `unshard(async_op=True)` of every module, and the wait for all of them.
  void unshard();
  void wait_unshard();
  /// `reshard()` of every module.
  void reshard();
  /// Until `reduce_gradients`, backward adds gradients up whole and keeps parameters: what a stage
  /// sets for the backward of each micro-batch.
  /// Source: torch/distributed/pipelining/stage.py, backward_maybe_with_nosync.
  void hold_gradients();
  /// Reduces and reshards what `hold_gradients` has kept, in the order of the modules.
  /// Source: torch/distributed/pipelining/stage.py, perform_reduce_grad.
  void reduce_gradients();

 private:
  enum class State : std::uint8_t { kIdle, kForward, kBeforeBackward, kAfterBackward };
  struct Unit {
    std::unique_ptr<ShardedGroup> group;
    State module = State::kIdle;      ///< FSDPState
    State parameters = State::kIdle;  ///< FSDPParamGroup
    std::vector<std::size_t> order;   ///< Where the unit stands in `order_`.
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
  std::vector<Unit*> order_;  ///< Of the forward calls.
  Streams streams_;
  bool last_backward_ = true;  ///< set_is_last_backward
  Unit* outermost_ = nullptr;  ///< Of the hooked modules under way: iter_forward_root.
  torch::Tensor gathered_;     ///< Buffer of the last gather in forward.
  torch::Tensor reducing_;     ///< Input of the last reduce-scatter.
  std::optional<std::uint32_t> copied_out_;  ///< Mark behind the copies out of `gathered_`.
  std::optional<std::uint32_t> scattered_;   ///< Mark behind the last reduce-scatter.
};

}  // namespace headroom::ir::fsdp
