#include <algorithm>

#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

std::int64_t partial_rows_of(std::int64_t rows) {
  return std::min<std::int64_t>(rows, HEADROOM_PARTIAL_ROWS);
}

/// One thread for each column of each partial sum.
Grid grid_of_partial(std::int64_t rows, std::int64_t columns) {
  Grid grid = grid_of_all(columns);
  grid.y = partial_rows_of(rows);
  return grid;
}

/// sum += the partial sums of `rows` rows.
std::int32_t finish_sum(HeadroomDevice* d, HeadroomStream stream, void* sum, std::int32_t type,
                        const float* partial, std::int64_t rows, std::int64_t columns) {
  return launch(d, stream, {type}, rows == 0 ? Grid{.x = 0} : grid_of_all(columns),
                PartialSumArguments{.sum = sum,
                                    .partial = partial,
                                    .partial_rows = partial_rows_of(rows),
                                    .columns = columns});
}

std::int32_t column_sum(HeadroomDevice* d, HeadroomStream stream, void* sum, std::int32_t sum_type,
                        const void* x, std::int64_t x_row, std::int32_t type, std::int64_t rows,
                        std::int64_t columns, void* partial) {
  auto* const sums = static_cast<float*>(partial);
  const std::int32_t code = launch(d, stream, {type}, grid_of_partial(rows, columns),
                                   ColumnSumArguments{.partial = sums,
                                                      .x = x,
                                                      .x_row = x_row,
                                                      .rows = rows,
                                                      .columns = columns,
                                                      .partial_rows = partial_rows_of(rows)});
  return code != 0 ? code : finish_sum(d, stream, sum, sum_type, sums, rows, columns);
}

std::int32_t norm(HeadroomDevice* d, HeadroomStream stream, std::int32_t kind, void* y,
                  std::int64_t y_row, void* mean, void* rstd, const void* x, std::int64_t x_row,
                  const void* weight, const void* bias, std::int32_t type, std::int64_t rows,
                  std::int64_t columns, double epsilon) {
  return launch(d, stream, {type}, grid_of_rows(rows, columns),
                NormArguments{.y = y,
                              .mean = static_cast<float*>(mean),
                              .rstd = static_cast<float*>(rstd),
                              .x = x,
                              .weight = weight,
                              .bias = bias,
                              .y_row = y_row,
                              .x_row = x_row,
                              .columns = columns,
                              .epsilon = static_cast<float>(epsilon),
                              .centred = kind == HEADROOM_LAYER_NORM ? 1 : 0});
}

std::int32_t norm_backward(HeadroomDevice* d, HeadroomStream stream, std::int32_t kind, void* dx,
                           void* dweight, void* dbias, std::int32_t gradient_type, const void* dy,
                           std::int64_t dy_row, const void* x, std::int64_t x_row,
                           const void* weight, const void* mean, const void* rstd,
                           std::int32_t type, std::int64_t rows, std::int64_t columns,
                           void* partial) {
  const auto* const means = static_cast<const float*>(mean);
  const auto* const rstds = static_cast<const float*>(rstd);
  const std::int32_t centred = kind == HEADROOM_LAYER_NORM ? 1 : 0;
  // First the weights: dx may take the place of dy.
  if (dweight != nullptr) {
    auto* const weights = static_cast<float*>(partial);
    float* const biases = dbias != nullptr ? weights + HEADROOM_PARTIAL_ROWS * columns : nullptr;
    std::int32_t code = launch(d, stream, {type}, grid_of_partial(rows, columns),
                               NormWeightGradientArguments{.weight_partial = weights,
                                                           .bias_partial = biases,
                                                           .dy = dy,
                                                           .x = x,
                                                           .mean = means,
                                                           .rstd = rstds,
                                                           .dy_row = dy_row,
                                                           .x_row = x_row,
                                                           .rows = rows,
                                                           .columns = columns,
                                                           .partial_rows = partial_rows_of(rows),
                                                           .centred = centred});
    if (code == 0) {
      code = finish_sum(d, stream, dweight, gradient_type, weights, rows, columns);
    }
    if (code == 0 && dbias != nullptr) {
      code = finish_sum(d, stream, dbias, gradient_type, biases, rows, columns);
    }
    if (code != 0) {
      return code;
    }
  }
  return launch(d, stream, {type}, grid_of_rows(rows, columns),
                NormInputGradientArguments{.dx = dx,
                                           .dy = dy,
                                           .x = x,
                                           .weight = weight,
                                           .mean = means,
                                           .rstd = rstds,
                                           .dy_row = dy_row,
                                           .x_row = x_row,
                                           .columns = columns,
                                           .centred = centred});
}

}  // namespace

void add_norm(HeadroomDeviceTable& table) {
  table.column_sum = column_sum;
  table.norm = norm;
  table.norm_backward = norm_backward;
}

}  // namespace headroom::cuda
