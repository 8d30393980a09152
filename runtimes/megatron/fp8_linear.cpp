#include "runtimes/megatron/fp8_linear.h"

#include <utility>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/megatron/te_norm.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::megatron {
namespace {

using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;
using torch::Unpacked;

/// What a layer's backward knows from its forward.
struct Layer {
  Shape weight;
  bool gathers = false;   ///< The input is sharded along the sequence and gathered.
  bool scatters = false;  ///< The output is reduce-scattered.
  bool reduces = false;   ///< The gradient of the input is all-reduced.
  bool first = false;     ///< The first FP8 layer of its forward pass.
  KeptInput kept = KeptInput::kCast;
  SavedFp8 saved_weight{};
  SavedFp8 saved_input{};
};

/// FP8 weights stay on the device when a layer is offloaded.
/// Source: pytorch/module/linear.py and layernorm_linear.py, mark_not_offload.
SavedFp8 save_weight(const Runner& run, Record& record, const Fp8Tensor& weight) {
  const SavedAs staying(run.process.layer_offload(), SavedForm::kStaying);
  return {record, weight};
}

ReadScales swizzle(const Runner& run, const Tensor& first, const Tensor& second) {
  if (run.context.megatron.fp8 != MegatronFp8::kMxfp8) {
    return {};
  }
  return {.first = torch::computed(run.eager(), first.shape(), first.dtype(), {&first}),
          .second = torch::computed(run.eager(), second.shape(), second.dtype(), {&second})};
}

Fp8Use forward_use(const Runner& run, bool gathers) {
  const bool rows = !run.eager().grad_enabled() || (gathers && scales_whole_tensor(run));
  return rows ? Fp8Use::kRows : Fp8Use::kBoth;
}

Fp8Tensor gather_rows(const Runner& run, const Fp8Tensor& part) {
  Fp8Tensor whole = gather_fp8(run, part, Fp8Use::kRows, Beside::kInParts);
  if (!scales_whole_tensor(run)) {
    finish_gather(run, whole);
  }
  return whole;
}

/// The product `dims` of 8-bit operands.
GemmShape in_fp8(const Runner& run, GemmShape dims) {
  dims.micro_scaled = run.context.megatron.fp8 == MegatronFp8::kMxfp8;
  return dims;
}

Tensor multiply(const Runner& run, const Fp8Tensor& total, const Fp8Tensor& weight,
                const Layer& layer) {
  const GemmShape dims =
      in_fp8(run, forward_dims(total.rows.shape()[0], layer.weight, DType::kFp8));
  Tensor output = layer.scatters ? gemm_and_scatter(run, dims) : gemm(run, dims);
  const ReadScales scales = swizzle(run, weight.row_scales, total.row_scales);
  return output;
}

/// `through`: the gradient of a product's input, summed over the ranks if the layer is sharded.
/// `product`: the output of the product, whose Python name lives until the function ends.
struct InputGradient {
  Tensor product;
  Tensor through;
};
InputGradient input_gradient(const Runner& run, const Fp8Tensor& gradient, const Fp8Tensor& weight,
                             const Layer& layer) {
  const GemmShape dims =
      in_fp8(run, backward_dims(gradient.rows.shape()[0], layer.weight, DType::kFp8));
  Tensor product = layer.gathers ? shared_gemm(run, dims) : gemm(run, dims);
  { const ReadScales scales = swizzle(run, weight.column_scales, gradient.row_scales); }
  if (layer.gathers) {
    return {.product = product, .through = scatter(run, product, Beside::kInBulk)};
  }
  if (layer.reduces) {
    communicate(run, CollectiveKind::kAllReduce, product);
  }
  return {.product = product, .through = product};
}

WeightGradient weight_gradient_fp8(const Runner& run, const Fp8Tensor& gradient,
                                   const Fp8Tensor& input, const Layer& layer, std::int64_t rows) {
  WeightGradient own =
      weight_gradient(run, in_fp8(run, weight_dims(rows, layer.weight, DType::kFp8)), false);
  const ReadScales scales = swizzle(run, input.column_scales, gradient.column_scales);
  return own;
}

/// The rows of a product whose operand is `tensor`.
std::int64_t rows_of(const Fp8Tensor& tensor) {
  return tensor.rows.shape()[0];
}

/// The gradient of a weight, or nothing if the product is owed.
WeightGradient owed_or_own(const Runner& run, const Fp8Tensor& gradient, const Fp8Tensor& input,
                           const Layer& layer, std::int64_t rows) {
  if (!run.process.owes_weights()) {
    return weight_gradient_fp8(run, gradient, input, layer, rows);
  }
  run.process.run_or_owe([run, gradient, input, layer, rows] {
    static_cast<void>(weight_gradient_fp8(run, gradient, input, layer, rows));
  });
  return {};
}

/// grad_output_preprocess of a layer that is not row-parallel: the gradient in FP8, and the bias's
/// gradient. Delayed scaling and mxfp8 compute the latter while they cast.
struct Incoming {
  Tensor bias;
  Fp8Tensor gradient;
};
Incoming receive(const Runner& run, const Tensor& gradient, bool with_bias) {
  Incoming result;
  const MegatronFp8 recipe = run.context.megatron.fp8;
  const bool fused = recipe == MegatronFp8::kDelayed || recipe == MegatronFp8::kMxfp8;
  const std::int64_t rows = gradient.shape()[0];
  const std::int64_t width = gradient.shape()[1];
  if (with_bias && fused) {
    result.bias = run.eager().empty({width}, gradient.dtype());
  } else if (with_bias) {
    torch::launch(run.eager(), {&gradient});
    result.bias = torch::reduce(run.eager(), {width}, gradient.dtype(),
                                {.outputs = width, .inputs_per_output = rows});
  }
  result.gradient = cast_to_fp8(run, gradient, Fp8Use::kBoth, Fp8Operand::kActivation);
  if (with_bias && fused) {
    // Sums of each tile of rows. Source:
    // transformer_engine/common/transpose/cast_transpose_fusion.cu; cast/mxfp8/quantize_mxfp8.cuh.
    const std::int64_t tile = recipe == MegatronFp8::kDelayed ? 256 : 128;
    const Tensor partial =
        run.eager().empty({ceil_div(rows, tile), width}, DType::kFp32, TensorRole::kWorkspace);
    torch::launch(run.eager(), {&partial, &result.bias});
  }
  return result;
}

Gradients norm_linear_gradients(const Runner& run, Gradients& grads, Node& node,
                                const Layer& layer) {
  const Unpacked saved(run.eager(), node);
  const Tensor& input = saved[0];
  std::size_t next = 1;
  const Fp8Tensor kept = layer.saved_weight.restore(saved, next);
  const Tensor parameter = saved[next];
  next += 2;  // Skips the weights themselves.
  const Fp8Tensor normed = layer.saved_input.restore(saved, next);
  Incoming incoming = receive(run, grads[0], node.wants(NormLinearEdge::kBias));
  const std::int64_t rows = rows_of(incoming.gradient);
  const Fp8Use sent = scales_whole_tensor(run) ? Fp8Use::kRows : Fp8Use::kColumns;
  Fp8Tensor total = layer.gathers ? gather_fp8(run, normed, sent, Beside::kInBulk) : normed;
  const Fp8Tensor weight = weight_with_columns(run, parameter, kept);
  InputGradient inner = input_gradient(run, incoming.gradient, weight, layer);
  if (layer.gathers) {
    finish_gather(run, total);
  }
  const WeightGradient own = owed_or_own(run, incoming.gradient, total, layer, rows);
  if (!run.process.owes_weights()) {
    clear(run, normed);
  }
  if (layer.gathers && !run.process.owes_weights()) {
    clear(run, total);
  }
  Gradients result(NormLinearEdge::kCount);
  NormGradients norm = norm_backward(run, input, node.wants(NormLinearEdge::kNormBias));
  inner.through.reset();
  for (; next < node.saved.size(); ++next) {
    clear(run, saved[next]);  // mu and rsigma.
  }
  result[NormLinearEdge::kInput] = std::move(norm.input);
  result[NormLinearEdge::kNormWeight] = std::move(norm.weight);
  result[NormLinearEdge::kNormBias] = std::move(norm.bias);
  result[NormLinearEdge::kWeight] = finish_weight(run, own.weight, layer.weight);
  result[NormLinearEdge::kBias] = std::move(incoming.bias);
  return result;
}

}  // namespace

Tensor fp8_norm_linear(const Runner& run, const Tensor& input, const NormWeights& norm,
                       const LinearWeights& linear) {
  Layer layer{.weight = linear.weight.shape(),
              .gathers = run.context.sequence_parallel(),
              .reduces = run.context.grid.tensor.size > 1};
  run.process.touch_fp8_state(linear.weight, Process::linear_casts(1));
  layer.first = run.process.begins_fp8(linear.weight);
  Record record(run.eager(), {&input, &norm.weight, &norm.bias, &linear.weight, &linear.bias});
  Fp8NormOutput normed =
      norm_forward_fp8(run, input, norm, forward_use(run, layer.gathers),
                       layer.gathers ? Fp8Operand::kGathered : Fp8Operand::kActivation);
  Fp8Tensor total = layer.gathers ? gather_fp8(run, normed.output, Fp8Use::kRows, Beside::kInParts)
                                  : normed.output;
  const Fp8Use use = run.eager().grad_enabled() ? Fp8Use::kBoth : Fp8Use::kRows;
  const Fp8Tensor weight = fp8_weight(run, linear.weight, use);
  Tensor output = multiply(run, total, weight, layer);
  total = {};
  if (record.active()) {
    if (!layer.gathers || !scales_whole_tensor(run)) {
      keep_columns(normed.output);
    }
    record.save(input);
    layer.saved_weight = save_weight(run, record, weight);
    record.save(linear.weight);
    record.save(norm.weight);
    layer.saved_input = SavedFp8(record, normed.output);
    record.save(normed.mean);
    record.save(normed.deviation);
    record.finish(output, [run, layer](torch::Eager&, Gradients& grads, Node& node) -> Gradients {
      Gradients result = norm_linear_gradients(run, grads, node, layer);
      if (layer.first) {
        run.process.reduce_fp8_scales(false);
      }
      return result;
    });
  }
  return output;
}

namespace {

/// The gradient that a row-parallel layer receives under sequence parallelism: cast and gathered.
Fp8Tensor receive_cut(const Runner& run, const Tensor& gradient) {
  const Fp8Use own = scales_whole_tensor(run) ? Fp8Use::kRows : Fp8Use::kBoth;
  const Fp8Tensor part = cast_to_fp8(run, gradient, own, Fp8Operand::kGathered);
  Fp8Tensor whole = gather_fp8(run, part, Fp8Use::kBoth, Beside::kInParts);
  finish_gather(run, whole);
  return whole;
}

/// This rank's input in the form that the product for the weight's gradient reads.
Fp8Tensor kept_input(const Runner& run, const Unpacked& saved, std::size_t next,
                     const Layer& layer) {
  if (layer.kept == KeptInput::kCast) {
    return layer.saved_input.restore(saved, next);
  }
  Fp8Use use = Fp8Use::kColumns;
  if (scales_whole_tensor(run)) {
    use = layer.gathers ? Fp8Use::kRows : Fp8Use::kBoth;
  }
  return cast_to_fp8(run, saved[next], use,
                     layer.gathers ? Fp8Operand::kGathered : Fp8Operand::kActivation);
}

Gradients linear_gradients(const Runner& run, Gradients& grads, Node& node, const Layer& layer) {
  const Unpacked saved(run.eager(), node);
  std::size_t next = 1;
  const Fp8Tensor kept = layer.saved_weight.restore(saved, next);
  const Fp8Tensor gradient =
      layer.scatters ? receive_cut(run, grads[0])
                     : cast_to_fp8(run, grads[0], Fp8Use::kBoth, Fp8Operand::kActivation);
  const Fp8Tensor input = kept_input(run, saved, next, layer);
  const Fp8Use sent = scales_whole_tensor(run) ? Fp8Use::kRows : Fp8Use::kColumns;
  Fp8Tensor total = layer.gathers ? gather_fp8(run, input, sent, Beside::kInBulk) : input;
  const Fp8Tensor weight = weight_with_columns(run, saved[0], kept);
  const InputGradient inner = input_gradient(run, gradient, weight, layer);
  if (layer.gathers) {
    finish_gather(run, total);
  }
  const bool owed = run.process.owes_weights();
  const WeightGradient own = owed_or_own(run, gradient, total, layer, rows_of(gradient));
  if ((layer.kept == KeptInput::kCast || layer.gathers) && !owed) {
    clear(run, total);
  }
  if (layer.scatters && !owed) {
    clear(run, gradient);
  }
  Gradients result(2);
  result[0] = finish_weight(run, own.weight, layer.weight);
  result[1] = run.eager().alias(inner.through, node.input_shapes[1], true);
  return result;
}

}  // namespace

Tensor fp8_linear(const Runner& run, const Tensor& input, const Tensor& weight, Cut cut,
                  KeptInput kept) {
  const bool sequence = run.context.sequence_parallel();
  const bool cut_ranks = run.context.grid.tensor.size > 1;
  const bool original =
      kept == KeptInput::kOriginal && run.context.megatron.fp8 != MegatronFp8::kDelayed;
  Layer layer{.weight = weight.shape(),
              .gathers = cut == Cut::kColumn && sequence,
              .scatters = cut == Cut::kRow && sequence,
              .reduces = cut == Cut::kColumn && cut_ranks,
              .kept = original ? KeptInput::kOriginal : KeptInput::kCast};
  run.process.touch_fp8_state(weight, Process::linear_casts(1));
  layer.first = run.process.begins_fp8(weight);
  Record record(run.eager(), {&weight, &input});
  Fp8Tensor own =
      cast_to_fp8(run, input, original ? Fp8Use::kRows : forward_use(run, layer.gathers),
                  layer.gathers ? Fp8Operand::kGathered : Fp8Operand::kActivation);
  Fp8Tensor total = layer.gathers ? gather_rows(run, own) : own;
  const Fp8Tensor cast = fp8_weight(run, weight, weight_use(run));
  Tensor output = multiply(run, total, cast, layer);
  total = {};
  if (cut == Cut::kRow && cut_ranks && !sequence) {
    communicate(run, CollectiveKind::kAllReduce, output);
  }
  if (record.active()) {
    if (!layer.gathers || !scales_whole_tensor(run)) {
      keep_columns(own);
    }
    record.save(weight);
    layer.saved_weight = save_weight(run, record, cast);
    if (original) {
      record.save(input);
    } else {
      layer.saved_input = SavedFp8(record, own);
    }
    record.finish(output, [run, layer](torch::Eager&, Gradients& grads, Node& node) -> Gradients {
      Gradients result = linear_gradients(run, grads, node, layer);
      if (layer.first) {
        run.process.reduce_fp8_scales(false);
      }
      return result;
    });
  }
  return output;
}

}  // namespace headroom::ir::megatron
