#include "runtimes/torch/functions_indexed.h"

#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kAlignment = 256;  ///< Alignment of each part of cub's temporary storage.
constexpr std::int64_t kReduceTile = 256 * 16;
constexpr std::int64_t kWaves = 5;
constexpr std::int64_t kBlocksPerMultiprocessor = 2048 / 256;
constexpr std::int64_t kSelectTile = 384 * 11;
constexpr std::int64_t kTilesBeforeFirst = 32;

std::int64_t aligned(std::int64_t bytes) {
  return align_up(bytes, kAlignment);
}

}  // namespace

Tensor one_hot(Eager& eager, const Tensor& ids, std::int64_t classes) {
  const Shape& shape = ids.shape();
  Tensor output = filled(eager, {shape[0], shape[1], classes}, DType::kInt64);
  launch(eager, {&ids, &ids});  // scatter_ of ones
  return output;
}

std::int64_t count_bytes(std::int64_t items, const DeviceTraits& device) {
  if (items <= kReduceTile) {
    return 1;
  }
  constexpr std::int64_t kSumBytes = 4;
  return aligned(device.multiprocessors * kBlocksPerMultiprocessor * kWaves * kSumBytes) +
         kAlignment - 1;
}

std::int64_t pick_bytes(std::int64_t items) {
  constexpr std::int64_t kStateBytes = 8;
  const std::int64_t tiles = ceil_div(items, kSelectTile) + kTilesBeforeFirst;
  return aligned(tiles * kStateBytes) + kAlignment + kAlignment - 1;
}

Tensor nonzero(Eager& eager, const Tensor& input, std::int64_t found) {
  const std::int64_t items = input.elements();
  const auto scratch = [&](std::int64_t bytes) {
    return eager.empty({bytes}, DType::kUInt8, TensorRole::kWorkspace);
  };
  const Tensor count = eager.empty({1}, DType::kInt32, TensorRole::kWorkspace);
  { const Tensor sums = scratch(count_bytes(items, eager.device())); }
  launch_kernels(eager, bytes_of(input), items <= kReduceTile ? 1 : 2);
  const auto dims = static_cast<std::int64_t>(input.shape().rank());
  Tensor output = eager.empty({dims, found}, DType::kInt64);
  { const Tensor states = scratch(pick_bytes(items)); }
  // Kernels: initialise the states, select the indices and, with several dims, split them.
  launch_kernels(eager, bytes_of(input) + bytes_of(output), dims > 1 ? 3 : 2);
  return output;
}

Tensor add_rows_in_place(Eager& eager, const Tensor& target, const Tensor& index,
                         const Tensor& source) {
  Record record(eager, {&target, &source});
  record.save(index);
  if (record.wants(1)) {
    record.save(source);
  }
  Tensor output = eager.alias(target, target.shape(), false);
  launch(eager, {&source, &source, &source});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients result(2);
    if (node.wants(1)) {  // grad.index_select(0, index).expand_as(source)
      const Unpacked saved(e, node);
      const Tensor rows = computed(e, node.input_shapes[1], grads[0].dtype());
      result[1] = e.alias(rows, rows.shape(), true);
    }
    result[0] = grads[0];
    return result;
  });
  return output;
}

namespace {

/// A part of `input` as a view of shape `seen_as`; its backward is select_backward.
Tensor select(Eager& eager, const Tensor& input, const Shape& seen_as) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, seen_as, true);
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Tensor whole = filled(e, node.input_shapes[0], grads[0].dtype());
    launch(e, {&grads[0], &grads[0]});
    return {std::move(whole)};
  });
  return output;
}

}  // namespace

Tensor select_first(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  return select(eager, input, shape.rank() == 3 ? Shape{shape[1], shape[2]} : Shape{shape[1]});
}

Tensor select_column(Eager& eager, const Tensor& input) {
  return select(eager, input, {input.shape()[0], 1});
}

Tensor scatter_last(Eager& eager, const Tensor& values, const Tensor& index, std::int64_t width) {
  Tensor zeros = filled(eager, values.shape().with(-1, width), values.dtype());
  Record record(eager, {&values});
  record.save(index);
  launch(eager, {&values, &index, &values});
  Tensor output = eager.alias(zeros, zeros.shape(), false);
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Tensor saved = node.saved[0].unpack(e);
    return {computed(e, saved.shape(), grads[0].dtype())};  // gather
  });
  return output;
}

}  // namespace headroom::ir::torch
