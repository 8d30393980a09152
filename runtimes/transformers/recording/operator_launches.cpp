#include "runtimes/transformers/recording/operator_launches.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "runtimes/torch/launch.h"

namespace headroom::ir::transformers {
namespace {

using torch::Tensor;

constexpr std::array<std::pair<std::string_view, LaunchRule>, 29> kLaunchRules = {{
    {"slice_backward", LaunchRule::kAfterFill},
    {"select_backward", LaunchRule::kAfterFill},
    {"constant_pad_nd", LaunchRule::kAfterFill},
    {"nll_loss_backward", LaunchRule::kAfterFill},
    {"unfold_backward", LaunchRule::kAfterFill},
    {"native_layer_norm_backward", LaunchRule::kNormGradient},
    {"_fused_rms_norm_backward", LaunchRule::kNormGradient},
    {"native_group_norm_backward", LaunchRule::kNormGradient},
    {"_softmax_backward_data", LaunchRule::kTwice},
    {"native_group_norm", LaunchRule::kTwice},
    {"histc", LaunchRule::kTwice},
    {"eye", LaunchRule::kTwice},
    {"bincount", LaunchRule::kThrice},
    {"nonzero", LaunchRule::kThrice},
    {"repeat_interleave", LaunchRule::kThrice},
    {"cat", LaunchRule::kConcatenation},
    {"stack", LaunchRule::kConcatenation},
    {"cumsum", LaunchRule::kScan},
    {"cumprod", LaunchRule::kScan},
    {"sort", LaunchRule::kSort},
    {"topk", LaunchRule::kTopK},
    {"index_put", LaunchRule::kIndexPut},
    {"_unsafe_index_put", LaunchRule::kIndexPut},
    {"embedding_dense_backward", LaunchRule::kEmbeddingGradient},
    {"pow", LaunchRule::kPower},
    {"clone", LaunchRule::kCopy},
    {"copy_", LaunchRule::kCopy},
    {"sum", LaunchRule::kSum},
    {"repeat", LaunchRule::kRepeat},
}};

constexpr std::int64_t kSmallSort = 4096;  // Elements that one block sorts.
constexpr std::int64_t kLargeSort = 11;    // Kernels of a radix sort of one row.
constexpr std::int64_t kOneTile = 2304;  // Pairs of 64-bit numbers that cub sorts with one kernel.
constexpr std::int64_t kTiled = 3;       // Kernels more where there are more pairs.
constexpr std::int64_t kIndexPut = 6;    // Kernels of index_put with one tensor of indices.
constexpr std::int64_t kFurtherIndices = 3;     // More kernels for each further tensor.
constexpr std::int64_t kFewTokens = 3072;       // Tokens whose gradients need no sort.
constexpr std::int64_t kSortedTokens = 20;      // Kernels of the gradient of an embedding.
constexpr std::int64_t kBatchedDimensions = 4;  // CAT_ARRAY_MAX_INPUT_DIMS
constexpr std::int64_t kBatchedTensors = 128;   // CAT_ARRAY_BATCH_SIZE

std::int64_t ceil_of(std::int64_t number, std::int64_t divisor) {
  return (number + divisor - 1) / divisor;
}

std::int64_t elements_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.elements() : 0;
}

std::int64_t most_over(std::span<const Tensor> tensors) {
  std::int64_t most = 0;
  for (const Tensor& tensor : tensors) {
    most = std::max(most, tensor.defined() ? torch::elementwise_launches(tensor) : 0);
  }
  return most;
}

/// Tensors of one type are copied by one kernel for up to 128 of them, others one by one.
std::int64_t concatenation(std::span<const Tensor> inputs, const Tensor& output) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  if (count == 1) {
    return 0;  // A copy engine.
  }
  const bool alike = std::ranges::all_of(inputs, [&output](const Tensor& one) {
    return one.defined() && one.dtype() == output.dtype();
  });
  return alike && output.shape().rank() <= kBatchedDimensions &&
                 torch::elementwise_launches(output) == 1
             ? ceil_of(count, kBatchedTensors)
             : count;
}

std::int64_t scan(const Tensor& input, const Tensor& output) {
  const std::int64_t own = output.shape().rank() == 1 ? 2 : 1;
  return own + (input.defined() && input.dtype() != output.dtype() ? 1 : 0);
}

std::int64_t sort(const Tensor& input) {
  if (!input.defined() || input.shape().rank() != 1) {
    return 3;
  }
  return input.elements() <= kSmallSort ? 2 : kLargeSort;
}

/// Whether one tensor is copied into another of the same type and shape.
bool is_plain_copy(const Instruction& instruction, std::span<const Tensor> inputs) {
  return instruction.name == "copy_" && inputs.size() > 1 && inputs[0].defined() &&
         inputs[1].defined() && inputs[0].dtype() == inputs[1].dtype() &&
         inputs[0].shape() == inputs[1].shape();
}

}  // namespace

LaunchRule launch_rule_of(const Instruction& instruction) {
  const std::string_view name = instruction.name;
  const auto* const found =
      std::ranges::find(kLaunchRules, name, &decltype(kLaunchRules)::value_type::first);
  return found == kLaunchRules.end() ? LaunchRule::kOnce : found->second;
}

std::int64_t launches_of(LaunchRule rule, const Instruction& instruction,
                         std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                         bool gathers) {
  const std::span<const Tensor> read = gathers && !inputs.empty() ? inputs.subspan(1) : inputs;
  const std::int64_t once = std::max(most_over(read), most_over(outputs));
  const auto input = [&inputs](std::size_t at) {
    return at < inputs.size() ? inputs[at] : Tensor();
  };
  if (outputs.empty() || !outputs[0].defined()) {
    return once;
  }
  switch (rule) {
    case LaunchRule::kOnce:
      return once;
    case LaunchRule::kAfterFill:
      return torch::elementwise_launches(outputs[0]) +
             most_over(inputs.first(inputs.empty() ? 0 : 1));
    case LaunchRule::kNormGradient:
      return std::ranges::count_if(outputs, [](const Tensor& one) { return one.defined(); }) > 1
                 ? once + 1
                 : once;
    case LaunchRule::kTwice:
      return once + 1;
    case LaunchRule::kThrice:
      return once + 2;
    case LaunchRule::kConcatenation:
      return concatenation(inputs, outputs[0]);
    case LaunchRule::kScan:
      return scan(input(0), outputs[0]);
    case LaunchRule::kSort:
      return sort(input(0));
    case LaunchRule::kTopK:  // The selected elements are sorted, unless there is one.
      return outputs[0].shape().rank() > 0 && outputs[0].shape()[-1] == 1 ? 1 : 2;
    case LaunchRule::kIndexPut: {
      if (!instruction.accumulates || inputs.size() < 3) {
        return once;
      }
      const std::span<const Tensor> indices = inputs.subspan(1, inputs.size() - 2);
      const auto given = std::ranges::count_if(indices, &Tensor::defined);
      std::int64_t most = 0;
      for (const Tensor& each : indices) {
        most = std::max(most, elements_of(each));
      }
      return kIndexPut + kFurtherIndices * std::max<std::int64_t>(given - 1, 0) +
             (most > kOneTile ? kTiled : 0);
    }
    case LaunchRule::kEmbeddingGradient:
      return torch::elementwise_launches(outputs[0]) +
             (elements_of(input(1)) <= kFewTokens ? 1 : kSortedTokens);
    case LaunchRule::kPower:  // The power 1, as in the gradient of a square, is a copy.
      if (instruction.exponent == 1.0) {
        return 0;
      }
      return instruction.exponent || inputs.size() > 1 ? once : once + 1;  // A base is filled in.
    case LaunchRule::kRepeat:                                              // Once is a copy.
      return elements_of(input(0)) == outputs[0].elements() ? 0 : once;
    case LaunchRule::kCopy:
      return instruction.as_it_lies || is_plain_copy(instruction, inputs) ? 0 : once;
    case LaunchRule::kSum:  // Truth values are counted as numbers.
      return input(0).defined() && input(0).dtype() == DType::kBool ? once + 1 : once;
  }
  return once;
}

}  // namespace headroom::ir::transformers
