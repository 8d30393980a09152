#include <algorithm>
#include <cctype>
#include <cstddef>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

/// Folders whose code asks `ir::Runtime` about a plan and knows no framework by name.
const std::vector<std::string_view>& folders_without_names() {
  static const std::vector<std::string_view> folders = {"cli", "costmodel", "gui", "planner",
                                                        "validators"};
  return folders;
}

/// What stands for `//` comments, `/* */` comments and the contents of strings in `code_of`:
/// nothing. Targets of includes stay.
std::string code_of(const std::string& text) {
  std::string code;
  std::size_t at = 0;
  const auto begins = [&](std::string_view word) {
    return text.compare(at, word.size(), word) == 0;
  };
  const auto skip_to = [&](std::string_view end, std::size_t from) {
    const std::size_t found = text.find(end, from);
    const std::size_t stop = found == std::string::npos ? text.size() : found;
    code.append(static_cast<std::size_t>(
                    std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                               text.begin() + static_cast<std::ptrdiff_t>(stop), '\n')),
                '\n');
    at = std::min(text.size(), stop + (end == "\n" ? 0 : end.size()));
  };
  while (at < text.size()) {
    if (begins("//")) {
      skip_to("\n", at);
    } else if (begins("/*")) {
      skip_to("*/", at + 2);
    } else if (begins("R\"(")) {
      skip_to(")\"", at);
    } else if (begins("#include")) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      code.append(text, at, end - at);
      at = end;
    } else if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        at += text[at] == '\\' ? 1U : 0U;
      }
      ++at;
    } else if (begins("'\"'") || begins("'\\\"'")) {
      at += begins("'\"'") ? 3U : 4U;
    } else {
      code.push_back(text[at++]);
    }
  }
  return code;
}

/// Names of frameworks in any spelling, and of the parts of a plan that are theirs.
const std::regex& names() {
  static const std::regex pattern(
      "megatron|deepspeed|torchtitan|torchtune|litgpt|transformers|fsdp|titan|"
      "zeroplan|zeroleaf|tuneplan|(\\.|->)(zero|tune)\\b",
      std::regex::icase | std::regex::optimize);
  return pattern;
}

/// "costmodel/remedies.cpp:12: plan.zero" of every line that names one.
std::vector<std::string> lines_with_names(const std::string& file) {
  std::vector<std::string> found;
  std::size_t number = 0;
  const std::string code = code_of(text_of(file));
  for (std::size_t begin = 0; begin < code.size();) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::string line = code.substr(begin, end - begin);
    ++number;
    if (std::regex_search(line, names())) {
      found.push_back(file + ":" + std::to_string(number) + ": " + line);
    }
    begin = end + 1;
  }
  return found;
}

}  // namespace

TEST_CASE("framework names: a framework's options are in its folder alone") {
  const std::regex options("(Megatron|Zero|Fsdp|Ddp|Titan|Tune)Plan");
  std::vector<std::string_view> folders = folders_without_names();
  folders.insert(folders.end(), {"model_ir", "runtimes/interface"});
  for (const std::string& file : files_below({product_folders(), {".h", ".cpp"}})) {
    const bool within = std::ranges::any_of(
        folders, [&file](std::string_view folder) { return is_in(file, folder); });
    CAPTURE(file);
    CHECK_FALSE((within && std::regex_search(text_of(file), options)));
  }
}

TEST_CASE("framework names: comments and strings may have them, code may not") {
  CHECK_FALSE(std::regex_search(code_of("int a;  // Megatron\n"), names()));
  CHECK_FALSE(
      std::regex_search(code_of("f(\"--megatron \\\" fsdp\"); /* titan\n */ g();"), names()));
  CHECK_FALSE(std::regex_search(code_of("is_zero(zero_bubble);"), names()));
  CHECK(std::regex_search(code_of("g('\"', plan.zero);"), names()));
  CHECK(std::regex_search(code_of("#include \"runtimes/fsdp/check.h\"\n"), names()));
  CHECK(std::regex_search(code_of("ir::TitanPlan titan;"), names()));
  CHECK(code_of("a /* 1\n2 */ b // c\nd") == "a \n b \nd");
}

TEST_CASE("framework names: whoever asks about a plan asks its runtime") {
  const std::vector<std::string> files = files_below({folders_without_names(), {".h", ".cpp"}});
  CHECK(files.size() > 50);
  for (const std::string& file : files) {
    for (const std::string& line : lines_with_names(file)) {
      FAIL_CHECK(line);
    }
  }
}

}  // namespace headroom::arch
