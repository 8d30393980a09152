#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

namespace headroom::test {

/// A folder that only this test uses. It is deleted at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::random_device entropy;  // Tests run in parallel; no check depends on it.
    do {
      path_ = std::filesystem::temp_directory_path() / ("headroom-" + std::to_string(entropy()));
    } while (!std::filesystem::create_directory(path_));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path(std::string_view below = {}) const {
    return below.empty() ? path_.string() : (path_ / below).string();
  }

  /// Writes a file and creates its folders.
  std::string write(std::string_view below, std::string_view content) const {
    const std::filesystem::path file = path_ / below;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace headroom::test
