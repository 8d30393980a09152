#include "cli/device_choice.h"

#include <cstdint>

#include "cli/scalars.h"
#include "validators/executor/backend_plugin.h"

namespace headroom::cli {

Result<exec::DeviceChoice> read_cuda_device(const std::string& text) {
  const std::string prefix = "cuda";
  int ordinal = 0;
  if (text != prefix) {
    constexpr std::int64_t kMostDevices = 1024;
    const Result<std::int64_t> number =
        text.starts_with(prefix + ":")
            ? parse_whole("device", text.substr(prefix.size() + 1), 0, kMostDevices)
            : Result<std::int64_t>(Error{});
    if (!number) {
      return Error::invalid_argument("device", text, "cuda or cuda:N");
    }
    ordinal = static_cast<int>(*number);
  }
  const Result<const HeadroomDeviceTable*> backend =
      exec::load_cuda_backend(exec::cuda_plugin_places());
  if (!backend) {
    return backend.error();
  }
  return exec::DeviceChoice{.backend = *backend, .ordinal = ordinal};
}

}  // namespace headroom::cli
