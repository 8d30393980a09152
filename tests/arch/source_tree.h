#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::arch {

/// One `#include` of a source file.
struct Include {
  std::string file;  ///< Path below the root: "costmodel/memory/timeline.cpp".
  std::size_t line = 0;
  std::string target;  ///< What stands between the quotes or brackets.
  bool is_quoted = false;
};

/// The folders whose dependencies are checked.
[[nodiscard]] const std::vector<std::string_view>& product_folders();

/// Which files of the tree.
struct FileQuery {
  std::vector<std::string_view> folders;
  std::vector<std::string_view> endings;
};

/// Paths below the root, sorted.
[[nodiscard]] std::vector<std::string> files_below(const FileQuery& query);

/// Content of a file of the tree.
[[nodiscard]] std::string text_of(const std::string& file);

/// Every `#include` of one file, in order.
[[nodiscard]] std::vector<Include> includes_of(const std::string& file);

/// Every `#include` of the product's headers and sources.
[[nodiscard]] std::vector<Include> product_includes();

[[nodiscard]] bool is_in(std::string_view file, std::string_view folder);

}  // namespace headroom::arch
