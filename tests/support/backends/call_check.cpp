#include "tests/support/backends/call_check.h"

#include <iterator>

namespace headroom::test {
namespace {

const HeadroomDeviceTable* the_inner = nullptr;
CheckedCalls the_calls;

}  // namespace

const HeadroomDeviceTable& checked_backend(const HeadroomDeviceTable& inner) {
  static HeadroomDeviceTable table;
  the_inner = &inner;
  the_calls = {};
  table = inner;
  check_memory(table);
  check_kernels(table);
  check_training_kernels(table);
  return table;
}

const CheckedCalls& checked_calls() {
  return the_calls;
}
CheckedCalls& counted_calls() {
  return the_calls;
}
const HeadroomDeviceTable& inner_table() {
  return *the_inner;
}

std::int64_t bytes_of_type(std::int32_t type) {
  switch (type) {
    case HEADROOM_FP32:
    case HEADROOM_INT32:
      return 4;
    case HEADROOM_BF16:
    case HEADROOM_FP16:
      return 2;
    case HEADROOM_FP64:
    case HEADROOM_INT64:
      return 8;
    default:
      return 1;
  }
}

CallCheck::CallCheck(HeadroomDevice* device, const char* name, HeadroomStream stream)
    : device_(checked(device)), name_(name), stream_(stream) {
  device_.error.clear();
  requires_that(stream >= 0 && stream < device_.streams, "runs on a stream that there is not");
}

void CallCheck::fail(const std::string& why) {
  if (device_.error.empty()) {
    device_.error = std::string(name_) + " " + why;
  }
}

CallCheck& CallCheck::requires_that(bool holds, const char* otherwise) {
  if (!holds) {
    fail(otherwise);
  }
  return *this;
}

void CallCheck::check_range(const std::map<const std::byte*, std::int64_t>& live, const void* data,
                            std::int64_t bytes, const char* where) {
  if (bytes < 0) {
    fail("uses a negative number of bytes");
    return;
  }
  if (bytes == 0) {
    return;
  }
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto after = live.upper_bound(begin);
  if (after == live.begin() || begin + bytes > std::prev(after)->first + std::prev(after)->second) {
    fail("uses " + std::to_string(bytes) + " bytes that are not inside one live allocation of " +
         where);
    return;
  }
  the_calls.pointers += 1;
}

CallCheck& CallCheck::uses(const void* data, std::int64_t count, std::int32_t type) {
  check_range(device_.memory, data, count * bytes_of_type(type), "the device");
  return *this;
}
CallCheck& CallCheck::may_use(const void* data, std::int64_t count, std::int32_t type) {
  return data == nullptr ? *this : uses(data, count, type);
}
CallCheck& CallCheck::rows(const void* data, std::int64_t rows, std::int64_t row,
                           std::int64_t columns, std::int32_t type) {
  requires_that(row >= columns || rows <= 1, "has rows that overlap");
  return rows == 0 ? *this : uses(data, (rows - 1) * row + columns, type);
}
CallCheck& CallCheck::uses_host(const void* data, std::int64_t bytes) {
  check_range(device_.host, data, bytes, "page-locked memory");
  return *this;
}
CallCheck& CallCheck::kernel() {
  the_calls.kernels += 1;
  return requires_that(stream_ == 0, "is a kernel that does not run on stream 0");
}

}  // namespace headroom::test
