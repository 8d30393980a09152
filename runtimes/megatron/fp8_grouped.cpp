#include "runtimes/megatron/fp8_grouped.h"

#include <cstdint>
#include <utility>

#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/te_gemm.h"
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

/// FP8 tensors of all experts' rows. If each tensor has one scale, there is one tensor per expert.
/// Otherwise there is one buffer for the row-wise data of all experts with their scales, and one
/// for the column-wise data.
using Group = std::vector<Fp8Tensor>;

/// bulk_allocate_fp8_blockwise_tensors and bulk_allocate_mxfp8_tensors: data start at multiples of
/// 256 bytes, and the scales after them at multiples of 16 bytes.
std::int64_t buffer_bytes(const std::vector<std::int64_t>& rows, std::int64_t width,
                          const std::vector<std::int64_t>& scales) {
  constexpr std::int64_t kData = 256;
  constexpr std::int64_t kScales = 16;
  std::int64_t bytes = 0;
  for (const std::int64_t each : rows) {
    bytes = align_up(bytes, kData) + each * width;
  }
  for (const std::int64_t each : scales) {
    bytes = align_up(bytes, kScales) + each;
  }
  return bytes;
}

/// Bytes of each expert's row-wise or column-wise scales.
std::vector<std::int64_t> scale_bytes(const Runner& run, const std::vector<std::int64_t>& rows,
                                      std::int64_t width, Fp8Use side) {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t each : rows) {
    bytes.push_back(fp8_scale_bytes(run, {each, width}, side, Fp8Operand::kActivation));
  }
  return bytes;
}

/// What the products of all experts have in common.
struct Experts {
  std::vector<std::int64_t> rows;  ///< Rows of each expert.
  Shape weight;                    ///< Shape of each expert's weight.
  std::int64_t total = 0;
  KeptInput kept = KeptInput::kCast;
  std::vector<SavedFp8> saved_inputs{};

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

/// The number of tensors that an FP8 tensor consists of, each of which the host makes.
std::size_t parts_of(const Fp8Tensor& tensor) {
  std::size_t parts = 0;
  for (const Tensor* const part :
       {&tensor.rows, &tensor.row_scales, &tensor.columns, &tensor.column_scales}) {
    parts += static_cast<std::size_t>(part->defined());
  }
  return parts;
}

/// Whether the product takes the hidden state, not the activation.
bool takes_hidden(const Runner& run, const Experts& experts) {
  return experts.weight[1] == run.context.spec.hidden;
}

/// Launches the casts of all experts. With fused products, one kernel casts what comes from outside
/// of the experts; the products cast everything else.
/// Source: transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py and backward_grouped_mlp.py.
void launch_casts(const Runner& run, std::int64_t bytes, std::size_t tensors,
                  const Experts& experts, bool from_outside) {
  Eager& eager = run.eager();
  if (run.context.megatron.fused_experts) {
    if (from_outside) {
      torch::launch_kernels(eager, bytes, 1);
    }
    return;
  }
  eager.begin_loop(tensors);
  torch::launch_kernels(eager, bytes, experts.count());
  eager.end_loop();
}

/// tex.split_quantize. `from_outside`: the input is not computed by a product of these experts.
Group cast_group(const Runner& run, const Tensor& input, const Experts& experts, Fp8Use use,
                 bool from_outside) {
  Eager& eager = run.eager();
  const std::int64_t width = input.shape()[1];
  Group group;
  if (scales_whole_tensor(run)) {
    for (const std::int64_t rows : experts.rows) {
      group.push_back(empty_fp8(run, {rows, width}, use, Fp8Operand::kActivation));
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      eager.begin_loop(parts_of(group[i]));
      const Tensor own = eager.alias(input, {experts.rows[i], width}, false);
      launch_cast(run, own, group[i], Fp8Operand::kActivation, false);
    }
    eager.end_loop();
    return group;
  }
  Fp8Tensor all;
  const auto buffer = [&](Fp8Use side) {
    const std::vector<std::int64_t> scales = scale_bytes(run, experts.rows, width, side);
    return eager.empty({buffer_bytes(experts.rows, width, scales)}, DType::kUInt8);
  };
  if (use != Fp8Use::kColumns) {
    all.rows = buffer(Fp8Use::kRows);
  }
  if (use != Fp8Use::kRows) {
    all.columns = buffer(Fp8Use::kColumns);
  }
  launch_casts(run,
               torch::bytes_of(input) + torch::bytes_of(all.rows) + torch::bytes_of(all.columns),
               experts.rows.size() * 2 * parts_of(all),  // Data and scales.
               experts, from_outside);
  group.push_back(std::move(all));
  return group;
}

/// multi_tensor_swizzle_scaling_factors, whose buffers live while a product runs: one for the
/// scales of the weights and one for those of the other operand. Fused products take scales that
/// the casts have already swizzled.
Tensor swizzle_all(const Runner& run, const std::vector<std::int64_t>& scales) {
  if (run.context.megatron.fp8 != MegatronFp8::kMxfp8 || run.context.megatron.fused_experts) {
    return {};
  }
  Tensor buffer = run.eager().empty({buffer_bytes({}, 0, scales)}, DType::kUInt8);
  torch::launch(run.eager(), {&buffer, &buffer});
  return buffer;
}

std::vector<std::int64_t> weight_scales(const Runner& run, const Experts& experts, Fp8Use side) {
  return std::vector<std::int64_t>(experts.rows.size(),
                                   fp8_scale_bytes(run, experts.weight, side, Fp8Operand::kWeight));
}

void run_products(const Runner& run, const Experts& experts, GemmShape all) {
  all.count = experts.count();
  all.dtype = DType::kFp8;
  all.micro_scaled = run.context.megatron.fp8 == MegatronFp8::kMxfp8;
  all.batch = run.context.megatron.fused_experts ? GemmBatch::kGrouped : GemmBatch::kSeries;
  run.process.touch_grouped_workspaces();
  run_per_expert(run.eager(), all);
}

Tensor output_gradient(const Runner& run, const Experts& experts, DType dtype) {
  const std::int64_t out = experts.weight[0];
  const std::int64_t in = experts.weight[1];
  Tensor result = run.eager().empty({experts.total, in}, dtype);
  const ReadScales scales{swizzle_all(run, weight_scales(run, experts, Fp8Use::kColumns)),
                          swizzle_all(run, scale_bytes(run, experts.rows, out, Fp8Use::kRows))};
  run_products(run, experts, {.m = experts.total, .n = in, .k = out, .layout = GemmLayout::kNN});
  return result;
}

void run_weight_gradients(const Runner& run, const Experts& experts) {
  const std::int64_t out = experts.weight[0];
  const std::int64_t in = experts.weight[1];
  const ReadScales scales{swizzle_all(run, scale_bytes(run, experts.rows, in, Fp8Use::kColumns)),
                          swizzle_all(run, scale_bytes(run, experts.rows, out, Fp8Use::kColumns))};
  run_products(run, experts,
               {.m = out,
                .n = in,
                .k = experts.total,
                .layout = GemmLayout::kNT,
                .accumulate = run.context.megatron.accumulation_fusion});
}

Gradients grouped_gradients(const Runner& run, Gradients& grads, Node& node,
                            const Experts& experts) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  Gradients result(node.next.size());
  const Group gradient =
      cast_group(run, grads[0], experts, Fp8Use::kBoth, !takes_hidden(run, experts));
  result[0] = output_gradient(run, experts, grads[0].dtype());
  const bool fused = run.context.megatron.accumulation_fusion;
  for (std::size_t i = 1; i < result.size() && !fused; ++i) {
    result[i] = eager.empty(experts.weight, grads[0].dtype(), TensorRole::kGradient);
  }
  std::size_t next = 0;
  Group inputs;
  for (const SavedFp8& part : experts.saved_inputs) {
    inputs.push_back(part.restore(saved, next));
  }
  if (experts.kept == KeptInput::kOriginal) {
    inputs = cast_group(run, saved[0], experts,
                        scales_whole_tensor(run) ? Fp8Use::kBoth : Fp8Use::kColumns,
                        takes_hidden(run, experts));
  }
  const bool owed = run.process.owes_weights();
  run.process.run_or_owe([run, experts, inputs, gradient] { run_weight_gradients(run, experts); });
  for (const Fp8Tensor& part : inputs) {
    if (!owed) {
      clear(run, part);
    }
  }
  for (std::size_t i = 1; i < result.size() && fused; ++i) {
    result[i] = run.process.dummy_gradient(experts.weight);
  }
  return result;
}

}  // namespace

Tensor fp8_grouped_linear(const Runner& run, const Tensor& input,
                          const std::vector<Tensor>& weights, KeptInput kept) {
  Eager& eager = run.eager();
  const bool original =
      kept == KeptInput::kOriginal && run.context.megatron.fp8 != MegatronFp8::kDelayed;
  Experts experts{.rows = expert_rows(input.shape()[0], weights.size(), padded_unit(run)),
                  .weight = weights.front().shape(),
                  .total = input.shape()[0],
                  .kept = original ? KeptInput::kOriginal : KeptInput::kCast};
  run.process.touch_fp8_state(weights.front(),
                              Process::linear_casts(static_cast<int>(weights.size())));
  std::vector<Tensor> edges{input};
  edges.insert(edges.end(), weights.begin(), weights.end());
  Record record(eager, edges);
  Group parts = cast_group(run, input, experts,
                           original || !eager.grad_enabled() ? Fp8Use::kRows : Fp8Use::kBoth,
                           takes_hidden(run, experts));
  std::vector<Fp8Tensor> casts;
  for (const Tensor& weight : weights) {
    casts.push_back(fp8_weight(run, weight, weight_use(run)));
  }
  Tensor output = eager.empty({experts.total, experts.weight[0]}, input.dtype());
  {
    const ReadScales scales{
        swizzle_all(run, weight_scales(run, experts, Fp8Use::kRows)),
        swizzle_all(run, scale_bytes(run, experts.rows, input.shape()[1], Fp8Use::kRows))};
    run_products(run, experts,
                 {.m = experts.total, .n = experts.weight[0], .k = experts.weight[1]});
  }
  if (record.active()) {
    if (original) {
      record.save(input);
    }
    for (std::size_t i = 0; i < parts.size() && !original; ++i) {
      keep_columns(parts[i]);
      experts.saved_inputs.emplace_back(record, parts[i]);
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const SavedAs staying(run.process.layer_offload(), SavedForm::kStaying);
      static_cast<void>(SavedFp8(record, casts[i]));
      record.save(weights[i]);
    }
  }
  record.finish(output, [run, experts](Eager&, Gradients& grads, Node& node) -> Gradients {
    return grouped_gradients(run, grads, node, experts);
  });
  return output;
}

}  // namespace headroom::ir::megatron
