#include "costmodel/memory/free_list.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "tests/support/random.h"

namespace headroom::cost {

TEST_CASE("free_list: the best fit is the smallest that is large enough, then the lowest") {
  FreeList list;
  list.insert({.size = 20, .address = 7, .block = BlockIndex{1}});
  list.insert({.size = 10, .address = 9, .block = BlockIndex{2}});
  list.insert({.size = 10, .address = 3, .block = BlockIndex{3}});
  CHECK(list.at(list.best_fit(1)).block == BlockIndex{3});
  CHECK(list.at(list.best_fit(10)).block == BlockIndex{3});
  CHECK(list.at(list.next(list.best_fit(10))).block == BlockIndex{2});
  CHECK(list.at(list.best_fit(11)).block == BlockIndex{1});
  CHECK(list.next(list.best_fit(11)) == list.end());
  CHECK(list.best_fit(21) == list.end());
}

TEST_CASE("free_list: erasing what is not there is a bug") {
  FreeList list;
  CHECK(list.empty());
  list.insert({.size = 10, .address = 1, .block = BlockIndex{0}});
  CHECK_THROWS_AS(list.erase(10, 2), InternalError);
  CHECK_THROWS_AS(list.erase(11, 1), InternalError);
  list.erase(10, 1);
  CHECK(list.empty());
  CHECK_THROWS_AS(list.erase(10, 1), InternalError);
}

TEST_CASE("free_list: thousands of entries stay in order") {
  // Grows to about 2,000 entries and shrinks to nothing, beside a std::set. Few sizes, so that many
  // entries differ in their address only.
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  FreeList list;
  std::set<std::pair<std::int64_t, std::int64_t>> expected;
  std::int64_t address = 0;
  bool same = true;
  for (int round = 0; round < 12'000; ++round) {
    const bool grow = round < 4'000 ? random.chance(3, 4) : random.chance(1, 4);
    if (grow || expected.empty()) {
      const std::int64_t size = random.between(1, 50);
      ++address;
      list.insert({.size = size, .address = address, .block = BlockIndex{0}});
      expected.emplace(size, address);
    } else {
      const auto victim = expected.lower_bound({random.between(0, 50), random.between(0, address)});
      const auto [size, where] = victim == expected.end() ? *expected.begin() : *victim;
      list.erase(size, where);
      expected.erase({size, where});
    }
    const std::int64_t wanted = random.between(1, 51);
    const auto fit = expected.lower_bound({wanted, 0});
    const FreeList::Position found = list.best_fit(wanted);
    same = same && (fit == expected.end()) == (found == list.end());
    same = same && (fit == expected.end() || fit->second == list.at(found).address);
  }
  CHECK(same);
  const std::vector<FreeList::Entry> entries = list.entries();
  CHECK(std::ranges::equal(entries, expected, [](const FreeList::Entry& entry, const auto& pair) {
    return entry.size == pair.first && entry.address == pair.second;
  }));
}

}  // namespace headroom::cost
