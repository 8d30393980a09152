#pragma once

#include <string>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"

namespace headroom::cost {

/// Reads one file of the form of `configs/schema/gpu.schema.json`.
///
/// Errors:  kEnvironment if it cannot be read; kInvalidInput with every fault of the file: an
///          unknown key, a value out of range, a figure without a source.
[[nodiscard]] Result<DeviceSpec> read_device(const std::string& path);

/// Reads one file of the form of `configs/schema/link.schema.json`. Errors as `read_device`.
[[nodiscard]] Result<LinkSpec> read_link(const std::string& path);

/// Reads one file of the form of `configs/schema/node.schema.json`. Errors as `read_device`.
[[nodiscard]] Result<NodeSpec> read_node(const std::string& path);

}  // namespace headroom::cost
