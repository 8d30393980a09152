#include "model_ir/base/units.h"

#include <doctest/doctest.h>

namespace headroom {

TEST_CASE("parse_bytes: GiB and GB differ, no unit means bytes") {
  CHECK(parse_bytes("80GiB") == Bytes{85'899'345'920});
  CHECK(parse_bytes("80 GB") == Bytes{80'000'000'000});
  CHECK(parse_bytes("1.5KiB") == Bytes{1536});
  CHECK(parse_bytes("123") == Bytes{123});
}

TEST_CASE("parse_bytes: what is not a size is refused") {
  for (const char* text : {"", "GiB", "-1GiB", "80 GiX", "nan", "inf", "1e40", "12 34"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text));
  }
}

TEST_CASE("Bytes: an overflow is a bug, not a wrapped number") {
  CHECK_THROWS_AS(Bytes{INT64_MAX} + Bytes{1}, InternalError);
  CHECK_THROWS_AS(Bytes{INT64_MAX} * 2, InternalError);
}

TEST_CASE("to_text: bytes in IEC units, counts with commas") {
  CHECK(to_text(Bytes{512}) == "512 B");
  CHECK(to_text(Bytes{85'899'345'920}) == "80.0 GiB");
  CHECK(to_text(Bytes{-3 * kGiB / 2}) == "-1.50 GiB");
  CHECK(to_text(Bytes{402 * kMiB}) == "402 MiB");
  CHECK(to_text(Bytes{1002 * kMiB}) == "0.979 GiB");
  CHECK(to_text(Bytes{1023}) == "1023 B");
  CHECK(with_commas(1'235'814'400) == "1,235,814,400");
  CHECK(with_commas(-1000) == "-1,000");
  CHECK(with_commas(7) == "7");
}

}  // namespace headroom
