#include "cli/host_options.h"

#include <optional>
#include <utility>

#include "cli/scalars.h"
#include "costmodel/hardware/bandwidth.h"
#include "costmodel/hardware/host.h"

namespace headroom::cli {
namespace {

Result<std::optional<Bytes>> asked_size(const Arguments& arguments, const char* option) {
  const std::optional<std::string> text = arguments.value(option);
  if (!text) {
    return std::optional<Bytes>();
  }
  const Result<Bytes> size = parse_size(option, *text);
  return size ? Result<std::optional<Bytes>>(*size) : Result<std::optional<Bytes>>(size.error());
}

}  // namespace

std::vector<OptionSpec> host_options() {
  return {{"host-memory", "SIZE", "that of the node",
           "host memory of a node that the run may use, such as 512GiB"},
          {"nvme", "SIZE", "that of the node",
           "size of all NVMe drives of a node together, such as 4TB"},
          {"nvme-rate", "RATE", "that of the node",
           "rate at which a node's NVMe drives together are read, such as 12GB/s"}};
}

Result<cost::DeviceSpec> with_asked_host(const Arguments& arguments, const std::string& config_dir,
                                         cost::DeviceSpec device) {
  const Result<std::optional<Bytes>> memory = asked_size(arguments, "host-memory");
  const Result<std::optional<Bytes>> nvme = asked_size(arguments, "nvme");
  if (!memory || !nvme) {
    return memory ? nvme.error() : memory.error();
  }
  cost::HostRequest request{
      .node = arguments.value("node"), .memory = *memory, .nvme = *nvme, .nvme_rate = {}};
  if (const std::optional<std::string> text = arguments.value("nvme-rate")) {
    request.nvme_rate = cost::parse_bandwidth(*text);
    if (!request.nvme_rate) {
      return Error::invalid_argument("nvme-rate", *text, "a rate above zero, such as 12GB/s");
    }
  }
  return cost::in_host(config_dir, std::move(device), request);
}

}  // namespace headroom::cli
