#include "validators/dryrun/standin/kernels.h"

#include <pthread.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/fat_binary.h"

namespace headroom::standin {
namespace {

/// What is done at the launch of a kernel.
struct KernelMeaning {
  enum class Kind { kAndReduction, kFill } kind;
  std::size_t element_bytes = 0;  ///< Of a fill.
};

/// Of the kernels whose names say what they write. Libraries register their kernels when they are
/// loaded, before the program says which device it wants; so this is no part of the device.
struct KernelTable {
  std::mutex mutex;
  std::unordered_map<const void*, KernelMeaning> meanings;
};

KernelTable& kernel_table() {
  static auto* const table = [] {
    auto* made = new KernelTable;
    pthread_atfork([] { kernel_table().mutex.lock(); }, [] { kernel_table().mutex.unlock(); },
                   [] { kernel_table().mutex.unlock(); });
    return made;
  }();
  return *table;
}

void add_meaning(const void* host_function, KernelMeaning meaning) {
  const std::lock_guard lock(kernel_table().mutex);
  kernel_table().meanings[host_function] = meaning;
}

std::optional<KernelMeaning> meaning_of(const void* host_function) {
  const std::lock_guard lock(kernel_table().mutex);
  const auto found = kernel_table().meanings.find(host_function);
  return found == kernel_table().meanings.end() ? std::nullopt : std::optional(found->second);
}

/// FillFunctor's argument as the Itanium C++ ABI mangles it, and its size.
struct MangledType {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<MangledType, 13> kFilled = {{{"FillFunctorIfE", 4},
                                                  {"FillFunctorIdE", 8},
                                                  {"FillFunctorIlE", 8},
                                                  {"FillFunctorIiE", 4},
                                                  {"FillFunctorIsE", 2},
                                                  {"FillFunctorIaE", 1},
                                                  {"FillFunctorIhE", 1},
                                                  {"FillFunctorIbE", 1},
                                                  {"FillFunctorIjE", 4},
                                                  {"FillFunctorImE", 8},
                                                  {"FillFunctorItE", 2},
                                                  {"FillFunctorIN3c104HalfEE", 2},
                                                  {"FillFunctorIN3c108BFloat16EE", 2}}};

/// vectorized_elementwise_kernel(int count, FillFunctor value, array of one pointer).
void remember_fill(Device& gpu, std::size_t element_bytes, void** arguments) {
  int count = 0;
  std::memcpy(&count, arguments[0], sizeof count);
  void* target = nullptr;
  std::memcpy(&target, arguments[2], sizeof target);
  const std::size_t bytes = static_cast<std::size_t>(count) * element_bytes;
  if (count <= 0 || !gpu.memory.owns(target)) {
    return;
  }
  if (bytes > Values::kLargestFill) {
    gpu.values.forget(target, bytes);
    return;
  }
  std::vector<unsigned char> pattern(bytes);
  for (std::size_t at = 0; at < bytes; at += element_bytes) {
    std::memcpy(pattern.data() + at, arguments[1], element_bytes);
  }
  gpu.values.remember(target, pattern.data(), bytes, gpu.kernels);
}

}  // namespace

void register_kernel(const void* host_function, const char* name) {
  const std::string_view text = name;
  if (text.find("15and_kernel_cuda") != std::string_view::npos) {
    add_meaning(host_function, {KernelMeaning::Kind::kAndReduction, 0});
    return;
  }
  if (text.find("vectorized_elementwise_kernel") == std::string_view::npos) {
    return;
  }
  for (const MangledType& type : kFilled) {
    if (text.find(type.name) != std::string_view::npos) {
      add_meaning(host_function, {KernelMeaning::Kind::kFill, type.bytes});
    }
  }
}

void launch_kernel(const void* host_function, void** arguments) {
  const std::optional<KernelMeaning> meaning = meaning_of(host_function);
  Locked gpu;
  ++gpu->kernels;
  ++gpu->work.kernels;
  gpu->queue.launch();
  gpu->next_truth.reset();
  if (!meaning) {
    return;
  }
  if (meaning->kind == KernelMeaning::Kind::kAndReduction) {
    gpu->next_truth = true;
  } else if (arguments != nullptr) {
    remember_fill(device(), meaning->element_bytes, arguments);
  }
}

Status function_attributes(FunctionAttributes* attributes, const void* host_function) {
  const Profile& profile = device().profile;
  *attributes = {};
  attributes->max_threads_per_block = 1024;
  attributes->registers = 32;
  attributes->ptx_version =
      image_for(host_function, 10 * profile.capability_major + profile.capability_minor);
  attributes->binary_version = attributes->ptx_version;
  attributes->max_dynamic_shared_bytes = static_cast<int>(profile.shared_bytes_per_block_optin());
  return kSuccess;
}

}  // namespace headroom::standin
