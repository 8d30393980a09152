#include "cli/key_values.h"

#include <doctest/doctest.h>

namespace headroom::cli {

TEST_CASE("KeyValues: keys with values and bare keys") {
  KeyValues values = KeyValues::parse("lora", "r=16,dora,targets=q_proj+v_proj", '=').value();
  CHECK(values.take("r") == "16");
  CHECK(values.take("dora") == "");
  CHECK(values.take("targets") == "q_proj+v_proj");
  CHECK_FALSE(values.take("dropout").has_value());
  CHECK(values.finish());
}

TEST_CASE("KeyValues: a key that nobody takes is refused with the closest one") {
  KeyValues values = KeyValues::parse("lora", "droput=0.1", '=').value();
  CHECK_FALSE(values.take("dropout").has_value());
  const Status status = values.finish();
  REQUIRE_FALSE(status);
  CHECK(status.error().key == "lora");
  CHECK(status.error().got == "droput");
  CHECK(status.error().fix == "use 'dropout'");
}

TEST_CASE("KeyValues: empty parts and keys that occur twice are refused") {
  for (const char* text : {"r=1,,dora", ",", "=3", "r=1,"}) {
    CAPTURE(text);
    CHECK_FALSE(KeyValues::parse("lora", text, '='));
  }
  CHECK_FALSE(KeyValues::parse("lora", "r=1,r=2", '='));
  CHECK(KeyValues::parse("lora", "", '='));
}

}  // namespace headroom::cli
