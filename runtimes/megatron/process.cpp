#include "runtimes/megatron/process.h"

#include <algorithm>
#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::megatron {
namespace {

using torch::Tensor;

/// 32 MiB and 1 KiB of scales from compute capability 9.0 on; 4 MiB before.
/// Source: transformer_engine/pytorch/cpp_extensions/gemm.py, get_cublas_workspace_size_bytes.
std::int64_t te_workspace_bytes(const DeviceTraits& device) {
  return device.compute_major >= 9 ? 32 * kMiB + 1024 : 4 * kMiB;
}

/// Source: transformer_engine/common/util/multi_stream.cpp, nvte_get_num_compute_streams.
constexpr int kGroupedStreams = 4;

}  // namespace

void Process::touch_te_workspace() {
  if (!te_workspace_.defined()) {
    te_workspace_ = context_.eager.empty({te_workspace_bytes(context_.eager.device())},
                                         DType::kUInt8, TensorRole::kWorkspace);
  }
}

void Process::touch_grouped_workspaces() {
  if (grouped_workspaces_.empty()) {
    for (int stream = 0; stream < kGroupedStreams; ++stream) {
      grouped_workspaces_.push_back(context_.eager.empty(
          {te_workspace_bytes(context_.eager.device())}, DType::kUInt8, TensorRole::kWorkspace));
    }
  }
}

Tensor Process::dummy_gradient(const torch::Shape& shape) {
  Tensor& dummy = dummies_[{shape[0], shape[1]}];
  if (!dummy.defined()) {
    dummy = context_.eager.empty(shape, context_.dtype, TensorRole::kWorkspace);
  }
  return context_.eager.alias(dummy, shape, false);
}

bool Process::is_dummy(const Tensor& gradient) const {
  return std::any_of(dummies_.begin(), dummies_.end(), [&gradient](const auto& entry) {
    return entry.second->storage == gradient->storage;
  });
}

void Process::touch_memory_buffer(std::int64_t elements) {
  if (!memory_buffer_.defined() || memory_buffer_.elements() < elements) {
    memory_buffer_ = context_.eager.empty({elements}, context_.dtype, TensorRole::kCommunication);
  }
}

Tensor Process::buffered(const torch::Shape& shape) {
  touch_memory_buffer(shape.elements());
  return context_.eager.alias(memory_buffer_, shape, false);
}

/// Source: megatron/core/models/common/embeddings/rotary_pos_embedding.py, RotaryEmbedding: arange,
///         outer product and concatenation. lru_cache keeps the result.
Tensor Process::rotary_table(const Chunk& chunk) {
  Tensor& table = rotary_[&chunk];
  if (!table.defined()) {
    torch::Eager& eager = context_.eager;
    const std::int64_t half = chunk.frequencies.elements();
    const std::int64_t length = context_.plan.workload.sequence;
    Tensor angles;
    {
      Tensor positions = torch::filled(eager, {length}, DType::kFp32);
      const Tensor shifted = torch::computed(eager, {length}, DType::kFp32);
      positions.reset();
      angles = torch::computed(eager, {length, half}, DType::kFp32);
    }
    table = torch::computed(eager, {length, 2 * half}, DType::kFp32, TensorRole::kBuffer);
    angles.reset();
    if (const std::int64_t ranks = context_.grid.context.size; ranks > 1) {
      // get_pos_emb_on_this_cp_rank
      const Tensor index = eager.empty({2}, DType::kInt64);
      table = torch::computed(eager, {length / ranks, 2 * half}, DType::kFp32, TensorRole::kBuffer);
    }
  }
  return table;
}

void Process::touch_balance_log() {
  if (!balance_log_.defined()) {
    const auto layers = static_cast<std::int64_t>(context_.spec.layers.size());
    balance_log_ = context_.eager.empty({layers + context_.megatron.mtp_layers}, DType::kFp32,
                                        TensorRole::kBuffer);
  }
}

/// Source: yarn_rotary_pos_embedding.py, get_cached_cos_sin. The tables are made again if the type
///         changes or the sequence is longer. lru_cache keeps the angles.
void Process::touch_latent_tables(std::int32_t layer, const LatentTables& tables) {
  const std::int64_t length = context_.plan.workload.sequence;
  const bool again = context_.dtype != DType::kFp32 || length > kLatentPositions;
  if (!again || latent_angles_.contains(layer)) {
    return;
  }
  torch::Eager& eager = context_.eager;
  const std::int64_t width = tables.cosine.shape()[1];
  Tensor positions = torch::filled(eager, {length}, DType::kFp32);
  Tensor shifted = torch::computed(eager, {length}, DType::kFp32);
  positions.reset();
  Tensor outer = torch::computed(eager, {length, width / 2}, DType::kFp32);
  latent_angles_[layer] =
      torch::computed(eager, {length, width}, DType::kFp32, TensorRole::kBuffer);
  shifted.reset();
  outer.reset();
  for (const Tensor* const table : {&tables.cosine, &tables.sine}) {
    Tensor plain = torch::computed(eager, {length, width}, DType::kFp32);
    Tensor scaled = torch::computed(eager, {length, width}, DType::kFp32);
    plain.reset();
    if (context_.dtype != DType::kFp32) {
      scaled = torch::computed(eager, {length, width}, context_.dtype, TensorRole::kBuffer);
    }
    eager.move_storage(*table, scaled);
  }
}

/// Source: triton/runtime/autotuner.py, Autotuner; triton/testing.py, do_bench;
///         triton/backends/nvidia/driver.py, get_empty_cache_for_benchmark.
void Process::tune(TunedKernel kernel, std::int64_t restored) {
  constexpr std::int64_t kCacheBytes = 256 * kMiB;
  if (!tuned_.insert(kernel).second) {
    return;
  }
  torch::Eager& eager = context_.eager;
  const auto run_once = [&] {
    if (restored > 0) {
      const Tensor copy = eager.empty({restored}, DType::kUInt8, TensorRole::kTemporary);
    }
  };
  run_once();
  const Tensor cache = eager.empty({kCacheBytes}, DType::kUInt8, TensorRole::kWorkspace);
  run_once();
}

void Process::touch_causal_mask() {
  if (!causal_mask_.defined()) {
    const std::int64_t length = context_.plan.workload.sequence;
    const Tensor ones = context_.eager.empty({length, length}, DType::kBool);
    causal_mask_ = context_.eager.empty({length, length}, DType::kBool, TensorRole::kBuffer);
  }
}

void Process::touch_sequence_lengths() {
  // For the whole sequence and, with a ring of keys and values, for a rank's part and half of it.
  const bool ring = context_.grid.context.size > 1 &&
                    context_.megatron.context_exchange == MegatronContext::kRing;
  const std::size_t wanted = ring ? 3 : 1;
  while (sequence_lengths_.size() < wanted) {
    sequence_lengths_.push_back(context_.eager.empty({context_.plan.workload.micro_batch + 1},
                                                     DType::kInt32, TensorRole::kBuffer));
    torch::launch_fill(context_.eager, sequence_lengths_.back());
  }
}

void Process::touch_chunk_order(ChunkOrder order) {
  Tensor& kept = chunk_orders_[order];
  if (!kept.defined()) {
    kept = context_.eager.empty({2 * context_.exchange_ranks().size}, DType::kInt32,
                                TensorRole::kBuffer);
    // The elements are written one after the other.
    torch::launch_kernels(context_.eager, torch::bytes_of(kept), kept.elements());
  }
}

void Process::count_fp8_state(Casts casts) {
  fp8_casts_.forward += casts.forward;
  fp8_casts_.backward += casts.backward;
}

void Process::add_fp8_state(Casts casts) {
  const MegatronFp8 recipe = context_.megatron.fp8;
  const auto keep = [this](std::int64_t elements) {
    fp8_state_.push_back(context_.eager.empty({elements}, DType::kFp32, TensorRole::kBuffer));
  };
  // The scale, and the absolute maximum (amax) or its history of one step.
  constexpr int kKept = 2;
  for (const int count : {casts.forward, casts.backward}) {
    if (recipe == MegatronFp8::kDelayed) {
      for (int i = 0; i < kKept; ++i) {
        keep(count);
      }
    } else if (recipe == MegatronFp8::kTensorwise) {
      for (int i = 0; i < kKept * count; ++i) {
        keep(1);
      }
    }
  }
}

void Process::touch_fp8_state(const Tensor& weight, Casts casts) {
  if (std::exchange(fp8_begins_, false)) {
    fp8_first_.insert(weight.impl());
  }
  if (fp8_modules_.insert(weight.impl()).second) {
    count_fp8_state(casts);
    make_fp8_state(weight, casts);
  }
}

void Process::make_fp8_state(const Tensor& weight, Casts casts) {
  if (fp8_made_.insert(weight.impl()).second) {
    add_fp8_state(casts);
  }
}

void Process::touch_fp8_attention(std::int32_t layer) {
  // Three products of three operands each; two products in backward.
  constexpr Casts kCasts{.forward = 9, .backward = 6};
  if (context_.fp8() && fp8_attention_.insert(layer).second) {
    count_fp8_state(kCasts);
    add_fp8_state(kCasts);
  }
}

/// Source: transformer_engine/pytorch/quantization.py, reduce_and_update_fp8_tensors.
void Process::reduce_fp8_scales(bool forward) {
  const int values = forward ? fp8_casts_.forward : fp8_casts_.backward;
  if (context_.megatron.fp8 != MegatronFp8::kDelayed || values == 0) {
    return;
  }
  const RankGrid& grid = context_.grid;
  const Tensor all = torch::computed(context_.eager, {values}, DType::kFp32);
  if (grid.world > grid.pipeline.size) {
    context_.eager.run(CollectiveShape{
        .kind = CollectiveKind::kAllReduce,
        .bytes = torch::bytes_of(all),
        .group = {.size = grid.tensor.size * grid.context.size,
                  .stride = grid.tensor.size > 1 ? grid.tensor.stride : grid.context.stride,
                  .outer_size = grid.data.size,
                  .outer_stride = grid.data.stride}});
  }
  torch::launch_kernels(context_.eager, 3 * torch::bytes_of(all));
}

void Process::begin_step() {
  for (auto& [weight, kept] : fp8_weights_) {
    kept.current = kept.held;
  }
}

void Process::wait_for_parameters(std::int32_t layer) {
  const auto found = gathers_.find(layer);
  if (found != gathers_.end()) {
    context_.eager.wait_mark(context_.eager.stream(), found->second);
    gathers_.erase(found);
  }
}

}  // namespace headroom::ir::megatron
