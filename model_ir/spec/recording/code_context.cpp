#include "model_ir/spec/recording/code_context.h"

#include <algorithm>
#include <array>

#include "model_ir/json/json_reader.h"

namespace headroom::ir {

bool RecordingFaults::refuse(const std::string& pointer, const JsonValue* got,
                             std::string_view wanted, std::string_view fix) {
  if (!error_) {
    error_ = Error::invalid_input(file_, pointer, got == nullptr ? "nothing" : describe(*got),
                                  wanted, fix);
  }
  return false;
}

std::optional<DType> parse_recorded_type(std::string_view text) {
  struct Named {
    std::string_view name;
    DType dtype;
  };
  static constexpr std::array kTypes = {
      Named{"fp64", DType::kFp64},    Named{"fp32", DType::kFp32},
      Named{"fp16", DType::kFp16},    Named{"bf16", DType::kBf16},
      Named{"fp8_e4m3", DType::kFp8}, Named{"fp8_e5m2", DType::kFp8},
      Named{"int64", DType::kInt64},  Named{"uint64", DType::kInt64},
      Named{"uint32", DType::kInt32}, Named{"int32", DType::kInt32},
      Named{"int8", DType::kInt8},    Named{"uint8", DType::kUInt8},
      Named{"bool", DType::kBool},    Named{"complex64", DType::kFp64},
  };
  const auto* const found = std::ranges::find(kTypes, text, &Named::name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->dtype);
}

}  // namespace headroom::ir
