#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/split_reduction.h"

namespace headroom::ir::torch {
namespace {

/// Largest number of rows that torch.sort handles in one block.
/// Source: aten/src/ATen/native/cuda/Sort.cpp, should_use_small_sort.
constexpr std::int64_t kSmallSort = 4096;
/// Kernels of a sort of 64-bit keys and of a small one, including the range that is sorted with the
/// keys.
/// Source: observed on PyTorch 2.11.
constexpr std::int64_t kSortKernels = 11;
constexpr std::int64_t kSmallSortKernels = 2;
/// Items per block of cub's radix sort if there is only one block.
constexpr std::int64_t kSingleTile = 2304;
/// cub::DeviceScan of up to some thousand 32-bit and 64-bit integers.
/// Source: observed on PyTorch 2.11.
constexpr std::int64_t kScanBytes = 1023;
constexpr std::int64_t kWideScanBytes = 1279;

std::int64_t tile_items(const DeviceTraits& device) {
  return device.compute_major >= 9 ? 384 * 12 : 384 * 10;
}

/// For each further indexed dim: wrap from the end, multiply by the stride, and add.
constexpr std::int64_t kKernelsPerIndex = 3;

/// Indices in the type that kernels need: int64.
Tensor widened(Eager& eager, const Tensor& index) {
  return index.dtype() == DType::kInt64 ? index
                                        : computed(eager, index.shape(), DType::kInt64, {&index});
}

/// Sums the rows of a gradient into `rows` rows: computes linear indices from the indices of `dims`
/// dims and sorts them with their origins.
void scatter_rows(Eager& eager, const Tensor& gradient, std::int64_t items, std::int64_t rows,
                  int dims = 1, Tensor wide = {}) {
  const auto ids = [&] { return eager.empty({items}, DType::kInt64, TensorRole::kWorkspace); };
  Tensor linear = ids();
  { const Tensor product = ids(); }
  wide.reset();  // Indices that had to be widened.
  for (int dim = 1; dim < dims; ++dim) {
    const Tensor further = ids();
    linear = ids();  // The sum.
  }
  const Tensor sorted = ids();
  const Tensor origins = ids();
  const Tensor range = ids();
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows - 1)));
  const Tensor scratch = eager.empty({radix_sort_bytes(items, bits, eager.device())}, DType::kUInt8,
                                     TensorRole::kWorkspace);
  // The linear index; a sort (a pass per 8 bits unless one block does it); the sums.
  // Source: observed on PyTorch 2.11.
  const std::int64_t kernels =
      (items <= kSingleTile ? 6 : 7 + ceil_div(bits, 8)) + kKernelsPerIndex * (dims - 1);
  launch_kernels(eager, 2 * bytes_of(gradient), kernels);
}

}  // namespace

std::int64_t radix_sort_bytes(std::int64_t items, int bits, const DeviceTraits& device) {
  if (items <= kSingleTile) {
    return 1;
  }
  const std::int64_t passes = ceil_div(bits, 8);
  const auto aligned = [](std::int64_t bytes) { return align_up(bytes, 256); };
  std::int64_t bytes = passes * 256 * 8 + ceil_div(items, tile_items(device)) * 256 * 4;
  if (passes > 1) {
    bytes += 2 * aligned(items * 8);
  }
  return bytes + aligned(passes * 4) + 255;
}

Sorted sort_ids(Eager& eager, const Tensor& ids) {
  const std::int64_t items = ids.elements();
  Sorted sorted;
  sorted.values = eager.empty({items}, DType::kInt64);
  sorted.indices = eager.empty({items}, DType::kInt64);
  const Tensor range = eager.empty({items}, DType::kInt64, TensorRole::kWorkspace);
  if (items > kSmallSort) {
    const Tensor scratch = eager.empty({radix_sort_bytes(items, 64, eager.device())}, DType::kUInt8,
                                       TensorRole::kWorkspace);
    launch_kernels(eager, 4 * bytes_of(sorted.values), kSortKernels);
  } else {
    launch_kernels(eager, 4 * bytes_of(sorted.values), kSmallSortKernels);
  }
  return sorted;
}

Tensor gather_rows(Eager& eager, const Tensor& input, const Tensor& index) {
  Record record(eager, {&input});
  record.save(index);
  const Tensor wide = widened(eager, index);
  Tensor output = computed(eager, input.shape().with(0, index.elements()), input.dtype());
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = filled(e, node.input_shapes[0], grads[0].dtype());
      scatter_rows(e, grads[0], saved.elements(), node.input_shapes[0][0], 1,
                   saved.dtype() == DType::kInt64 ? Tensor{} : widened(e, saved));
      return {gradient};
    });
  }
  return output;
}

Tensor put_rows(Eager& eager, const Tensor& target, const Tensor& index, const Tensor& values) {
  Record record(eager, {&values});
  record.save(index);
  Tensor output = eager.alias(target, target.shape(), false);
  {
    const Tensor wide = widened(eager, index);
    launch(eager, {&values, &values});
  }
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      const Tensor wide = widened(e, saved);
      return {computed(e, node.input_shapes[0], grads[0].dtype())};
    });
  }
  return output;
}

Tensor append_zero_row(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  const Tensor row = filled(eager, {shape[1]}, input.dtype());
  Tensor output = computed(eager, shape.with(0, shape[0] + 1), input.dtype(), {&input});
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {e.alias(grads[0], shape, true)};
    });
  }
  return output;
}

Tensor first_rows(Eager& eager, const Tensor& input, std::int64_t rows) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape().with(0, rows), true);
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      Tensor whole = filled(e, node.input_shapes[0], grads[0].dtype());
      launch(e, {&grads[0], &grads[0]});
      return {whole};
    });
  }
  return output;
}

Tensor gather_tokens(Eager& eager, const Tensor& input, const Tensor& row, const Tensor& token) {
  Record record(eager, {&input});
  record.save(row);
  record.save(token);
  const Shape& shape = input.shape();
  const std::int64_t pairs = row.elements();
  Tensor output =
      computed(eager, shape.rank() == 2 ? Shape{pairs} : Shape{pairs, shape[2]}, input.dtype());
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      const Shape& whole = node.input_shapes[0];
      Tensor gradient = filled(e, whole, grads[0].dtype());
      scatter_rows(e, grads[0], saved[0].elements(), whole[0] * whole[1], 2);
      return {gradient};
    });
  }
  return output;
}

namespace {

/// A zero tensor of the input's shape into which the gradient is scattered.
Gradients scattered(Eager& eager, Gradients& grads, Node& node) {
  const Tensor saved = node.saved[0].unpack(eager);
  Tensor gradient = filled(eager, node.input_shapes[0], grads[0].dtype());
  launch(eager, {&grads[0], &saved, &grads[0]});
  return {std::move(gradient)};
}

}  // namespace

Tensor gather_last(Eager& eager, const Tensor& input, const Tensor& index) {
  Record record(eager, {&input});
  record.save(index);
  Tensor output = computed(eager, index.shape(), input.dtype());
  record.finish(output, scattered);
  return output;
}

TopK top_k(Eager& eager, const Tensor& input, std::int64_t k) {
  Record record(eager, {&input});
  const Shape shape = input.shape().with(-1, k);
  TopK result;
  result.values = eager.empty(shape, input.dtype());
  result.indices = eager.empty(shape, DType::kInt64);
  // Select the largest and, if there are several, sort them.
  launch_kernels(eager, bytes_of(input), k > 1 ? 2 : 1);
  record.save(result.indices);
  record.finish(result.values, scattered);
  return result;
}

namespace {

/// grad.masked_fill(mask, 0)
Gradients unmasked(Eager& eager, Gradients& grads, Node& node) {
  const Tensor saved = node.saved[0].unpack(eager);
  return {computed(eager, grads[0].shape(), grads[0].dtype(), {&grads[0], &saved})};
}

}  // namespace

Tensor masked_fill(Eager& eager, const Tensor& input, const Tensor& mask) {
  Record record(eager, {&input});
  record.save(mask);
  Tensor output = computed(eager, input.shape(), input.dtype(), {&input, &mask});
  record.finish(output, unmasked);
  return output;
}

Tensor masked_fill_in_place(Eager& eager, const Tensor& input, const Tensor& mask) {
  Record record(eager, {&input});
  record.save(mask);
  Tensor output = eager.alias(input, input.shape(), false);
  launch(eager, {&input, &mask, &input});
  record.finish(output, unmasked);
  return output;
}

namespace {

/// The dividend's gradient is the quotient's gradient over the divisor.
Gradients quotient_gradients(Eager& e, Gradients& grads, Node& node) {
  const Unpacked saved(e, node);
  const Shape& shape = grads[0].shape();
  const DType wide =
      bits_of(saved[0].dtype()) > bits_of(grads[0].dtype()) ? saved[0].dtype() : grads[0].dtype();
  Gradients result(2);
  if (node.wants(1)) {  // -grad * ((input / divisor) / divisor)
    const Tensor quotient = computed(e, shape, wide);
    const Tensor squared = computed(e, shape, wide);
    const Tensor negated = computed(e, shape, grads[0].dtype());
    result[1] = computed(e, shape, wide);
  }
  if (node.wants(0)) {
    result[0] = computed(e, shape, wide);
  }
  return result;
}

}  // namespace

Tensor divide_in_place(Eager& eager, const Tensor& input, const Tensor& divisor) {
  Record record(eager, {&input, &divisor});
  record.save(divisor);
  if (record.wants(1)) {
    record.save(clone(eager, detach(eager, input)));  // The dividend before it is overwritten.
  }
  Tensor output = eager.alias(input, input.shape(), false);
  launch(eager, {&input, &divisor, &input});
  record.finish(output, quotient_gradients);
  return output;
}

Tensor divide(Eager& eager, const Tensor& input, const Tensor& divisor) {
  Record record(eager, {&input, &divisor});
  record.save(divisor);
  if (record.wants(1)) {
    record.save(input);
  }
  Tensor output = computed(eager, input.shape(), input.dtype(), {&input, &divisor});
  record.finish(output, quotient_gradients);
  return output;
}

Tensor sum_rows(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = eager.autocast() && input.dtype() != DType::kFp32
                      ? computed(eager, input.shape().with(-1, 1), DType::kFp32, {&input})
                      : reduce_last(eager, input, true);
  record.finish(output, [shape = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
    return {e.alias(grads[0], shape, true)};  // expand
  });
  return output;
}

Tensor sum_last_dim(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = reduce_last(eager, input, false);
  record.finish(output, [shape = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
    return {e.alias(grads[0], shape, true)};  // unsqueeze and expand
  });
  return output;
}

Tensor sum_groups(Eager& eager, const Tensor& input, std::int64_t k) {
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  const Tensor grouped = eager.alias(input, {shape[0] / k, k, shape[1]}, true);
  Tensor output = reduce_second_last(eager, grouped, false);
  record.finish(output, [shape, k](Eager& e, Gradients& grads, Node&) -> Gradients {
    // The expanded gradient has no view as rows, so reshape copies it.
    return {k == 1 ? e.alias(grads[0], shape, true)
                   : computed(e, shape, grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

Tensor histogram(Eager& eager, const Tensor& ids, std::int64_t bins) {
  Tensor counts = filled(eager, {bins}, ids.dtype());
  launch_fill(eager, ids);
  return counts;
}

Tensor cumulative_sum(Eager& eager, const Tensor& counts) {
  Tensor output = eager.empty(counts.shape(), DType::kInt64);
  const Tensor wide = widened(eager, counts);
  const Tensor scratch = eager.empty({kWideScanBytes}, DType::kUInt8, TensorRole::kWorkspace);
  launch_kernels(eager, 2 * bytes_of(output), 2);
  return output;
}

Tensor cumulative_counts(Eager& eager, const Tensor& counts) {
  Tensor output = eager.empty(counts.shape(), DType::kInt32);
  const Tensor scratch = eager.empty({kScanBytes}, DType::kUInt8, TensorRole::kWorkspace);
  launch_kernels(eager, 2 * bytes_of(counts), 2);
  return output;
}

Tensor permuted(Eager& eager, const Tensor& input, const Shape& seen_as) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, seen_as, true);
  record.finish(output, [before = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
    return {computed(e, before, grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

namespace {

/// The products of all experts: `out` is the shape of one expert's product times their number.
void run_products(Eager& eager, const Shape& out, std::int64_t inner, DType dtype,
                  GemmLayout layout) {
  eager.touch_cublas();
  eager.run(GemmShape{
      .m = out[1], .n = out[2], .k = inner, .count = out[0], .dtype = dtype, .layout = layout});
}

/// Gradients of both factors, each scaled. The left factor is copied to be transposed.
Gradients factor_gradients(Eager& eager, Gradients& grads, Node& node) {
  const Unpacked saved(eager, node);
  const DType dtype = grads[0].dtype();
  Gradients result(3);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!node.wants(i)) {
      continue;
    }
    const Tensor product = eager.empty(node.input_shapes[i], dtype);
    if (i == 2) {
      const Tensor turned = computed(eager, node.input_shapes[1], dtype);
    }
    run_products(
        eager, node.input_shapes[i],
        grads[0].elements() / node.input_shapes[i][0] / node.input_shapes[i][i == 1 ? 1 : 2], dtype,
        i == 1 ? GemmLayout::kTN : GemmLayout::kNT);
    result[i] = computed(eager, node.input_shapes[i], dtype, {&product});
  }
  return result;
}

/// A product of row groups. The ragged one of `rows`, `columns` and `inner` is the mean over the
/// groups that have rows.
struct GroupedProduct {
  std::int64_t groups = 0;
  std::int64_t busy = 0;  ///< Groups that have rows.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
};

/// Workspace per multiprocessor of the CUTLASS kernel: tile scheduler and, on compute capability
/// 10.0, stream-K state that grows with the tile (256 rows on two multiprocessors, or 128 on one
/// for small groups).
std::int64_t workspace_per_multiprocessor(const GroupedProduct& product,
                                          const DeviceTraits& device) {
  if (device.compute_major == 9) {
    return 512;
  }
  const bool small = product.rows <= 128 || product.columns <= 128;
  return small ? 5376 : 5888;
}

void run_grouped(Eager& eager, const GroupedProduct& product, DType dtype, GemmLayout layout) {
  const DeviceTraits& device = eager.device();
  const bool one_kernel =
      dtype == DType::kBf16 && (device.compute_major == 9 || device.compute_major == 10);
  GemmShape shape{.m = product.rows,
                  .n = product.columns,
                  .k = product.inner,
                  .dtype = dtype,
                  .layout = layout};
  // The weights' gradients are written for every group, with zeros where a group has no rows.
  const bool writes_all = layout == GemmLayout::kNT;
  shape.count = writes_all && one_kernel ? product.groups : product.busy;
  if (!one_kernel) {
    // _grouped_mm_fallback: the host reads the offsets and calls the library once for each group.
    // at::mm_out of a group without rows fills a gradient with zeros, or does nothing.
    shape.batch = GemmBatch::kSeries;
    eager.run(shape);
    if (const std::int64_t empty = product.groups - product.busy; writes_all && empty > 0) {
      launch_kernels(eager, empty * ir::bytes_of(product.rows * product.columns, dtype).value(),
                     empty);
    }
    return;
  }
  shape.batch = GemmBatch::kGrouped;
  launch_kernels(eager, product.groups * kGroupArgumentBytes);  // Writes the arguments.
  eager.run(shape);
  const BlockId arguments =
      eager.allocate(product.groups * kGroupArgumentBytes, TensorRole::kWorkspace);
  const BlockId workspace =
      eager.allocate(device.multiprocessors * workspace_per_multiprocessor(product, device),
                     TensorRole::kWorkspace);
  eager.release(workspace);
  eager.release(arguments);
}

Gradients grouped_gradients(Eager& eager, Gradients& grads, Node& node,
                            const GroupedProduct& product, GroupedWeight layout) {
  const Unpacked saved(eager, node);
  const DType dtype = grads[0].dtype();
  Gradients result(2);
  if (node.wants(1)) {
    result[1] = eager.empty(node.input_shapes[1], dtype);
    result[1]->tracked_view = layout == GroupedWeight::kOutIn;
    run_grouped(eager,
                {.groups = product.groups,
                 .busy = product.busy,
                 .rows = product.inner,
                 .columns = product.columns,
                 .inner = product.rows},
                dtype, GemmLayout::kNT);
  }
  if (node.wants(0)) {
    result[0] = eager.empty(node.input_shapes[0], dtype);
    run_grouped(eager,
                {.groups = product.groups,
                 .busy = product.busy,
                 .rows = product.rows,
                 .columns = product.inner,
                 .inner = product.columns},
                dtype, layout == GroupedWeight::kOutIn ? GemmLayout::kNN : GemmLayout::kTN);
  }
  return result;
}

}  // namespace

Tensor add_products(Eager& eager, const Tensor& base, const Tensor& left, const Tensor& right) {
  Record record(eager, {&base, &left, &right});
  if (record.wants(2)) {
    record.save(left);
  }
  if (record.wants(1)) {
    record.save(right);
  }
  Tensor output = eager.empty(base.shape(), base.dtype());
  { const Tensor turned = computed(eager, left.shape(), left.dtype()); }
  launch(eager, {&base, &output});
  run_products(eager, base.shape(), left.shape()[2], left.dtype(), GemmLayout::kNN);
  record.finish(output, factor_gradients);
  return output;
}

Tensor grouped_mm(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& offsets,
                  GroupedWeight layout) {
  const Shape& shape = weight.shape();
  const bool out_first = layout == GroupedWeight::kOutIn;
  const std::int64_t busy = std::min(shape[0], input.shape()[0]);
  const GroupedProduct product{.groups = shape[0],
                               .busy = busy,
                               .rows = input.shape()[0] / busy,
                               .columns = shape[out_first ? 1 : 2],
                               .inner = shape[out_first ? 2 : 1]};
  HEADROOM_ASSERT(product.inner == input.shape()[1]);
  Record record(eager, {&input, &weight});
  // Saved variables are released in the alphabetical order of their names: mat2, offs, self.
  if (record.wants(0)) {
    // The transposed weight is a view that keeps the parameter's current memory alive.
    record.save(out_first ? eager.alias(weight, shape, true) : weight);
  }
  record.save(offsets);
  if (record.wants(1)) {
    record.save(input);
  }
  Tensor output = eager.empty({input.shape()[0], product.columns}, input.dtype());
  run_grouped(eager, product, input.dtype(), out_first ? GemmLayout::kTN : GemmLayout::kNN);
  record.finish(output, [product, layout](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return grouped_gradients(e, grads, node, product, layout);
  });
  return output;
}

}  // namespace headroom::ir::torch
