#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "validators/executor/device_abi.h"

namespace headroom::exec {

inline constexpr HeadroomStream kComputeStream = 0;

/// A backend opened on one device. The first failure of a call is kept: later calls do nothing, so
/// that operators need not look at every result. Whoever reads a number back asks `status` first.
class Device {
 public:
  /// Opens device `ordinal` of a backend.
  ///
  /// Errors:  kEnvironment with the backend's sentence if the device cannot be opened.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const HeadroomDeviceTable& table,
                                                            int ordinal, Bytes workspace);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  /// Calls a function of the table: `run(&HeadroomDeviceTable::add, kComputeStream, out, ...)`.
  template <typename... P, typename... A>
  void run(std::int32_t (*HeadroomDeviceTable::*function)(HeadroomDevice*, P...), A... arguments) {
    if (failure_.empty() && (table_.*function)(handle_, arguments...) != 0) {
      fail();
    }
  }
  [[nodiscard]] bool failed() const { return !failure_.empty(); }
  /// Stops everything that follows, with this sentence.
  void stop(const std::string& why);
  /// Errors:  kEnvironment with the first failure.
  [[nodiscard]] Status status() const;

  [[nodiscard]] const HeadroomDeviceTable& table() const { return table_; }
  [[nodiscard]] HeadroomDevice* handle() { return handle_; }
  [[nodiscard]] const HeadroomDeviceInfo& info() const { return info_; }

 private:
  Device(const HeadroomDeviceTable& table, HeadroomDevice* handle);
  void fail();

  const HeadroomDeviceTable& table_;
  HeadroomDevice* handle_;
  HeadroomDeviceInfo info_{};
  std::string failure_;
};

}  // namespace headroom::exec
