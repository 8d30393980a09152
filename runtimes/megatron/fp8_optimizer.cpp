#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/optimizer.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torch/launch.h"

/// What the optimizer's step does to parameters that are stored in FP8.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/tensor/utils.py, cast_master_weights_to_fp8;
///         NVIDIA/Megatron-LM core_v0.16.1 megatron/core/optimizer/distrib_optimizer.py,
///         _get_fp8_params_and_shard_fp32_from_fp8.
namespace headroom::ir::megatron {

using torch::Tensor;

void Optimizer::note_casts(std::span<const GradientBuffer> buffers) {
  for (const GradientBuffer& buffer : buffers) {
    if (buffer.expert != experts_ || !buffer.fp8) {
      continue;
    }
    cast_ranks_ = buffer.ranks;
    std::vector<Cast> own;
    for (const Bucket& bucket : buffer.buckets) {
      for (std::size_t i = bucket.first; i < bucket.last; ++i) {
        own.push_back({.parameter = buffer.slots[i].parameter,
                       .elements = std::max<std::int64_t>(
                           0, local_elements(buffer, bucket, buffer.slots[i]))});
      }
    }
    casts_.insert(casts_.end(), own.rbegin(), own.rend());
  }
}

/// All-reduces the absolute maxima (amax) of weights, or of their blocks, over the ranks that hold
/// shards of them.
void Optimizer::reduce_largest(std::int64_t values) {
  context_.eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                                     .bytes = bytes_of(values, DType::kFp32).value(),
                                     .group = cast_ranks_.group()});
}

/// Reads each shard in 16 bits `reads` times; the last kernel also writes FP8.
void Optimizer::launch_cast_of(const Cast& each, int reads) {
  const std::int64_t read = each.elements * bits_of(context_.dtype) / 8;
  torch::launch_kernels(context_.eager, reads * read + each.elements, reads);
}

/// The quantizer requests the data of both products. If these read a transposed copy, the cast of a
/// shard makes one, which nobody reads. It lives until the next shard is cast.
/// Source: pytorch/csrc/quantizer.cpp, Float8Quantizer::convert_and_update_tensor.
Tensor Optimizer::turn_stretch(const Cast& each) {
  if (reads_both_ways(run_)) {
    return {};
  }
  return context_.eager.empty({each.elements}, DType::kFp8);
}

void Optimizer::cast_parameters() {
  if (casts_.empty()) {
    return;
  }
  std::vector<Tensor> rounded;  // They live until all have been cast.
  for (const Cast& each : casts_) {
    if (each.elements > 0) {
      rounded.push_back(torch::computed(context_.eager, {each.elements}, context_.dtype));
    }
  }
  switch (context_.megatron.fp8) {
    case MegatronFp8::kDelayed:
      cast_delayed();
      break;
    case MegatronFp8::kTensorwise:
      cast_tensorwise();
      break;
    case MegatronFp8::kBlockwise:
      cast_blocks();
      break;
    case MegatronFp8::kMxfp8:
    case MegatronFp8::kNone:
      break;
  }
}

/// The scales are known. The absolute maxima (amax) are recorded while the shards are cast.
void Optimizer::cast_delayed() {
  torch::Eager& eager = context_.eager;
  const auto count = static_cast<std::int64_t>(casts_.size());
  Tensor inverse;  // The inverse scale of the tensor that wraps a shard.
  Tensor turned;
  for (const Cast& each : casts_) {
    if (each.elements > 0) {
      const Tensor reciprocal = torch::computed(eager, {1}, DType::kFp32);
      inverse = torch::computed(eager, {1}, DType::kFp32);  // The reciprocal times one.
      turned.reset();
      turned = turn_stretch(each);
      launch_cast_of(each, 1);
    }
  }
  const Tensor overflow = torch::filled(eager, {1}, DType::kInt32);
  const Tensor largest = torch::computed(eager, {count}, DType::kFp32);
  reduce_largest(count);
  torch::launch(eager, {&largest});
  const Tensor scales = torch::computed(eager, {count}, DType::kFp32);
  torch::launch(eager, {&scales, &scales});
  torch::launch(eager, {&scales});
}

void Optimizer::cast_tensorwise() {
  torch::Eager& eager = context_.eager;
  const auto count = static_cast<std::int64_t>(casts_.size());
  const Tensor overflow = torch::filled(eager, {1}, DType::kInt32);
  const Tensor largest = torch::filled(eager, {count}, DType::kFp32);
  reduce_largest(count);
  torch::launch(eager, {&largest});
  Tensor turned;
  for (const Cast& each : casts_) {
    turned.reset();
    if (each.elements > 0) {
      turned = turn_stretch(each);
      torch::launch(eager, {&largest});  // Sets it to zero.
      launch_cast_of(each, 2);
    }
  }
}

void Optimizer::cast_blocks() {
  torch::Eager& eager = context_.eager;
  const auto values = [this](const Cast& each) {
    return fp8_scale_bytes(run_, each.parameter->tensor.shape(), Fp8Use::kRows,
                           Fp8Operand::kWeight) /
           4;
  };
  const Tensor overflow = torch::filled(eager, {1}, DType::kInt32);
  std::int64_t all = 0;
  for (const Cast& each : casts_) {
    all += values(each);
  }
  const Tensor largest = torch::filled(eager, {all}, DType::kFp32);
  std::vector<Tensor> scales;
  for (const Cast& each : casts_) {
    scales.push_back(eager.empty({values(each)}, DType::kFp32));
  }
  reduce_largest(all);
  torch::launch(eager, {&largest});
  for (const Cast& each : casts_) {
    if (each.elements > 0) {
      launch_cast_of(each, 2);
    }
  }
}

}  // namespace headroom::ir::megatron
