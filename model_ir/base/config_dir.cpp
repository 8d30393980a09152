#include "model_ir/base/config_dir.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace headroom {
namespace {

bool is_folder(const std::string& path) {
  std::error_code fault;
  return std::filesystem::is_directory(path, fault);
}

Result<ConfigDir> named(const std::string& path, const std::string& origin) {
  if (!is_folder(path)) {
    return Error::environment(path, "no such folder", "the folder of the catalogue",
                              "correct or drop " + origin);
  }
  return ConfigDir{.path = path, .origin = origin};
}

std::string own_path() {
  std::error_code fault;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", fault);
  return fault ? std::string() : path.string();
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

}  // namespace

Result<ConfigDir> find_config_dir(const ConfigDirQuery& query) {
  if (query.option) {
    return named(*query.option, "--config-dir");
  }
  if (query.environment) {
    return named(*query.environment, "HEADROOM_CONFIG_DIR");
  }
  std::vector<ConfigDir> places;
  if (!query.program.empty()) {
    const std::filesystem::path folder = std::filesystem::path(query.program).parent_path();
    const std::filesystem::path prefix = folder.parent_path();
    places.push_back({.path = (folder / "configs").string(), .origin = "installed"});
    places.push_back({.path = (prefix / "share/headroom/configs").string(), .origin = "installed"});
  }
  places.push_back({.path = query.source_tree, .origin = "source tree"});
  std::string tried;
  for (const ConfigDir& place : places) {
    if (is_folder(place.path)) {
      return place;
    }
    tried += (tried.empty() ? "" : ", ") + place.path;
  }
  return Error::environment(tried, "no such folder", "the folder of the catalogue",
                            "name it with --config-dir or HEADROOM_CONFIG_DIR");
}

Result<ConfigDir> find_config_dir(const std::optional<std::string>& option) {
  return find_config_dir({.option = option,
                          .environment = environment_variable("HEADROOM_CONFIG_DIR"),
                          .program = own_path(),
                          .source_tree = HEADROOM_SOURCE_CONFIG_DIR});
}

}  // namespace headroom
