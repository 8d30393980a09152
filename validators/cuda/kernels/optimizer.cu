#include "validators/cuda/kernels/platform.cuh"
#include "validators/executor/device_abi.h"

namespace headroom::cuda {

/// partial[b] = the sum of the squares that block b has seen.
template <typename T>
HEADROOM_DEVICE void square_sum(const SquareSumArguments& a) {
  float sum = 0;
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    load_eight(x, in<T>(a.x) + i, a.count - i);
    HEADROOM_UNROLL
    for (const float value : x) {
      sum += value * value;
    }
  }
  sum = block_sum(sum);
  if (thread_index() == 0) {
    a.partial[block_index()] = sum;
  }
}

HEADROOM_DEVICE void finish_square_sum(const FinishSquareSumArguments& a) {
  float sum = 0;
  for (int64_t i = thread_index(); i < a.count; i += thread_count()) {
    sum += a.partial[i];
  }
  sum = block_sum(sum);
  if (thread_index() == 0) {
    a.sum[0] += a.factor * sum;
  }
}

HEADROOM_DEVICE void gradient_factor(const GradientFactorArguments& a) {
  if (thread_index() != 0) {
    return;
  }
  const float squares = a.square_sum[0];
  if (!(fabsf(squares) < INFINITY)) {
    a.factor[0] = 0;
    return;
  }
  const float norm = sqrtf(squares) * a.inverse_scale;
  const float clipped = a.max_norm > 0 ? fminf(1.0F, a.max_norm / (norm + 1e-6F)) : 1.0F;
  a.factor[0] = a.inverse_scale * clipped;
}

/// One element of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
HEADROOM_DEVICE float adamw_step(const AdamWNumbers& n, float parameter, float gradient,
                                 float& first, float& second) {
  first = n.beta1 * first + (1.0F - n.beta1) * gradient;
  second = n.beta2 * second + (1.0F - n.beta2) * gradient * gradient;
  const float direction = first / n.first_correction;
  const float size = sqrtf(second / n.second_correction) + n.epsilon;
  return parameter * n.kept - n.learning_rate * direction / size;
}

/// Gradients and states have types of their own; parameters' and gradients' are the kernel's.
template <typename S, typename T, typename G>
HEADROOM_DEVICE void adamw_typed(const AdamWArguments& a) {
  const float factor = a.numbers.gradient_factor[0];
  if (factor == 0) {
    return;
  }
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    const int64_t rest = a.count - i;
    float parameter[kEight];
    float gradient[kEight];
    float first[kEight];
    float second[kEight];
    if (a.master != nullptr) {
      load_eight(parameter, a.master + i, rest);
    } else {
      load_eight(parameter, out<T>(a.parameters) + i, rest);
    }
    load_eight(gradient, in<G>(a.gradients) + i, rest);
    load_eight(first, out<S>(a.first_moment) + i, rest);
    load_eight(second, out<S>(a.second_moment) + i, rest);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      parameter[j] = adamw_step(a.numbers, parameter[j], factor * gradient[j], first[j], second[j]);
    }
    store_eight(out<S>(a.first_moment) + i, first, rest);
    store_eight(out<S>(a.second_moment) + i, second, rest);
    if (a.master != nullptr) {
      store_eight(a.master + i, parameter, rest);
    }
    if (a.parameters != nullptr) {
      store_eight(out<T>(a.parameters) + i, parameter, rest);
    }
  }
}
template <typename T, typename G>
HEADROOM_DEVICE void adamw_fp32(const AdamWArguments& a) {
  adamw_typed<float, T, G>(a);
}
template <typename T, typename G>
HEADROOM_DEVICE void adamw_bf16(const AdamWArguments& a) {
  adamw_typed<Bf16, T, G>(a);
}
template <typename T, typename G>
HEADROOM_DEVICE void adamw_fp16(const AdamWArguments& a) {
  adamw_typed<Fp16, T, G>(a);
}

constexpr int kCodes = 256;

/// The byte whose number is nearest to `value`; the lower one of two.
HEADROOM_DEVICE uint8_t nearest_code(const float* code, float value) {
  int low = 0;        // Every number before it is less than `value`.
  int high = kCodes;  // No number from it on is less.
  while (low < high) {
    const int middle = (low + high) / 2;
    if (code[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) {
    return 0;
  }
  if (low == kCodes) {
    return kCodes - 1;
  }
  const float up = code[low] - value;
  const float down = value - code[low - 1];
  return static_cast<uint8_t>(down <= up ? low - 1 : low);
}

/// One block of threads for each block of states.
template <typename T, typename G>
HEADROOM_DEVICE void adamw_8bit(const AdamW8BitArguments& a) {
  HEADROOM_SHARED float signed_code[kCodes];
  HEADROOM_SHARED float unsigned_code[kCodes];
  const float factor = a.numbers.gradient_factor[0];
  if (factor == 0) {
    return;
  }
  for (int i = thread_index(); i < kCodes; i += thread_count()) {
    signed_code[i] = a.signed_code[i];
    unsigned_code[i] = a.unsigned_code[i];
  }
  meet();
  const int64_t block = block_index();
  const int64_t i = block * HEADROOM_STATE_BLOCK + thread_index();
  const bool here = i < a.count;
  float first = 0;
  float second = 0;
  if (here) {
    first = a.first_scale[block] * signed_code[a.first_moment[i]];
    second = a.second_scale[block] * unsigned_code[a.second_moment[i]];
    float parameter = a.master != nullptr ? a.master[i] : load(out<T>(a.parameters)[i]);
    parameter =
        adamw_step(a.numbers, parameter, factor * load(in<G>(a.gradients)[i]), first, second);
    if (a.master != nullptr) {
      a.master[i] = parameter;
    }
    if (a.parameters != nullptr) {
      store(out<T>(a.parameters)[i], parameter);
    }
  }
  // All have read the scales when these two return.
  const float first_scale = block_max(fabsf(first));
  const float second_scale = block_max(fabsf(second));
  if (thread_index() == 0) {
    a.first_scale[block] = first_scale;
    a.second_scale[block] = second_scale;
  }
  if (here) {
    a.first_moment[i] = nearest_code(signed_code, first_scale > 0 ? first / first_scale : 0.0F);
    a.second_moment[i] =
        nearest_code(unsigned_code, second_scale > 0 ? second / second_scale : 0.0F);
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(square_sum, SquareSumArguments, 256, square_sum)
HEADROOM_KERNEL(finish_square_sum, FinishSquareSumArguments, 1024, finish_square_sum)
HEADROOM_KERNEL(gradient_factor, GradientFactorArguments, 32, gradient_factor)
// Names are adamw_STATES_PARAMETERS_GRADIENTS.
HEADROOM_KERNEL_PAIRS(adamw_fp32, AdamWArguments, 256, adamw_fp32)
HEADROOM_KERNEL_PAIRS(adamw_bf16, AdamWArguments, 256, adamw_bf16)
HEADROOM_KERNEL_PAIRS(adamw_fp16, AdamWArguments, 256, adamw_fp16)
HEADROOM_KERNEL_PAIRS(adamw_8bit, AdamW8BitArguments, 256, adamw_8bit)
