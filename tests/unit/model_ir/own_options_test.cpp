#include "model_ir/plan/own_options.h"

#include <string>

#include <doctest/doctest.h>

#include "model_ir/plan/parallel_plan.h"

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

}  // namespace

TEST_CASE("OwnOptions: are of one type at a time, and default where they are first edited") {
  OwnOptions options;
  CHECK_FALSE(options.has_value());
  CHECK(options.find<Wheels>() == nullptr);
  CHECK(options.edit<Wheels>() == Wheels{});
  CHECK(options.find<Wings>() == nullptr);
  options.edit<Wings>().count = 4;
  CHECK(options.find<Wheels>() == nullptr);
  REQUIRE(options.find<Wings>() != nullptr);
  CHECK(options.find<Wings>()->count == 4);
  options.reset();
  CHECK_FALSE(options.has_value());
}

TEST_CASE("OwnOptions: an edit changes no copy, and keeps what it does not name") {
  OwnOptions options;
  options.edit<Wheels>().count = 3;
  const OwnOptions copy = options;
  options.edit<Wheels>().material = "steel";
  CHECK(copy.find<Wheels>()->material == "rubber");
  CHECK(*options.find<Wheels>() == Wheels{.count = 3, .material = "steel"});
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

}  // namespace headroom::ir
