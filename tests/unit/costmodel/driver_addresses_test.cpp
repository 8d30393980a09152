#include "costmodel/memory/driver_addresses.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/units.h"

// What cudaMalloc of driver 580.159 did on an H100, segment by segment.
namespace headroom::cost {
namespace {

/// Fills the places that are there from the start, so that only chunks are left.
void fill_first_places(DriverAddresses& addresses) {
  for (const std::int64_t bytes : {2, 400, 22, 32}) {
    static_cast<void>(addresses.take(bytes * kMiB));
  }
}

/// MiB below `top`.
std::int64_t below(std::int64_t top, std::int64_t address) {
  return (top - address) / kMiB;
}

}  // namespace

TEST_CASE(
    "driver addresses: chunks of whole 32 MiB fall, and take smaller segments at their rest") {
  DriverAddresses addresses;
  fill_first_places(addresses);
  const std::int64_t first = addresses.take(20 * kMiB);
  const std::int64_t top = first + 32 * kMiB;
  std::vector<std::int64_t> seen;
  for (const std::int64_t mib : {32, 64, 2, 512, 2, 20, 22, 1024, 2, 4096, 2, 20, 130, 6, 2}) {
    seen.push_back(below(top, addresses.take(mib * kMiB)));
  }
  // The recorded places; 22 MiB fit nowhere, and the first place that is large enough is the
  // lowest.
  CHECK(seen == std::vector<std::int64_t>{64, 128, 12, 640, 10, 672, 704, 1728, 682, 5824, 680,
                                          5856, 6016, 5886, 5880});
}

TEST_CASE("driver addresses: the first small segment and what comes next lie above all chunks") {
  DriverAddresses addresses;
  const std::int64_t small = addresses.take(2 * kMiB);
  const std::int64_t low = addresses.take(32 * kMiB);
  const std::int64_t next = addresses.take(300 * kMiB);
  const std::int64_t chunk = addresses.take(502 * kMiB);
  CHECK(low < next);
  CHECK(next == low + 32 * kMiB);
  CHECK(small > next);
  CHECK(chunk < low);
}

TEST_CASE(
    "driver addresses: what was given back serves from its top where more than that is free") {
  DriverAddresses addresses;
  fill_first_places(addresses);
  std::vector<std::int64_t> segments;
  for (int i = 0; i < 10; ++i) {
    segments.push_back(addresses.take(64 * kMiB));
  }
  for (const std::size_t freed : {2U, 5U, 6U}) {
    addresses.give_back(segments[freed]);
  }
  CHECK(addresses.take(64 * kMiB) == segments[5]);                // 5 and 6 are one range of 128.
  CHECK(addresses.take(128 * kMiB) == segments[9] - 128 * kMiB);  // None is larger.
  CHECK(addresses.take(32 * kMiB) == segments[2] + 32 * kMiB);
  CHECK(addresses.take(32 * kMiB) == segments[6] + 32 * kMiB);
}

TEST_CASE("driver addresses: a range as large as asked for is not enough") {
  DriverAddresses addresses;
  fill_first_places(addresses);
  std::vector<std::int64_t> segments;
  for (int i = 0; i < 6; ++i) {
    segments.push_back(addresses.take(kGiB));
  }
  for (const std::size_t freed : {1U, 2U, 4U}) {
    addresses.give_back(segments[freed]);
  }
  const std::int64_t lowest = addresses.take(2 * kGiB);
  CHECK(lowest == segments[5] - 2 * kGiB);
  CHECK(addresses.take(512 * kMiB) == segments[1] + 512 * kMiB);
  CHECK(addresses.take(512 * kMiB) == segments[1]);
  CHECK(addresses.take(kGiB) == lowest - kGiB);
}

}  // namespace headroom::cost
