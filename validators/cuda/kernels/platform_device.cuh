#pragma once

/// The functions that kernels are written with, on the device. The host has the same names
/// (emulation/platform_host.h), so that the tests run the kernels without a GPU.

#define HEADROOM_DEVICE __device__ __forceinline__
#define HEADROOM_SHARED __shared__
#define HEADROOM_UNROLL _Pragma("unroll")

/// Defines a kernel whose body is `__VA_ARGS__(arguments)`, for blocks of at most `threads`.
#define HEADROOM_KERNEL(name, Arguments, threads, ...)                 \
  extern "C" __global__ void __launch_bounds__(threads)                \
      name(const __grid_constant__ headroom::cuda::Arguments values) { \
    headroom::cuda::__VA_ARGS__(values);                               \
  }

namespace headroom::cuda {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

HEADROOM_DEVICE float load(float x) {
  return x;
}
HEADROOM_DEVICE float load(Bf16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
HEADROOM_DEVICE float load(Fp16 x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
HEADROOM_DEVICE void store(float& to, float x) {
  to = x;
}
HEADROOM_DEVICE void store(Bf16& to, float x) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
HEADROOM_DEVICE void store(Fp16& to, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}

/// 16 bytes, moved by one instruction.
using Vector16 = uint4;

HEADROOM_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
HEADROOM_DEVICE int thread_count() {
  return static_cast<int>(blockDim.x);
}
HEADROOM_DEVICE int64_t block_index() {
  return blockIdx.x;
}
HEADROOM_DEVICE int64_t block_count() {
  return gridDim.x;
}
HEADROOM_DEVICE int64_t block_index_y() {
  return blockIdx.y;
}
HEADROOM_DEVICE int64_t block_index_z() {
  return blockIdx.z;
}

/// All threads of the block meet.
HEADROOM_DEVICE void meet() {
  __syncthreads();
}
HEADROOM_DEVICE float from_lane_xor(float x, int mask) {
  return __shfl_xor_sync(0xffffffffU, x, mask);
}
HEADROOM_DEVICE int from_lane_xor(int x, int mask) {
  return __shfl_xor_sync(0xffffffffU, x, mask);
}
/// Bit i: what lane i of the warp has said.
HEADROOM_DEVICE uint32_t ballot(bool vote) {
  return __ballot_sync(0xffffffffU, vote);
}
HEADROOM_DEVICE int count_bits(uint32_t bits) {
  return __popc(bits);
}

/// The shared memory that the launch has asked for.
template <typename T>
HEADROOM_DEVICE T* launch_memory() {
  extern __shared__ __align__(16) unsigned char headroom_launch_memory[];
  return reinterpret_cast<T*>(headroom_launch_memory);
}

/// Four matrices of 8 x 8 two-byte elements; lane l gives the address of row l % 8 of matrix l / 8.
/// Register m receives the elements (l / 4, 2 (l % 4)) and the one behind of matrix m.
HEADROOM_DEVICE void load_matrices(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed.
HEADROOM_DEVICE void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// c += a b for a [16, 16] and b [16, 8], fragments as the PTX ISA lays them out (mma.m16n8k16).
HEADROOM_DEVICE void multiply_add(Bf16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                  uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
HEADROOM_DEVICE void multiply_add(Fp16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                  uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace headroom::cuda
