#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {
namespace {

JsonReader reader_of(std::string_view text) {
  return JsonReader::from_text(text, "demo.json").value();
}

}  // namespace

TEST_CASE("JsonReader: every wrong field is reported, with its place, in one error") {
  const JsonReader reader = reader_of(R"({"a": "four", "b": {"c": 2.5}, "d": [1, "x"], "e": 9})");
  const JsonObject root = reader.root();
  CHECK(root.integer("a", {1, 10}) == 1);
  CHECK(root.object("b").integer("c", {0, 10}) == 0);
  CHECK(root.integers_or_none("d", {}).empty());
  CHECK(root.integer("e", {1, 8}) == 1);
  CHECK_FALSE(root.boolean("f"));
  const Status status = reader.finish();
  REQUIRE_FALSE(status);
  const Error& error = status.error();
  CHECK(error.file == "demo.json");
  CHECK(error.pointer == "/a");
  CHECK(error.got == "\"four\"");
  CHECK(error.wanted == "an integer from 1 to 10");
  REQUIRE(error.notes.size() == 4);
  CHECK(error.notes[0] == "also /b/c: got 2.5, expected an integer from 0 to 10");
  CHECK(error.notes[1] == "also /d: got \"x\", expected in every place an integer");
  CHECK(error.notes[2] == "also /e: got 9, expected an integer from 1 to 8");
  CHECK(error.notes[3] == "also /f: got nothing, expected true or false (add \"f\")");
}

TEST_CASE("JsonReader: a missing field names the key that was meant") {
  const JsonReader reader = reader_of(R"({"hiden_size": 4096})");
  (void)reader.root().integer("hidden_size", {1, 1 << 24});
  const Status status = reader.finish();
  REQUIRE_FALSE(status);
  CHECK(status.error().pointer == "/hidden_size");
  CHECK(status.error().fix == "rename \"hiden_size\" to \"hidden_size\"");
}

TEST_CASE("JsonReader: our own files may hold no unknown key, foreign ones list them") {
  const JsonReader reader = reader_of(R"({"x": 1, "latencyseconds": 2, "in": {"y/z": 3, "k": 4}})");
  const JsonObject root = reader.root();
  (void)root.integer("x", {});
  CHECK_FALSE(root.optional_number("latency_seconds"));
  (void)root.object("in").integer("k", {});
  CHECK(reader.finish());
  CHECK(reader.unread() == std::vector<std::string>{"/latencyseconds", "/in/y~1z"});
  const Status status = reader.finish_refusing_unknown_keys();
  REQUIRE_FALSE(status);
  CHECK(status.error().pointer == "/latencyseconds");
  CHECK(status.error().fix == "did you mean \"latency_seconds\"?");
  CHECK(status.error().notes.size() == 1);
}

TEST_CASE("JsonReader: objects inside arrays have pointers of their own") {
  const JsonReader reader = reader_of(R"({"links": [{"n": 1}, {"n": -1}, {"m": 2, "n": 3}]})");
  for (const JsonObject& link : reader.root().objects_or_none("links")) {
    (void)link.integer("n", {0, 5});
  }
  const Status status = reader.finish_refusing_unknown_keys();
  REQUIRE_FALSE(status);
  CHECK(status.error().pointer == "/links/1/n");
  CHECK(status.error().notes.at(0).find("/links/2/m") != std::string::npos);
}

TEST_CASE("JsonReader: null counts as absent and can be told from it") {
  const JsonReader reader = reader_of(R"({"a": null, "b": 1.5, "c": true, "d": "t", "e": ["u"]})");
  const JsonObject root = reader.root();
  CHECK(root.is_null("a"));
  CHECK_FALSE(root.is_null("z"));
  CHECK_FALSE(root.has("a"));
  CHECK(root.integer_or("a", 7, {}) == 7);
  CHECK(root.number("b") == 1.5);
  CHECK(root.boolean_or("c", false));
  CHECK(root.text_or("d", "?") == "t");
  CHECK(root.texts_or_none("e") == std::vector<std::string>{"u"});
  CHECK_FALSE(root.optional_object("a"));
  CHECK(reader.finish_refusing_unknown_keys());
}

TEST_CASE("JsonReader: what is no JSON is placed by line and column") {
  struct Fault {
    const char* text;
    const char* place;
  };
  for (const Fault& fault :
       {Fault{"{\n  \"a\": 1,\n  \"b\": NaN\n}", "line 3, column 8"},
        Fault{"{\"a\": }", "line 1, column 7"}, Fault{"{\"a\": 1", "line 1, column 8"},
        Fault{"{\"a\": Infinity}", "line 1, column 7"}}) {
    CAPTURE(fault.text);
    const auto reader = JsonReader::from_text(fault.text, "demo.json");
    REQUIRE_FALSE(reader);
    CHECK(reader.error().code == ErrorCode::kInvalidInput);
    CHECK(reader.error().file == "demo.json");
    CHECK(reader.error().pointer == fault.place);
  }
}

TEST_CASE("JsonReader: hostile text is an error and never a crash") {
  const std::string deep(100'000, '[');
  const std::string objects = [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) {
      text += "{\"a\":";
    }
    return text;
  }();
  for (const std::string& text :
       {std::string(), std::string("  \n"), deep, "{\"a\": " + deep, objects, std::string("[1]"),
        std::string("7"), std::string("{\"a\": 1, \"a\": 2}"), std::string("{\"a\": 1} x"),
        std::string("{\"a\": \"\xff\xfe\"}"), std::string("{\"a\": \"\\ud800\"}"),
        std::string("\0{}", 3), std::string("{\"a\": 1e999}")}) {
    CAPTURE(text.substr(0, 20));
    const auto reader = JsonReader::from_text(text, "demo.json");
    REQUIRE_FALSE(reader);
    CHECK(reader.error().code == ErrorCode::kInvalidInput);
    CHECK_FALSE(reader.error().got.empty());
  }
}

TEST_CASE("JsonReader: a byte order mark is skipped") {
  CHECK(reader_of("\xef\xbb\xbf{\"a\": 5}").root().integer("a", {}) == 5);
}

TEST_CASE("describe: long values are cut between characters") {
  CHECK(describe(JsonValue(std::int64_t{4})) == "4");
  CHECK(describe(JsonValue(JsonValue::Array(3))) == "an array of 3");
  std::string umlauts;
  for (int i = 0; i < 100; ++i) {
    umlauts += "\xc3\xbc";
  }
  // The quote takes one byte of the 60, so 29 characters of two bytes fit and half of one does not.
  CHECK(describe(JsonValue(umlauts)) == "\"" + umlauts.substr(0, 58) + "...");
}

TEST_CASE("JsonFields: fields keep their order and integers stay exact") {
  JsonFields inner;
  inner.add("flag", true).add("texts", json_texts({"a", "b"}));
  JsonFields fields;
  fields.add("bytes", Bytes{INT64_MAX}).add("count", 7).add("share", 0.1).add("name", "x");
  fields.add("nan", std::numeric_limits<double>::quiet_NaN()).add("inner", std::move(inner));
  CHECK(to_json(std::move(fields).finish()) ==
        R"({"bytes": 9223372036854775807, "count": 7, "share": 0.1, "name": "x", "nan": null, )"
        R"("inner": {"flag": true, "texts": ["a", "b"]}})");
}

TEST_CASE("to_pretty_json: only what holds others is broken into lines") {
  const auto value =
      parse_json(R"({"rows": [{"n": 1}, {"m": [2, 3]}], "none": [], "d": 0.5})", "f");
  CHECK(to_pretty_json(*value) ==
        "{\n"
        "  \"rows\": [\n"
        "    {\"n\": 1},\n"
        "    {\n"
        "      \"m\": [2, 3]\n"
        "    }\n"
        "  ],\n"
        "  \"none\": [],\n"
        "  \"d\": 0.5\n"
        "}");
  CHECK(to_pretty_json(JsonValue{std::int64_t{5}}) == "5");
  const std::string fits(96, 'x');  // With two quotes and two brackets: 100 columns.
  CHECK(to_pretty_json(json_texts({fits})) == "[\"" + fits + "\"]");
  CHECK(to_pretty_json(json_texts({fits + "x"})) == "[\n  \"" + fits + "x\"\n]");
}

TEST_CASE("read_file: what cannot be read is told apart") {
  const test::TemporaryFolder folder;
  CHECK(read_file(folder.write("a.json", "{}")).value() == "{}");
  CHECK(read_file(folder.write("empty", "")).value().empty());
  const auto missing = read_file(folder.path("nowhere.json"));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kEnvironment);
  CHECK(missing.error().got == "no such file");
  const auto directory = read_file(folder.path());
  REQUIRE_FALSE(directory);
  CHECK(directory.error().code == ErrorCode::kEnvironment);
  CHECK(directory.error().got == "is a folder, not a file");
  const auto large = read_file(folder.write("large", std::string(20'000, 'x')), 19'999);
  REQUIRE_FALSE(large);
  CHECK(large.error().code == ErrorCode::kInvalidInput);
  CHECK(read_file("/dev/zero", 100'000).error().code == ErrorCode::kInvalidInput);
  CHECK(read_file(folder.path("large"), 20'000).value().size() == 20'000);
}

TEST_CASE("read_file: a file without permission is an environment error") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("secret.json", "{}");
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  const auto text = read_file(path);
  if (::geteuid() == 0) {  // The superuser may read everything.
    CHECK(text);
  } else {
    REQUIRE_FALSE(text);
    CHECK(text.error().code == ErrorCode::kEnvironment);
    CHECK(text.error().got == "may not be read (permission denied)");
  }
}

TEST_CASE("write_file_atomically: the whole file or none, and nothing left behind") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("out.json");
  REQUIRE(write_file_atomically(path, "first"));
  REQUIRE(write_file_atomically(path, "second"));
  CHECK(read_file(path).value() == "second");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);

  const auto nowhere = write_file_atomically(folder.path("no/such/folder/out.json"), "x");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::kEnvironment);
  std::filesystem::create_directory(folder.path("taken"));
  std::ofstream(folder.path("taken/file")) << "x";
  CHECK_FALSE(write_file_atomically(folder.path("taken"), "x"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  CHECK(write_file_atomically("/dev/null", "gone"));
  CHECK_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

}  // namespace headroom::ir
