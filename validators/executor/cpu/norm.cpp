#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

std::int32_t norm(HeadroomDevice* d, HeadroomStream, std::int32_t kind, void* y, std::int64_t y_row,
                  void* mean, void* rstd, const void* x, std::int64_t x_row, const void* weight,
                  const void* bias, std::int32_t type, std::int64_t rows, std::int64_t columns,
                  double epsilon) {
  const Stat means(mean, type);
  const Stat rstds(rstd, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = in<T>(x) + r * x_row;
      double centre = 0;
      if (kind == HEADROOM_LAYER_NORM) {
        for (std::int64_t c = 0; c < columns; ++c) {
          centre += load(row[c]);
        }
        centre /= static_cast<double>(columns);
      }
      double squares = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        squares += (load(row[c]) - centre) * (load(row[c]) - centre);
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
      rstds.set(r, factor);
      if (kind == HEADROOM_LAYER_NORM) {
        means.set(r, centre);
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        store(out<T>(y)[r * y_row + c], (load(row[c]) - centre) * factor * load(in<T>(weight)[c]) +
                                            (bias != nullptr ? load(in<T>(bias)[c]) : 0));
      }
    }
  });
}

/// With g = dy weight and n = (x - mean) rstd: dx = rstd (g - [mean(g)] - n mean(g n)); the middle
/// term belongs to LayerNorm alone.
template <typename T>
void input_gradient(std::int32_t kind, T* dx, const T* dy, const T* x, const T* weight,
                    std::int64_t columns, double mean, double rstd) {
  double sum = 0;
  double products = 0;
  for (std::int64_t c = 0; c < columns; ++c) {
    const double g = load(dy[c]) * load(weight[c]);
    sum += g;
    products += g * (load(x[c]) - mean) * rstd;
  }
  sum = kind == HEADROOM_LAYER_NORM ? sum / static_cast<double>(columns) : 0;
  products /= static_cast<double>(columns);
  for (std::int64_t c = 0; c < columns; ++c) {
    const double g = load(dy[c]) * load(weight[c]);
    store(dx[c], rstd * (g - sum - (load(x[c]) - mean) * rstd * products));
  }
}

std::int32_t norm_backward(HeadroomDevice* d, HeadroomStream, std::int32_t kind, void* dx,
                           void* dweight, void* dbias, std::int32_t gradient_type, const void* dy,
                           std::int64_t dy_row, const void* x, std::int64_t x_row,
                           const void* weight, const void* mean, const void* rstd,
                           std::int32_t type, std::int64_t rows, std::int64_t columns, void*) {
  const Stat means(mean, type);
  const Stat rstds(rstd, type);
  const auto mean_of = [&](std::int64_t r) { return kind == HEADROOM_LAYER_NORM ? means[r] : 0.0; };
  return typed(d, type, gradient_type, [&](auto* e, auto* g) {
    using T = Element<decltype(e)>;
    using G = Element<decltype(g)>;
    for (std::int64_t c = 0; dweight != nullptr && c < columns; ++c) {
      double weights = 0;
      double biases = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const double value = load(in<T>(dy)[r * dy_row + c]);
        weights += value * (load(in<T>(x)[r * x_row + c]) - mean_of(r)) * rstds[r];
        biases += value;
      }
      store(out<G>(dweight)[c], load(out<G>(dweight)[c]) + weights);
      if (dbias != nullptr) {
        store(out<G>(dbias)[c], load(out<G>(dbias)[c]) + biases);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      input_gradient(kind, out<T>(dx) + r * dy_row, in<T>(dy) + r * dy_row, in<T>(x) + r * x_row,
                     in<T>(weight), columns, mean_of(r), rstds[r]);
    }
  });
}

}  // namespace

void add_norm(HeadroomDeviceTable& table) {
  table.norm = norm;
  table.norm_backward = norm_backward;
}

}  // namespace headroom::exec::cpu
