#include "validators/cuda/calls/products.h"

#include <cstddef>

#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

const void* moved(const void* data, std::int64_t elements, std::int32_t type) {
  return static_cast<const std::byte*>(data) + elements * element_bytes(type);
}
void* moved(void* data, std::int64_t elements, std::int32_t type) {
  return static_cast<std::byte*>(data) + elements * element_bytes(type);
}

ColumnMajor one_product(const HeadroomGemm& g) {
  return {.rows = g.n,
          .columns = g.m,
          .inner = g.k,
          .transpose_left = g.transpose_b != 0,
          .transpose_right = g.transpose_a != 0,
          .type = g.type,
          .output_type = g.output_type,
          .math = g.math,
          .alpha = g.alpha,
          .beta = g.beta,
          .left = g.b,
          .right = g.a,
          .result = g.c,
          .left_lead = g.b_row,
          .right_lead = g.a_row,
          .result_lead = g.c_row,
          .left_format = g.b_format,
          .right_format = g.a_format,
          .left_scale = g.b_scale,
          .right_scale = g.a_scale,
          .workspace = g.workspace};
}

/// Some matrices in a row, out of a nested batch.
struct Batch {
  std::int64_t count;
  std::int64_t a, b, c;  ///< Strides of the three matrices.
};

ColumnMajor batched(const HeadroomGemm& g, const Batch& batch) {
  ColumnMajor product = one_product(g);
  product.batches = batch.count;
  product.left_stride = batch.b;
  product.right_stride = batch.a;
  product.result_stride = batch.c;
  return product;
}

/// C = beta C, where there is nothing to multiply.
std::int32_t scale_result(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm& g) {
  if (g.beta == 1) {
    return 0;
  }
  for (std::int64_t i = 0; i < g.outer; ++i) {
    for (std::int64_t j = 0; j < g.inner; ++j) {
      const std::int32_t code =
          launch(d, stream, {g.output_type}, grid_of_matrix(g.m, g.n),
                 ScaleMatrixArguments{.x = moved(g.c, i * g.c_outer + j * g.c_inner, g.output_type),
                                      .x_row = g.c_row,
                                      .rows = g.m,
                                      .columns = g.n,
                                      .factor = static_cast<float>(g.beta)});
      if (code != 0) {
        return code;
      }
    }
  }
  return 0;
}

std::int32_t multiply_all(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm& g) {
  if (element_bytes(g.type) == 0 || element_bytes(g.output_type) < 2) {
    return fail(d, "CUDA has no products of this element type");
  }
  if (g.m == 0 || g.n == 0 || g.outer == 0 || g.inner == 0) {
    return 0;
  }
  if (g.k == 0) {
    return scale_result(d, stream, g);
  }
  for (const ColumnMajor& product : column_major(g)) {
    if (const std::int32_t code = multiply(d, stream, product); code != 0) {
      return code;
    }
  }
  return 0;
}

std::int32_t gemm(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm) {
  return multiply_all(d, stream, *gemm);
}

std::int32_t gemm_grouped(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm,
                          const std::int64_t* offsets, std::int64_t groups,
                          std::int32_t rows_inside) {
  const HeadroomGemm& g = *gemm;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t begin = offsets[group];
    const std::int64_t rows = offsets[group + 1] - begin;
    HeadroomGemm part = g;
    part.outer = 1;
    part.inner = 1;
    part.a = moved(g.a, begin * g.a_row, g.type);
    if (rows_inside != 0) {
      part.k = rows;
      part.b = moved(g.b, begin * g.b_row, g.type);
      part.c = moved(g.c, group * g.c_outer, g.output_type);
    } else {
      part.m = rows;
      part.b = moved(g.b, group * g.b_outer, g.type);
      part.c = moved(g.c, begin * g.c_row, g.output_type);
    }
    if (const std::int32_t code = multiply_all(d, stream, part); code != 0) {
      return code;
    }
  }
  return 0;
}

}  // namespace

std::int64_t element_bytes(std::int32_t type) {
  switch (type) {
    case HEADROOM_FP32:
      return 4;
    case HEADROOM_BF16:
    case HEADROOM_FP16:
      return 2;
    case HEADROOM_FP8:
      return 1;
    default:
      return 0;
  }
}

std::vector<ColumnMajor> column_major(const HeadroomGemm& g) {
  const Batch inner{.count = g.inner, .a = g.a_inner, .b = g.b_inner, .c = g.c_inner};
  const Batch outer{.count = g.outer, .a = g.a_outer, .b = g.b_outer, .c = g.c_outer};
  if (g.outer == 1) {
    return {batched(g, inner)};
  }
  if (g.inner == 1) {
    return {batched(g, outer)};
  }
  if (g.a_outer == g.inner * g.a_inner && g.b_outer == g.inner * g.b_inner &&
      g.c_outer == g.inner * g.c_inner) {
    Batch all = inner;
    all.count = g.outer * g.inner;
    return {batched(g, all)};
  }
  // The shorter loop makes as few calls as possible.
  const bool loop_over_outer = g.outer <= g.inner;
  const Batch& together = loop_over_outer ? inner : outer;
  const Batch& apart = loop_over_outer ? outer : inner;
  std::vector<ColumnMajor> products;
  for (std::int64_t i = 0; i < apart.count; ++i) {
    HeadroomGemm part = g;
    part.a = moved(g.a, i * apart.a, g.type);
    part.b = moved(g.b, i * apart.b, g.type);
    part.c = moved(g.c, i * apart.c, g.output_type);
    products.push_back(batched(part, together));
  }
  return products;
}

void add_products(HeadroomDeviceTable& table) {
  table.gemm = gemm;
  table.gemm_grouped = gemm_grouped;
}

}  // namespace headroom::cuda
