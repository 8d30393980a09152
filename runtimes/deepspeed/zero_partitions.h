#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/gradient_partitions.h"
#include "runtimes/deepspeed/parameter_coordinator.h"
#include "runtimes/deepspeed/partitioned_parameters.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// ZeRO stage 3: every parameter, gradient and optimizer state is partitioned.
///
///   before a module                 gather (`ParameterCoordinator`)
///   after it                        release
///   its output's gradient is there  gather again
///   its input's gradient is there   release
///   a gradient is complete          bucket, reduce-scatter (`GradientPartitions`)
///   step                            norm; sub-group by sub-group: fp32 gradient, optimizer, copy;
///                                   persistent parameters are gathered again
///
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/stage3.py, parameter_offload.py.
class ZeroPartitions : public OptimizerWrapper {
 public:
  /// `parameters`: the partitioned parameters that zero.Init left when the model was built, in
  /// order.
  ZeroPartitions(EngineState state, BaseOptimizer& optimizer,
                 std::vector<PartitionedParameter> parameters);
  ~ZeroPartitions() override;
  ZeroPartitions(const ZeroPartitions&) = delete;
  ZeroPartitions& operator=(const ZeroPartitions&) = delete;

  void initialize() override;
  void before_backward(bool boundary) override;
  void after_backward(bool boundary) override;
  void step() override;
  [[nodiscard]] std::vector<std::vector<torch::Tensor>> stepped() const override;
  /// Gathers the persistent parameters. Source: stage3.py, checkpoint_event_epilogue.
  void loaded() override { parameters_.gather(persistent_); }
  [[nodiscard]] bool scales_loss() const override { return true; }

 private:
  /// Parameters that the optimizer steps together, as one flat tensor.
  struct SubGroup {
    std::vector<std::size_t> parameters;
    std::int64_t elements = 0;  ///< Elements of this rank.
    bool offloaded = false;     ///< The host holds master, gradient and moments.
    torch::Tensor master;
  };

  void adopt_adapters();
  void make_groups();
  void place_groups();
  void mark_persistent();
  void hook_modules();
  void find_leaves();
  [[nodiscard]] std::set<std::size_t> leaf_parameters() const;
  void hook_gradients();
  /// The coordinator's number of the module.
  [[nodiscard]] std::size_t module_of(const transformers::ModuleCall& call);
  [[nodiscard]] std::set<std::size_t> parameters_of(const transformers::ModuleCall& call) const;
  [[nodiscard]] bool is_leaf(const transformers::ModuleCall& call) const;
  [[nodiscard]] bool is_saved(const transformers::ModuleCall& call) const;
  /// Index of a weight of an operator, or of its trained copy (modules_to_save), or of the integers
  /// to which it has been quantised.
  [[nodiscard]] std::size_t weight_index(const Op& op, std::size_t place) const;
  [[nodiscard]] std::vector<torch::Tensor> module_parameters() const;
  [[nodiscard]] std::set<std::size_t> adapters_of(const Op& op) const;
  [[nodiscard]] std::set<std::size_t> parameters_of_block(const Op& first) const;
  [[nodiscard]] std::set<std::size_t> nested_parameters(const transformers::ModuleCall& call) const;
  void reduce_leaf(const Op& first);
  [[nodiscard]] std::vector<std::int32_t> wrappers() const;
  void enter(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> inputs);
  void leave(const transformers::ModuleCall& call, std::initializer_list<torch::Tensor*> outputs);
  void start_call(std::size_t module, std::initializer_list<torch::Tensor*> inputs);
  void finish_call(std::size_t module, std::initializer_list<torch::Tensor*> outputs);
  void read(const transformers::ModuleCall& owner, const torch::Tensor& parameter);

  void barrier();
  void defragment();
  void make_backup_optimizer();
  void make_masters();
  void hold_group(std::int64_t elements);
  void hold_buffers();
  void move_to_flat(std::int64_t elements, DType dtype);
  void make_offloaded_gradients();
  [[nodiscard]] torch::Tensor find_overflow();
  void check_overflow();
  [[nodiscard]] torch::Tensor group_norm(const SubGroup& group);
  void offloaded_norm(const SubGroup& group);
  void step_offloaded();
  void step_kept(SubGroup& group, std::size_t index);
  void finish_step();
  void step_group(SubGroup& group, std::size_t index, const torch::Tensor& norm);

  EngineState state_;
  BaseOptimizer& optimizer_;
  PartitionedParameters parameters_;
  ParameterCoordinator coordinator_;
  GradientPartitions gradients_;
  std::vector<SubGroup> groups_;
  std::vector<std::size_t> persistent_;  ///< In the order of the modules.
  using ModuleKey =
      std::tuple<transformers::ModuleCall::Part, std::int32_t, const Op*, std::uint32_t>;
  struct ModuleHash {
    [[nodiscard]] std::size_t operator()(const ModuleKey& key) const;
  };
  std::unordered_map<ModuleKey, std::size_t, ModuleHash> modules_;
  std::set<const Op*> leaves_;  ///< First operators of blocks that are treated as one module.
  const Op* leaf_ = nullptr;    ///< First operator of the running leaf, whose parts have no hooks.
  torch::Tensor flat_;          ///< The partitions of trainable parameters.
  torch::Tensor tracker_;       ///< The tensor that tracks infinities.
  torch::Tensor backup_;        ///< Held by the device's optimizer before its first sub-group.
  torch::Tensor barrier_;       ///< The result of the last barrier.
  torch::Tensor norm_;          ///< `_global_grad_norm`, which the engine keeps.
};

}  // namespace headroom::ir::deepspeed
