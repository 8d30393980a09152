#pragma once

#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"

namespace headroom::cost {

/// The GPU that the catalogue below `config_dir` knows as `name`. Upper and lower case, blanks,
/// underscores and the maker's name do not matter: "NVIDIA H100 80GB HBM3", "h100" and "H100_80GB"
/// are one GPU. A name that ends in ".json" is the path of the user's own file.
///
/// Model:   opens the one file of that name; only if there is none, `aliases.json` as well.
/// Errors:  kInvalidArgument for a name that is not known, with the closest ones; otherwise those
///          of `read_device`.
[[nodiscard]] Result<DeviceSpec> load_device(const std::string& config_dir,
                                             const std::string& name);
/// Errors:  as `load_device`.
[[nodiscard]] Result<LinkSpec> load_link(const std::string& config_dir, const std::string& name);
/// Errors:  as `load_device`.
[[nodiscard]] Result<NodeSpec> load_node(const std::string& config_dir, const std::string& name);

/// Names of all GPUs, sorted, from the folder's listing alone.
///
/// Errors:  kEnvironment if the folder cannot be read.
[[nodiscard]] Result<std::vector<std::string>> device_names(const std::string& config_dir);

/// All entries of the catalogue, sorted by name.
///
/// Errors:  kEnvironment if the folder cannot be read; those of the first faulty entry.
[[nodiscard]] Result<std::vector<DeviceSpec>> list_devices(const std::string& config_dir);
[[nodiscard]] Result<std::vector<LinkSpec>> list_links(const std::string& config_dir);
[[nodiscard]] Result<std::vector<NodeSpec>> list_nodes(const std::string& config_dir);
/// The nodes that have the device.
[[nodiscard]] Result<std::vector<NodeSpec>> nodes_with(const std::string& config_dir,
                                                       const std::string& device);

}  // namespace headroom::cost
