#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "validators/executor/device_abi.h"

/// Elements as the CPU reads and writes them. All arithmetic runs in fp64; a result is rounded
/// once, to nearest even, when it is stored.
namespace headroom::exec::cpu {

struct Bf16 {
  std::uint16_t bits = 0;
};
struct Fp16 {
  std::uint16_t bits = 0;
};

[[nodiscard]] inline double load(double value) {
  return value;
}
[[nodiscard]] inline double load(float value) {
  return static_cast<double>(value);
}
[[nodiscard]] inline double load(Bf16 value) {
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{value.bits} << 16));
}
[[nodiscard]] double load(Fp16 value);

inline void store(double& to, double value) {
  to = value;
}
inline void store(float& to, double value) {
  to = static_cast<float>(value);
}
void store(Bf16& to, double value);
void store(Fp16& to, double value);

/// Calls `work` with a null pointer of the element type. False: not a floating-point type that the
/// CPU has.
template <typename Work>
[[nodiscard]] bool with_type(std::int32_t type, const Work& work) {
  switch (type) {
    case HEADROOM_FP32:
      work(static_cast<float*>(nullptr));
      return true;
    case HEADROOM_FP64:
      work(static_cast<double*>(nullptr));
      return true;
    case HEADROOM_BF16:
      work(static_cast<Bf16*>(nullptr));
      return true;
    case HEADROOM_FP16:
      work(static_cast<Fp16*>(nullptr));
      return true;
    default:
      return false;
  }
}

/// The type that a pointer points to.
template <typename Pointer>
using Element = std::remove_pointer_t<Pointer>;

template <typename T>
[[nodiscard]] const T* in(const void* data) {
  return static_cast<const T*>(data);
}
template <typename T>
[[nodiscard]] T* out(void* data) {
  return static_cast<T*>(data);
}
[[nodiscard]] inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

/// Statistics: fp32, or fp64 beside fp64 tensors.
class Stat {
 public:
  Stat(void* data, std::int32_t type) : data_(data), wide_(type == HEADROOM_FP64) {}
  Stat(const void* data, std::int32_t type) : Stat(const_cast<void*>(data), type) {}
  [[nodiscard]] double operator[](std::int64_t index) const {
    return wide_ ? static_cast<const double*>(data_)[index]
                 : static_cast<double>(static_cast<const float*>(data_)[index]);
  }
  void set(std::int64_t index, double value) const {
    if (wide_) {
      static_cast<double*>(data_)[index] = value;
    } else {
      static_cast<float*>(data_)[index] = static_cast<float>(value);
    }
  }

 private:
  void* data_;
  bool wide_;
};

/// The code that a kernel returns; it fails if the CPU does not have the type that it was given.
[[nodiscard]] std::int32_t answer(HeadroomDevice* device, bool known_type);
/// Fails with a sentence.
[[nodiscard]] std::int32_t fail(HeadroomDevice* device, const char* sentence);

/// Runs `work` with a pointer of the element type: the body of a kernel.
template <typename Work>
[[nodiscard]] std::int32_t typed(HeadroomDevice* device, std::int32_t type, const Work& work) {
  return answer(device, with_type(type, work));
}
/// The same with pointers of two types.
template <typename Work>
[[nodiscard]] std::int32_t typed(HeadroomDevice* device, std::int32_t first, std::int32_t second,
                                 const Work& work) {
  bool known = true;
  const bool outer =
      with_type(first, [&](auto* a) { known = with_type(second, [&](auto* b) { work(a, b); }); });
  return answer(device, outer && known);
}

// Each file of kernels fills its part of the table.
void add_gemm(HeadroomDeviceTable& table);
void add_fp8(HeadroomDeviceTable& table);
void add_elementwise(HeadroomDeviceTable& table);
void add_data(HeadroomDeviceTable& table);
void add_norm(HeadroomDeviceTable& table);
void add_attention(HeadroomDeviceTable& table);
void add_loss(HeadroomDeviceTable& table);
void add_experts(HeadroomDeviceTable& table);
void add_optimizer(HeadroomDeviceTable& table);

}  // namespace headroom::exec::cpu
