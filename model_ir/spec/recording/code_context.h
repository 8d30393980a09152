#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// Tensors of a recording have at most this many dims.
inline constexpr std::size_t kMostDims = 8;

/// The first fault that was found in a recording.
class RecordingFaults {
 public:
  explicit RecordingFaults(std::string_view file) : file_(file) {}
  /// Notes a fault, unless there is one already. Always false. `got` may be null.
  bool refuse(const std::string& pointer, const JsonValue* got, std::string_view wanted,
              std::string_view fix = {});
  [[nodiscard]] Error error() const { return *error_; }

 private:
  std::string file_;
  std::optional<Error> error_;
};

/// Names that a code uses; references hold indices of these lists.
struct CodeNames {
  std::vector<std::string> parameters;
  std::vector<std::string> buffers;
  std::vector<std::string> modules;
};

/// The templates and layers that code may refer to besides its own values.
struct CodeContext {
  struct Layer {
    std::uint32_t arguments = 0;
    std::uint32_t outputs = 0;
    std::vector<std::uint32_t> consumed{};
  };
  const std::vector<RecordedGradient>& gradients;
  std::vector<Layer> layers;  ///< Layers that it may run.
};

/// The type with this name in recordings ("bf16"). Complex numbers count as types of their size.
[[nodiscard]] std::optional<DType> parse_recorded_type(std::string_view text);

}  // namespace headroom::ir
