#include "tests/arch/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace headroom::arch {
namespace {

const std::filesystem::path& root() {
  static const std::filesystem::path path = HEADROOM_SOURCE_DIR;
  return path;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

}  // namespace

const std::vector<std::string_view>& product_folders() {
  static const std::vector<std::string_view> folders = {
      "model_ir", "runtimes", "costmodel", "planner", "validators", "cli", "gui"};
  return folders;
}

std::vector<std::string> files_below(const FileQuery& query) {
  std::vector<std::string> files;
  for (const std::string_view folder : query.folders) {
    if (!std::filesystem::is_directory(root() / folder)) {
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / folder)) {
      const std::string path = entry.path().lexically_relative(root()).generic_string();
      if (entry.is_regular_file() &&
          std::any_of(query.endings.begin(), query.endings.end(),
                      [&path](std::string_view ending) { return path.ends_with(ending); })) {
        files.push_back(path);
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of(const std::string& file) {
  std::ifstream stream(root() / file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<Include> includes_of(const std::string& file) {
  std::vector<Include> includes;
  std::istringstream stream(text_of(file));
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    std::string_view rest = trimmed(line);
    if (!rest.starts_with('#')) {
      continue;
    }
    rest = trimmed(rest.substr(1));
    if (!rest.starts_with("include")) {
      continue;
    }
    rest = trimmed(rest.substr(std::string_view("include").size()));
    const bool is_quoted = rest.starts_with('"');
    const std::size_t end = rest.find(is_quoted ? '"' : '>', 1);
    includes.push_back({.file = file,
                        .line = number,
                        .target = std::string(rest.substr(1, end - 1)),
                        .is_quoted = is_quoted});
  }
  return includes;
}

std::vector<Include> product_includes() {
  std::vector<Include> all;
  for (const std::string& file : files_below({product_folders(), {".h", ".cpp"}})) {
    for (Include& include : includes_of(file)) {
      all.push_back(std::move(include));
    }
  }
  return all;
}

bool is_in(std::string_view file, std::string_view folder) {
  return file.size() > folder.size() && file.starts_with(folder) && file[folder.size()] == '/';
}

}  // namespace headroom::arch
