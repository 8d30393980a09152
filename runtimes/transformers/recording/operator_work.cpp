#include "runtimes/transformers/recording/operator_work.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Operators that launch no kernel although their output has a storage of its own.
bool launches_nothing(std::string_view name) {
  return is_one_of(name, {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
                          "detach", "empty_permuted"});
}

/// Operators that read as many elements of their first input as they write.
bool gathers(std::string_view name) {
  return is_one_of(
      name, {"embedding", "index", "gather", "index_select", "select_backward", "slice_backward"});
}

/// The product of [.., m, k] and [.., k, n] at positions `a` and `b`.
void run_product(Eager& eager, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.shape().rank() < 2 || b.shape().rank() < 2 ||
      a.elements() == 0 || b.elements() == 0) {
    return;  // An empty product asks nothing of the library.
  }
  const std::int64_t m = a.shape()[-2];
  const std::int64_t k = a.shape()[-1];
  const bool batched = a.shape().rank() > 2;
  eager.run(GemmShape{.m = m,
                      .n = b.shape()[-1],
                      .k = k,
                      .count = batched && m * k > 0 ? a.elements() / (m * k) : 1,
                      .dtype = a.dtype(),
                      .layout = GemmLayout::kNN});
}

/// Rows [T, k], sorted by group, times the matrices [E, k, n] of the groups: one kernel in bf16 on
/// compute capability 9.0 and 10.0, elsewhere a call of the library for each group.
void run_grouped(Eager& eager, const Tensor& rows, const Tensor& matrices) {
  if (!rows.defined() || !matrices.defined() || rows.shape().rank() < 2 || rows.elements() == 0 ||
      matrices.elements() == 0) {
    return;
  }
  const int major = eager.device().compute_major;
  const bool one_kernel = rows.dtype() == DType::kBf16 && (major == 9 || major == 10);
  const std::int64_t groups = matrices.shape().rank() == 3 ? matrices.shape()[0] : 1;
  GemmShape shape{.m = rows.shape()[-2],
                  .n = matrices.shape()[-1],
                  .k = rows.shape()[-1],
                  .dtype = rows.dtype(),
                  .layout = GemmLayout::kNN,
                  .batch = GemmBatch::kGrouped};
  if (one_kernel) {
    torch::launch_kernels(eager, groups * torch::kGroupArgumentBytes);
  } else {
    shape.batch = GemmBatch::kSeries;
    shape.count = std::max<std::int64_t>(1, std::min(groups, shape.m));
    shape.m = std::max<std::int64_t>(1, shape.m / shape.count);
  }
  eager.run(shape);
}

/// A convolution as the product of its unfolded input with its weight [out, in/groups, taps..].
void run_convolution(Eager& eager, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) {
  const Tensor& weight = inputs[1];
  if (!weight.defined() || outputs.empty() || !outputs[0].defined() || weight.elements() == 0 ||
      outputs[0].elements() == 0) {
    return;
  }
  const std::int64_t out = weight.shape()[0];
  eager.run(GemmShape{.m = outputs[0].elements() / out,
                      .n = out,
                      .k = weight.elements() / out,
                      .dtype = weight.dtype(),
                      .layout = GemmLayout::kNN});
}

/// Whether each channel is convolved with itself alone, which kernels do without a product.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/Convolution.cpp, use_cudnn_depthwise and
///         is_depthwise; native/cuda/DepthwiseConv2d.cu.
bool is_depthwise(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return !outputs.empty() && outputs[0].defined() && outputs[0].shape().rank() > 2 &&
         inputs[0].defined() && inputs[1].defined() && inputs[0].shape().rank() > 2 &&
         inputs[1].shape().rank() > 2 && inputs[1].shape()[1] == 1 && inputs[0].shape()[1] > 1 &&
         outputs[0].shape()[1] == inputs[1].shape()[0];  // Not transposed.
}

/// Fused attention of q, k and v [B, A, S, D]; in backward, the gradient comes before them.
void run_attention(Eager& eager, const OperatorTraits& traits, const Instruction& instruction,
                   std::span<const Tensor> inputs) {
  const bool backward = traits.work == OperatorTraits::Work::kAttentionBackward;
  const std::size_t first = backward ? 1 : 0;
  if (inputs.size() < first + 3 || !inputs[first].defined() || !inputs[first + 1].defined() ||
      !inputs[first + 2].defined() || inputs[first].shape().rank() != 4 ||
      inputs[first].elements() == 0 || inputs[first + 1].elements() == 0) {
    return;
  }
  const Shape& q = inputs[first].shape();
  const Shape& k = inputs[first + 1].shape();
  eager.run(AttentionShape{
      .batch = q[0],
      .heads = q[1],
      .kv_heads = k[1],
      .queries = q[2],
      .keys = k[2],
      .head_dim = q[3],
      .value_dim = inputs[first + 2].shape()[3],
      .dtype = inputs[first].dtype(),
      .causal = instruction.causal,
      .backward = backward,
      .kernel = traits.efficient ? AttentionKernel::kEfficient : AttentionKernel::kFlash2});
}

OperatorTraits::Work work_of(const Instruction& instruction) {
  using Work = OperatorTraits::Work;
  const std::string_view name = instruction.name;
  const std::size_t inputs = instruction.inputs.size();
  const bool views = std::ranges::all_of(instruction.outputs, [](const RecordedOutput& output) {
    return output.how == RecordedOutput::How::kView;
  });
  if (name.starts_with("triton_")) {
    return Work::kTraffic;
  }
  if (views || launches_nothing(name)) {
    return Work::kNothing;
  }
  if (is_one_of(name, {"mm", "bmm"}) && inputs >= 2) {
    return Work::kProduct;
  }
  if (is_one_of(name, {"addmm", "baddbmm"}) && inputs >= 3) {
    return Work::kBiasedProduct;
  }
  if (is_one_of(name, {"_grouped_mm", "_scaled_grouped_mm"}) && inputs >= 2) {
    return Work::kGrouped;
  }
  if (name == "convolution" && inputs >= 2) {
    return Work::kConvolution;
  }
  if (name.starts_with("_scaled_dot_product_")) {
    return name.ends_with("_backward") ? Work::kAttentionBackward : Work::kAttention;
  }
  return Work::kTraffic;
}

/// Kernels that read the inputs and write the outputs once, or a copy engine that does so.
void run_traffic(Eager& eager, const OperatorTraits& traits, const Instruction& instruction,
                 std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  std::int64_t written = 0;
  for (const Tensor& output : outputs) {
    written += torch::bytes_of(output);
  }
  std::int64_t read = 0;
  for (const Tensor& input : inputs) {
    const std::int64_t bytes = torch::bytes_of(input);
    read += traits.gathers ? std::min(bytes, written) : bytes;
  }
  const std::int64_t launches =
      launches_of(traits.launches, instruction, inputs, outputs, traits.gathers);
  if (launches == 0 && written > 0) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = written});
  }
  torch::launch_kernels(eager, read + written, launches);
}

}  // namespace

OperatorTraits traits_of(const Instruction& instruction) {
  using Workspace = OperatorTraits::Workspace;
  const std::string_view name = instruction.name;
  const bool multiplies =
      is_one_of(name, {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "addbmm"});
  return {.work = work_of(instruction),
          .workspace = name == "addmm" ? Workspace::kCublasOfBias
                       : multiplies    ? Workspace::kCublas
                                       : Workspace::kNone,
          .launches = launch_rule_of(instruction),
          .gathers = gathers(name),
          .efficient = name.find("efficient") != std::string_view::npos,
          .transposes = name == "transpose",
          .attends = name == "scaled_dot_product_attention",
          .keeps = name == "keep",
          .sums_rows = name == "embedding_dense_backward",
          .drops = name == "native_dropout",
          .casts = name == "_to_copy",
          .typed_temporaries =
              is_one_of(name, {"convolution", "convolution_backward", "native_layer_norm",
                               "native_layer_norm_backward", "_softmax_backward_data"})};
}

void touch_workspaces(Eager& eager, const OperatorTraits& traits, std::span<const Tensor> inputs) {
  using Workspace = OperatorTraits::Workspace;
  if (traits.workspace == Workspace::kNone) {
    return;
  }
  const bool row_bias = traits.workspace == Workspace::kCublasOfBias && !inputs.empty() &&
                        inputs[0].defined() && inputs[0].shape().rank() == 1;
  if (row_bias) {
    eager.touch_cublaslt();
  } else {
    eager.touch_cublas();
  }
}

void give_work(Eager& eager, const OperatorTraits& traits, const Instruction& instruction,
               std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  using Work = OperatorTraits::Work;
  switch (traits.work) {
    case Work::kNothing:
      return;
    case Work::kTraffic:
      return run_traffic(eager, traits, instruction, inputs, outputs);
    case Work::kProduct:
      return run_product(eager, inputs[0], inputs[1]);
    case Work::kBiasedProduct:
      return run_product(eager, inputs[1], inputs[2]);
    case Work::kGrouped:
      return run_grouped(eager, inputs[0], inputs[1]);
    case Work::kConvolution:
      return is_depthwise(inputs, outputs)
                 ? run_traffic(eager, traits, instruction, inputs, outputs)
                 : run_convolution(eager, inputs, outputs);
    case Work::kAttention:
    case Work::kAttentionBackward:
      return run_attention(eager, traits, instruction, inputs);
  }
}

}  // namespace headroom::ir::transformers
