#include "model_ir/json/json_value.h"

#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "model_ir/json/plain_json.h"
#include "model_ir/json/python_json.h"

namespace headroom::ir {

TEST_CASE("json_of_python: infinities and NaN become null, and texts stay") {
  const std::string limits = R"({"limit": [0.0, Infinity], "low": -Infinity, "x": NaN})";
  const std::string as_json = R"({"limit": [0.0, null], "low": null, "x": null})";
  CHECK(json_of_python(limits) == as_json);
  const std::string tagged = "[0.0, {\n  \"__float__\": \"Infinity\"\n}]";
  CHECK(json_of_python(tagged) == "[0.0, null]");
  const std::string quoted = R"({"NaN": "Infinity", "a": "\\" , "b": "\" Infinity"})";
  CHECK(json_of_python(quoted) == quoted);
  CHECK(json_of_python("\"Infinity") == "\"Infinity");
  CHECK(json_of_python("").empty());
}

TEST_CASE("read_plain_member: a member is read without what comes after it") {
  const auto member = [](std::string_view text) {
    const std::optional<JsonValue> found = read_plain_member(text, "keys", {});
    return found ? to_json(*found) : "nothing";
  };
  CHECK(member(R"({"a": {"keys": 1}, "keys": {"b": [2]}, "c": )") == R"({"b": [2]})");
  CHECK(member(R"( { "keys" : null } )") == "null");
  CHECK(member(R"({"a": {"keys": 1}})") == "nothing");
  CHECK(member(R"({"a": , "keys": 1})") == "nothing");
  CHECK(member(R"(["keys", 1])") == "nothing");
  CHECK(member("{}") == "nothing");
  CHECK(member("") == "nothing");
}

TEST_CASE("parse_json: whole numbers stay exact up to the 64-bit limit") {
  const auto value = parse_json("[9223372036854775807, 9223372036854775808, 2.0, 2.5, -1]", "f");
  REQUIRE(value);
  const JsonValue::Array& items = *value->as_array();
  CHECK(items[0].as_integer() == INT64_MAX);
  CHECK_FALSE(items[1].as_integer());
  CHECK(items[1].as_number() == 9223372036854775808.0);
  CHECK(items[2].as_integer() == 2);
  CHECK_FALSE(items[3].as_integer());
  CHECK(items[4].as_integer() == -1);
}

TEST_CASE("parse_json: what is no JSON is refused with its byte") {
  for (const char* text : {"", "{", "[1,]", "NaN", "{\"a\": inf}", "1e999", "[1] 2", "'a'"}) {
    CAPTURE(text);
    const auto value = parse_json(text, "some.json");
    REQUIRE_FALSE(value);
    CHECK(value.error().code == ErrorCode::kInvalidInput);
    CHECK(value.error().file == "some.json");
  }
  CHECK(parse_json("[1, x]", "f").error().pointer == "byte 5");
  const auto nul = parse_json(std::string_view("[1]\0 and more", 13), "f");
  REQUIRE_FALSE(nul);
  CHECK(nul.error().pointer == "byte 4");
}

TEST_CASE("parse_json: nesting is capped and a key may stand once in an object") {
  const std::string deep(65, '[');
  CHECK_FALSE(parse_json(deep + std::string(65, ']'), "f"));
  CHECK(parse_json(std::string(64, '[') + std::string(64, ']'), "f"));
  CHECK_FALSE(parse_json(std::string(1'000'000, '['), "f"));
  CHECK(parse_json("[1, 2, 3]", "f", JsonLimits{.depth = 4, .values = 4}));
  CHECK_FALSE(parse_json("[1, 2, 3, 4]", "f", JsonLimits{.depth = 4, .values = 4}));
  const auto twice = parse_json(R"({"a": 1, "b": {"a": 2}, "a": 3})", "f");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().got == "key 'a' twice in one object");
}

TEST_CASE("parse_json: text beyond ASCII, escapes and all forms of numbers are read alike") {
  // "\\u0061" is left to the full parser, which then reads the whole document.
  for (const std::string text :
       {R"("a\"b\\c\/d\b\f\n\r\t")", "-0", "0", "-12", "0.5", "1e3", "1E+3", "-2.5e-3",
        "123456789012345678", "18446744073709551616", "4.9e-324", "1e-400", "[ ]", "{ }",
        " [ 1 , { \"k\" : [ ] } ] ", "[[], {}, [null, true, false]]",
        R"({"z": 1, "a": 2, "y": [3]})"}) {
    CAPTURE(text);
    const auto quick = parse_json(text, "f");
    const auto full = parse_json("[\"\\u0061\", " + text + "]", "f");
    REQUIRE(quick);
    REQUIRE(full);
    CHECK(to_json(*quick) == to_json((*full->as_array())[1]));
  }
  for (const std::string text :
       {"01",      "-",      "1.",       ".5",      "1e",       "+1",     "1e999",      "\"a",
        "\"\\x\"", "[1",     "[1 2]",    "{\"a\"}", "{\"a\":}", "{a: 1}", "tru",        "nul",
        "[1],",    "\"\t\"", "\"\xff\"", "--1",     "[,]",      "{,}",    "{\"a\": 1,}"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_json(text, "f"));
    CHECK_FALSE(parse_json("[\"\\u0061\", " + text + "]", "f"));
  }
}

TEST_CASE("to_json: reading back gives the same text") {
  const std::string text =
      R"({"a": [1, -2.5, 1e+300, true, false, null], "b\"\\\n\u0001": "ü", "c": {}, "d": []})";
  const auto value = parse_json(text, "f");
  REQUIRE(value);
  CHECK(to_json(value.value()) == text);
  CHECK(value->find("a")->as_array()->size() == 6);
  CHECK(value->find("zz") == nullptr);
}

}  // namespace headroom::ir
