#include "costmodel/hardware/bandwidth.h"

#include <doctest/doctest.h>

namespace headroom::cost {

TEST_CASE("bandwidth: bits, bytes and both directions are told apart") {
  CHECK(parse_bandwidth("50 GB/s") == BytesPerSecond{50e9});
  CHECK(parse_bandwidth("400 Gbit/s") == BytesPerSecond{50e9});
  CHECK(parse_bandwidth("900 GB/s bidirectional") == BytesPerSecond{450e9});
  CHECK(parse_bandwidth("1GiB/s") == BytesPerSecond{1073741824.0});
  CHECK(to_text(BytesPerSecond{450e9}) == "450 GB/s");
}

TEST_CASE("bandwidth: what could be bits or bytes, and what is no rate, is refused") {
  for (const char* const text :
       {"400 Gb/s", "400 GBps", "400", "400 GB", "0 GB/s", "-1 GB/s", "GB/s", "nan GB/s",
        "inf GB/s", "900 GB/s both", "900 GB/s bidirectional twice", ""}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bandwidth(text).has_value());
  }
}

}  // namespace headroom::cost
