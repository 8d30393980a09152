#include <cstdint>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "model_ir/base/units.h"
#include "tests/support/pickle_text.h"
#include "validators/snapshot/pickle_document.h"

namespace headroom::check {
namespace {

using test::Pickle;

PickleDocument read(const std::string& bytes) {
  return read_pickle(bytes, "test").value();
}

void check_refused(const std::string& bytes, std::string_view said) {
  const Result<PickleDocument> document = read_pickle(bytes, "bad.pickle");
  REQUIRE_FALSE(document);
  const std::string text = to_text(document.error());
  CAPTURE(text);
  CHECK(document.error().code == ErrorCode::kInvalidInput);
  CHECK(document.error().file == "bad.pickle");
  CHECK(text.find(said) != std::string::npos);
}

}  // namespace

TEST_CASE("pickle: numbers of every width") {
  // Python: pickle.dumps([255, 65535, -1, 2**40, -2**40, 0.5, True, None], 4)
  const std::string bytes(
      "\x80\x04](K\xffM\xff\xffJ\xff\xff\xff\xff"
      "\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x06\x00\x00\x00\x00\x00\xff"
      "G\x3f\xe0\x00\x00\x00\x00\x00\x00\x88Ne.",
      43);
  const PickleDocument document = read(bytes);
  const auto items = document.items(document.root());
  REQUIRE(items.size() == 8);
  CHECK(PickleDocument::integer(items[0]) == 255);
  CHECK(PickleDocument::integer(items[1]) == 65'535);
  CHECK(PickleDocument::integer(items[2]) == -1);
  CHECK(PickleDocument::integer(items[3]) == std::int64_t{1} << 40);
  CHECK(PickleDocument::integer(items[4]) == -(std::int64_t{1} << 40));
  CHECK(document.real(items[5]) == 0.5);
  CHECK((items[6].kind() == PickleKind::kBool && items[6].payload() == 1));
  CHECK(items[7].kind() == PickleKind::kNone);
}

TEST_CASE("pickle: an integer beyond 2^59 is the nearest that fits") {
  // 2^63: nine bytes; -2^63: eight.
  const PickleDocument document =
      read(std::string("\x80\x02](\x8a\x09\0\0\0\0\0\0\0\x80\0\x8a\x08\0\0\0\0\0\0\0\x80"
                       "e.",
                       27));
  const auto items = document.items(document.root());
  REQUIRE(items.size() == 2);
  CHECK(PickleDocument::integer(items[0]) == (std::int64_t{1} << 59) - 1);
  CHECK(PickleDocument::integer(items[1]) == -(std::int64_t{1} << 59));
}

TEST_CASE("pickle: values that the memo repeats are the same values, and equal texts are one") {
  // x = ["a"]; [x, x, "a"]: MEMOIZE, BINGET.
  const PickleDocument document = read(
      Pickle().raw("](](").text("a").raw(std::string("e\x94h\0", 4)).text("a").raw("e").finish());
  const auto items = document.items(document.root());
  REQUIRE(items.size() == 3);
  CHECK(items[0].payload() == items[1].payload());
  CHECK(document.containers() == 2);
  CHECK(document.texts() == 1);
}

TEST_CASE("pickle: lists and dictionaries that come in batches stay whole") {
  Pickle pickle;
  pickle.raw("](");
  for (int batch = 0; batch < 5; ++batch) {
    for (int item = 0; item < 1'000; ++item) {
      pickle.raw("](").integer(batch).integer(item).raw("e");
    }
    pickle.raw(batch < 4 ? "e(" : "e");
  }
  const PickleDocument document = read(pickle.finish());
  const auto items = document.items(document.root());
  REQUIRE(items.size() == 5'000);
  for (std::size_t at = 0; at < items.size(); ++at) {
    const auto pair = document.items(items[at]);
    REQUIRE(pair.size() == 2);
    CHECK(PickleDocument::integer(pair[0]) * 1'000 + PickleDocument::integer(pair[1]) ==
          static_cast<std::int64_t>(at));
  }
}

TEST_CASE("pickle: a list may hold itself") {
  const PickleDocument document = read(Pickle().raw(std::string("]\x94h\0a", 5)).finish());
  REQUIRE(document.items(document.root()).size() == 1);
  CHECK(document.items(document.root())[0].payload() == document.root().payload());
}

TEST_CASE("pickle: operations that import, call or build are refused by name") {
  check_refused(Pickle().raw("cos\nsystem\n").text("true").raw("\x85R").finish(),
                "GLOBAL of os.system: the file seems to be a pickle of Python objects");
  check_refused(Pickle().text("collections").text("OrderedDict").raw("\x93)R").finish(),
                "STACK_GLOBAL of collections.OrderedDict: the file seems to be a checkpoint");
  check_refused(Pickle(2).raw("ctorch._utils\n_rebuild_tensor_v2\n").finish(),
                "GLOBAL of torch._utils._rebuild_tensor_v2");
  check_refused(Pickle().raw(")R").finish(), "REDUCE");
  check_refused(Pickle().raw("}}b").finish(), "BUILD");
  check_refused(Pickle().raw("(ios\nsystem\n").finish(), "INST of os.system");
  check_refused(Pickle().raw("\x82\x01").finish(), "EXT1");
  check_refused(Pickle().text("1").raw("Q").finish(), "BINPERSID");
}

TEST_CASE("pickle: broken pickles are refused where they break") {
  check_refused("\x80\x04", "ends inside the pickle");
  check_refused(std::string("\x80\x01K\x01.", 5), "protocol 1");
  check_refused(std::string("\x80\x09N.", 4), "protocol 9");
  check_refused("\x80\x04.", "an end with 0 values");
  check_refused("\x80\x04NN.", "an end with 2 values");
  check_refused(
      "\x80\x04"
      "a.",
      "without its operands");
  check_refused(
      "\x80\x04"
      "e.",
      "without its begin");
  check_refused("\x80\x04(N(e.", "no list");
  check_refused("\x80\x04}(Nu.", "a key that has no value");
  check_refused("\x80\x04h\x05.", "entry 5 of a memo of 0");
  check_refused(std::string("\x80\x04Nr\xff\xff\xff\x7f.", 9), "a memo of 0");
  check_refused(std::string("\x80\x04X\xff\xff\xff\xff"
                            "abc.",
                            11),
                "ends inside the pickle");
  check_refused("\x80\x04\xff.", "no operation");
  check_refused("\x80\x04(NN0000", "without its operands");
}

TEST_CASE("pickle: depth and memory have limits") {
  check_refused("\x80\x04" + std::string(65, '('), "nested 65 deep");
  const Result<PickleDocument> large =
      read_pickle("\x80\x04](" + std::string(4 << 20, '}') + "e.", "large.pickle");
  REQUIRE_FALSE(large);
  CHECK(large.error().got.find("values that take more than") != std::string::npos);
}

TEST_CASE("pickle: files that are mistaken for one are known by their first bytes") {
  CHECK(kind_of_file("SQLite format 3") == "an SQLite database, such as Nsight Systems exports");
  CHECK(kind_of_file("\x1f\x8b\x08").find("gzip") != std::string_view::npos);
  CHECK(kind_of_file("something else").empty());
}

}  // namespace headroom::check
