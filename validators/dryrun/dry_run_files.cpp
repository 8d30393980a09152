#include "validators/dryrun/dry_run_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace headroom::check {
namespace {

/// The library that has the functions; the others are names of it, and stand behind it.
constexpr std::string_view kMainLibrary = "libheadroom_gpu.so";

Error nothing_found(const std::vector<std::string>& tried, std::string_view wanted) {
  std::string places;
  for (const std::string& place : tried) {
    places += (places.empty() ? "" : ", ") + place;
  }
  return Error::environment(places, "without " + std::string(wanted), {},
                            "build or install headroom as a whole (./run build), or name the "
                            "folder that has lib and python in HEADROOM_DRYRUN_HOME");
}

/// All libraries of a folder, the main one first, the others by name; empty if the main one is
/// missing.
std::vector<std::string> libraries_in(const std::string& folder) {
  std::error_code fault;
  if (!std::filesystem::exists(std::filesystem::path(folder) / kMainLibrary, fault)) {
    return {};
  }
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, fault), end; !fault && at != end;
       at.increment(fault)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("lib") && name.find(".so") != std::string::npos && name != kMainLibrary) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  names.emplace(names.begin(), kMainLibrary);
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) {
    paths.push_back((std::filesystem::path(folder) / name).string());
  }
  return paths;
}

}  // namespace

DryRunPlaces dry_run_places() {
  const char* const home = std::getenv("HEADROOM_DRYRUN_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home != '\0') {
    const std::filesystem::path folder = std::filesystem::absolute(home);
    return {.libraries = {(folder / "lib").string()}, .python = {(folder / "python").string()}};
  }
  DryRunPlaces places;
  std::error_code fault;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", fault);
  if (!fault) {
    const std::filesystem::path prefix = program.parent_path().parent_path();
    places.libraries.push_back((prefix / HEADROOM_LIBRARY_FOLDER "/headroom/dryrun").string());
    places.python.push_back((prefix / "share/headroom/dryrun/python").string());
  }
  places.libraries.emplace_back(HEADROOM_DRYRUN_BUILD_FOLDER);
  places.python.emplace_back(HEADROOM_DRYRUN_SOURCE_FOLDER);
  return places;
}

Result<DryRunFiles> find_dry_run_files(const DryRunPlaces& places) {
  DryRunFiles files;
  for (const std::string& folder : places.libraries) {
    files.libraries = libraries_in(folder);
    if (!files.libraries.empty()) {
      break;
    }
  }
  if (files.libraries.empty()) {
    return nothing_found(places.libraries, "the stand-ins for CUDA's libraries");
  }
  std::error_code fault;
  const auto found = std::ranges::find_if(places.python, [&fault](const std::string& folder) {
    return std::filesystem::exists(std::filesystem::path(folder) / "sitecustomize.py", fault);
  });
  if (found == places.python.end()) {
    return nothing_found(places.python, "the dry run's Python files");
  }
  files.python = *found;
  return files;
}

}  // namespace headroom::check
