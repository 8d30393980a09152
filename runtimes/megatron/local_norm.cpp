#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "runtimes/megatron/local_modules.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// Widths that the persistent kernel supports. Source: fusions/fused_layer_norm.py.
constexpr std::array<std::int64_t, 24> kPersistentWidths = {
    1024,  1536,  2048,  2304,  3072,  3840,  4096,  5120,  6144,  8192,  10240, 12288,
    12800, 15360, 16384, 18432, 20480, 24576, 25600, 30720, 32768, 40960, 49152, 65536};

/// Rows of the partial sums that blocks write for the gradients of weight and bias. The general
/// kernel has part_size rows. The persistent kernel has one row for each resident block; two blocks
/// per multiprocessor are assumed (the driver knows the number; not measured).
std::int64_t partial_rows(const DeviceTraits& device, std::int64_t width) {
  constexpr std::int64_t kGeneral = 16;
  constexpr std::int64_t kResident = 2;
  const bool persistent = std::ranges::find(kPersistentWidths, width) != kPersistentWidths.end();
  return persistent ? kResident * device.multiprocessors : kGeneral;
}

Gradients norm_gradients(Eager& eager, Node& node) {
  const torch::Unpacked saved(eager, node);
  const Tensor& input = saved[0];
  const std::int64_t width = node.input_shapes[1].elements();
  Gradients result(3);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = eager.empty(node.input_shapes[i], input.dtype());
  }
  const torch::Shape parts{partial_rows(eager.device(), width), width};
  const Tensor weights = eager.empty(parts, DType::kFp32, TensorRole::kWorkspace);
  const Tensor biases = eager.empty(parts, DType::kFp32, TensorRole::kWorkspace);
  torch::launch(eager, {&input, &result[0], &result[0]});  // The incoming gradient is read, too.
  torch::launch(eager, {&weights, &biases, &result[1], &result[2]});
  return result;
}

}  // namespace

Tensor apex_norm(const Runner& run, const Tensor& input, const NormWeights& weights) {
  Eager& eager = run.eager();
  Record record(eager, {&input, &weights.weight, &weights.bias});
  const std::int64_t rows = input.elements() / weights.weight.elements();
  Tensor output = eager.empty(input.shape(), input.dtype());
  const Tensor mean = eager.empty({rows}, DType::kFp32);
  const Tensor deviation = eager.empty({rows}, DType::kFp32);
  torch::launch(eager, {&input, &output, &mean, &deviation});
  record.save(input);
  record.save(mean);
  record.save(deviation);
  record.finish(output, [](Eager& e, Gradients&, Node& node) -> Gradients {
    return norm_gradients(e, node);
  });
  return output;
}

}  // namespace headroom::ir::megatron
