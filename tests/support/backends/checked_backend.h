#pragma once

#include <cstdint>

#include "validators/executor/device_abi.h"

namespace headroom::test {

/// Numbers of calls and pointers that a checked backend has examined.
struct CheckedCalls {
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
  std::int64_t pointers = 0;  ///< Ranges of memory that lay inside live allocations.
};

/// `inner`, with a check before every call: each pointer, with as many elements as the call reads
/// or writes, lies inside one live allocation of the device (or of page-locked host memory where
/// that is said), kernels run on stream 0, streams and events exist, and an event that somebody
/// waits for has been recorded. A call that breaks a rule fails with a sentence and does not reach
/// `inner`.
///
/// There is one checked backend at a time: the last `inner` counts.
[[nodiscard]] const HeadroomDeviceTable& checked_backend(const HeadroomDeviceTable& inner);
/// The counts of all devices opened since `checked_backend` was called.
[[nodiscard]] const CheckedCalls& checked_calls();

}  // namespace headroom::test
