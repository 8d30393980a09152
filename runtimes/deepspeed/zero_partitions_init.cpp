// The constructor and deepspeed.initialize of ZeRO stage 3. Source: deepspeedai/DeepSpeed 0.19.8
// deepspeed/runtime/zero/stage3.py, parameter_offload.py.

#include <algorithm>
#include <set>
#include <utility>

#include "runtimes/deepspeed/leaf_modules.h"
#include "runtimes/deepspeed/parameter_groups.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/site_scope.h"
#include "runtimes/deepspeed/zero_init.h"
#include "runtimes/deepspeed/zero_partitions.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

ZeroPartitions::ZeroPartitions(EngineState state, BaseOptimizer& optimizer,
                               std::vector<PartitionedParameter> parameters)
    : state_(state),
      optimizer_(optimizer),
      parameters_(state, std::move(parameters)),
      coordinator_(state, parameters_),
      gradients_(state, parameters_) {}

/// The list of module.parameters(). It includes quantised weights.
std::vector<Tensor> ZeroPartitions::module_parameters() const {
  return transformers::all_parameters(state_.model);
}

/// Adapters and copies are created after zero.Init, so the engine partitions them.
/// Source: parameter_offload.py, _convert_to_zero_parameters.
void ZeroPartitions::adopt_adapters() {
  state_.eager.set_site("zero3.adapters", -1);
  for (const Tensor& parameter : module_parameters()) {
    if (!parameters_.has(parameter)) {
      parameters_.add(partitioned(state_.eager, state_.plan, state_.zero, parameter));
    }
  }
}

/// Cuts each parameter group into sub-groups of about `sub_group_size` elements of this rank.
/// Source: stage3.py, _create_fp16_sub_groups.
void ZeroPartitions::make_groups() {
  const ParameterGroups groups = parameter_groups(state_.model, state_.zero);
  for (const std::vector<Tensor>& group : groups) {
    bool full = true;
    for (const Tensor& parameter : group) {
      if (full) {
        groups_.emplace_back();
      }
      const std::size_t index = parameters_.index_of(parameter);
      groups_.back().parameters.push_back(index);
      groups_.back().elements += parameters_[index].shard_elements;
      full = groups_.back().elements >= state_.zero.sub_group_size;
    }
  }
}

/// The first int((1 - ratio) * n) of n sub-groups stay on the device, whatever their sizes.
/// Source: stage3.py, _create_fp32_partitions (subgroup_to_device).
void ZeroPartitions::place_groups() {
  const double kept = (1 - state_.zero.offload_ratio) * static_cast<double>(groups_.size());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].offloaded = state_.offloads_optimizer() && i >= static_cast<std::size_t>(kept);
  }
}

/// Creates torch.optim.AdamW on one element, which is freed when the first sub-group takes its
/// place.
/// Source: stage3.py, __init__ (backup_optimizer).
void ZeroPartitions::make_backup_optimizer() {
  if (!state_.splits_optimizer()) {
    return;
  }
  Eager& eager = state_.eager;
  eager.set_site("zero3.backup_optimizer", -1);
  const DType dtype = state_.model.trainable.front().dtype();
  backup_ = torch::computed(eager, {1}, DType::kFp32, TensorRole::kTemporary);  // torch.randn
  if (dtype != DType::kFp32) {
    backup_ = torch::computed(eager, {1}, dtype, TensorRole::kTemporary);
  }
}

/// Marks the persistent parameters. Source: parameter_offload.py, mark_persistent_parameters.
void ZeroPartitions::mark_persistent() {
  std::int64_t total = 0;
  std::set<std::size_t> seen;
  for (const Tensor& parameter : module_parameters()) {
    const std::size_t index = parameters_.index_of(parameter);
    const std::int64_t elements = parameters_[index].whole.elements();
    const bool room = total <= state_.zero.model_persistence_threshold - elements;
    if (seen.insert(index).second && room && elements <= state_.zero.param_persistence_threshold) {
      parameters_[index].persists = true;
      persistent_.push_back(index);
      total += elements;
    }
  }
}

/// A barrier: a flag on the device, kept until the next barrier, and a sum over all ranks.
void ZeroPartitions::barrier() {
  Eager& eager = state_.eager;
  eager.set_site("zero3.barrier", -1);
  barrier_ = eager.empty({1}, DType::kBool, TensorRole::kCommunication);
  const Tensor sum = torch::computed(eager, {1}, DType::kFp32, TensorRole::kCommunication);
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = state_.plan.world}});
}

/// Moves the partitions to one buffer by way of the host. Source: zero/utils.py, defragment.
void ZeroPartitions::defragment() {
  if (state_.zero.offload_param != OffloadDevice::kNone) {
    return;
  }
  Eager& eager = state_.eager;
  eager.set_site("zero3.defragment", -1);
  std::int64_t elements = 0;
  for (const SubGroup& group : groups_) {
    elements += group.elements;
    for (const std::size_t parameter : group.parameters) {
      eager.move_storage(parameters_[parameter].shard, Tensor{});
    }
  }
  state_.empty_cache();
  flat_ = eager.empty({elements}, state_.model.trainable.front().dtype(), TensorRole::kParameter);
  for (const SubGroup& group : groups_) {
    for (const std::size_t parameter : group.parameters) {
      eager.move_storage(parameters_[parameter].shard, flat_);
    }
  }
}

/// fp32 master, gradient and moments of a sub-group. Only the gradient is pinned, by PyTorch.
/// Source: stage3.py, _create_fp32_partitions, initialize_optimizer_states; cpu_adam.py, step.
void ZeroPartitions::hold_group(std::int64_t elements) {
  const auto moments = static_cast<std::int64_t>(moment_count(state_.plan.optimizer));
  const std::int64_t wide = bytes_of(elements, DType::kFp32).value();
  state_.hold_offloaded(HostUse::kMasterParameters, HostPages::kPageable, wide);
  state_.hold_offloaded(HostUse::kGradients, HostPages::kPinnedBlock, wide);
  state_.hold_offloaded(HostUse::kOptimizerStates, HostPages::kPageable, moments * wide);
}

/// Parameters that came from zero.Init one by one move to one pinned buffer. PyTorch keeps their
/// own pinned blocks. On a drive, the first max_in_cpu elements stay on the host; buffers for what
/// is swapped, pinned by DeepSpeed's own operator, hold exactly what they are asked for.
/// Source: stage3.py, _create_param_groups_fp16_flat_cpu_memory; offload_config.py (max_in_cpu,
///         buffer_count and buffer_size of parameters, buffer_count of the optimizer);
///         swap_tensor/partitioned_param_swapper.py, partitioned_optimizer_swapper.py.
void ZeroPartitions::hold_buffers() {
  constexpr std::int64_t kMostInHost = 1'000'000'000;
  constexpr std::int64_t kParameterBuffers = 5 * std::int64_t{100'000'000};
  constexpr std::int64_t kOptimizerBuffers = 4;
  RankProgram& program = state_.eager.program();
  std::int64_t all = 0;
  std::int64_t widest = 0;
  for (const SubGroup& group : groups_) {
    all += group.elements;
    widest = std::max(widest, group.elements);
  }
  const DType dtype = param_dtype(state_.plan.precision);
  if (state_.zero.offload_param == OffloadDevice::kCpu) {
    move_to_flat(all, dtype);
  } else if (state_.zero.offload_param == OffloadDevice::kNvme) {
    hold_on_host(program, HostUse::kParameters, HostPages::kPinnedBlock,
                 bytes_of(std::min(all, kMostInHost), dtype).value());
    hold_on_host(program, HostUse::kStaging, HostPages::kPinned,
                 bytes_of(kParameterBuffers, dtype).value());
  }
  if (state_.zero.offload_optimizer == OffloadDevice::kNvme) {
    hold_on_host(program, HostUse::kStaging, HostPages::kPinned,
                 bytes_of(kOptimizerBuffers * widest, DType::kFp32).value());
  }
}

void ZeroPartitions::move_to_flat(std::int64_t elements, DType dtype) {
  RankProgram& program = state_.eager.program();
  const auto own = std::ranges::find_if(program.host, [](const HostTerm& term) {
    return term.use == HostUse::kParameters && term.pinned;
  });
  const std::int64_t flat = bytes_of(elements, dtype).value();
  if (own == program.host.end() || own->requested < Bytes{flat}) {
    return;
  }
  // The partitions of what is trained: the flat buffer takes their place, their blocks stay.
  std::vector<HostTerm> kept;
  for (const SubGroup& group : groups_) {
    for (const std::size_t parameter : group.parameters) {
      const std::int64_t bytes = bytes_of(parameters_[parameter].shard_elements, dtype).value();
      hold_on_host(program, HostUse::kParameters, HostPages::kPinnedBlock, -bytes);
      add_to(kept, {.use = HostUse::kStaging, .requested = {}, .bytes = {}, .source = {}},
             HostPages::kPinnedBlock, bytes);
    }
  }
  for (HostTerm& term : kept) {
    term.requested = Bytes{0};
    program.host.push_back(term);
  }
  hold_on_host(program, HostUse::kParameters, HostPages::kPinnedBlock, flat);
}

/// Makes the fp32 partitions: the parameters' partitions are cast unless they are fp32, and copied.
/// Source: stage3.py, _create_fp32_partitions.
void ZeroPartitions::make_masters() {
  Eager& eager = state_.eager;
  eager.set_site("zero3.masters", -1);
  const DType dtype = state_.model.trainable.front().dtype();
  Tensor converted;
  for (SubGroup& group : groups_) {
    const torch::Shape shape{group.elements};
    if (group.offloaded) {
      hold_group(group.elements);
    } else {
      if (dtype != DType::kFp32 || state_.zero.offload_param != OffloadDevice::kNone) {
        converted = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
      }
      group.master = torch::computed(eager, shape, DType::kFp32, TensorRole::kMasterParameter);
    }
  }
}

/// If an offloaded optimizer keeps sub-groups on the device, their gradients are there from the
/// start, copied from zeros on the host. Source: stage3.py, initialize_optimizer_states.
void ZeroPartitions::make_offloaded_gradients() {
  Eager& eager = state_.eager;
  eager.set_site("zero3.optimizer_states", -1);
  for (SubGroup& group : groups_) {
    if (!group.offloaded) {
      const Tensor gradient = eager.empty({group.elements}, DType::kFp32, TensorRole::kGradient);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(gradient)});
      set_gradient(eager, group.master, gradient);
    }
  }
}

void ZeroPartitions::initialize() {
  Eager& eager = state_.eager;
  adopt_adapters();
  make_groups();
  place_groups();
  mark_persistent();
  find_leaves();
  hook_modules();
  make_backup_optimizer();
  eager.set_site("zero3.overflow", -1);
  if (!state_.offloads_optimizer()) {
    tracker_ = torch::computed(eager, {1}, DType::kBool, TensorRole::kTemporary);
  }
  barrier();
  defragment();
  make_masters();
  hold_buffers();
  barrier();
  std::int64_t widest = 0;
  for (const SubGroup& group : groups_) {
    widest = std::max(widest, group.elements);
  }
  if (state_.offloads_optimizer()) {
    make_offloaded_gradients();
  } else {  // initialize_optimizer_states: gradients of zeros
    eager.set_site("zero3.optimizer_states", -1);
    const Tensor zeros = torch::computed(eager, {widest}, DType::kFp32, TensorRole::kTemporary);
  }
  barrier();
  hook_gradients();
}

/// Finds the blocks of experts that DeepSpeed treats as one module, by default or by configuration.
void ZeroPartitions::find_leaves() {
  if (state_.zero.leaf == ZeroLeaf::kDefault && !is_default_leaf(state_.model.spec->family)) {
    return;
  }
  const Graph& graph = *state_.model.graph;
  const Op* first = nullptr;  // First operator of `node`'s block.
  for (std::uint32_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{node});
    if (first == nullptr || op.module != first->module || op.layer != first->layer) {
      first = &op;
    }
    if (op.kind == OpKind::kRouter) {
      leaves_.insert(first);
    }
  }
}

/// Parameters whose gradients are reduced only when those of their whole block exist.
std::set<std::size_t> ZeroPartitions::leaf_parameters() const {
  std::set<std::size_t> all;
  for (const Op* const first : leaves_) {
    all.merge(parameters_of_block(*first));
  }
  return all;
}

/// Source: stage3.py, create_reduce_and_remove_grad_hooks.
void ZeroPartitions::hook_gradients() {
  std::vector<std::size_t> trainable;
  for (const SubGroup& group : groups_) {
    trainable.insert(trainable.end(), group.parameters.begin(), group.parameters.end());
  }
  gradients_.allocate(trainable);
  for (const SubGroup& group : groups_) {
    if (swaps_out(state_.zero.offload_optimizer, bytes_of(group.elements, DType::kFp32))) {
      for (const std::size_t parameter : group.parameters) {
        gradients_.swap_out(parameter);
      }
    }
  }
  const std::set<std::size_t> leaves = leaf_parameters();
  for (const std::size_t parameter : trainable) {
    parameters_.gather({&parameter, 1});
    if (leaves.contains(parameter)) {
      parameters_.partition(parameter);
      continue;
    }
    torch::accumulator_of(state_.eager, parameters_[parameter].whole.impl())->after_accumulate =
        [this, parameter](Eager&) {
          const SiteScope site(state_.eager);
          gradients_.arrived(parameter);
        };
    parameters_.partition(parameter);
  }
}

}  // namespace headroom::ir::deepspeed
