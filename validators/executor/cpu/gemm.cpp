#include <vector>

#include "validators/executor/cpu/fp8.h"
#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

/// op(X) as rows of fp64, so that the product runs over neighbours.
template <typename T>
std::vector<double> packed(const T* x, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                           bool transpose) {
  std::vector<double> values(at(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      values[at(row * columns + column)] =
          load(transpose ? x[column * stride + row] : x[row * stride + column]);
    }
  }
  return values;
}

template <typename T, typename U>
void multiply(const HeadroomGemm& g, const T* a, const T* b, U* c) {
  const std::vector<double> left = packed(a, g.m, g.k, g.a_row, g.transpose_a != 0);
  // op(B) transposed: [n, k].
  const std::vector<double> right = packed(b, g.n, g.k, g.b_row, g.transpose_b == 0);
  for (std::int64_t row = 0; row < g.m; ++row) {
    for (std::int64_t column = 0; column < g.n; ++column) {
      double sum = 0;
      for (std::int64_t inner = 0; inner < g.k; ++inner) {
        sum += left[at(row * g.k + inner)] * right[at(column * g.k + inner)];
      }
      U& to = c[row * g.c_row + column];
      store(to, g.alpha * sum + (g.beta == 0 ? 0 : g.beta * load(to)));
    }
  }
}

/// Calls `work(a, b, c)` with pointers of the right types.
template <typename Work>
std::int32_t with_operands(HeadroomDevice* d, const HeadroomGemm& g, const Work& work) {
  return typed(d, g.type, g.output_type, [&](auto* element, auto* output) {
    using T = Element<decltype(element)>;
    work(in<T>(g.a), in<T>(g.b), out<Element<decltype(output)>>(g.c));
  });
}

/// Rows of numbers in 8 bits, with their scale.
std::vector<double> unpacked(const void* x, std::int64_t rows, std::int64_t columns,
                             std::int64_t stride, std::int32_t format, double scale) {
  const auto* const bytes = static_cast<const std::uint8_t*>(x);
  std::vector<double> values(at(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      values[at(row * columns + column)] = scale * fp8_value(bytes[row * stride + column], format);
    }
  }
  return values;
}

std::int32_t gemm8(HeadroomDevice* d, const HeadroomGemm& g) {
  if (g.transpose_a != 0 || g.transpose_b == 0 || g.outer != 1 || g.inner != 1) {
    return fail(d, "products in 8 bits are A times B transposed, one at a time");
  }
  const std::int32_t stat = g.output_type == HEADROOM_FP64 ? HEADROOM_FP64 : HEADROOM_FP32;
  const auto a = unpacked(g.a, g.m, g.k, g.a_row, g.a_format, Stat(g.a_scale, stat)[0]);
  const auto b = unpacked(g.b, g.n, g.k, g.b_row, g.b_format, Stat(g.b_scale, stat)[0]);
  return typed(d, g.output_type, [&](auto* output) {
    auto* const c = out<Element<decltype(output)>>(g.c);
    for (std::int64_t row = 0; row < g.m; ++row) {
      for (std::int64_t column = 0; column < g.n; ++column) {
        double sum = 0;
        for (std::int64_t inner = 0; inner < g.k; ++inner) {
          sum += a[at(row * g.k + inner)] * b[at(column * g.k + inner)];
        }
        auto& to = c[row * g.c_row + column];
        store(to, g.alpha * sum + (g.beta == 0 ? 0 : g.beta * load(to)));
      }
    }
  });
}

std::int32_t gemm(HeadroomDevice* d, HeadroomStream, const HeadroomGemm* gemm) {
  const HeadroomGemm& g = *gemm;
  if (g.type == HEADROOM_FP8) {
    return gemm8(d, g);
  }
  return with_operands(d, g, [&g](const auto* a, const auto* b, auto* c) {
    for (std::int64_t i = 0; i < g.outer; ++i) {
      for (std::int64_t j = 0; j < g.inner; ++j) {
        multiply(g, a + i * g.a_outer + j * g.a_inner, b + i * g.b_outer + j * g.b_inner,
                 c + i * g.c_outer + j * g.c_inner);
      }
    }
  });
}

std::int32_t gemm_grouped(HeadroomDevice* d, HeadroomStream, const HeadroomGemm* gemm,
                          const std::int64_t* offsets, std::int64_t groups,
                          std::int32_t rows_inside) {
  const HeadroomGemm& g = *gemm;
  return with_operands(d, g, [&](const auto* a, const auto* b, auto* c) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t begin = offsets[group];
      HeadroomGemm part = g;
      if (rows_inside != 0) {
        part.k = offsets[group + 1] - begin;
        multiply(part, a + begin * g.a_row, b + begin * g.b_row, c + group * g.c_outer);
      } else {
        part.m = offsets[group + 1] - begin;
        multiply(part, a + begin * g.a_row, b + group * g.b_outer, c + begin * g.c_row);
      }
    }
  });
}

}  // namespace

void add_gemm(HeadroomDeviceTable& table) {
  table.gemm = gemm;
  table.gemm_grouped = gemm_grouped;
}

}  // namespace headroom::exec::cpu
