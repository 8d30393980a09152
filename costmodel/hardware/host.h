#pragma once

#include <optional>
#include <string>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"

namespace headroom::cost {

/// The node type that `device` stands in.
///
/// Model:   the node type called `name`, or else the first of the catalogue with such devices, a
///          vendor's own system before a cloud's; nothing if no node type has such devices.
/// Errors:  those of `load_node` and `list_nodes`; kInvalidArgument for a node with other devices.
[[nodiscard]] Result<std::optional<NodeSpec>> find_node(const std::string& config_dir,
                                                        const DeviceSpec& device,
                                                        const std::optional<std::string>& name);

/// The host of `node`. Where the node is unknown, or what memory it has: for each rank twice the
/// memory of its GPU, and not less than 64 GiB; `HostSpec::note` says so.
[[nodiscard]] HostSpec host_of(const DeviceSpec& device, const std::optional<NodeSpec>& node);

/// `device` with the host that it stands in (`find_node`, `host_of`).
///
/// Errors:  those of `find_node`.
[[nodiscard]] Result<DeviceSpec> with_host(const std::string& config_dir, DeviceSpec device,
                                           const std::optional<std::string>& node = std::nullopt);

/// What is said of the host in place of what the catalogue has.
struct HostRequest {
  std::optional<std::string> node;  ///< Name or title of a node type; nothing: `find_node`'s.
  std::optional<Bytes> memory;      ///< Of a node, for the run.
  std::optional<Bytes> nvme;        ///< All drives of a node.
  std::optional<BytesPerSecond> nvme_rate;  ///< Of all drives of a node together.
  friend bool operator==(const HostRequest&, const HostRequest&) = default;
};

/// The name of the node type with this title; `text` itself if there is none.
[[nodiscard]] std::string node_named(const std::string& config_dir, const std::string& text);

/// `device` in the host that `request` describes. A catalogue without nodes is no error unless one
/// was named.
///
/// Errors:  those of `with_host`.
[[nodiscard]] Result<DeviceSpec> in_host(const std::string& config_dir, DeviceSpec device,
                                         const HostRequest& request);

}  // namespace headroom::cost
