#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tests/support/backends/checked_backend.h"

namespace headroom::test {

/// A device with the memory that lives on it.
struct CheckedDevice {
  HeadroomDevice* inner = nullptr;
  std::map<const std::byte*, std::int64_t> memory;  ///< Bytes of each range, by its beginning.
  std::map<const std::byte*, std::int64_t> host;
  std::int32_t streams = 1;
  std::map<HeadroomEvent, bool> events;  ///< Whether each event was recorded.
  std::string error;  ///< Sentence of a failed check; otherwise the inner device has it.
};

[[nodiscard]] inline CheckedDevice& checked(HeadroomDevice* device) {
  return *reinterpret_cast<CheckedDevice*>(device);
}
[[nodiscard]] const HeadroomDeviceTable& inner_table();
[[nodiscard]] CheckedCalls& counted_calls();

/// Bytes of an element of any type of the interface.
[[nodiscard]] std::int64_t bytes_of_type(std::int32_t type);

/// Type of statistics beside tensors of a type.
[[nodiscard]] inline std::int32_t stat_of(std::int32_t type) {
  return type == HEADROOM_FP64 ? HEADROOM_FP64 : HEADROOM_FP32;
}

/// One call: what it uses, then the call itself if all of it is there.
class CallCheck {
 public:
  CallCheck(HeadroomDevice* device, const char* name, HeadroomStream stream);

  /// `count` elements. `may_use`: nothing is used where the pointer is NULL.
  CallCheck& uses(const void* data, std::int64_t count, std::int32_t type);
  CallCheck& may_use(const void* data, std::int64_t count, std::int32_t type);
  /// `rows` rows of `columns`, `row` elements apart.
  CallCheck& rows(const void* data, std::int64_t rows, std::int64_t row, std::int64_t columns,
                  std::int32_t type);
  CallCheck& uses_host(const void* data, std::int64_t bytes);
  CallCheck& requires_that(bool holds, const char* otherwise);
  /// The call is a kernel, which runs on stream 0 alone.
  CallCheck& kernel();

  /// Calls the inner function with `arguments` behind its device.
  template <typename... P, typename... A>
  [[nodiscard]] std::int32_t run(std::int32_t (*HeadroomDeviceTable::*function)(HeadroomDevice*,
                                                                                P...),
                                 A... arguments) {
    if (!device_.error.empty()) {
      return 1;
    }
    return (inner_table().*function)(device_.inner, arguments...);
  }

 private:
  void check_range(const std::map<const std::byte*, std::int64_t>& live, const void* data,
                   std::int64_t bytes, const char* where);
  void fail(const std::string& why);

  CheckedDevice& device_;
  const char* name_;
  HeadroomStream stream_;
};

// Parts of the table.
void check_memory(HeadroomDeviceTable& table);
void check_kernels(HeadroomDeviceTable& table);
void check_training_kernels(HeadroomDeviceTable& table);

}  // namespace headroom::test
