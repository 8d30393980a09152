#include "validators/executor/device.h"

#include <array>

namespace headroom::exec {

Result<std::unique_ptr<Device>> Device::open(const HeadroomDeviceTable& table, int ordinal,
                                             Bytes workspace) {
  if (table.version != HEADROOM_DEVICE_ABI_VERSION ||
      table.size != static_cast<std::int32_t>(sizeof(HeadroomDeviceTable))) {
    return Error::environment(table.backend,
                              "version " + std::to_string(table.version) + " of the interface",
                              "version " + std::to_string(HEADROOM_DEVICE_ABI_VERSION),
                              "install the program and its device library from one release");
  }
  const HeadroomOpen how{.ordinal = ordinal, .reserved = 0, .workspace_bytes = workspace.value()};
  HeadroomDevice* handle = nullptr;
  std::array<char, 512> message{};
  if (table.open(&how, &handle, message.data(), static_cast<std::int64_t>(message.size())) != 0 ||
      handle == nullptr) {
    return Error::environment(table.backend, message.data(), {});
  }
  std::unique_ptr<Device> device(new Device(table, handle));
  device->run(&HeadroomDeviceTable::info, &device->info_);
  if (Status opened = device->status(); !opened) {
    return std::move(opened).error();
  }
  return device;
}

Device::Device(const HeadroomDeviceTable& table, HeadroomDevice* handle)
    : table_(table), handle_(handle) {}

Device::~Device() {
  table_.close(handle_);
}

void Device::fail() {
  const char* const words = table_.last_error(handle_);
  stop(words != nullptr && *words != '\0' ? words : "a call of the device failed");
}

void Device::stop(const std::string& why) {
  if (failure_.empty()) {
    failure_ = why;
  }
}

Status Device::status() const {
  if (failure_.empty()) {
    return ok();
  }
  return Error::environment(table_.backend, failure_, {});
}

}  // namespace headroom::exec
