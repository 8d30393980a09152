#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t outer, inner;
  double beta;
};

void product(Twin& twin, const Product& p, std::int32_t type, std::int32_t output) {
  twin.begin("product " + name_of(type) + " to " + name_of(output) + " " + std::to_string(p.m) +
             " x " + std::to_string(p.n) + " x " + std::to_string(p.k) +
             (p.transpose_a ? " T" : " N") + (p.transpose_b ? "T" : "N"));
  HeadroomGemm g{};
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.transpose_a = p.transpose_a ? 1 : 0;
  g.transpose_b = p.transpose_b ? 1 : 0;
  g.type = type;
  g.output_type = output;
  g.math = HEADROOM_MATH_EXACT;
  g.alpha = 0.5;
  g.beta = p.beta;
  g.outer = p.outer;
  g.inner = p.inner;
  // Rows of all matrices of the inner batch lie side by side, as the heads of a token do.
  const std::int64_t a_columns = p.transpose_a ? p.m : p.k;
  const std::int64_t b_columns = p.transpose_b ? p.k : p.n;
  g.a_inner = a_columns;
  g.b_inner = b_columns;
  g.c_inner = p.n;
  g.a_row = a_columns * p.inner;
  g.b_row = b_columns * p.inner;
  g.c_row = p.n * p.inner;
  g.a_outer = (p.transpose_a ? p.k : p.m) * g.a_row;
  g.b_outer = (p.transpose_b ? p.n : p.k) * g.b_row;
  g.c_outer = p.m * g.c_row;
  const Twins a = twin.normal(type, p.outer * g.a_outer);
  const Twins b = twin.normal(type, p.outer * g.b_outer);
  const Twins c = twin.normal(output, p.outer * g.c_outer);
  const Twins workspace = twin.output(HEADROOM_FP32, (1 << 20) / 4);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    HeadroomGemm own = g;
    own.a = at(a);
    own.b = at(b);
    own.c = at(c);
    own.workspace = at(workspace);
    return t.gemm(d, 0, &own);
  });
  twin.compare("c", c, 2);
  twin.end();
}

void grouped(Twin& twin, std::int32_t type, bool rows_inside) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kIn = 24;
  constexpr std::int64_t kOut = 16;
  const std::vector<std::int64_t> offsets = {0, 13, 13, 30, 40};
  constexpr std::int64_t kGroups = 4;
  twin.begin(std::string("grouped product ") + (rows_inside ? "inside " : "") + name_of(type));
  const Twins x = twin.normal(type, kRows * kIn);
  const Twins y = twin.normal(type, kRows * kOut);
  const Twins weights = twin.normal(type, kGroups * kIn * kOut);
  const Twins workspace = twin.output(HEADROOM_FP32, (1 << 20) / 4);
  for (const double beta : {0.0, 1.0, 0.5}) {
    twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
      HeadroomGemm g{};
      g.type = type;
      g.output_type = type;
      g.alpha = 1;
      g.beta = beta;
      g.outer = 1;
      g.inner = 1;
      g.workspace = at(workspace);
      if (rows_inside) {  // weights[g] = y^T x, over the rows of the group
        g.m = kOut;
        g.n = kIn;
        g.transpose_a = 1;
        g.a = at(y);
        g.b = at(x);
        g.c = at(weights);
        g.a_row = kOut;
        g.b_row = kIn;
        g.c_row = kIn;
        g.c_outer = kIn * kOut;
      } else {  // y = x weights[g]^T
        g.n = kOut;
        g.k = kIn;
        g.transpose_b = 1;
        g.a = at(x);
        g.b = at(weights);
        g.c = at(y);
        g.a_row = kIn;
        g.b_row = kIn;
        g.c_row = kOut;
        g.b_outer = kIn * kOut;
      }
      return t.gemm_grouped(d, 0, &g, offsets.data(), kGroups, rows_inside ? 1 : 0);
    });
    twin.compare("c", rows_inside ? weights : y, 2);
  }
  twin.end();
}

/// A matrix and its transpose in 8 bits, which both backends round to the same bytes.
struct Twins8 {
  Twins rows, transposed, scale;
};

Twins8 quantised(Twin& twin, std::int32_t type, std::int64_t rows, std::int64_t columns,
                 std::int32_t format) {
  const Twins x = twin.normal(type, rows * columns, 3);
  const Twins largest = twin.output(HEADROOM_FP32, 1);
  const Twins partial = twin.output(HEADROOM_FP32, HEADROOM_PARTIAL_SUMS);
  Twins8 made{.rows = twin.output(HEADROOM_UINT8, rows * columns),
              .transposed = twin.output(HEADROOM_UINT8, rows * columns),
              .scale = twin.output(HEADROOM_FP32, 1)};
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int32_t code = t.largest_magnitude(d, 0, at(largest), HEADROOM_FP32, at(x), type,
                                                  rows * columns, at(partial));
    return code != 0 ? code
                     : t.quantise(d, 0, static_cast<std::uint8_t*>(at(made.rows)),
                                  static_cast<std::uint8_t*>(at(made.transposed)), at(made.scale),
                                  at(x), type, rows, columns, at(largest), format);
  });
  twin.compare("scale", made.scale);
  twin.compare("rows", made.rows);
  twin.compare("transposed", made.transposed);
  return made;
}

void product8(Twin& twin, std::int32_t type, std::int32_t a_format, double beta) {
  constexpr std::int64_t kM = 48;
  constexpr std::int64_t kN = 80;
  constexpr std::int64_t kK = 64;
  twin.begin("product in 8 bits " + name_of(type) + (a_format == HEADROOM_E5M2 ? " E5M2" : ""));
  const Twins8 a = quantised(twin, type, kM, kK, a_format);
  const Twins8 b = quantised(twin, type, kN, kK, HEADROOM_E4M3);
  const Twins c = twin.normal(type, kM * kN);
  const Twins workspace = twin.output(HEADROOM_FP32, (1 << 20) / 4);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    HeadroomGemm g{};
    g.m = kM;
    g.n = kN;
    g.k = kK;
    g.transpose_b = 1;
    g.type = HEADROOM_FP8;
    g.output_type = type;
    g.alpha = 1;
    g.beta = beta;
    g.a = at(a.rows);
    g.b = at(b.rows);
    g.c = at(c);
    g.a_row = kK;
    g.b_row = kK;
    g.c_row = kN;
    g.outer = 1;
    g.inner = 1;
    g.workspace = at(workspace);
    g.a_format = a_format;
    g.b_format = HEADROOM_E4M3;
    g.a_scale = at(a.scale);
    g.b_scale = at(b.scale);
    return t.gemm(d, 0, &g);
  });
  twin.compare("c", c, 2);
  twin.end();
}

}  // namespace

void compare_products(Twin& twin) {
  for (const std::int32_t type : kTypes) {
    twin.begin("quantised " + name_of(type));
    static_cast<void>(quantised(twin, type, 37, 69, HEADROOM_E4M3));
    static_cast<void>(quantised(twin, type, 5, 130, HEADROOM_E5M2));
    twin.end();
    for (const std::int32_t format : {HEADROOM_E4M3, HEADROOM_E5M2}) {
      product8(twin, type, format, 0);
      product8(twin, type, format, 1);
    }
  }
  for (const std::int32_t type : kTypes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        product(twin, {72, 40, 64, transpose_a, transpose_b, 1, 1, 0}, type, type);
        product(twin, {33, 17, 29, transpose_a, transpose_b, 1, 1, 1}, type, HEADROOM_FP32);
        product(twin, {16, 24, 8, transpose_a, transpose_b, 3, 4, 0.5}, type, type);
      }
    }
    grouped(twin, type, false);
    grouped(twin, type, true);
  }
}

}  // namespace headroom::test
