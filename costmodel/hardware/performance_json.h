#pragma once

#include <string>

#include "costmodel/hardware/performance.h"
#include "model_ir/json/json_value.h"

namespace headroom::cost {

/// The sources of the figures of each group, in words.
struct PerformanceSources {
  std::string gemm;
  std::string attention;
  std::string memory;
  std::string launch;
  std::string host;
};

/// The document that `read_performance` reads, for `device`: rates as shares of its datasheet's.
/// Reading it back gives the same times.
[[nodiscard]] ir::JsonValue performance_to_json(const DevicePerformance& performance,
                                                const DeviceSpec& device,
                                                const PerformanceSources& sources);

}  // namespace headroom::cost
