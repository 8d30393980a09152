#include "model_ir/json/json_writer.h"

#include <doctest/doctest.h>

namespace headroom::ir {

TEST_CASE("to_pretty_json: members stand on lines of their own, what is short stays together") {
  JsonFields inner;
  inner.add("stage", 3);
  JsonFields fields;
  fields.add("name", "x");
  fields.add("bytes", Bytes{5});
  fields.add("on", true);
  fields.add("zero", std::move(inner));
  CHECK(to_pretty_json(std::move(fields).finish()) ==
        "{\n"
        "  \"name\": \"x\",\n"
        "  \"bytes\": 5,\n"
        "  \"on\": true,\n"
        "  \"zero\": {\"stage\": 3}\n"
        "}");
}

TEST_CASE("to_pretty_json: a long array is broken, an empty one is not") {
  JsonValue::Array numbers;
  for (int index = 0; index < 60; ++index) {
    numbers.emplace_back(std::int64_t{index});
  }
  const std::string text = to_pretty_json(JsonValue{numbers});
  CHECK(text.substr(0, 8) == "[\n  0,\n ");
  CHECK(text.substr(text.size() - 6) == "  59\n]");
  CHECK(to_pretty_json(JsonValue{JsonValue::Array{}}) == "[]");
  CHECK(to_pretty_json(JsonValue{JsonValue::Object{}}) == "{}");
}

TEST_CASE("to_pretty_json: reads back as the same document") {
  const std::string text =
      R"({"a": [1, 2.5, null, {"b": "line\nbreak \"quoted\""}], "c": {}, "d": [[1], []]})";
  const JsonValue value = parse_json(text, "t").value();
  CHECK(to_json(parse_json(to_pretty_json(value), "t").value()) == to_json(value));
}

TEST_CASE("json_texts: keeps the order") {
  CHECK(to_json(json_texts({"b", "a"})) == R"(["b", "a"])");
}

}  // namespace headroom::ir
