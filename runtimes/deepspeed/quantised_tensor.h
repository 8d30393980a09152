#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"

namespace headroom::ir::deepspeed {

/// Integers, with one fp32 scale for each group of them.
struct QuantisedTensor {
  torch::Tensor values;
  torch::Tensor scales;
};

/// Number of groups into which DeepSpeed's quantiser cuts `elements`, a multiple of 8.
///
/// Model:  the smallest number that is at least `elements` / 8000 and whose eightfold divides
///         `elements`. It is doubled as long as a group is larger than 8000.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py,
///         CUDAQuantizer.quantize.
[[nodiscard]] std::int64_t quantisation_groups(std::int64_t elements);

/// Converts `input` to 8-bit integers; it is cast to fp16 first.
[[nodiscard]] QuantisedTensor quantise(torch::Eager& eager, torch::Tensor input);

/// Converts an 8-bit tensor to fp16.
[[nodiscard]] torch::Tensor dequantise(torch::Eager& eager, const QuantisedTensor& packed);

/// qgZ's reduction of gradients, one after the other. Local names of its Python function keep the
/// tensors of one gradient until those of the next replace them.
///
/// Source: deepspeed/runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce;
///         deepspeed/ops/csrc/quantization/pt_binding.cpp.
class QuantisedExchange {
 public:
  QuantisedExchange(torch::Eager& eager, std::int64_t ranks, std::int64_t node_devices)
      : eager_(eager), ranks_(ranks), devices_(node_devices), nodes_(ranks / node_devices) {}

  /// Reduces a gradient of `shape`; returns this rank's part in fp16. The gradient is a matrix
  /// whose number of elements is a multiple of twice the ranks.
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
