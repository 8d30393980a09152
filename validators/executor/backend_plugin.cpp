#include "validators/executor/backend_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace headroom::exec {
namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kPlugin = "libheadroom_cuda.so";

/// The message of dlopen or dlsym about its last failure.
std::string last_fault() {
  const char* const words = dlerror();  // NOLINT(concurrency-mt-unsafe): called by one thread.
  return words != nullptr ? words : "unknown fault";
}

bool exists(const std::string& file) {
  std::error_code fault;
  return std::filesystem::exists(file, fault);
}

Error not_loadable(const std::string& file, const std::string& why) {
  return Error::environment(file, why, "the device library of this release of headroom",
                            "install the program and its device library from one release");
}

}  // namespace

std::vector<std::string> cuda_plugin_places() {
  const char* const named = std::getenv("HEADROOM_CUDA_PLUGIN");  // NOLINT(concurrency-mt-unsafe)
  if (named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code fault;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", fault);
  return fault ? std::vector<std::string>{} : cuda_plugin_places_of(program.string());
}

std::vector<std::string> cuda_plugin_places_of(const std::string& program) {
  const std::filesystem::path folder = std::filesystem::path(program).parent_path();
  std::vector<std::string> places = {
      (folder / ".." / HEADROOM_LIBRARY_FOLDER / "headroom" / kPlugin).lexically_normal().string()};
  // Anyone may own that folder on the machine where an installed program runs.
  const std::filesystem::path build = HEADROOM_BUILD_FOLDER;
  const std::filesystem::path inside = folder.lexically_normal().lexically_relative(build);
  if (!inside.empty() && *inside.begin() != "..") {
    places.push_back((build / "cuda" / kPlugin).string());
  }
  return places;
}

Result<const HeadroomDeviceTable*> load_cuda_backend(const std::vector<std::string>& places) {
  // The plugin finds the driver itself; asking for it first tells "no driver" from "no plugin".
  void* const driver = dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return Error::environment(
        "cuda", "no NVIDIA driver: " + std::string(kDriver) + " is not found",
        "a machine with an NVIDIA GPU and its driver",
        "use --with dryrun, which needs no GPU, or --device cpu for a small plan");
  }
  const auto file = std::ranges::find_if(places, exists);
  if (file == places.end()) {
    std::string tried;
    for (const std::string& place : places) {
      tried += (tried.empty() ? "" : ", ") + place;
    }
    return Error::environment(tried, "no device library", kPlugin,
                              "build it where nvcc is found (./run build tests), or name the "
                              "library in HEADROOM_CUDA_PLUGIN");
  }
  void* const plugin = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    return not_loadable(*file, last_fault());
  }
  void* const symbol = dlsym(plugin, HEADROOM_DEVICE_BACKEND_SYMBOL);
  if (symbol == nullptr) {
    return not_loadable(*file, last_fault());
  }
  const HeadroomDeviceTable* const table = reinterpret_cast<HeadroomBackendFunction>(symbol)();
  if (table == nullptr || table->version != HEADROOM_DEVICE_ABI_VERSION) {
    return not_loadable(*file, "another version of the device interface");
  }
  return table;
}

}  // namespace headroom::exec
