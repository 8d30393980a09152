#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "tests/support/cli.h"
#include "validators/snapshot/allocator_stats.h"

namespace headroom::check {
namespace {

std::string recorded_text(std::string_view name) {
  return read_file(test::source_file("tests/golden/snapshots/" + std::string(name))).value();
}

}  // namespace

TEST_CASE("allocator statistics: table and JSON of one run say the same") {
  const auto exact = read_allocator_stats(recorded_text("memory_stats.json"), "stats").value();
  const auto rounded = read_allocator_stats(recorded_text("memory_summary.txt"), "text").value();
  REQUIRE(exact.size() == 1);
  REQUIRE(rounded.size() == 1);
  CHECK(exact[0].device == -1);
  CHECK(rounded[0].device == 0);
  CHECK(exact[0].allocated.peak == Bytes{2'026'545'152});
  for (StatBytes AllocatorStats::*member :
       {&AllocatorStats::allocated, &AllocatorStats::active, &AllocatorStats::requested,
        &AllocatorStats::reserved, &AllocatorStats::inactive_split}) {
    const StatBytes& whole = exact[0].*member;
    const StatBytes& text = rounded[0].*member;
    // The table rounds down to MiB here.
    CHECK((text.peak <= whole.peak && whole.peak < text.peak + Bytes{kMiB}));
    CHECK((text.current <= whole.current && whole.current < text.current + Bytes{kMiB}));
    CHECK((text.freed <= whole.freed && whole.freed < text.freed + Bytes{kMiB}));
  }
}

TEST_CASE("allocator statistics: a log with several tables has all of them") {
  std::string second = recorded_text("memory_summary.txt");
  second.replace(second.find("device ID 0"), 11, "device ID 3");
  second.replace(second.find("CUDA OOMs: 0"), 12, "CUDA OOMs: 2");
  const auto all = read_allocator_stats(
      "step 1\n" + recorded_text("memory_summary.txt") + "step 2\n" + second, "log");
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK((*all)[1].device == 3);
  CHECK((*all)[1].out_of_memory == 2);
}

TEST_CASE("allocator statistics: nested JSON is read as the flat one") {
  const auto stats = read_allocator_stats(
      R"([{"allocated_bytes": {"all": {"current": 5, "peak": 9, "allocated": 20, "freed": 15}},
           "num_ooms": 1}])",
      "nested");
  REQUIRE(stats);
  CHECK(stats->front().allocated.peak == Bytes{9});
  CHECK(stats->front().out_of_memory == 1);
}

TEST_CASE(
    "allocator statistics: what is no such thing is refused, and pickles are not taken for it") {
  CHECK_FALSE(read_allocator_stats(R"({"a": 1})", "other"));
  CHECK_FALSE(read_allocator_stats("[]", "empty"));
  CHECK_FALSE(read_allocator_stats(R"({"allocated_bytes.all.peak": -1})", "negative"));
  const std::string whole = recorded_text("memory_summary.txt");
  CHECK_FALSE(read_allocator_stats(whole.substr(0, whole.size() / 8), "cut"));
  CHECK(is_allocator_stats(whole));
  CHECK(is_allocator_stats(" {\"a\": 1}"));
  CHECK_FALSE(is_allocator_stats("\x80\x04}."));
  CHECK_FALSE(is_allocator_stats("anything else"));
}

}  // namespace headroom::check
