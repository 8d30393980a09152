#include "validators/cuda/plugin/driver.h"

#include <dlfcn.h>

namespace headroom::cuda {
namespace {

/// The symbol that a name of cuda.h stands for: "cuMemAlloc" is cuMemAlloc_v2.
#define HEADROOM_TEXT(name) #name
#define HEADROOM_SYMBOL(name) HEADROOM_TEXT(name)

template <typename Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

std::string Driver::load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return "there is no NVIDIA driver: libcuda.so.1 cannot be loaded";
  }
  std::string missing;
  const auto take = [&](const char* symbol, auto& function) {
    if (!find(library, symbol, function) && missing.empty()) {
      missing = symbol;
    }
  };
#define HEADROOM_DRIVER_TAKE(name) take(HEADROOM_SYMBOL(name), this->name);
  HEADROOM_DRIVER_FUNCTIONS(HEADROOM_DRIVER_TAKE)
#undef HEADROOM_DRIVER_TAKE
  take("cuEventElapsedTime", elapsed_time);
  is_standin = dlsym(library, "headroom_gpu_state") != nullptr;
  return missing.empty() ? "" : "the NVIDIA driver is too old: it has no " + missing;
}

std::string Driver::sentence(const char* call, CUresult code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  std::string result = std::string(call) + " failed: " +
                       (name != nullptr ? name : "error " + std::to_string(static_cast<int>(code)));
  if (text != nullptr) {
    result += std::string(" (") + text + ")";
  }
  return result;
}

}  // namespace headroom::cuda
