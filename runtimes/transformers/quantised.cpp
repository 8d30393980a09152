#include "runtimes/transformers/quantised.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/torch/split_reduction.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

/// Source: bitsandbytes nn/modules.py, Params4bit (blocksize) and functional.py, quantize_4bit.
constexpr std::int64_t kBlock = 64;        ///< Elements that share a factor.
constexpr std::int64_t kOuterBlock = 256;  ///< Factors that share a factor.
constexpr std::int64_t kFourBitCodes = 16;
constexpr std::int64_t kEightBitCodes = 256;

Tensor state(Eager& eager, const Shape& shape, DType dtype) {
  return eager.empty(shape, dtype, TensorRole::kBuffer);
}

/// The 16 values of a 4-bit type, scaled to 1 on the device. Source: functional.py, get_4bit_type.
Tensor four_bit_codes(Eager& eager) {
  Tensor raw = torch::computed(eager, {kFourBitCodes}, DType::kFp32, TensorRole::kTemporary);
  Tensor scaled = state(eager, {kFourBitCodes}, DType::kFp32);
  const Tensor largest = torch::computed(eager, {}, DType::kFp32, TensorRole::kTemporary);
  raw.reset();
  return scaled;
}

/// Source: functional.py, quantize_4bit with compress_statistics.
void quantise_factors(Eager& eager, QuantisedWeight& result, Tensor& dynamic_codes) {
  const Shape blocks = result.factors.shape();
  eager.set_role(TensorRole::kBuffer);
  result.offset = torch::reduce_all(eager, result.factors);
  eager.set_role(TensorRole::kTemporary);
  Tensor centred = torch::computed(eager, blocks, DType::kFp32, TensorRole::kTemporary);
  if (!dynamic_codes.defined()) {
    dynamic_codes = state(eager, {kEightBitCodes}, DType::kFp32);
  }
  result.outer_factors = state(eager, {ceil_div(blocks.elements(), kOuterBlock)}, DType::kFp32);
  Tensor narrow = state(eager, blocks, DType::kUInt8);
  result.outer_codes = state(eager, {kEightBitCodes}, DType::kFp32);
  centred.reset();
  result.factors = std::move(narrow);
}

/// The factors in fp32: unchanged, or computed from their bytes.
Tensor wide_factors(Eager& eager, const QuantisedWeight& weight) {
  return weight.offset.defined() ? torch::computed(eager, weight.factors.shape(), DType::kFp32)
                                 : weight.factors;
}

/// Source: autograd/_functions.py, MatMul4Bit.backward: the weight is dequantised again.
Gradients four_bit_gradients(Eager& eager, const QuantisedWeight& weight, Gradients& grads,
                             const Node& node) {
  Tensor whole = dequantise(eager, weight);
  whole = torch::to(eager, whole, grads[0].dtype());
  const Tensor gradient = eager.empty(node.input_shapes[0], grads[0].dtype());
  eager.touch_cublas();
  eager.run(GemmShape{.m = grads[0].elements() / weight.shape[0],
                      .n = weight.shape[1],
                      .k = weight.shape[0],
                      .dtype = grads[0].dtype(),
                      .layout = GemmLayout::kNN});
  return {gradient};
}

/// Source: backends/cuda/ops.py, bitsandbytes::gemm_4bit.
Tensor four_bit_product(Eager& eager, const QuantisedWeight& weight, const Tensor& input,
                        const Tensor& bias) {
  const std::int64_t in = weight.shape[1];
  const std::int64_t rows = input.elements() / in;
  const Shape shape = input.shape().with(-1, weight.shape[0]);
  GemmShape product{.m = rows, .n = weight.shape[0], .k = in, .dtype = input.dtype()};
  if (in % kBlock == 0 && rows <= fused_rows(weight.shape[0], in, eager.device())) {
    product.batch = GemmBatch::kGrouped;  // The library's own kernel.
    eager.run(product);
    return eager.empty(shape, input.dtype());
  }
  eager.run(product);
  Tensor raw;
  if (weight.offset.defined()) {
    raw = torch::computed(eager, weight.factors.shape(), DType::kFp32);
  }
  Tensor factors = wide_factors(eager, weight);
  const Tensor whole = torch::computed(eager, weight.shape, input.dtype());
  Tensor output = eager.empty(shape, input.dtype());
  if (bias.defined()) {
    eager.touch_cublaslt();
  } else {
    eager.touch_cublas();
  }
  factors.reset();
  raw.reset();
  return output;
}

Tensor matmul_four_bit(Eager& eager, const QuantisedWeight& weight, const Tensor& input,
                       const Tensor& bias) {
  torch::Record record(eager, {&input});
  Tensor output = four_bit_product(eager, weight, input, bias);
  if (record.active()) {
    // ctx.tensors holds the weight's current memory: under ZeRO, the gathered weight.
    QuantisedWeight kept = weight;
    kept.packed = eager.alias(weight.packed, weight.packed.shape(), false);
    record.finish(output, [kept](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return four_bit_gradients(e, kept, grads, node);
    });
  }
  return output;
}

/// Columns with outliers are searched for in fp16; none are assumed to be found. The empty set of
/// columns is zeroed nevertheless.
/// Source: backends/cuda/ops.py, bitsandbytes::int8_vectorwise_quant, threshold 6.
void look_for_outliers(Eager& eager, const Tensor& narrow, std::int64_t rows) {
  Tensor magnitude = torch::computed(eager, narrow.shape(), DType::kFp16);
  Tensor outliers = torch::computed(eager, narrow.shape(), DType::kBool);
  magnitude.reset();
  Tensor any = torch::reduce(eager, Shape{}, DType::kBool,
                             {.outputs = 1,
                              .inputs_per_output = narrow.elements(),
                              .innermost = true,
                              .accumulator_bytes = 1,
                              .element_bytes = 1});
  any.reset();
  if (rows > 1) {
    const Tensor zero = torch::computed(eager, {}, DType::kInt8);
  }
}

/// Source: backends/default/ops.py, int8_scaled_mm; backends/cuda/ops.py, int8_mm_dequant: int32
/// sums become fp16, a bias is added, and the result is cast.
Tensor eight_bit_product(Eager& eager, const QuantisedWeight& weight, const Tensor& input) {
  const std::int64_t in = weight.shape[1];
  const std::int64_t rows = input.elements() / in;
  const Shape shape = input.shape().with(-1, weight.shape[0]);
  Tensor narrow = torch::to(eager, input, DType::kFp16);
  const Tensor row_factors = torch::computed(eager, {rows}, DType::kFp32);
  const Tensor codes = torch::computed(eager, input.shape(), DType::kInt8);
  look_for_outliers(eager, narrow, rows);
  narrow.reset();
  const Tensor sums = eager.empty(shape, DType::kInt32);
  eager.run(GemmShape{.m = rows, .n = weight.shape[0], .k = in, .dtype = DType::kInt8});
  Tensor half = torch::computed(eager, shape, DType::kFp16);
  return torch::to(eager, half, input.dtype());
}

/// Source: autograd/_functions.py, MatMul8bitLt.backward: the weight in the input's type.
Gradients eight_bit_gradients(Eager& eager, const QuantisedWeight& weight, Gradients& grads,
                              const Node& node) {
  const DType dtype = node.input_dtypes[0];
  Tensor rows = grads[0];  // reshape(-1, out).contiguous()
  if (rows->layout == torch::Layout::kColumns) {
    rows = torch::computed(eager, rows.shape(), rows.dtype(), {&grads[0]});
  }
  Tensor whole = torch::computed(eager, weight.shape, dtype);
  { const Tensor scaled = torch::computed(eager, {weight.shape[0]}, DType::kFp32); }
  Tensor narrow = torch::to(eager, rows, dtype);
  const Tensor gradient = eager.empty(node.input_shapes[0], dtype);
  gradient->tracked_view = true;  // matmul(...).view(ctx.grad_shape)
  eager.touch_cublas();
  eager.run(GemmShape{.m = grads[0].elements() / weight.shape[0],
                      .n = weight.shape[1],
                      .k = weight.shape[0],
                      .dtype = dtype,
                      .layout = GemmLayout::kNN});
  narrow.reset();
  rows.reset();
  whole.reset();
  return {gradient};
}

/// The node stores its input as its own attribute (ctx.tensors). Neither a checkpoint's hooks nor
/// the end of backward release it; it dies with the graph.
Tensor matmul_eight_bit(Eager& eager, const QuantisedWeight& weight, const Tensor& input) {
  torch::Record record(eager, {&input});
  Tensor output;
  {
    const torch::GradMode grad(eager, false);
    output = eight_bit_product(eager, weight, input);
  }
  if (record.active()) {
    const Tensor kept = torch::detach(eager, input);
    eager.mark_saved(kept);
    record.finish(output, [weight, kept](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return eight_bit_gradients(e, weight, grads, node);
    });
  }
  return output;
}

/// `bias.data = bias.data.to(dtype)`
void cast_for_good(Eager& eager, const Tensor& bias, DType dtype) {
  if (!bias.defined() || bias.dtype() == dtype) {
    return;
  }
  const Tensor cast = eager.empty(bias.shape(), dtype, TensorRole::kParameter);
  eager.move_storage(bias, cast);
  bias->dtype = dtype;
}

}  // namespace

DType four_bit_arithmetic(const ParallelPlan& plan) {
  return autocast_dtype(plan.precision).value_or(param_dtype(plan.precision));
}

QuantisedWeight quantise(Eager& eager, const ParallelPlan& plan, const Tensor& weight,
                         DType storage, Tensor& dynamic_codes) {
  QuantisedWeight result;
  result.shape = weight.shape();
  result.bits = plan.quant->bits;
  result.stored = weight.dtype();
  result.computed = four_bit_arithmetic(plan);
  if (plan.quant->bits == 8) {
    result.factors = state(eager, {weight.shape()[0]}, DType::kFp32);
    result.packed = eager.empty(weight.shape(), DType::kInt8, TensorRole::kParameter);
    result.codes = eager.alias(result.packed, weight.shape(), false);
    return result;
  }
  const std::int64_t elements = weight.elements();
  result.factors = state(eager, {ceil_div(elements, kBlock)}, DType::kFp32);
  const std::int64_t codes_each = static_cast<std::int64_t>(bits_of(storage)) / 4;
  result.packed = eager.empty({ceil_div(elements, codes_each), 1}, storage, TensorRole::kParameter);
  result.codes = four_bit_codes(eager);
  if (plan.quant->double_quant) {
    quantise_factors(eager, result, dynamic_codes);
  }
  return result;
}

Tensor dequantise(Eager& eager, const QuantisedWeight& weight) {
  if (weight.bits == 8) {
    const Tensor scaled = torch::computed(eager, weight.shape, DType::kFp32);
    return torch::computed(eager, weight.shape, DType::kFp32);
  }
  const Tensor factors = wide_factors(eager, weight);
  return torch::computed(eager, weight.shape, weight.stored);
}

Tensor quantised_linear(Eager& eager, const QuantisedWeight& weight, const Tensor& input,
                        const Tensor& bias) {
  if (weight.bits == 8) {
    cast_for_good(eager, bias, input.dtype());
    Tensor output = matmul_eight_bit(eager, weight, input);
    eager.move_storage(weight.packed, weight.codes);  // weight.data = state.CB
    return output;
  }
  const Tensor narrow = torch::to(eager, input, weight.computed);
  cast_for_good(eager, bias, weight.computed);
  Tensor output = matmul_four_bit(eager, weight, narrow, bias);
  return torch::to(eager, output, input.dtype());
}

}  // namespace headroom::ir::transformers
