#include <numbers>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

/// An activation function and its derivative.
struct Activated {
  double value = 0;
  double slope = 0;
};

Activated sigmoid_linear(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {.value = x * s, .slope = s * (1 + x * (1 - s))};
}

Activated gelu_erf(double x) {
  const double phi = 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return {.value = x * phi, .slope = phi + x * density};
}

/// Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
Activated gelu_tanh(double x) {
  const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = std::tanh(factor * (x + 0.044715 * x * x * x));
  const double inner = factor * (1 + 3 * 0.044715 * x * x);
  return {.value = 0.5 * x * (1 + t), .slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}

Activated activated(double x, std::int32_t function) {
  switch (function) {
    case HEADROOM_SILU:
      return sigmoid_linear(x);
    case HEADROOM_GELU:
      return gelu_erf(x);
    case HEADROOM_RELU:
      return {.value = x > 0 ? x : 0, .slope = x > 0 ? 1.0 : 0.0};
    case HEADROOM_TANH: {
      const double t = std::tanh(x);
      return {.value = t, .slope = 1 - t * t};
    }
    default:
      return gelu_tanh(x);
  }
}

std::int32_t cast(HeadroomDevice* d, HeadroomStream, void* to, std::int32_t to_type,
                  const void* from, std::int32_t from_type, std::int64_t count) {
  return typed(d, to_type, from_type, [&](auto* t, auto* f) {
    auto* const result = out<Element<decltype(t)>>(to);
    const auto* const x = in<Element<decltype(f)>>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      store(result[i], load(x[i]));
    }
  });
}

std::int32_t add(HeadroomDevice* d, HeadroomStream, void* sum, const void* a, const void* b,
                 std::int32_t type, std::int64_t count) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < count; ++i) {
      store(out<T>(sum)[i], load(in<T>(a)[i]) + load(in<T>(b)[i]));
    }
  });
}

std::int32_t accumulate(HeadroomDevice* d, HeadroomStream, void* to, std::int32_t to_type,
                        const void* from, std::int32_t from_type, std::int64_t count,
                        double factor) {
  return typed(d, to_type, from_type, [&](auto* t, auto* f) {
    auto* const sum = out<Element<decltype(t)>>(to);
    const auto* const x = in<Element<decltype(f)>>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      store(sum[i], load(sum[i]) + factor * load(x[i]));
    }
  });
}

std::int32_t scale(HeadroomDevice* d, HeadroomStream, void* x, std::int32_t type,
                   std::int64_t count, double factor) {
  return typed(d, type, [&](auto* e) {
    auto* const values = out<Element<decltype(e)>>(x);
    for (std::int64_t i = 0; i < count; ++i) {
      store(values[i], factor * load(values[i]));
    }
  });
}

std::int32_t add_bias(HeadroomDevice* d, HeadroomStream, void* x, std::int64_t x_row,
                      const void* bias, std::int32_t type, std::int64_t rows,
                      std::int64_t columns) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        T& value = out<T>(x)[r * x_row + c];
        store(value, load(value) + load(in<T>(bias)[c]));
      }
    }
  });
}

std::int32_t column_sum(HeadroomDevice* d, HeadroomStream, void* sum, std::int32_t sum_type,
                        const void* x, std::int64_t x_row, std::int32_t type, std::int64_t rows,
                        std::int64_t columns, void*) {
  return typed(d, sum_type, type, [&](auto* s, auto* e) {
    auto* const sums = out<Element<decltype(s)>>(sum);
    const auto* const values = in<Element<decltype(e)>>(x);
    for (std::int64_t c = 0; c < columns; ++c) {
      double total = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        total += load(values[r * x_row + c]);
      }
      store(sums[c], load(sums[c]) + total);
    }
  });
}

std::int32_t activation(HeadroomDevice* d, HeadroomStream, void* y, const void* x,
                        std::int32_t type, std::int64_t count, std::int32_t function) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < count; ++i) {
      store(out<T>(y)[i], activated(load(in<T>(x)[i]), function).value);
    }
  });
}

std::int32_t activation_backward(HeadroomDevice* d, HeadroomStream, void* dx, const void* dout,
                                 const void* x, std::int32_t type, std::int64_t count,
                                 std::int32_t function) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < count; ++i) {
      store(out<T>(dx)[i], load(in<T>(dout)[i]) * activated(load(in<T>(x)[i]), function).slope);
    }
  });
}

std::int32_t gated(HeadroomDevice* d, HeadroomStream, void* y, const void* gate, const void* up,
                   std::int64_t in_row, std::int32_t type, std::int64_t rows, std::int64_t columns,
                   std::int32_t function) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t i = r * in_row + c;
        store(out<T>(y)[r * columns + c],
              activated(load(in<T>(gate)[i]), function).value * load(in<T>(up)[i]));
      }
    }
  });
}

std::int32_t gated_backward(HeadroomDevice* d, HeadroomStream, void* dgate, void* dup,
                            const void* dout, const void* gate, const void* up, std::int64_t in_row,
                            std::int32_t type, std::int64_t rows, std::int64_t columns,
                            std::int32_t function) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t i = r * in_row + c;
        const double dy = load(in<T>(dout)[r * columns + c]);
        const double u = load(in<T>(up)[i]);
        const Activated f = activated(load(in<T>(gate)[i]), function);
        store(out<T>(dgate)[i], dy * u * f.slope);
        store(out<T>(dup)[i], dy * f.value);
      }
    }
  });
}

}  // namespace

void add_elementwise(HeadroomDeviceTable& table) {
  table.cast = cast;
  table.add = add;
  table.accumulate = accumulate;
  table.scale = scale;
  table.add_bias = add_bias;
  table.column_sum = column_sum;
  table.activation = activation;
  table.activation_backward = activation_backward;
  table.gated = gated;
  table.gated_backward = gated_backward;
}

}  // namespace headroom::exec::cpu
