#include "runtimes/megatron/te_gemm.h"

#include <string_view>
#include <utility>
#include <vector>

#include "runtimes/torch/collective.h"
#include "runtimes/torch/ddp.h"

namespace headroom::ir::megatron {

using torch::Shape;
using torch::Tensor;

GemmShape forward_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = rows, .n = weight[0], .k = weight[1], .dtype = dtype, .layout = GemmLayout::kTN};
}

GemmShape backward_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = rows, .n = weight[1], .k = weight[0], .dtype = dtype, .layout = GemmLayout::kNN};
}

GemmShape weight_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = weight[0], .n = weight[1], .k = rows, .dtype = dtype, .layout = GemmLayout::kNT};
}

namespace {

constexpr std::string_view kUserbuffers = "userbuffers";

/// A band of the rows of a product.
GemmShape band_of(const GemmShape& dims, std::int64_t bands) {
  GemmShape band = dims;
  band.m = ceil_div(dims.m, bands);
  return band;
}

}  // namespace

void run_gemm(const Runner& run, const GemmShape& dims) {
  torch::Eager& eager = run.eager();
  run.process.touch_te_workspace();
  const auto parts = std::exchange(run.process.userbuffers().in_parts, {});
  const std::int64_t bands = parts.empty() ? 1 : run.context.grid.tensor.size;
  for (std::int64_t band = 0; band < bands; ++band) {
    for (const std::vector<std::uint32_t>& marks : parts) {
      if (band > 0) {  // The rank already has its own rows.
        eager.wait_mark(eager.stream(), marks[static_cast<std::size_t>(band) - 1]);
      }
    }
    eager.run(bands == 1 ? dims : band_of(dims, bands));
  }
  for (const std::uint32_t mark : std::exchange(run.process.userbuffers().in_bulk, {})) {
    eager.wait_mark(eager.stream(), mark);
  }
}

Tensor gemm(const Runner& run, const GemmShape& dims) {
  run_gemm(run, dims);
  return run.eager().empty({dims.m, dims.n}, run.context.dtype);
}

Tensor shared_gemm(const Runner& run, const GemmShape& dims) {
  run_gemm(run, dims);
  return shared_buffer(run, {dims.m, dims.n}, run.context.dtype);
}

void communicate(const Runner& run, CollectiveKind kind, const Tensor& whole) {
  run.eager().run(CollectiveShape{.kind = kind,
                                  .bytes = bytes_of(whole.elements(), whole.dtype()).value(),
                                  .group = run.context.grid.tensor.group(),
                                  .axis = MeshAxis::kTensor});
}

void communicate(const Runner& run, CollectiveKind kind, const Tensor& whole, Beside beside) {
  if (!run.context.megatron.tp_comm_overlap) {
    communicate(run, kind, whole);
    return;
  }
  const std::int64_t ranks = run.context.grid.tensor.size;
  const std::int64_t bytes = bytes_of(whole.elements(), whole.dtype()).value();
  Userbuffers& pending = run.process.userbuffers();
  if (beside == Beside::kInBulk) {
    const CollectiveShape shape{.kind = kind,
                                .bytes = bytes,
                                .group = run.context.grid.tensor.group(),
                                .axis = MeshAxis::kTensor};
    pending.in_bulk.push_back(torch::start_collective(run.eager(), shape, kUserbuffers));
    return;
  }
  const CollectiveShape shape{.kind = CollectiveKind::kSend,
                              .bytes = bytes / ranks,
                              .group = {.size = 2, .stride = run.context.grid.tensor.stride},
                              .axis = MeshAxis::kTensor};
  std::vector<std::uint32_t>& marks = pending.in_parts.emplace_back();
  for (std::int64_t part = 1; part < ranks; ++part) {
    marks.push_back(torch::start_collective(run.eager(), shape, kUserbuffers));
  }
}

Tensor gemm_and_scatter(const Runner& run, const GemmShape& dims) {
  if (!run.context.megatron.tp_comm_overlap) {
    return scatter(run, gemm(run, dims));
  }
  torch::Eager& eager = run.eager();
  const CollectiveShape shape{
      .kind = CollectiveKind::kReduceScatter,
      .bytes = bytes_of(dims.m * dims.n, run.context.dtype).value() / kScatterBands,
      .group = run.context.grid.tensor.group(),
      .axis = MeshAxis::kTensor};
  std::uint32_t last = 0;
  for (std::int64_t band = 0; band < kScatterBands; ++band) {
    run_gemm(run, band_of(dims, kScatterBands));
    last = torch::start_collective(eager, shape, kUserbuffers);
  }
  eager.wait_mark(eager.stream(), last);
  const Tensor whole = eager.empty({dims.m, dims.n}, run.context.dtype);
  return eager.empty({dims.m / run.context.grid.tensor.size, dims.n}, run.context.dtype);
}

Tensor shared_buffer(const Runner& run, const Shape& shape, DType dtype) {
  torch::Eager& eager = run.eager();
  if (!run.context.megatron.tp_comm_overlap) {
    return eager.empty(shape, dtype);
  }
  eager.set_meta(true);
  Tensor buffer = eager.empty(shape, dtype);
  eager.set_meta(false);
  return buffer;
}

namespace {

Shape of_all_ranks(const Runner& run, const Tensor& part) {
  return part.shape().with(0, part.shape()[0] * run.context.grid.tensor.size);
}

Tensor part_of(const Runner& run, const Tensor& whole) {
  const Shape& shape = whole.shape();
  return run.eager().empty(shape.with(0, shape[0] / run.context.grid.tensor.size), whole.dtype());
}

}  // namespace

Tensor gather(const Runner& run, const Tensor& part) {
  Tensor whole = run.eager().empty(of_all_ranks(run, part), part.dtype());
  communicate(run, CollectiveKind::kAllGather, whole);
  return whole;
}

Tensor gather(const Runner& run, const Tensor& part, Beside beside) {
  Tensor whole = shared_buffer(run, of_all_ranks(run, part), part.dtype());
  communicate(run, CollectiveKind::kAllGather, whole, beside);
  return whole;
}

Tensor scatter(const Runner& run, const Tensor& whole) {
  communicate(run, CollectiveKind::kReduceScatter, whole);
  return part_of(run, whole);
}

Tensor scatter(const Runner& run, const Tensor& whole, Beside beside) {
  communicate(run, CollectiveKind::kReduceScatter, whole, beside);
  return part_of(run, whole);
}

void clear(const Runner& run, const Tensor& tensor) {
  run.eager().move_storage(tensor, {});
}

WeightGradient weight_gradient(const Runner& run, const GemmShape& dims, bool bias) {
  WeightGradient result;
  if (run.context.megatron.accumulation_fusion) {
    if (bias) {
      result.bias = run.eager().empty({dims.m}, run.context.grad_dtype);
    }
    GemmShape added = dims;
    added.accumulate = true;  // Accumulates in the gradient buffer.
    run_gemm(run, added);
  } else {
    result.weight = gemm(run, dims);
    if (bias) {
      result.bias = run.eager().empty({dims.m}, run.context.dtype);
    }
  }
  return result;
}

Tensor finish_weight(const Runner& run, Tensor gradient, const Shape& weight) {
  return gradient.defined() ? std::move(gradient) : run.process.dummy_gradient(weight);
}

}  // namespace headroom::ir::megatron
