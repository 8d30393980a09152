#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

const std::set<std::string>& top_level() {
  static const std::set<std::string> entries = {".ci",
                                                ".clang-format",
                                                ".clang-tidy",
                                                "CHANGELOG.md",
                                                "CMakeLists.txt",
                                                "CONTRIBUTING.md",
                                                "CMakePresets.json",
                                                "LICENSE",
                                                "Makefile",
                                                "README.md",
                                                "cli",
                                                "cmake",
                                                "configs",
                                                "costmodel",
                                                "docs",
                                                "gui",
                                                "model_ir",
                                                "planner",
                                                "run",
                                                "runtimes",
                                                "tests",
                                                "validators"};
  return entries;
}

/// What git itself keeps, and the outputs that .gitignore names ("/build/" -> "build").
std::set<std::string> outside_of_the_repository() {
  std::set<std::string> names = {".git", ".gitignore"};
  std::istringstream lines(text_of(".gitignore"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('/') && line.ends_with('/')) {
      names.insert(line.substr(1, line.size() - 2));
    }
  }
  return names;
}

/// The string that begins at `at`, with adjacent literals joined; `at` moves behind it.
std::string literal_at(const std::string& text, std::size_t& at) {
  std::string name;
  while ((at = text.find_first_not_of(" \t\n", at)) != std::string::npos && text[at] == '"') {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\') {
        name += text[at++];
      }
      name += text[at];
    }
    ++at;
  }
  return name;
}

}  // namespace

TEST_CASE("repository: the top level holds what it should and nothing else") {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(HEADROOM_SOURCE_DIR)) {
    found.insert(entry.path().filename().string());
  }
  for (const std::string& name : top_level()) {
    CAPTURE(name);
    CHECK(found.contains(name));
  }
  const std::set<std::string> outside = outside_of_the_repository();
  for (const std::string& name : found) {
    CAPTURE(name);
    CHECK((top_level().contains(name) || outside.contains(name)));
  }
}

TEST_CASE("repository: no file is longer than 600 lines") {
  for (const std::string& file : files_below({{"model_ir", "runtimes", "costmodel", "planner",
                                               "validators", "cli", "gui", "tests", "cmake"},
                                              {".h", ".cpp", ".py", ".cmake", "CMakeLists.txt"}})) {
    CAPTURE(file);
    const std::string text = text_of(file);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 600);
  }
}

TEST_CASE("repository: test names are unique and hold no semicolon") {
  // CTest cuts a name at ';' and doctest passes when a filter matches nothing; a name used twice
  // runs both cases under one entry.
  std::map<std::string, std::string> seen;
  const std::string marker = std::string("TEST_CASE") + "(";
  for (const std::string& file : files_below({{"tests"}, {".cpp"}})) {
    const std::string text = text_of(file);
    for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at)) {
      at += marker.size();
      const std::string name = literal_at(text, at);
      if (name.empty()) {
        continue;  // A macro's own name, not a literal.
      }
      CAPTURE(file);
      CAPTURE(name);
      CHECK(name.find(';') == std::string::npos);
      const auto added = seen.emplace(name, file);
      CAPTURE(added.first->second);
      CHECK(added.second);
    }
  }
  CHECK(seen.size() > 20);
}

TEST_CASE("repository: every source is listed in a CMakeLists.txt") {
  // A file nobody compiles is a file nobody checks.
  for (const std::string& file : files_below(
           {{"model_ir", "runtimes", "costmodel", "planner", "validators", "cli", "gui", "tests"},
            {".cpp"}})) {
    CAPTURE(file);
    bool listed = false;
    std::filesystem::path folder = std::filesystem::path(file).parent_path();
    for (; !folder.empty() && !listed; folder = folder.parent_path()) {
      const std::string name =
          std::filesystem::path(file).lexically_relative(folder).generic_string();
      listed =
          text_of((folder / "CMakeLists.txt").generic_string()).find(name) != std::string::npos;
    }
    CHECK(listed);
  }
}

}  // namespace headroom::arch
