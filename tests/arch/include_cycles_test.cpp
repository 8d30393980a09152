#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

/// A header with the source of its name: "costmodel/memory/timeline".
std::string unit_of(std::string_view file) {
  return std::string(file.substr(0, file.rfind('.')));
}

using Units = std::map<std::string, std::set<std::string>>;  ///< What each includes.

void add_include(Units& units, const std::string& file, const std::string& target) {
  if (unit_of(file) != unit_of(target)) {
    units[unit_of(file)].insert(unit_of(target));
  }
}

Units product_units() {
  Units units;
  for (const Include& include : product_includes()) {
    if (include.is_quoted) {
      add_include(units, include.file, include.target);
    }
  }
  return units;
}

/// Depth-first search for a unit that is reached from itself.
class CycleSearch {
 public:
  explicit CycleSearch(const Units& units) : units_(units) {}

  /// "a -> b -> a"; empty if there is none.
  std::string run() {
    for (const auto& [unit, included] : units_) {
      if (const std::string cycle = visit(unit); !cycle.empty()) {
        return cycle;
      }
    }
    return {};
  }

 private:
  std::string visit(const std::string& unit) {
    const auto on_path = std::find(path_.begin(), path_.end(), unit);
    if (on_path != path_.end()) {
      std::string cycle;
      std::for_each(on_path, path_.end(), [&](const std::string& each) { cycle += each + " -> "; });
      return cycle + unit;
    }
    const auto included = units_.find(unit);
    if (included == units_.end() || !seen_.insert(unit).second) {
      return {};
    }
    path_.push_back(unit);
    for (const std::string& next : included->second) {
      if (std::string cycle = visit(next); !cycle.empty()) {
        return cycle;
      }
    }
    path_.pop_back();
    return {};
  }

  const Units& units_;
  std::set<std::string> seen_;
  std::vector<std::string> path_;
};

}  // namespace

TEST_CASE("include cycles: a header and its source count as one") {
  Units units;
  add_include(units, "a/x.cpp", "a/x.h");
  add_include(units, "a/x.h", "a/y.h");
  add_include(units, "a/y.h", "a/z.h");
  CHECK(CycleSearch(units).run().empty());
  add_include(units, "a/z.cpp", "a/y.h");
  CHECK(CycleSearch(units).run() == "a/y -> a/z -> a/y");
}

TEST_CASE("include cycles: no file of the product depends on itself through others") {
  CHECK(CycleSearch(product_units()).run() == "");
}

}  // namespace headroom::arch
