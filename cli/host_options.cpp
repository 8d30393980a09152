#include "cli/host_options.h"

#include <optional>
#include <utility>

#include "cli/scalars.h"
#include "cli/time_options.h"
#include "costmodel/hardware/bandwidth.h"
#include "costmodel/hardware/host.h"

namespace headroom::cli {
namespace {

Result<std::optional<Bytes>> size_of(const Arguments& arguments, const char* option) {
  const std::optional<std::string> text = arguments.value(option);
  if (!text) {
    return std::optional<Bytes>();
  }
  const std::optional<Bytes> bytes = parse_bytes(*text);
  if (!bytes || *bytes == Bytes{0}) {
    return Error::invalid_argument(option, *text, "a size as 512GiB, 4TB or 2199023255552");
  }
  return bytes;
}

}  // namespace

std::vector<OptionSpec> host_options() {
  return {{"host-memory", "SIZE", "the node type's",
           "host memory of a node that the run may take, as 512GiB"},
          {"nvme", "SIZE", "the node type's", "size of a node's NVMe drives together, as 4TB"},
          {"nvme-rate", "RATE", "the node type's",
           "what a node's NVMe drives together read in a second: 12GB/s"}};
}

Result<cost::DeviceSpec> with_asked_host(const Arguments& arguments, const std::string& config_dir,
                                         cost::DeviceSpec device) {
  const std::optional<std::string> node = asked_node(arguments, config_dir);
  Result<cost::DeviceSpec> placed = cost::with_host(config_dir, device, node);
  if (!placed && node) {
    return placed;
  }
  if (placed) {
    device = std::move(placed).value();
  } else {
    device.host = cost::host_of(device, std::nullopt);
  }
  cost::HostSpec& host = *device.host;
  const Result<std::optional<Bytes>> memory = size_of(arguments, "host-memory");
  const Result<std::optional<Bytes>> nvme = size_of(arguments, "nvme");
  if (!memory || !nvme) {
    return memory ? nvme.error() : memory.error();
  }
  if (*memory) {
    host.memory = **memory;
    host.memory_per_rank = false;
    host.note.clear();
  }
  if (*nvme) {
    host.nvme = **nvme;
  }
  if (const std::optional<std::string> text = arguments.value("nvme-rate")) {
    host.nvme_rate = cost::parse_bandwidth(*text);
    if (!host.nvme_rate) {
      return Error::invalid_argument("nvme-rate", *text, "a rate above zero, as 12GB/s");
    }
  }
  return device;
}

}  // namespace headroom::cli
