#include "cli/accuracy_files.h"

#include <filesystem>
#include <string>

#include "cli/model_argument.h"

namespace headroom::cli {
namespace {

template <typename Item>
Result<std::vector<Item>> load(const Arguments& arguments, const std::string& name,
                               Result<std::vector<Item>> (*read)(const std::string& path)) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  const std::string path = folder->path + "/accuracy/" + name;
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read(path) : std::vector<Item>{};
}

}  // namespace

Result<std::vector<cost::ResidualSet>> load_residuals(const Arguments& arguments) {
  return load<cost::ResidualSet>(arguments, "residuals.json", cost::read_residuals);
}

Result<std::vector<check::Explanation>> load_explanations(const Arguments& arguments) {
  return load<check::Explanation>(arguments, "explanations.json", check::read_explanations);
}

}  // namespace headroom::cli
