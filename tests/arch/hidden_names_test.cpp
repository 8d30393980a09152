#include "tests/arch/hidden_names.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

/// Whether one translation unit can hold both texts.
bool go_together(std::string_view first, std::string_view second) {
  const auto hidden = [](std::string_view text) {
    return hidden_names_in("namespace headroom {\nnamespace {\n" + std::string(text) + "\n}\n}\n");
  };
  for (const HiddenName& one : hidden(first)) {
    for (const HiddenName& other : hidden(second)) {
      if (!may_meet(one, other)) {
        return false;
      }
    }
  }
  return true;
}

/// Sources that may be compiled together: those of one folder of the product or of the tests.
std::string group_of(const std::string& file) {
  const std::size_t from = file.starts_with("tests/") ? std::string_view("tests/").size() : 0;
  return file.substr(0, file.find('/', from));
}

}  // namespace

TEST_CASE("unity: nothing in an unnamed namespace has the name of something in another file") {
  struct Place {
    std::string file;
    HiddenName hidden;
  };
  std::vector<std::string_view> folders = product_folders();
  folders.emplace_back("tests");
  std::map<std::string, std::vector<Place>> places;
  for (const std::string& file : files_below({folders, {".cpp"}})) {
    if (group_of(file) == "tests/bench") {
      continue;  // Programs of one source each.
    }
    for (const HiddenName& hidden : hidden_names_in(text_of(file))) {
      std::vector<Place>& same_name = places[group_of(file) + " " + hidden.name];
      for (const Place& other : same_name) {
        INFO(hidden.name << " of " << other.file << " and " << file);
        CHECK((other.file == file || may_meet(other.hidden, hidden)));
      }
      same_name.push_back({.file = file, .hidden = hidden});
    }
  }
  CHECK(places.size() > 500);
}

TEST_CASE("unity: types, constants and functions of one form clash, overloads do not") {
  CHECK_FALSE(go_together("struct Parts { int a; };", "struct Parts { int b; };"));
  CHECK_FALSE(go_together("enum class Kind { kA };", "class Kind {};"));
  CHECK_FALSE(go_together("constexpr int kTokens = 1;", "const std::string kTokens{\"a\"};"));
  CHECK_FALSE(go_together("using Sizes = std::vector<int>;", "struct Sizes {};"));
  CHECK_FALSE(go_together("int run(int count, bool all = true) { return 1; }",
                          "void run(int number, bool) {}"));
  CHECK_FALSE(
      go_together("template <typename T> T last(const std::vector<T>& all) { return {}; }",
                  "template <typename T> T last(const std::vector<T>& list) { return {}; }"));
  CHECK(go_together("int run(int count) { return 1; }",
                    "int run(std::map<int, int> all) { return 1; }"));
  CHECK(
      go_together("struct Parts {};", "struct Halves {}; int f() { struct Parts {}; return 0; }"));
}

TEST_CASE("unity: using-declarations clash where they name different things") {
  CHECK(go_together("using test::Rated;", "using test::Rated;"));
  CHECK(go_together("using Kind = Step::Kind;", "using Kind = Step::Kind;"));
  CHECK_FALSE(go_together("using Kind = Step::Kind;", "using Kind = Stage::Kind;"));
  CHECK_FALSE(go_together("using test::Rated;", "using plan::Rated;"));
  CHECK_FALSE(go_together("using torch::Tensor;", "struct Tensor {};"));
}

}  // namespace headroom::arch
