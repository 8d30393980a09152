#include "runtimes/megatron/fp8_tensor.h"

#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

bool wants_rows(Fp8Use use) {
  return use != Fp8Use::kColumns;
}
bool wants_columns(Fp8Use use) {
  return use != Fp8Use::kRows;
}

Shape transposed(const Shape& shape) {
  return {shape[1], shape[0]};
}

/// The shape and the type of the scales of one direction.
struct Scales {
  Shape shape;
  DType dtype = DType::kFp32;
};

/// get_scale_shape of Float8BlockQuantizer: one scale for 128 elements along a row of an
/// activation, one for 128 x 128 elements of a weight.
Scales block_scales(std::int64_t rows, std::int64_t columns, Fp8Operand operand) {
  constexpr std::int64_t kBlock = 128;
  constexpr std::int64_t kAligned = 4;
  const std::int64_t across = ceil_div(columns, kBlock);
  switch (operand) {
    case Fp8Operand::kWeight:
      return {.shape = {ceil_div(rows, kBlock), align_up(across, kAligned)}};
    case Fp8Operand::kGathered:
      return {.shape = {across, rows}};
    case Fp8Operand::kActivation:
      break;
  }
  return {.shape = {across, align_up(rows, kAligned)}};
}

/// get_scale_shape of MXFP8Quantizer: one byte for 32 elements, padded to tiles of 128 x 4.
Scales micro_scales(std::int64_t along, std::int64_t across) {
  constexpr std::int64_t kBlock = 32;
  return {.shape = {align_up(along, 128), align_up(across / kBlock, 4)}, .dtype = DType::kUInt8};
}

Scales row_scales(const Runner& run, const Shape& shape, Fp8Operand operand) {
  return run.context.megatron.fp8 == MegatronFp8::kMxfp8
             ? micro_scales(shape[0], shape[1])
             : block_scales(shape[0], shape[1], operand);
}

Scales column_scales(const Runner& run, const Shape& shape, Fp8Operand operand) {
  return run.context.megatron.fp8 == MegatronFp8::kMxfp8
             ? micro_scales(shape[1], shape[0])
             : block_scales(shape[1], shape[0], operand);
}

Tensor make_scales(const Runner& run, const Scales& scales) {
  return run.eager().empty(scales.shape, scales.dtype);
}

/// Allocates a tensor with block scales.
Fp8Tensor empty_blocks(const Runner& run, const Shape& shape, Fp8Use use, Fp8Operand operand) {
  Eager& eager = run.eager();
  Fp8Tensor result;
  if (wants_rows(use)) {
    result.rows = eager.empty(shape, DType::kFp8);
    result.row_scales = make_scales(run, row_scales(run, shape, operand));
  }
  if (wants_columns(use)) {
    // Only 1 x 128 scales need column-wise data that are stored transposed.
    const bool turned =
        run.context.megatron.fp8 == MegatronFp8::kBlockwise && operand != Fp8Operand::kGathered;
    result.columns = eager.empty(turned ? transposed(shape) : shape, DType::kFp8);
    result.column_scales = make_scales(run, column_scales(run, shape, operand));
  }
  return result;
}

void all_gather(const Runner& run, const Tensor& part, const Tensor& whole, Beside beside) {
  if (part.defined() && whole.defined()) {
    communicate(run, CollectiveKind::kAllGather, whole, beside);
  }
}

/// A transposed copy of row-wise data.
Tensor transpose(const Runner& run, const Tensor& rows) {
  return torch::computed(run.eager(), transposed(rows.shape()), rows.dtype(), {&rows});
}

}  // namespace

bool scales_whole_tensor(const Runner& run) {
  const MegatronFp8 recipe = run.context.megatron.fp8;
  return recipe == MegatronFp8::kDelayed || recipe == MegatronFp8::kTensorwise;
}

bool reads_both_ways(const Runner& run) {
  const int major = run.eager().device().compute_major;
  return major >= 10 && major != 12;
}

Fp8Tensor empty_fp8(const Runner& run, const Shape& shape, Fp8Use use, Fp8Operand operand) {
  if (!scales_whole_tensor(run)) {
    return empty_blocks(run, shape, use, operand);
  }
  Eager& eager = run.eager();
  const bool delayed = run.context.megatron.fp8 == MegatronFp8::kDelayed;
  Fp8Tensor result;
  if (delayed) {
    result.row_scales = eager.empty({1}, DType::kFp32);
  }
  if (wants_rows(use) || reads_both_ways(run)) {
    result.rows = eager.empty(shape, DType::kFp8);
  }
  if (wants_columns(use) && !reads_both_ways(run)) {
    result.columns = eager.empty(transposed(shape), DType::kFp8);
  }
  if (!delayed) {
    result.row_scales = eager.empty({1}, DType::kFp32);
  }
  return result;
}

std::int64_t fp8_scale_bytes(const Runner& run, const Shape& shape, Fp8Use side,
                             Fp8Operand operand) {
  const Scales scales = side == Fp8Use::kColumns ? column_scales(run, shape, operand)
                                                 : row_scales(run, shape, operand);
  return bytes_of(scales.shape.elements(), scales.dtype).value();
}

void launch_cast(const Runner& run, const Tensor& input, const Fp8Tensor& result,
                 Fp8Operand operand, bool known) {
  Eager& eager = run.eager();
  if (run.context.megatron.fp8 == MegatronFp8::kTensorwise) {
    torch::launch(eager, {&result.row_scales});  // Zeroed: common/common.cu, nvte_memset.
    if (!known) {
      torch::launch(eager, {&input});  // Finds the absolute maximum (amax).
    }
    if (operand == Fp8Operand::kGathered) {
      // Reduces it over all ranks' parts.
      communicate(run, CollectiveKind::kAllReduce, result.row_scales);
    }
    torch::launch(eager, {&result.row_scales});
  }
  torch::launch(eager,
                {&input, &result.rows, &result.columns, &result.row_scales, &result.column_scales});
}

Fp8Tensor cast_to_fp8(const Runner& run, const Tensor& input, Fp8Use use, Fp8Operand operand) {
  Fp8Tensor result = empty_fp8(run, input.shape(), use, operand);
  launch_cast(run, input, result, operand, false);
  return result;
}

SavedFp8::SavedFp8(torch::Record& record, const Fp8Tensor& tensor)
    : rows_(tensor.rows.defined()),
      row_scales_(tensor.row_scales.defined()),
      columns_(tensor.columns.defined()),
      column_scales_(tensor.column_scales.defined()) {
  for (const Tensor* const part :
       {&tensor.rows, &tensor.row_scales, &tensor.columns, &tensor.column_scales}) {
    record.save(*part);
  }
}

Fp8Tensor SavedFp8::restore(const torch::Unpacked& saved, std::size_t& next) const {
  const auto take = [&](bool there) { return there ? saved[next++] : Tensor{}; };
  Fp8Tensor tensor;
  tensor.rows = take(rows_);
  tensor.row_scales = take(row_scales_);
  tensor.columns = take(columns_);
  tensor.column_scales = take(column_scales_);
  return tensor;
}

void keep_columns(Fp8Tensor& tensor) {
  if (!tensor.columns.defined()) {
    return;  // Column-wise products read the row-wise data, too.
  }
  tensor.rows.reset();
  if (tensor.column_scales.defined()) {
    tensor.row_scales.reset();
  }
}

void clear(const Runner& run, const Fp8Tensor& tensor) {
  for (const Tensor* const each : {&tensor.rows, &tensor.columns}) {
    if (each->defined()) {
      clear(run, *each);
    }
  }
  if (!scales_whole_tensor(run)) {
    for (const Tensor* const each : {&tensor.row_scales, &tensor.column_scales}) {
      if (each->defined()) {
        clear(run, *each);
      }
    }
  }
}

Fp8Tensor gather_fp8(const Runner& run, const Fp8Tensor& part, Fp8Use use, Beside beside) {
  Eager& eager = run.eager();
  const Shape& shape = part.rows.defined() ? part.rows.shape() : part.columns.shape();
  const Shape whole = shape.with(0, shape[0] * run.context.grid.tensor.size);
  Fp8Tensor result;
  if (scales_whole_tensor(run)) {
    // Python allocates both, whatever the products need. The row-wise data are gathered and
    // transposed afterwards.
    result.rows = shared_buffer(run, whole, DType::kFp8);
    if (wants_columns(use)) {
      result.columns = eager.empty(transposed(whole), DType::kFp8);
    }
    { const Tensor scale = eager.empty({1}, DType::kFp32); }
    result.row_scales = part.row_scales;
    all_gather(run, part.rows, result.rows, beside);
    return result;
  }
  result = empty_blocks(run, whole, use, Fp8Operand::kGathered);
  all_gather(run, part.row_scales, result.row_scales, beside);
  all_gather(run, part.rows, result.rows, beside);
  all_gather(run, part.column_scales, result.column_scales, beside);
  all_gather(run, part.columns, result.columns, beside);
  return result;
}

void finish_gather(const Runner& run, Fp8Tensor& whole) {
  if (scales_whole_tensor(run)) {
    if (reads_both_ways(run)) {
      return;
    }
    if (whole.columns.defined()) {
      torch::launch(run.eager(), {&whole.rows, &whole.columns});
    } else {
      whole.columns = transpose(run, whole.rows);
    }
  } else if (run.context.megatron.fp8 == MegatronFp8::kBlockwise) {
    if (whole.columns.defined()) {
      whole.columns = transpose(run, whole.columns);
    }
    if (whole.row_scales.defined()) {
      whole.row_scales = transpose(run, whole.row_scales);
    }
  }
}

Fp8Tensor fp8_weight(const Runner& run, const Tensor& weight, Fp8Use use) {
  Process::Fp8Weight& kept = run.process.fp8_weight(weight);
  if (kept.held) {
    if (!kept.current) {
      refresh_weight(run, weight);
    }
    return kept.tensor;
  }
  const bool blocks = run.context.megatron.fp8 == MegatronFp8::kBlockwise;
  const bool lacks_columns = use == Fp8Use::kBoth && !kept.tensor.columns.defined() &&
                             !(scales_whole_tensor(run) && reads_both_ways(run));
  Eager& eager = run.eager();
  const TensorRole role = eager.role();
  eager.set_role(TensorRole::kBuffer);
  if (!kept.tensor.rows.defined() || (lacks_columns && !blocks)) {
    kept.tensor = cast_to_fp8(run, weight, use, Fp8Operand::kWeight);
  } else if (!kept.current) {
    if (blocks && use == Fp8Use::kRows) {
      kept.tensor.columns.reset();
      kept.tensor.column_scales.reset();
    }
    launch_cast(run, weight, kept.tensor, Fp8Operand::kWeight, false);
  }
  eager.set_role(role);
  kept.current = true;
  return kept.tensor;
}

void refresh_weight(const Runner& run, const Tensor& weight) {
  Process::Fp8Weight& held = run.process.fp8_weight(weight);
  const Fp8Tensor& tensor = held.tensor;
  if (run.context.megatron.fp8 == MegatronFp8::kMxfp8) {
    launch_cast(run, weight, tensor, Fp8Operand::kWeight, true);
  } else if (tensor.columns.defined()) {
    torch::launch(run.eager(), {&tensor.rows, &tensor.columns});
    if (tensor.column_scales.defined()) {
      torch::launch(run.eager(), {&tensor.row_scales, &tensor.column_scales});
    }
  }
  held.current = true;
}

Fp8Use weight_use(const Runner& run) {
  const MegatronRecompute recompute = run.context.megatron.recompute;
  const bool whole =
      recompute == MegatronRecompute::kFullUniform || recompute == MegatronRecompute::kFullBlock;
  return run.eager().grad_enabled() || !whole ? Fp8Use::kBoth : Fp8Use::kRows;
}

Fp8Tensor weight_with_columns(const Runner& run, const Tensor& weight, const Fp8Tensor& kept) {
  if (run.context.megatron.fp8 != MegatronFp8::kBlockwise || kept.columns.defined()) {
    return kept;
  }
  Eager& eager = run.eager();
  const TensorRole role = eager.role();
  eager.set_role(TensorRole::kBuffer);
  Fp8Tensor& own = run.process.fp8_weight(weight).tensor;
  if (!own.columns.defined()) {
    own.columns = transpose(run, own.rows);
    own.column_scales = make_scales(run, column_scales(run, weight.shape(), Fp8Operand::kWeight));
  }
  eager.set_role(role);
  return own;
}

}  // namespace headroom::ir::megatron
