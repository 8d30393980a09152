#include "runtimes/megatron/te_norm.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

enum class Pass : std::uint8_t { kForward, kBackward };

/// A kernel of Transformer Engine's norms: how rows are divided among blocks.
struct NormKernel {
  std::int64_t width = 0;           ///< Columns that it was written for.
  std::int64_t blocks_per_row = 1;  ///< CTAS_PER_ROW of a tuned kernel.
  std::int64_t rows_per_block = 1;  ///< WARPS_M
};

/// Widths for which LayerNorm's backward is tuned, with the blocks per row.
/// Source: transformer_engine/common/normalization/layernorm/ln_bwd_semi_cuda_kernel.cu.
constexpr std::array<NormKernel, 23> kLayerNormBackward = {
    {{768},      {1024},     {1536},     {2048},     {2304},     {3072},     {3840},     {4096},
     {5120},     {6144},     {8192, 2},  {10240, 2}, {12288, 4}, {12800, 5}, {15360, 4}, {16384, 4},
     {18432, 4}, {20480, 4}, {24576, 4}, {25600, 5}, {30720, 4}, {32768, 4}, {40960, 4}}};
/// Source: layernorm/ln_fwd_cuda_kernel.cu.
constexpr std::array<NormKernel, 23> kLayerNormForward = {
    {{768},      {1024},     {1536},     {2048},     {2304},     {3072},     {3840},     {4096},
     {5120},     {6144},     {8192},     {10240},    {12288, 2}, {12800, 2}, {15360, 2}, {16384, 2},
     {18432, 2}, {20480, 2}, {24576, 2}, {25600, 2}, {30720, 4}, {32768, 4}, {40960, 4}}};
/// Both directions. Source: rmsnorm/rmsnorm_{fwd,bwd_semi}_cuda_kernel.cu.
constexpr std::array<NormKernel, 6> kRmsNorm = {{{512}, {768}, {1024}, {2048}, {4096}, {8192}}};

/// General kernels, for any width up to their own, and for larger ones with several blocks per row.
constexpr std::array<NormKernel, 5> kGeneralForward = {
    {{128, 1, 4}, {512, 1, 4}, {1024, 1, 4}, {2048, 1, 4}, {8192, 1, 1}}};
constexpr std::array<NormKernel, 5> kGeneralBackward = {
    {{128, 1, 4}, {512, 1, 4}, {1024, 1, 4}, {2048, 1, 1}, {4096, 1, 1}}};

/// Resident blocks per multiprocessor. The driver knows the number for a compiled kernel. This is
/// what the accounting device answers; it has not been observed on a GPU.
constexpr std::int64_t kResidentBlocks = 16;

std::span<const NormKernel> tuned_kernels(bool rms, Pass pass) {
  if (rms) {
    return kRmsNorm;
  }
  return pass == Pass::kForward ? std::span<const NormKernel>(kLayerNormForward)
                                : std::span<const NormKernel>(kLayerNormBackward);
}

/// Bytes of a kernel's workspace. If several blocks share a row, it holds their statistics and
/// barriers. In backward it also holds each block column's sums for the weight (and for a bias).
/// Source: transformer_engine/common/normalization/common.h, LaunchParams.
std::int64_t workspace_bytes(const DeviceTraits& device, std::int64_t rows, std::int64_t width,
                             bool rms, Pass pass) {
  const std::int64_t resident = device.multiprocessors * kResidentBlocks;
  const std::span<const NormKernel> tuned = tuned_kernels(rms, pass);
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows_per_block = 1;
  const auto found = std::ranges::find(tuned, width, &NormKernel::width);
  if (found != tuned.end()) {
    row = found->blocks_per_row;
    column = resident / row;
  } else {
    const std::span<const NormKernel> general =
        pass == Pass::kForward ? kGeneralForward : kGeneralBackward;
    const auto fitting = std::ranges::lower_bound(general, width, {}, &NormKernel::width);
    const NormKernel& kernel = fitting == general.end() ? general.back() : *fitting;
    row = ceil_div(width, kernel.width);
    rows_per_block = kernel.rows_per_block;
    column = std::min(ceil_div(rows, rows_per_block), resident / row);
  }
  constexpr std::int64_t kAlignment = 16;
  const auto aligned = [](std::int64_t bytes) { return ceil_div(bytes, kAlignment) * kAlignment; };
  std::int64_t bytes = 0;
  if (row > 1) {
    // One float in the general forward kernels, two in all others.
    const std::int64_t statistic = pass == Pass::kForward && found == tuned.end() ? 4 : 8;
    bytes += aligned(column * rows_per_block * row * statistic * 2) + aligned(2 * column * 4);
  }
  if (pass == Pass::kBackward) {
    bytes += aligned(column * width * 4) * (rms ? 1 : 2);
  }
  return std::max<std::int64_t>(bytes, 1);
}

}  // namespace

namespace {

/// Allocates mean and deviation, which the kernel writes and backward reads.
void make_statistics(const Runner& run, const Tensor& input, const NormWeights& weights,
                     NormOutput& result) {
  const std::int64_t rows = input.elements() / weights.weight.elements();
  if (weights.bias.defined()) {
    result.mean = run.eager().empty({rows}, DType::kFp32);
  }
  result.deviation = run.eager().empty({rows}, DType::kFp32);
}

/// Runs the kernel with its workspace. `written`: the tensor that receives the result.
void run_forward(const Runner& run, const Tensor& input, const NormWeights& weights,
                 const NormOutput& statistics, const Tensor& written) {
  Eager& eager = run.eager();
  const std::int64_t rows = input.elements() / weights.weight.elements();
  const Tensor workspace =
      eager.empty({workspace_bytes(eager.device(), rows, weights.weight.elements(),
                                   !weights.bias.defined(), Pass::kForward)},
                  DType::kUInt8, TensorRole::kWorkspace);
  torch::launch(eager, {&input, &written, &statistics.mean, &statistics.deviation});
}

}  // namespace

NormOutput norm_forward(const Runner& run, const Tensor& input, const NormWeights& weights) {
  NormOutput result;
  make_statistics(run, input, weights, result);
  result.output = run.eager().empty(input.shape(), input.dtype());
  run_forward(run, input, weights, result, result.output);
  return result;
}

Fp8NormOutput norm_forward_fp8(const Runner& run, const Tensor& input, const NormWeights& weights,
                               Fp8Use use, Fp8Operand operand) {
  NormOutput statistics;
  make_statistics(run, input, weights, statistics);
  Fp8NormOutput result{.output = empty_fp8(run, input.shape(), use, operand),
                       .mean = statistics.mean,
                       .deviation = statistics.deviation};
  if (run.context.megatron.fp8 == MegatronFp8::kDelayed) {
    run_forward(run, input, weights, statistics, result.output.rows);
    if (result.output.columns.defined()) {
      torch::launch(run.eager(), {&result.output.rows, &result.output.columns});
    }
    return result;
  }
  const Tensor wide = run.eager().empty(input.shape(), input.dtype(), TensorRole::kTemporary);
  run_forward(run, input, weights, statistics, wide);
  launch_cast(run, wide, result.output, operand, true);
  return result;
}

NormGradients norm_backward(const Runner& run, const Tensor& input, bool with_bias) {
  Eager& eager = run.eager();
  const Shape& shape = input.shape();
  const std::int64_t width = shape[-1];
  NormGradients result;
  result.input = eager.empty(shape, input.dtype());
  result.weight = eager.empty({width}, input.dtype());
  if (with_bias) {
    result.bias = eager.empty({width}, input.dtype());
  }
  const Tensor workspace = eager.empty({workspace_bytes(eager.device(), input.elements() / width,
                                                        width, !with_bias, Pass::kBackward)},
                                       DType::kUInt8, TensorRole::kWorkspace);
  // The incoming gradient is read, too.
  torch::launch(eager, {&input, &result.input, &result.input});
  torch::launch(eager, {&workspace, &result.weight, &result.bias});
  return result;
}

Tensor norm(const Runner& run, const Tensor& input, const NormWeights& weights) {
  Record record(run.eager(), {&input, &weights.weight, &weights.bias});
  NormOutput normed = norm_forward(run, input, weights);
  if (record.active()) {
    record.save(input);
    record.save(normed.mean);
    record.save(normed.deviation);
    record.finish(normed.output, [run](Eager& eager, Gradients& grads, Node& node) -> Gradients {
      const torch::Unpacked saved(eager, node);
      Tensor contiguous;
      if (grads[0]->layout != torch::Layout::kContiguous) {
        contiguous = torch::computed(eager, grads[0].shape(), grads[0].dtype(), {&grads[0]});
      }
      NormGradients result = norm_backward(run, saved[0], node.wants(2));
      // The operator flattens its input to rows and returns a view.
      result.input->tracked_view = true;
      for (std::size_t i = 1; i < node.saved.size(); ++i) {
        eager.move_storage(saved[i], {});
      }
      return {std::move(result.input), std::move(result.weight), std::move(result.bias)};
    });
  }
  return std::move(normed.output);
}

}  // namespace headroom::ir::megatron
