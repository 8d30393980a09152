#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

void norms(Twin& twin, std::int32_t kind, std::int32_t type, std::int32_t gradient,
           std::int64_t columns, std::int64_t rows) {
  twin.begin("norm " + std::to_string(kind) + " " + name_of(type) + " of " +
             std::to_string(columns));
  const std::int64_t x_row = columns + 5;
  const std::int64_t y_row = columns + 8;
  const Twins x = twin.normal(type, rows * x_row, 2);
  const Twins y = twin.output(type, rows * y_row);
  const Twins weight = twin.normal(type, columns);
  const Twins bias = twin.normal(type, columns);
  const Twins mean = twin.output(HEADROOM_FP32, rows);
  const Twins rstd = twin.output(HEADROOM_FP32, rows);
  const bool centred = kind == HEADROOM_LAYER_NORM;
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.norm(d, 0, kind, at(y), y_row, centred ? at(mean) : nullptr, at(rstd), at(x), x_row,
                  at(weight), centred ? at(bias) : nullptr, type, rows, columns, 1e-5);
  });
  twin.compare("y", y);
  twin.compare("rstd", rstd);
  twin.compare("mean", mean);
  const Twins dy = twin.normal(type, rows * y_row);
  const Twins dx = twin.output(type, rows * y_row);
  const Twins dweight = twin.normal(gradient, columns);
  const Twins dbias = twin.normal(gradient, columns);
  const Twins partial = twin.output(HEADROOM_FP32, 2 * HEADROOM_PARTIAL_ROWS * columns);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.norm_backward(d, 0, kind, at(dx), nullptr, nullptr, gradient, at(dy), y_row, at(x),
                           x_row, at(weight), centred ? at(mean) : nullptr, at(rstd), type, rows,
                           columns, at(partial));
  });
  twin.compare("dx alone", dx);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.norm_backward(d, 0, kind, at(dy), at(dweight), centred ? at(dbias) : nullptr, gradient,
                           at(dy), y_row, at(x), x_row, at(weight), centred ? at(mean) : nullptr,
                           at(rstd), type, rows, columns, at(partial));
  });
  twin.compare("dx in place of dy", dy);
  twin.compare("dweight", dweight, 3);
  twin.compare("dbias", dbias, 3);
  twin.end();
}

void columns_of(Twin& twin, std::int32_t type, std::int32_t gradient) {
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kColumns = 37;
  constexpr std::int64_t kRow = 41;
  twin.begin("columns " + name_of(type));
  const Twins x = twin.normal(type, kRows * kRow);
  const Twins bias = twin.normal(type, kColumns);
  const Twins sum = twin.normal(gradient, kColumns);
  const Twins partial = twin.output(HEADROOM_FP32, HEADROOM_PARTIAL_ROWS * kColumns);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    std::int32_t code =
        t.column_sum(d, 0, at(sum), gradient, at(x), kRow, type, kRows, kColumns, at(partial));
    code += t.column_sum(d, 0, at(sum), gradient, at(x), kRow, type, 3, kColumns, at(partial));
    code += t.add_bias(d, 0, at(x), kRow, at(bias), type, kRows, kColumns);
    return code;
  });
  twin.compare("sum", sum, 3);
  twin.compare("with bias", x);
  twin.end();
}

}  // namespace

void compare_norms(Twin& twin) {
  for (const std::int32_t kind : {HEADROOM_RMS_NORM, HEADROOM_LAYER_NORM}) {
    for (const std::int32_t type : kTypes) {
      norms(twin, kind, type, type, 16, 5);
      norms(twin, kind, type, HEADROOM_FP32, 131, 11);
      norms(twin, kind, type, HEADROOM_FP32, 2312, 3);
      norms(twin, kind, type, HEADROOM_FP32, 24, 517);
    }
  }
  for (const std::int32_t type : kTypes) {
    columns_of(twin, type, HEADROOM_FP32);
    columns_of(twin, type, type);
  }
}

}  // namespace headroom::test
