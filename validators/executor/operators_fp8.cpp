// Linear layers whose products take operands in 8 bits, with one scale per tensor that is computed
// anew for each (current scaling). Activations and weights are E4M3, gradients E5M2.
//
// cuBLASLt multiplies such operands only if the inner dimension is contiguous in both (NVIDIA
// cuBLAS documentation, section "cublasLtMatmul", FP8 data types). The three products of a linear
// layer have three inner dimensions, so that each operand is needed as it is and transposed.
#include <utility>

#include "model_ir/base/check.h"
#include "validators/executor/operators.h"

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

enum class Layouts : std::uint8_t { kRows, kTransposed, kBoth };

Quantised quantised(const Context& context, const Tensor& x, HeadroomFp8 format, Layouts layouts) {
  const ir::DType stat = context.types.stat();
  const ir::TensorRole kept =
      context.backward ? ir::TensorRole::kTemporary : ir::TensorRole::kActivation;
  Quantised made{.rows = {}, .transposed = {}, .scale = {}, .format = format};
  if (layouts != Layouts::kTransposed) {
    made.rows = context.make(x.rows, x.columns, ir::DType::kFp8, ir::TensorRole::kTemporary);
  }
  if (layouts != Layouts::kRows) {
    made.transposed = context.make(x.columns, x.rows, ir::DType::kFp8, kept);
  }
  made.scale = context.make(1, 1, stat, kept);
  const Tensor largest = context.make(1, 1, stat, ir::TensorRole::kTemporary);
  const Tensor partial = context.make(1, HEADROOM_PARTIAL_SUMS, stat, ir::TensorRole::kTemporary);
  context.device.run(&Table::largest_magnitude, kComputeStream, largest.data(), code_of(stat),
                     x.data(), code_of(x.type), x.elements(), partial.data());
  const auto bytes = [](const Tensor& tensor) {
    return tensor.empty() ? nullptr : tensor.as<std::uint8_t>();
  };
  context.device.run(&Table::quantise, kComputeStream, bytes(made.rows), bytes(made.transposed),
                     made.scale.data(), x.data(), code_of(x.type), x.rows, x.columns,
                     largest.data(), static_cast<std::int32_t>(format));
  return made;
}

/// One operand: [m, k] or [n, k] in 8 bits.
struct Operand {
  Tensor values;
  Tensor scale;
  HeadroomFp8 format;
};

/// c = a b^T + beta c.
void product8(const Context& context, const Tensor& c, const Operand& a, const Operand& b,
              double beta) {
  HeadroomGemm gemm{};
  gemm.m = c.rows;
  gemm.n = c.columns;
  gemm.k = a.values.columns;
  HEADROOM_ASSERT(a.values.rows == gemm.m && b.values.rows == gemm.n && b.values.columns == gemm.k);
  gemm.transpose_b = 1;
  gemm.type = HEADROOM_FP8;
  gemm.output_type = code_of(c.type);
  gemm.math = HEADROOM_MATH_EXACT;
  gemm.alpha = 1;
  gemm.beta = beta;
  gemm.a = a.values.data();
  gemm.b = b.values.data();
  gemm.c = c.data();
  gemm.a_row = gemm.k;
  gemm.b_row = gemm.k;
  gemm.c_row = c.columns;
  gemm.outer = 1;
  gemm.inner = 1;
  gemm.workspace = context.workspace.data();
  gemm.a_format = a.format;
  gemm.b_format = b.format;
  gemm.a_scale = a.scale.data();
  gemm.b_scale = b.scale.data();
  context.device.run(&Table::gemm, kComputeStream, &gemm);
}

void linear8_backward(Tape& t, const Weight& weight, Slot in, const Tensor& dy,
                      const Operand& input) {
  const Context& c = t.context();
  const Quantised gradient = quantised(c, dy, HEADROOM_E5M2, Layouts::kBoth);
  product8(c, weight.gradient(), {gradient.transposed, gradient.scale, gradient.format}, input, 1);
  if (in == Slot::kNone) {
    return;
  }
  const Quantised w = quantised(c, weight.value(), HEADROOM_E4M3, Layouts::kTransposed);
  const Operand rows{gradient.rows, gradient.scale, gradient.format};
  const Operand weights{w.transposed, w.scale, w.format};
  // The gradients of several readers of x are summed by the product itself.
  const Tensor sum = t.to_add_to(in);
  if (!sum.empty()) {
    product8(c, sum, rows, weights, 1);
    return;
  }
  const Tensor dx = c.make(dy.rows, input.values.rows);
  product8(c, dx, rows, weights, 0);
  t.add(in, dx);
}

}  // namespace

Quantised quantise_input(Tape& tape, const Var& x) {
  Context& context = tape.context();
  if (!context.types.fp8_products) {
    return {};
  }
  context.begin("quantise");
  return quantised(context, x.tensor, HEADROOM_E4M3,
                   tape.records() ? Layouts::kBoth : Layouts::kRows);
}

Var linear(Tape& tape, const Var& x, const Quantised& input, const Weight& weight,
           const Weight& bias) {
  if (input.rows.empty()) {
    return linear(tape, x, weight, bias);
  }
  const Context& context = tape.context();
  context.begin("linear");
  const Tensor w = weight.value();
  const Var out = tape.variable(context.make(input.rows.rows, w.rows));
  {
    const Quantised w8 = quantised(context, w, HEADROOM_E4M3, Layouts::kRows);
    product8(context, out.tensor, {input.rows, input.scale, input.format},
             {w8.rows, w8.scale, w8.format}, 0);
  }
  if (!bias.empty()) {
    add_bias_rows(context, out.tensor, bias.value());
  }
  tape.record("linear", {input.transposed, input.scale},
              [weight, bias, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
                const Tensor dy = t.take(slot);
                if (dy.empty()) {
                  return;
                }
                if (!bias.empty()) {
                  add_column_sum(t.context(), bias.gradient(), dy);
                }
                linear8_backward(t, weight, in, dy, {node.saved[0], node.saved[1], HEADROOM_E4M3});
              });
  return out;
}

Var project(Tape& tape, const Var& x, const Weight& weight, const Weight& bias) {
  return linear(tape, x, quantise_input(tape, x), weight, bias);
}

}  // namespace headroom::exec
