#pragma once

#include <array>
#include <string>

#include "tests/support/backends/twin.h"

namespace headroom::test {

/// Element types that CUDA has.
inline constexpr std::array<std::int32_t, 3> kTypes = {HEADROOM_FP32, HEADROOM_BF16, HEADROOM_FP16};

inline std::string name_of(std::int32_t type) {
  return type == HEADROOM_FP32 ? "fp32" : type == HEADROOM_BF16 ? "bf16" : "fp16";
}

}  // namespace headroom::test
