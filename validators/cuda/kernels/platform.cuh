#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "validators/cuda/arguments.h"

#ifdef __CUDACC__
#include "validators/cuda/kernels/platform_device.cuh"
#else
#include "validators/cuda/emulation/platform_host.h"
#endif

/// A kernel for every element type, or for every pair of two types. `body` is a function template.
#define HEADROOM_KERNEL_TYPES(name, Arguments, threads, body)                  \
  HEADROOM_KERNEL(name##_fp32, Arguments, threads, body<float>)                \
  HEADROOM_KERNEL(name##_bf16, Arguments, threads, body<headroom::cuda::Bf16>) \
  HEADROOM_KERNEL(name##_fp16, Arguments, threads, body<headroom::cuda::Fp16>)
#define HEADROOM_KERNEL_PAIRS(name, Arguments, threads, body)                              \
  HEADROOM_KERNEL(name##_fp32_fp32, Arguments, threads, body<float, float>)                \
  HEADROOM_KERNEL(name##_fp32_bf16, Arguments, threads, body<float, headroom::cuda::Bf16>) \
  HEADROOM_KERNEL(name##_fp32_fp16, Arguments, threads, body<float, headroom::cuda::Fp16>) \
  HEADROOM_KERNEL(name##_bf16_fp32, Arguments, threads, body<headroom::cuda::Bf16, float>) \
  HEADROOM_KERNEL(name##_bf16_bf16, Arguments, threads,                                    \
                  body<headroom::cuda::Bf16, headroom::cuda::Bf16>)                        \
  HEADROOM_KERNEL(name##_bf16_fp16, Arguments, threads,                                    \
                  body<headroom::cuda::Bf16, headroom::cuda::Fp16>)                        \
  HEADROOM_KERNEL(name##_fp16_fp32, Arguments, threads, body<headroom::cuda::Fp16, float>) \
  HEADROOM_KERNEL(name##_fp16_bf16, Arguments, threads,                                    \
                  body<headroom::cuda::Fp16, headroom::cuda::Bf16>)                        \
  HEADROOM_KERNEL(name##_fp16_fp16, Arguments, threads,                                    \
                  body<headroom::cuda::Fp16, headroom::cuda::Fp16>)

namespace headroom::cuda {

constexpr int kWarp = 32;
/// Elements that a thread of a memory-bound kernel works on at once.
constexpr int kEight = 8;
/// Least logits and scores.
constexpr float kLowest = -INFINITY;

template <typename T>
HEADROOM_DEVICE const T* in(const void* data) {
  return static_cast<const T*>(data);
}
template <typename T>
HEADROOM_DEVICE T* out(void* data) {
  return static_cast<T*>(data);
}

HEADROOM_DEVICE int64_t global_thread() {
  return block_index() * thread_count() + thread_index();
}
HEADROOM_DEVICE int64_t global_threads() {
  return block_count() * thread_count();
}
HEADROOM_DEVICE int lane() {
  return thread_index() % kWarp;
}
HEADROOM_DEVICE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
HEADROOM_DEVICE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
HEADROOM_DEVICE bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Vector16) == 0;
}

/// Loads the first `count` of eight elements; the others become 0.
template <typename T>
HEADROOM_DEVICE void load_eight(float (&to)[kEight], const T* from, int64_t count) {
  constexpr int kVectors = static_cast<int>(kEight * sizeof(T) / sizeof(Vector16));
  if (count >= kEight && is_aligned(from)) {
    Vector16 vectors[kVectors];
    HEADROOM_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      vectors[i] = reinterpret_cast<const Vector16*>(from)[i];
    }
    const T* const elements = reinterpret_cast<const T*>(vectors);
    HEADROOM_UNROLL
    for (int i = 0; i < kEight; ++i) {
      to[i] = load(elements[i]);
    }
    return;
  }
  HEADROOM_UNROLL
  for (int i = 0; i < kEight; ++i) {
    to[i] = i < count ? load(from[i]) : 0.0F;
  }
}

/// Stores the first `count` of eight elements.
template <typename T>
HEADROOM_DEVICE void store_eight(T* to, const float (&from)[kEight], int64_t count) {
  constexpr int kVectors = static_cast<int>(kEight * sizeof(T) / sizeof(Vector16));
  if (count >= kEight && is_aligned(to)) {
    Vector16 vectors[kVectors];
    T* const elements = reinterpret_cast<T*>(vectors);
    HEADROOM_UNROLL
    for (int i = 0; i < kEight; ++i) {
      store(elements[i], from[i]);
    }
    HEADROOM_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      reinterpret_cast<Vector16*>(to)[i] = vectors[i];
    }
    return;
  }
  HEADROOM_UNROLL
  for (int i = 0; i < kEight; ++i) {
    if (i < count) {
      store(to[i], from[i]);
    }
  }
}

HEADROOM_DEVICE float warp_sum(float x) {
  HEADROOM_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    x += from_lane_xor(x, mask);
  }
  return x;
}
HEADROOM_DEVICE float warp_max(float x) {
  HEADROOM_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    x = fmaxf(x, from_lane_xor(x, mask));
  }
  return x;
}

/// The sum over all threads of a block, the same for all of them. Blocks are whole warps.
HEADROOM_DEVICE float block_sum(float x) {
  HEADROOM_SHARED float sums[kWarp];
  const float own = warp_sum(x);
  if (lane() == 0) {
    sums[thread_index() / kWarp] = own;
  }
  meet();
  float total = 0;
  for (int warp = 0; warp < thread_count() / kWarp; ++warp) {
    total += sums[warp];
  }
  meet();
  return total;
}
HEADROOM_DEVICE float block_max(float x) {
  HEADROOM_SHARED float maxima[kWarp];
  const float own = warp_max(x);
  if (lane() == 0) {
    maxima[thread_index() / kWarp] = own;
  }
  meet();
  float highest = kLowest;
  for (int warp = 0; warp < thread_count() / kWarp; ++warp) {
    highest = fmaxf(highest, maxima[warp]);
  }
  meet();
  return highest;
}

/// Among the threads of a block that say yes: how many come before this one, and how many they are.
struct Place {
  int before;
  int total;
};
HEADROOM_DEVICE Place block_place(bool yes) {
  HEADROOM_SHARED int counts[kWarp];
  const uint32_t votes = ballot(yes);
  const int warp = thread_index() / kWarp;
  if (lane() == 0) {
    counts[warp] = count_bits(votes);
  }
  meet();
  Place place = {count_bits(votes & ((1U << lane()) - 1U)), 0};
  for (int other = 0; other < thread_count() / kWarp; ++other) {
    place.before += other < warp ? counts[other] : 0;
    place.total += counts[other];
  }
  meet();
  return place;
}

}  // namespace headroom::cuda
