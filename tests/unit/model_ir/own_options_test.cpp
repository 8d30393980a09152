#include "model_ir/plan/own_options.h"

#include <string>

#include <doctest/doctest.h>

#include "model_ir/plan/parallel_plan.h"
#include "tests/support/random.h"

namespace headroom::ir {
namespace {

struct Wheels {
  int count = 4;
  std::string material = "rubber";
  friend bool operator==(const Wheels&, const Wheels&) = default;
};
struct Wings {
  int count = 2;
  friend bool operator==(const Wings&, const Wings&) = default;
};
struct Sails {
  int count = 1;
  friend bool operator==(const Sails&, const Sails&) = default;
};

/// Makes one edit, chosen by `choice`, of the part that `part` chooses.
void edit_any(OwnOptions& options, std::int64_t part, int count) {
  if (part == 0) {
    options.edit<Wheels>().count = count;
  } else if (part == 1) {
    options.edit<Wings>().count = count;
  } else {
    options.edit<Sails>().count = count;
  }
}

}  // namespace

TEST_CASE("OwnOptions: one value of each type, a default where it is first edited") {
  OwnOptions options;
  CHECK(options.empty());
  CHECK(options.find<Wheels>() == nullptr);
  CHECK(options.get<Wheels>() == Wheels{});
  CHECK_FALSE(options.has<Wheels>());
  CHECK(options.edit<Wheels>() == Wheels{});
  CHECK(options.has<Wheels>());
  CHECK_FALSE(options.has<Wings>());
  options.edit<Wings>().count = 4;
  REQUIRE(options.find<Wings>() != nullptr);
  CHECK(options.find<Wings>()->count == 4);
  CHECK(options.get<Wheels>() == Wheels{});
  options.reset<Wheels>();
  CHECK_FALSE(options.has<Wheels>());
  CHECK(options.get<Wings>().count == 4);
  options.reset<Wings>();
  CHECK(options.empty());
}

TEST_CASE("OwnOptions: keep removes the values of all other types") {
  OwnOptions options;
  options.edit<Wheels>();
  options.edit<Wings>();
  options.edit<Sails>();
  const OwnOptions copy = options;
  options.keep<Wings, Sails>();
  CHECK_FALSE(options.has<Wheels>());
  CHECK(options.has<Wings>());
  CHECK(options.has<Sails>());
  options.keep<Wheels>();
  CHECK(options.empty());
  CHECK(copy.has<Wheels>());
  options.keep<>();
  CHECK(options.empty());
}

TEST_CASE("OwnOptions: an edit changes no copy, and keeps what it does not name") {
  OwnOptions options;
  options.edit<Wheels>().count = 3;
  const OwnOptions copy = options;
  options.edit<Wheels>().material = "steel";
  CHECK(copy.find<Wheels>()->material == "rubber");
  CHECK(*options.find<Wheels>() == Wheels{.count = 3, .material = "steel"});
}

TEST_CASE("OwnOptions: an owner edits its value in place") {
  OwnOptions options;
  const Wheels* const first = &options.edit<Wheels>();
  CHECK(&options.edit<Wheels>() == first);
  { const OwnOptions copy = options; }
  CHECK(&options.edit<Wheels>() == first);
}

TEST_CASE("OwnOptions: plans are equal where their options are, whoever made them") {
  ParallelPlan one;
  ParallelPlan other;
  CHECK(one == other);
  one.own.edit<Wheels>();
  CHECK_FALSE(one == other);
  other.own.edit<Wheels>();
  CHECK(one == other);
  other.own.edit<Wheels>().count = 5;
  CHECK_FALSE(one == other);
  other.own.edit<Wings>();
  CHECK_FALSE(one == other);
}

TEST_CASE("property: parts that are edited in any order make equal plans") {
  test::Random random = test::seeded_random(64);
  CAPTURE(random.seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> order = {0, 1, 2};
    order.resize(static_cast<std::size_t>(random.between(0, 3)));
    ParallelPlan one;
    for (const std::int64_t part : order) {
      edit_any(one.own, part, static_cast<int>(part) + 7);
    }
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(
          order[i - 1],
          order[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
    }
    ParallelPlan other;
    for (const std::int64_t part : order) {
      edit_any(other.own, part, static_cast<int>(part) + 7);
    }
    CHECK(one == other);
    edit_any(other.own, random.between(0, 2), 99);
    CHECK_FALSE(one == other);
  }
}

TEST_CASE("property: edits of copies never change the plan that they are copies of") {
  test::Random random = test::seeded_random(65);
  CAPTURE(random.seed());
  for (int round = 0; round < 200; ++round) {
    ParallelPlan original;
    for (int edits = 0; edits < 3; ++edits) {
      edit_any(original.own, random.between(0, 2), edits);
    }
    // The same values, which nothing shares.
    ParallelPlan kept;
    if (const Wheels* const wheels = original.own.find<Wheels>()) {
      kept.own.edit<Wheels>() = *wheels;
    }
    if (const Wings* const wings = original.own.find<Wings>()) {
      kept.own.edit<Wings>() = *wings;
    }
    if (const Sails* const sails = original.own.find<Sails>()) {
      kept.own.edit<Sails>() = *sails;
    }
    std::vector<ParallelPlan> copies = {original};
    for (int edits = 0; edits < 8; ++edits) {
      copies.push_back(copies[static_cast<std::size_t>(
          random.between(0, static_cast<std::int64_t>(copies.size()) - 1))]);
      if (random.chance(1, 4)) {
        copies.back().own.reset<Wings>();
      }
      edit_any(copies.back().own, random.between(0, 2), 50 + edits);
      CHECK(original == kept);
      CHECK(copies.front() == kept);
    }
  }
}

}  // namespace headroom::ir
