#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model_ir/base/check.h"
#include "validators/cuda/emulation/block.h"
#include "validators/cuda/emulation/kernels.h"
#include "validators/executor/cpu/values.h"

/// The names of kernels/platform_device.cuh on the host.

#define HEADROOM_DEVICE inline
#define HEADROOM_SHARED static thread_local
#define HEADROOM_UNROLL

#define HEADROOM_KERNEL(name, Arguments, threads, ...)                                          \
  static const headroom::cuda::emulation::Registration name##_registration(                     \
      #name, threads, sizeof(headroom::cuda::Arguments), [](const void* arguments) {            \
        headroom::cuda::__VA_ARGS__(*static_cast<const headroom::cuda::Arguments*>(arguments)); \
      });

namespace headroom::cuda {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

inline float load(float x) {
  return x;
}
inline float load(Bf16 x) {
  return static_cast<float>(exec::cpu::load(exec::cpu::Bf16{x.bits}));
}
inline float load(Fp16 x) {
  return static_cast<float>(exec::cpu::load(exec::cpu::Fp16{x.bits}));
}
inline void store(float& to, float x) {
  to = x;
}
inline void store(Bf16& to, float x) {
  exec::cpu::Bf16 rounded;
  exec::cpu::store(rounded, static_cast<double>(x));
  to.bits = rounded.bits;
}
inline void store(Fp16& to, float x) {
  exec::cpu::Fp16 rounded;
  exec::cpu::store(rounded, static_cast<double>(x));
  to.bits = rounded.bits;
}

struct alignas(16) Vector16 {
  uint32_t x, y, z, w;
};

inline int thread_index() {
  return emulation::this_thread().index;
}
inline int thread_count() {
  return emulation::this_thread().count;
}
inline int64_t block_index() {
  return emulation::this_thread().block.x;
}
inline int64_t block_count() {
  return emulation::this_thread().grid.x;
}
inline int64_t block_index_y() {
  return emulation::this_thread().block.y;
}
inline int64_t block_index_z() {
  return emulation::this_thread().block.z;
}

inline void meet() {
  emulation::meet_block();
}
inline uint32_t from_lane_xor_bits(uint32_t bits, int mask) {
  const int own = thread_index() % 32;
  return emulation::exchange({bits})[static_cast<size_t>(own ^ mask)][0];
}
inline float from_lane_xor(float x, int mask) {
  return std::bit_cast<float>(from_lane_xor_bits(std::bit_cast<uint32_t>(x), mask));
}
inline int from_lane_xor(int x, int mask) {
  return std::bit_cast<int>(from_lane_xor_bits(std::bit_cast<uint32_t>(x), mask));
}
inline uint32_t ballot(bool vote) {
  uint32_t votes = 0;
  const auto& shown = emulation::exchange({vote ? 1U : 0U});
  for (size_t i = 0; i < shown.size(); ++i) {
    votes |= shown[i][0] << i;
  }
  return votes;
}
inline int count_bits(uint32_t bits) {
  return std::popcount(bits);
}

template <typename T>
T* launch_memory() {
  return reinterpret_cast<T*>(emulation::this_thread().launch_memory);
}

/// Element (row, column) of the matrices whose rows begin at the addresses that lanes show.
inline uint32_t shown_element(const std::array<emulation::Shown, 32>& rows, size_t row,
                              size_t column) {
  const uint64_t address = rows[row][0] | (uint64_t{rows[row][1]} << 32);
  uint16_t element = 0;
  std::memcpy(&element, std::bit_cast<const uint16_t*>(address) + column, sizeof element);
  return element;
}
inline const std::array<emulation::Shown, 32>& exchange_address(const void* row) {
  const auto address = std::bit_cast<uint64_t>(row);
  HEADROOM_ASSERT(address % 16 == 0);
  return emulation::exchange(
      {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32)});
}
inline void load_matrices(uint32_t (&to)[4], const void* row) {
  const auto own = static_cast<size_t>(thread_index() % 32);
  const auto& rows = exchange_address(row);
  for (size_t m = 0; m < 4; ++m) {
    to[m] = shown_element(rows, 8 * m + own / 4, 2 * (own % 4)) |
            (shown_element(rows, 8 * m + own / 4, 2 * (own % 4) + 1) << 16);
  }
}
inline void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  const auto own = static_cast<size_t>(thread_index() % 32);
  const auto& rows = exchange_address(row);
  for (size_t m = 0; m < 4; ++m) {
    to[m] = shown_element(rows, 8 * m + 2 * (own % 4), own / 4) |
            (shown_element(rows, 8 * m + 2 * (own % 4) + 1, own / 4) << 16);
  }
}

/// Half `half` of a register.
template <typename T>
float half_of(uint32_t bits, size_t half) {
  return load(T{static_cast<uint16_t>(bits >> (16 * half))});
}

/// Fragments of mma.m16n8k16. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating
/// point type".
template <typename T>
void multiply_add(T, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const auto own = static_cast<size_t>(thread_index() % 32);
  const auto& lanes = emulation::exchange({a[0], a[1], a[2], a[3], b0, b1});
  for (size_t i = 0; i < 4; ++i) {
    const size_t row = own / 4 + 8 * (i / 2);
    const size_t column = 2 * (own % 4) + i % 2;
    float sum = c[i];
    for (size_t k = 0; k < 16; ++k) {
      const size_t lane_k = k % 8 / 2;
      const uint32_t left = lanes[4 * (row % 8) + lane_k][row / 8 + 2 * (k / 8)];
      const uint32_t right = lanes[4 * column + lane_k][4 + k / 8];
      sum += half_of<T>(left, k % 2) * half_of<T>(right, k % 2);
    }
    c[i] = sum;
  }
}

}  // namespace headroom::cuda
