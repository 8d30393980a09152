#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"

namespace headroom::ir::deepspeed {

/// Integers and the fp32 scale of each group of them.
struct QuantisedTensor {
  torch::Tensor values;
  torch::Tensor scales;
};

/// Groups that DeepSpeed's quantiser cuts `elements` into, which are a multiple of 8.
///
/// Model:  at least one for 8000 elements, eight times as many as divide them; doubled as long as a
///         group stays above 8000.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py,
///         CUDAQuantizer.quantize.
[[nodiscard]] std::int64_t quantisation_groups(std::int64_t elements);

/// `input` as 8-bit integers, by way of fp16.
[[nodiscard]] QuantisedTensor quantise(torch::Eager& eager, torch::Tensor input);

/// An 8-bit tensor as fp16.
[[nodiscard]] torch::Tensor dequantise(torch::Eager& eager, const QuantisedTensor& packed);

/// qgZ's reduction of gradients, one after the other: the names of its Python function keep the
/// tensors of one gradient until those of the next replace them.
///
/// Source: deepspeed/runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce;
///         deepspeed/ops/csrc/quantization/pt_binding.cpp.
class QuantisedExchange {
 public:
  QuantisedExchange(torch::Eager& eager, std::int64_t ranks, std::int64_t node_devices)
      : eager_(eager), ranks_(ranks), devices_(node_devices), nodes_(ranks / node_devices) {}

  /// This rank's part, in fp16, of a gradient of `shape`, a matrix whose elements are a multiple of
  /// twice the ranks.
  [[nodiscard]] torch::Tensor reduce(const torch::Shape& shape);

 private:
  [[nodiscard]] QuantisedTensor packed(std::int64_t bytes, std::int64_t groups);
  void receive(QuantisedTensor& received, const QuantisedTensor& sent, const RankGroup& group);
  [[nodiscard]] torch::Tensor mean_of_nodes(std::int64_t elements);

  torch::Eager& eager_;
  std::int64_t ranks_;
  std::int64_t devices_;
  std::int64_t nodes_;
  QuantisedTensor sent_;
  QuantisedTensor received_;
  QuantisedTensor node_sum_;
  QuantisedTensor node_sums_;
  torch::Tensor final_;
};

}  // namespace headroom::ir::deepspeed
