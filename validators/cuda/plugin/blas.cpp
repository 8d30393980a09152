#include "validators/cuda/plugin/blas.h"

#include <dlfcn.h>
#include <glob.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <vector>

namespace headroom::cuda {
namespace {

/// The plugin is written against CUDA 13's header; what it uses has not changed since 12.
constexpr std::array<const char*, 2> kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};

/// Folders, as patterns of glob(3).
std::vector<std::string> folders() {
  std::vector<std::string> patterns;
  for (const char* const variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0') {
      patterns.push_back(std::string(value) + "/lib64");
    }
  }
  patterns.emplace_back("/usr/local/cuda/lib64");
  std::vector<std::string> environments = {"/usr", "/usr/local"};
  for (const char* const variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0') {
      environments.insert(environments.begin(), value);
    }
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    environments.push_back(std::string(home) + "/.local");
  }
  for (const std::string& environment : environments) {
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      patterns.push_back(environment + "/lib/python3*/" + packages + "/nvidia/*/lib");
    }
  }
  return patterns;
}

void* open_library() {
  for (const char* const name : kNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return library;
    }
  }
  for (const std::string& folder : folders()) {
    for (const char* const name : kNames) {
      glob_t found{};
      void* library = nullptr;
      if (glob((folder + "/" + name).c_str(), 0, nullptr, &found) == 0) {
        for (std::size_t i = 0; library == nullptr && i < found.gl_pathc; ++i) {
          library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        }
      }
      globfree(&found);
      if (library != nullptr) {
        return library;
      }
    }
  }
  return nullptr;
}

}  // namespace

std::string Blas::load() {
  void* const library = open_library();
  if (library == nullptr) {
    return "cuBLASLt is missing: neither libcublasLt.so.13 nor libcublasLt.so.12 is in the "
           "library path, in $CUDA_PATH/lib64, in /usr/local/cuda/lib64 or among Python's packages";
  }
  std::string missing;
  const auto take = [&](const char* symbol, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr && missing.empty()) {
      missing = symbol;
    }
  };
#define HEADROOM_BLAS_TAKE(name) take(#name, this->name);
  HEADROOM_BLAS_FUNCTIONS(HEADROOM_BLAS_TAKE)
#undef HEADROOM_BLAS_TAKE
  return missing.empty() ? "" : "cuBLASLt is too old: it has no " + missing;
}

std::string Blas::sentence(const char* call, cublasStatus_t status) {
  const char* const why = status == CUBLAS_STATUS_NOT_SUPPORTED      ? " (not supported)"
                          : status == CUBLAS_STATUS_ALLOC_FAILED     ? " (out of memory)"
                          : status == CUBLAS_STATUS_INVALID_VALUE    ? " (invalid value)"
                          : status == CUBLAS_STATUS_EXECUTION_FAILED ? " (execution failed)"
                                                                     : "";
  return std::string(call) + " failed: status " + std::to_string(static_cast<int>(status)) + why;
}

}  // namespace headroom::cuda
