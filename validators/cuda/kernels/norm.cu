// Norms, and sums over rows in two passes: rows are dealt to at most HEADROOM_PARTIAL_ROWS partial
// sums, which are then added in their order, so that a sum does not depend on who comes first.
#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

template <typename T>
HEADROOM_DEVICE void column_sum(const ColumnSumArguments& a) {
  const int64_t c = global_thread();
  const int64_t part = block_index_y();
  if (c >= a.columns) {
    return;
  }
  float sum = 0;
  for (int64_t r = part; r < a.rows; r += a.partial_rows) {
    sum += load(in<T>(a.x)[r * a.x_row + c]);
  }
  a.partial[part * a.columns + c] = sum;
}

template <typename G>
HEADROOM_DEVICE void partial_sum(const PartialSumArguments& a) {
  const int64_t c = global_thread();
  if (c >= a.columns) {
    return;
  }
  float sum = 0;
  for (int64_t part = 0; part < a.partial_rows; ++part) {
    sum += a.partial[part * a.columns + c];
  }
  G& to = out<G>(a.sum)[c];
  store(to, load(to) + sum);
}

template <typename T>
HEADROOM_DEVICE void norm(const NormArguments& a) {
  const int64_t r = block_index();
  const T* const row = in<T>(a.x) + r * a.x_row;
  const auto columns = static_cast<float>(a.columns);
  float centre = 0;
  if (a.centred != 0) {
    for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
      float x[kEight];
      load_eight(x, row + c, a.columns - c);
      HEADROOM_UNROLL
      for (const float value : x) {
        centre += value;
      }
    }
    centre = block_sum(centre) / columns;
  }
  float squares = 0;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float x[kEight];
    load_eight(x, row + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const float value = c + j < a.columns ? x[j] - centre : 0.0F;
      squares += value * value;
    }
  }
  const float factor = 1.0F / sqrtf(block_sum(squares) / columns + a.epsilon);
  if (thread_index() == 0) {
    a.rstd[r] = factor;
    if (a.centred != 0) {
      a.mean[r] = centre;
    }
  }
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float x[kEight];
    float weight[kEight];
    float bias[kEight] = {};
    load_eight(x, row + c, a.columns - c);
    load_eight(weight, in<T>(a.weight) + c, a.columns - c);
    if (a.bias != nullptr) {
      load_eight(bias, in<T>(a.bias) + c, a.columns - c);
    }
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      x[j] = (x[j] - centre) * factor * weight[j] + bias[j];
    }
    store_eight(out<T>(a.y) + r * a.y_row + c, x, a.columns - c);
  }
}

/// With g = dy weight and n = (x - mean) rstd: dx = rstd (g - [mean(g)] - n mean(g n)); the middle
/// term belongs to LayerNorm alone.
template <typename T>
HEADROOM_DEVICE void norm_input_gradient(const NormInputGradientArguments& a) {
  const int64_t r = block_index();
  const T* const dy_row = in<T>(a.dy) + r * a.dy_row;
  const T* const x_row = in<T>(a.x) + r * a.x_row;
  const float rstd = a.rstd[r];
  const float mean = a.centred != 0 ? a.mean[r] : 0.0F;
  const auto columns = static_cast<float>(a.columns);
  float sum = 0;
  float products = 0;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float dy[kEight];
    float x[kEight];
    float weight[kEight];
    load_eight(dy, dy_row + c, a.columns - c);
    load_eight(x, x_row + c, a.columns - c);
    load_eight(weight, in<T>(a.weight) + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const float g = dy[j] * weight[j];
      sum += g;
      products += g * (x[j] - mean) * rstd;
    }
  }
  sum = block_sum(sum) / columns;
  products = block_sum(products) / columns;
  if (a.centred == 0) {
    sum = 0;
  }
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float dy[kEight];
    float x[kEight];
    float weight[kEight];
    load_eight(dy, dy_row + c, a.columns - c);
    load_eight(x, x_row + c, a.columns - c);
    load_eight(weight, in<T>(a.weight) + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      x[j] = rstd * (dy[j] * weight[j] - sum - (x[j] - mean) * rstd * products);
    }
    store_eight(out<T>(a.dx) + r * a.dy_row + c, x, a.columns - c);
  }
}

template <typename T>
HEADROOM_DEVICE void norm_weight_gradient(const NormWeightGradientArguments& a) {
  const int64_t c = global_thread();
  const int64_t part = block_index_y();
  if (c >= a.columns) {
    return;
  }
  float weight = 0;
  float bias = 0;
  for (int64_t r = part; r < a.rows; r += a.partial_rows) {
    const float dy = load(in<T>(a.dy)[r * a.dy_row + c]);
    const float mean = a.centred != 0 ? a.mean[r] : 0.0F;
    weight += dy * (load(in<T>(a.x)[r * a.x_row + c]) - mean) * a.rstd[r];
    bias += dy;
  }
  a.weight_partial[part * a.columns + c] = weight;
  if (a.bias_partial != nullptr) {
    a.bias_partial[part * a.columns + c] = bias;
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(column_sum, ColumnSumArguments, 256, column_sum)
HEADROOM_KERNEL_TYPES(partial_sum, PartialSumArguments, 256, partial_sum)
HEADROOM_KERNEL_TYPES(norm, NormArguments, 256, norm)
HEADROOM_KERNEL_TYPES(norm_input_gradient, NormInputGradientArguments, 256, norm_input_gradient)
HEADROOM_KERNEL_TYPES(norm_weight_gradient, NormWeightGradientArguments, 256, norm_weight_gradient)
