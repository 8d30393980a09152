#include "validators/dryrun/standin/fat_binary.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace headroom::standin {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kContainerMagic = 0xba55ed50;
constexpr std::size_t kArchitectureAt = 28;
/// Wrappers read of one library: nearly all its object files are compiled for the same list.
constexpr std::size_t kMostRead = 64;
constexpr std::size_t kMostImages = 64;  ///< Images read of one binary; there are fewer.

template <typename Number>
Number read_at(const unsigned char* place) {
  Number number{};
  std::memcpy(&number, place, sizeof number);
  return number;
}

/// The architectures of the binaries that one library has registered, by wrapper. They are read at
/// once, because the library may be gone when somebody asks.
using Library = std::unordered_map<const void*, std::vector<int>>;

struct Libraries {
  std::mutex mutex;
  std::unordered_map<const void*, Library> by_base;
};

Libraries& libraries() {
  static auto* const made = [] {
    auto* all = new Libraries;
    pthread_atfork([] { libraries().mutex.lock(); }, [] { libraries().mutex.unlock(); },
                   [] { libraries().mutex.unlock(); });
    return all;
  }();
  return *made;
}

/// The beginning of the library that holds `address`; null if none does.
const void* base_of(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

}  // namespace

std::vector<int> architectures_in(const void* data) {
  std::vector<int> found;
  const auto* const start = static_cast<const unsigned char*>(data);
  if (start == nullptr || read_at<std::uint32_t>(start) != kContainerMagic) {
    return found;
  }
  const unsigned char* at = start + read_at<std::uint16_t>(start + 6);
  const unsigned char* const end = at + read_at<std::uint64_t>(start + 8);
  while (at + kArchitectureAt + sizeof(std::uint32_t) <= end && found.size() < kMostImages) {
    found.push_back(static_cast<int>(read_at<std::uint32_t>(at + kArchitectureAt)));
    const std::uint64_t size = read_at<std::uint32_t>(at + 4) + read_at<std::uint64_t>(at + 8);
    if (size == 0 || size > static_cast<std::uint64_t>(end - at)) {
      break;
    }
    at += size;
  }
  return found;
}

void register_fat_binary(const void* wrapper) {
  const auto* const start = static_cast<const unsigned char*>(wrapper);
  if (start == nullptr || read_at<std::uint32_t>(start) != kWrapperMagic) {
    return;
  }
  const auto* const data = read_at<const void*>(start + 8);
  const void* const base = base_of(wrapper);
  const std::lock_guard lock(libraries().mutex);
  Library& library = libraries().by_base[base];
  if (library.size() < kMostRead) {
    library[wrapper] = architectures_in(data);
  }
}

void unregister_fat_binary(const void* wrapper) {
  const std::lock_guard lock(libraries().mutex);
  for (auto& [base, library] : libraries().by_base) {
    library.erase(wrapper);
  }
}

int image_for(const void* host_function, int capability) {
  const void* const base = base_of(host_function);
  const std::lock_guard lock(libraries().mutex);
  const auto found = libraries().by_base.find(base);
  if (base == nullptr || found == libraries().by_base.end()) {
    return capability;
  }
  int best = 0;
  for (const auto& [wrapper, architectures] : found->second) {
    for (const int architecture : architectures) {
      best = architecture <= capability ? std::max(best, architecture) : best;
    }
  }
  return best == 0 ? capability : best;
}

}  // namespace headroom::standin
