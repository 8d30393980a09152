#include "validators/cuda/kernels/platform.cuh"
#include "validators/executor/device_abi.h"

namespace headroom::cuda {

/// An activation function and its derivative.
struct Activated {
  float value;
  float slope;
};

HEADROOM_DEVICE Activated sigmoid_linear(float x) {
  const float s = 1.0F / (1.0F + expf(-x));
  return {x * s, s * (1.0F + x * (1.0F - s))};
}

HEADROOM_DEVICE Activated gelu_erf(float x) {
  constexpr float kInverseRootTwo = 0.70710678F;
  constexpr float kInverseRootTwoPi = 0.39894228F;
  const float phi = 0.5F * (1.0F + erff(x * kInverseRootTwo));
  const float density = kInverseRootTwoPi * expf(-0.5F * x * x);
  return {x * phi, phi + x * density};
}

/// Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
HEADROOM_DEVICE Activated gelu_tanh(float x) {
  constexpr float kFactor = 0.79788456F;  // sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const float t = tanhf(kFactor * (x + kCubic * x * x * x));
  const float inner = kFactor * (1.0F + 3.0F * kCubic * x * x);
  return {0.5F * x * (1.0F + t), 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner};
}

HEADROOM_DEVICE Activated activated(float x, int32_t function) {
  switch (function) {
    case HEADROOM_SILU:
      return sigmoid_linear(x);
    case HEADROOM_GELU:
      return gelu_erf(x);
    case HEADROOM_RELU:
      return {x > 0 ? x : 0.0F, x > 0 ? 1.0F : 0.0F};
    case HEADROOM_TANH: {
      const float t = tanhf(x);
      return {t, 1.0F - t * t};
    }
    default:
      return gelu_tanh(x);
  }
}

template <typename To, typename From>
HEADROOM_DEVICE void cast_elements(const CastArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    load_eight(x, in<From>(a.from) + i, a.count - i);
    store_eight(out<To>(a.to) + i, x, a.count - i);
  }
}

template <typename T>
HEADROOM_DEVICE void add_elements(const AddArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    float y[kEight];
    load_eight(x, in<T>(a.a) + i, a.count - i);
    load_eight(y, in<T>(a.b) + i, a.count - i);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      x[j] += y[j];
    }
    store_eight(out<T>(a.out) + i, x, a.count - i);
  }
}

template <typename To, typename From>
HEADROOM_DEVICE void accumulate(const AccumulateArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float sum[kEight];
    float x[kEight];
    load_eight(sum, out<To>(a.to) + i, a.count - i);
    load_eight(x, in<From>(a.from) + i, a.count - i);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      sum[j] += a.factor * x[j];
    }
    store_eight(out<To>(a.to) + i, sum, a.count - i);
  }
}

template <typename T>
HEADROOM_DEVICE void scale_elements(const ScaleArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    load_eight(x, out<T>(a.x) + i, a.count - i);
    HEADROOM_UNROLL
    for (float& value : x) {
      value *= a.factor;
    }
    store_eight(out<T>(a.x) + i, x, a.count - i);
  }
}

template <typename T>
HEADROOM_DEVICE void scale_matrix(const ScaleMatrixArguments& a) {
  const int64_t eights = (a.columns + kEight - 1) / kEight;
  for (int64_t i = global_thread(); i < a.rows * eights; i += global_threads()) {
    const int64_t c = kEight * (i % eights);
    T* const to = out<T>(a.x) + i / eights * a.x_row + c;
    float x[kEight];
    load_eight(x, to, a.columns - c);
    HEADROOM_UNROLL
    for (float& value : x) {
      value = a.factor == 0 ? 0.0F : a.factor * value;
    }
    store_eight(to, x, a.columns - c);
  }
}

template <typename T>
HEADROOM_DEVICE void add_bias(const AddBiasArguments& a) {
  const int64_t eights = (a.columns + kEight - 1) / kEight;
  for (int64_t i = global_thread(); i < a.rows * eights; i += global_threads()) {
    const int64_t c = kEight * (i % eights);
    T* const to = out<T>(a.x) + i / eights * a.x_row + c;
    float x[kEight];
    float bias[kEight];
    load_eight(x, to, a.columns - c);
    load_eight(bias, in<T>(a.bias) + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      x[j] += bias[j];
    }
    store_eight(to, x, a.columns - c);
  }
}

template <typename T>
HEADROOM_DEVICE void activation(const ActivationArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    load_eight(x, in<T>(a.x) + i, a.count - i);
    HEADROOM_UNROLL
    for (float& value : x) {
      value = activated(value, a.function).value;
    }
    store_eight(out<T>(a.out) + i, x, a.count - i);
  }
}

template <typename T>
HEADROOM_DEVICE void activation_backward(const ActivationBackwardArguments& a) {
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    float dx[kEight];
    load_eight(x, in<T>(a.x) + i, a.count - i);
    load_eight(dx, in<T>(a.dout) + i, a.count - i);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      dx[j] *= activated(x[j], a.function).slope;
    }
    store_eight(out<T>(a.dx) + i, dx, a.count - i);
  }
}

template <typename T>
HEADROOM_DEVICE void gated(const GatedArguments& a) {
  const int64_t eights = (a.columns + kEight - 1) / kEight;
  for (int64_t i = global_thread(); i < a.rows * eights; i += global_threads()) {
    const int64_t row = i / eights;
    const int64_t c = kEight * (i % eights);
    const int64_t from = row * a.in_row + c;
    float gate[kEight];
    float up[kEight];
    load_eight(gate, in<T>(a.gate) + from, a.columns - c);
    load_eight(up, in<T>(a.up) + from, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      up[j] *= activated(gate[j], a.function).value;
    }
    store_eight(out<T>(a.out) + row * a.columns + c, up, a.columns - c);
  }
}

template <typename T>
HEADROOM_DEVICE void gated_backward(const GatedBackwardArguments& a) {
  const int64_t eights = (a.columns + kEight - 1) / kEight;
  for (int64_t i = global_thread(); i < a.rows * eights; i += global_threads()) {
    const int64_t row = i / eights;
    const int64_t c = kEight * (i % eights);
    const int64_t from = row * a.in_row + c;
    float gate[kEight];
    float up[kEight];
    float dout[kEight];
    load_eight(gate, in<T>(a.gate) + from, a.columns - c);
    load_eight(up, in<T>(a.up) + from, a.columns - c);
    load_eight(dout, in<T>(a.dout) + row * a.columns + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const Activated f = activated(gate[j], a.function);
      gate[j] = dout[j] * up[j] * f.slope;
      up[j] = dout[j] * f.value;
    }
    store_eight(out<T>(a.dgate) + from, gate, a.columns - c);
    store_eight(out<T>(a.dup) + from, up, a.columns - c);
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_PAIRS(cast_elements, CastArguments, 256, cast_elements)
HEADROOM_KERNEL_TYPES(add_elements, AddArguments, 256, add_elements)
HEADROOM_KERNEL_PAIRS(accumulate, AccumulateArguments, 256, accumulate)
HEADROOM_KERNEL_TYPES(scale_elements, ScaleArguments, 256, scale_elements)
HEADROOM_KERNEL_TYPES(scale_matrix, ScaleMatrixArguments, 256, scale_matrix)
HEADROOM_KERNEL_TYPES(add_bias, AddBiasArguments, 256, add_bias)
HEADROOM_KERNEL_TYPES(activation, ActivationArguments, 256, activation)
HEADROOM_KERNEL_TYPES(activation_backward, ActivationBackwardArguments, 256, activation_backward)
HEADROOM_KERNEL_TYPES(gated, GatedArguments, 256, gated)
HEADROOM_KERNEL_TYPES(gated_backward, GatedBackwardArguments, 256, gated_backward)
