#include "runtimes/transformers/recording/operator_work.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

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
  if (!a.defined() || !b.defined() || a.shape().rank() < 2 || b.shape().rank() < 2) {
    return;
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

/// Rows [T, k], sorted by group, times the matrices [E, k, n] of the groups.
void run_grouped(Eager& eager, const Tensor& rows, const Tensor& matrices) {
  if (rows.defined() && matrices.defined() && rows.shape().rank() >= 2) {
    eager.run(GemmShape{.m = rows.shape()[-2],
                        .n = matrices.shape()[-1],
                        .k = rows.shape()[-1],
                        .dtype = rows.dtype(),
                        .layout = GemmLayout::kNN,
                        .batch = GemmBatch::kGrouped});
  }
}

/// A convolution as the product of its unfolded input with its weight [out, in/groups, taps..].
void run_convolution(Eager& eager, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& outputs) {
  const Tensor& weight = inputs[1];
  if (!weight.defined() || outputs.empty() || !outputs[0].defined() || weight.elements() == 0) {
    return;
  }
  const std::int64_t out = weight.shape()[0];
  eager.run(GemmShape{.m = outputs[0].elements() / out,
                      .n = out,
                      .k = weight.elements() / out,
                      .dtype = weight.dtype(),
                      .layout = GemmLayout::kNN});
}

/// Fused attention of q, k and v [B, A, S, D], which begin at input `first`.
void run_attention(Eager& eager, const Instruction& instruction, const std::vector<Tensor>& inputs,
                   std::size_t first, bool backward) {
  if (inputs.size() < first + 3 || !inputs[first].defined() || !inputs[first + 1].defined() ||
      !inputs[first + 2].defined() || inputs[first].shape().rank() != 4) {
    return;
  }
  const Shape& q = inputs[first].shape();
  const Shape& k = inputs[first + 1].shape();
  const bool efficient = instruction.name.find("efficient") != std::string::npos;
  eager.run(
      AttentionShape{.batch = q[0],
                     .heads = q[1],
                     .kv_heads = k[1],
                     .queries = q[2],
                     .keys = k[2],
                     .head_dim = q[3],
                     .value_dim = inputs[first + 2].shape()[3],
                     .dtype = inputs[first].dtype(),
                     .causal = instruction.causal,
                     .backward = backward,
                     .kernel = efficient ? AttentionKernel::kEfficient : AttentionKernel::kFlash2});
}

/// Whether the operator is one of the libraries' or of the fused kernels.
bool run_known(Eager& eager, const Instruction& instruction, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& outputs) {
  const std::string_view name = instruction.name;
  if (is_one_of(name, {"mm", "bmm"}) && inputs.size() >= 2) {
    run_product(eager, inputs[0], inputs[1]);
  } else if (is_one_of(name, {"addmm", "baddbmm"}) && inputs.size() >= 3) {
    run_product(eager, inputs[1], inputs[2]);
  } else if (is_one_of(name, {"_grouped_mm", "_scaled_grouped_mm"}) && inputs.size() >= 2) {
    run_grouped(eager, inputs[0], inputs[1]);
  } else if (name == "convolution" && inputs.size() >= 2) {
    run_convolution(eager, inputs, outputs);
  } else if (name.starts_with("_scaled_dot_product_") && name.ends_with("_backward")) {
    run_attention(eager, instruction, inputs, 1, true);
  } else if (name.starts_with("_scaled_dot_product_")) {
    run_attention(eager, instruction, inputs, 0, false);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void touch_workspaces(Eager& eager, const Instruction& instruction,
                      const std::vector<Tensor>& inputs) {
  const std::string_view name = instruction.name;
  const bool row_bias =
      name == "addmm" && !inputs.empty() && inputs[0].defined() && inputs[0].shape().rank() == 1;
  if (row_bias) {
    eager.touch_cublaslt();
  } else if (is_one_of(name, {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "addbmm"})) {
    eager.touch_cublas();
  }
}

void give_work(Eager& eager, const Instruction& instruction, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& outputs) {
  const bool views = std::ranges::all_of(instruction.outputs, [](const RecordedOutput& output) {
    return output.how == RecordedOutput::How::kView;
  });
  if (views || launches_nothing(instruction.name) ||
      run_known(eager, instruction, inputs, outputs)) {
    return;
  }
  std::int64_t written = 0;
  std::int64_t elements = 0;
  for (const Tensor& output : outputs) {
    written += torch::bytes_of(output);
    elements = std::max(elements, output.defined() ? output.elements() : 0);
  }
  std::int64_t read = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t bytes = torch::bytes_of(inputs[i]);
    read += gathers(instruction.name) ? std::min(bytes, written) : bytes;
    elements = std::max(
        elements, inputs[i].defined() && !gathers(instruction.name) ? inputs[i].elements() : 0);
  }
  constexpr std::int64_t kWidest = 8;
  torch::launch_kernels(eager, read + written, torch::elementwise_launches(elements, kWidest));
}

}  // namespace headroom::ir::transformers
