#include "runtimes/megatron/optimizer.h"

#include <algorithm>
#include <numeric>

#include "runtimes/megatron/plan.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::megatron {
namespace {

using torch::Tensor;

std::int64_t sum_of(std::span<const std::int64_t> elements) {
  return std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
}

/// Launches a list kernel that reads and writes `bytes` bytes in all per element.
void run_list(torch::Eager& eager, std::span<const std::int64_t> elements, std::int64_t bytes,
              torch::ListKernel kernel, TrafficKind kind = TrafficKind::kList) {
  torch::launch_list(eager, elements, bytes * sum_of(elements), kernel, kind);
}

}  // namespace

Optimizer::Optimizer(const Runner& run, std::span<const GradientBuffer> buffers, bool experts)
    : run_(run), context_(run.context), experts_(experts) {
  const Context& context = run.context;
  context.eager.set_site("optimizer", -1);
  if (context.megatron.optimizer_offload > 0) {
    build_hybrid(buffers);
    return;
  }
  const bool scaled = context.dtype == DType::kFp16;
  if (!buffers.empty()) {  // A rank without parameters has no FusedAdam.
    add_scalar();          // Its overflow buffer.
  }
  // DynamicGradScaler has scale, min_scale, growth_factor and backoff_factor; then comes found_inf.
  // Without a scaler there is one constant; fp32 with the distributed optimizer has a second one.
  const bool simple = context.dtype == DType::kFp32 && !context.megatron.distributed_optimizer;
  const int scalars = scaled ? 6 : (context.dtype == DType::kBf16 || simple ? 1 : 2);
  for (int i = 0; i < scalars; ++i) {
    add_scalar();
  }
  add_group(buffers, true, context.megatron.distributed_optimizer);
  first_group_ = shards_.size();
  add_group(buffers, false, context.megatron.distributed_optimizer);
  note_casts(buffers);
  if (context.dtype != DType::kFp32 && !context.megatron.precision_aware) {
    for (const std::int64_t elements : shards_) {
      add_copy(elements);
    }
  }
}

/// HybridDeviceOptimizer is made twice: first for whole parameters, then for this rank's shards of
/// them. The first one's copies on the device stay alive until Python collects reference cycles:
/// they are freed when training starts.
/// Source: optimizer/cpu_offloading/hybrid_optimizer.py; distrib_optimizer.py, __init__.
void Optimizer::build_hybrid(std::span<const GradientBuffer> buffers) {
  add_group(buffers, true, false);
  add_group(buffers, false, false);
  split_among_devices();
  replaced_ = std::move(main_);
  main_.clear();
  if (!replaced_.empty()) {
    replaced_.push_back(context_.eager.empty({1}, DType::kFp32, TensorRole::kOptimizerState));
  }
  shards_.clear();
  cast_.clear();
  in_norm_.clear();
  add_scalar();  // The constant gradient scale.
  add_group(buffers, true, true);
  first_group_ = shards_.size();
  add_group(buffers, false, true);
  split_among_devices();
  if (!main_.empty()) {
    add_scalar();  // FusedAdam's overflow buffer.
  }
}

/// fp32 parameter and gradient are pinned, each by itself; the moments of the CPU's optimizer are
/// not. Source: megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py,
///         _get_sub_optimizer_param_groups (pin_cpu_params), _set_sub_optimizer_grads
///         (pin_cpu_grads).
void Optimizer::hold_on_host(std::int64_t elements) {
  RankProgram& program = context_.eager.program();
  const std::int64_t bytes = bytes_of(elements, DType::kFp32).value();
  ir::hold_on_host(program, HostUse::kMasterParameters, HostPages::kPinnedBlock, bytes);
  ir::hold_on_host(program, HostUse::kGradients, HostPages::kPinnedBlock, bytes);
  ir::hold_on_host(program, HostUse::kOptimizerStates, HostPages::kPageable, 2 * bytes);
}

/// Parameters go to the host one after the other until the offload fraction is reached. The copy
/// for the host is first cloned on the device.
void Optimizer::split_among_devices() {
  const double wanted = static_cast<double>(sum_of(shards_)) * context_.megatron.optimizer_offload;
  in_host_.assign(shards_.size(), 0);
  std::int64_t sent = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (static_cast<double>(sent) < wanted) {
      sent += shards_[i];
      in_host_[i] = 1;
      hold_on_host(shards_[i]);
      const Tensor clone =
          context_.eager.empty({shards_[i]}, context_.dtype, TensorRole::kTemporary);
    } else {
      add_copy(shards_[i]);
    }
  }
}

void Optimizer::add_scalar() {
  scalars_.push_back(context_.eager.empty({1}, DType::kFp32, TensorRole::kOptimizerState));
}

void Optimizer::add_group(std::span<const GradientBuffer> buffers, bool decays, bool spread) {
  for (const GradientBuffer& buffer : buffers) {
    if (buffer.expert != experts_) {
      continue;
    }
    if (!spread) {
      for (auto slot = buffer.slots.rbegin(); slot != buffer.slots.rend(); ++slot) {
        if (slot->parameter->decays == decays) {
          add_shard(*slot->parameter, slot->end - slot->begin);
        }
      }
      continue;
    }
    for (const Bucket& bucket : buffer.buckets) {
      for (std::size_t i = bucket.first; i < bucket.last; ++i) {
        const std::int64_t elements = local_elements(buffer, bucket, buffer.slots[i]);
        if (elements > 0 && buffer.slots[i].parameter->decays == decays) {
          add_shard(*buffer.slots[i].parameter, elements);
        }
      }
    }
  }
}

void Optimizer::add_shard(const Parameter& parameter, std::int64_t elements) {
  shards_.push_back(elements);
  cast_.push_back(parameter.fp8 ? 1 : 0);
  // If several ranks hold a parameter, only one of them counts it in the norm.
  const bool counted = parameter.marked || context_.grid.tensor.rank == 0;
  const bool second = parameter.shared_embedding && !context_.grid.first_stage();
  if (counted && !second) {
    in_norm_.push_back(elements);
  }
}

/// clone().float(): the copy in the parameter's own type is freed at once.
void Optimizer::add_copy(std::int64_t elements) {
  const Tensor clone = context_.eager.empty({elements}, context_.dtype, TensorRole::kTemporary);
  main_.push_back(context_.eager.empty({elements}, DType::kFp32, TensorRole::kMasterParameter));
}

RankGroup Optimizer::norm_ranks() const {
  const RankGrid& grid = context_.grid;
  if (context_.megatron.distributed_optimizer) {
    return {.size = grid.world};
  }
  return {.size = experts_ ? grid.expert_tensor.size * grid.expert.size : grid.tensor.size,
          .outer_size = grid.pipeline.size,
          .outer_stride = grid.pipeline.stride};
}

void Optimizer::prepare() {
  torch::Eager& eager = context_.eager;
  eager.set_site("copy_gradients", -1);
  if (context_.grad_dtype != DType::kFp32 && !context_.megatron.precision_aware) {
    for (const std::int64_t elements : shards_) {
      gradients_.push_back(eager.empty({elements}, DType::kFp32, TensorRole::kGradient));
      torch::launch_kernels(eager, elements * (bits_of(context_.grad_dtype) / 8 + 4));
    }
  }
  if (context_.dtype == DType::kFp16) {
    eager.set_site("unscale", -1);
    run_list(eager, shards_, 8, torch::ListKernel::kOneList);
    const Tensor wide = torch::computed(eager, {1}, DType::kFp64);
    const Tensor inverse = torch::computed(eager, {1}, DType::kFp64);
    const Tensor narrow = torch::computed(eager, {1}, DType::kFp32);
    torch::launch_fill(eager, narrow);  // found_inf
    eager.run(
        CollectiveShape{.kind = CollectiveKind::kAllReduce, .bytes = 4, .group = norm_ranks()});
  }
}

void Optimizer::measure_norm(std::span<const std::int64_t> counted) {
  // multi_tensor_l2norm: a partial sum for each of 320 blocks, and the norm.
  // Source: transformer_engine/common/multi_tensor/l2norm.cu.
  constexpr std::int64_t kBlocks = 320;
  torch::Eager& eager = context_.eager;
  eager.set_site("grad_norm", -1);
  const Tensor overflow = eager.empty({1}, DType::kInt32);
  Tensor norm;
  if (counted.empty()) {
    norm = eager.empty({1}, DType::kFp32);
  } else {
    const Tensor partial = eager.empty({kBlocks}, DType::kFp32);
    norm = eager.empty({1}, DType::kFp32);
    run_list(eager, counted, 4, torch::ListKernel::kOneList);
    torch::launch_kernels(eager, 4 * kBlocks);  // The sum of the blocks.
  }
  const Tensor square = torch::computed(eager, {1}, DType::kFp32);
  torch::launch_fill(eager, overflow);
  torch::launch_fill(eager, norm);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce, .bytes = 4, .group = norm_ranks()});
  eager.host_wait(eager.record_mark(0));  // total_norm.item()
}

void Optimizer::make_states(std::int64_t elements) {
  torch::Eager& eager = context_.eager;
  const bool narrow = context_.megatron.bf16_moments;
  for (int moment = 0; moment < 2; ++moment) {
    states_.push_back(
        eager.empty({elements}, narrow ? DType::kBf16 : DType::kFp32, TensorRole::kOptimizerState));
    torch::launch_fill(eager, states_.back());
    if (narrow) {
      add_scalar();  // A scale, which bf16 does not use.
    }
  }
  if (context_.megatron.precision_aware) {
    // The 16 bits that the parameter lacks to be its fp32 original.
    main_.push_back(eager.empty({elements}, context_.dtype, TensorRole::kMasterParameter));
  }
}

void Optimizer::step_group(std::size_t begin, std::size_t end) {
  torch::Eager& eager = context_.eager;
  const bool first = states_.size() < 2 * end;
  const bool narrow = context_.megatron.bf16_moments;
  std::vector<Tensor> wide;  // The fp32 moments of the whole group.
  for (std::size_t i = begin; i < end; ++i) {
    if (first) {
      make_states(shards_[i]);
    }
    for (int moment = 0; narrow && moment < 2; ++moment) {
      wide.push_back(eager.empty({shards_[i]}, DType::kFp32, TensorRole::kTemporary));
    }
  }
  wide_ = std::move(wide);  // Frees the lists of the previous group.
  for (std::size_t i = begin; narrow && i < 2 * end - begin; ++i) {
    const std::int64_t elements = wide_[i - begin].elements();
    const Tensor rounded = eager.empty({elements}, DType::kBf16, TensorRole::kTemporary);
  }
  // Reads gradient, parameter and two moments, and writes the last three.
  const std::span<const std::int64_t> group = std::span(shards_).subspan(begin, end - begin);
  run_list(eager, group, 7 * 4, torch::ListKernel::kFourLists, TrafficKind::kFusedStep);
}

/// HybridDeviceOptimizer.step: updates the parameters on the device, then those on the host. The
/// latter come back one by one in fp32 and are cast.
void Optimizer::update_hybrid() {
  torch::Eager& eager = context_.eager;
  eager.set_site("adam", -1);
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::int64_t bytes = 4 * shards_[i];
    if (in_host_[i] != 0) {
      eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = bytes});
    } else {
      own.push_back(shards_[i]);
    }
  }
  if (states_.empty()) {
    for (const std::int64_t elements : own) {
      for (int moment = 0; moment < 2; ++moment) {
        states_.push_back(eager.empty({elements}, DType::kFp32, TensorRole::kOptimizerState));
        torch::launch_fill(eager, states_.back());
      }
    }
  }
  run_list(eager, own, 7 * 4, torch::ListKernel::kFourLists, TrafficKind::kFusedStep);
  eager.host_wait(eager.record_mark(eager.stream()));  // Waits for the gradients.
  const std::int64_t sent = sum_of(shards_) - sum_of(own);
  eager.run(CopyShape{.kind = CopyKind::kHostWork, .bytes = 7 * 4 * sent});
  eager.set_site("copy_parameters", -1);
  const std::int64_t bytes = 4 + bits_of(context_.dtype) / 8;
  for (const std::int64_t elements : shards_) {
    torch::launch_kernels(eager, bytes * elements, torch::elementwise_launches(elements, 4));
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (in_host_[i] != 0) {
      const Tensor wide = eager.empty({shards_[i]}, DType::kFp32, TensorRole::kTemporary);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = 4 * shards_[i]});
    }
  }
}

void Optimizer::update() {
  if (context_.megatron.optimizer_offload > 0) {
    update_hybrid();
    return;
  }
  context_.eager.set_site("adam", -1);
  step_group(0, first_group_);
  step_group(first_group_, shards_.size());
  wide_.clear();
  if (main_.empty() || context_.megatron.precision_aware) {
    return;  // The step has already written the parameters.
  }
  context_.eager.set_site("copy_parameters", -1);
  const bool gathers_wide = gathers_into_gradients(context_.megatron);
  if (!gathers_wide) {
    cast_parameters();
  }
  // Casts fp32 to the model's own type.
  const std::int64_t bytes = 4 + bits_of(context_.dtype) / 8;
  // Only fp16 has the overflow buffer that the list kernel needs.
  if (!context_.megatron.distributed_optimizer && context_.dtype == DType::kFp16) {
    run_list(context_.eager, shards_, bytes, torch::ListKernel::kTwoLists);
    return;
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (cast_[i] == 0 || gathers_wide) {
      torch::launch_kernels(context_.eager, bytes * shards_[i],
                            torch::elementwise_launches(shards_[i], 4));
    }
  }
}

std::vector<Optimizer> make_optimizers(const Runner& run, std::span<const GradientBuffer> buffers) {
  std::vector<Optimizer> optimizers;
  optimizers.emplace_back(run, buffers, false);
  const bool experts = std::any_of(buffers.begin(), buffers.end(),
                                   [](const GradientBuffer& each) { return each.expert; });
  if (experts) {
    optimizers.emplace_back(run, buffers, true);
  }
  return optimizers;
}

}  // namespace headroom::ir::megatron
