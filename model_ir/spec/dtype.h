#pragma once

#include <cstdint>
#include <string_view>

#include "model_ir/base/units.h"

namespace headroom::ir {

/// Element types of tensors. Quantised block formats are described where they are used.
enum class DType : std::uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kFp64,
  kFp8,
  kInt64,
  kInt32,
  kInt8,
  kUInt8,
  kBool
};

/// Exact bits per element.
[[nodiscard]] constexpr std::int64_t bits_of(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
    case DType::kInt64:
      return 64;
    case DType::kFp32:
    case DType::kInt32:
      return 32;
    case DType::kBf16:
    case DType::kFp16:
      return 16;
    case DType::kFp8:
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return 8;
  }
  return 0;
}

[[nodiscard]] constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kBf16 || dtype == DType::kFp16 ||
         dtype == DType::kFp64 || dtype == DType::kFp8;
}

[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return "fp64";
    case DType::kInt64:
      return "int64";
    case DType::kFp32:
      return "fp32";
    case DType::kInt32:
      return "int32";
    case DType::kBf16:
      return "bf16";
    case DType::kFp16:
      return "fp16";
    case DType::kFp8:
      return "fp8";
    case DType::kInt8:
      return "int8";
    case DType::kUInt8:
      return "uint8";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

/// Bytes of `elements` elements, sub-byte types rounded up once.
[[nodiscard]] inline Bytes bytes_of(std::int64_t elements, DType dtype) {
  return Bytes{ceil_div(elements * bits_of(dtype), 8)};
}

}  // namespace headroom::ir
