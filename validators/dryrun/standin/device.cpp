#include "validators/dryrun/standin/device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

namespace headroom::standin {
namespace {

/// A value that the next download is known to be, as bytes of the size that is asked for.
bool announced_value(Device& gpu, void* to, std::size_t bytes) {
  if (gpu.next_counts > 0 && (bytes == 4 || bytes == 8)) {
    std::memcpy(to, &gpu.next_count, bytes);  // little-endian: the low word comes first
    --gpu.next_counts;
    gpu.guesses.count("a count of chosen elements follows the stated routing");
    return true;
  }
  if (gpu.next_truth && bytes == 1) {
    const auto truth = static_cast<unsigned char>(*gpu.next_truth ? 1 : 0);
    std::memcpy(to, &truth, 1);
    gpu.next_truth.reset();
    gpu.guesses.count("\"all\" of a mask is true");
    return true;
  }
  return false;
}

/// Zeros on the host, without committing pages that are zero already: states that are moved to the
/// host are large and never read.
void clear(const Device& gpu, void* to, std::size_t bytes) {
  const HostMemory::Kind kind = gpu.host.kind(to);
  if (kind == HostMemory::Kind::kPinned || kind == HostMemory::Kind::kManaged) {
    clear_host_pages(to, bytes);
    return;
  }
  constexpr std::size_t kPiece = 4096;
  static const std::array<char, kPiece> zeros{};
  char* const begin = static_cast<char*>(to);
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t size = std::min(kPiece, bytes - at);
    if (std::memcmp(begin + at, zeros.data(), size) != 0) {
      std::memset(begin + at, 0, size);
    }
  }
}

void download(Device& gpu, void* to, const void* from, std::size_t bytes) {
  gpu.work.downloaded += bytes;
  // What no kernel touched is certain; an announced count is what a kernel computed.
  if (gpu.values.recall_untouched(from, bytes, gpu.kernels, to) ||
      announced_value(gpu, to, bytes) || gpu.values.recall(from, bytes, gpu.kernels, to)) {
    return;
  }
  gpu.guesses.count(bytes <= 8 ? "a value that a kernel computed is read as 0"
                               : "values that a kernel computed are read as 0");
  clear(gpu, to, bytes);
}

}  // namespace

Device& device() {
  // A fork waits until no thread is inside, so that the child does not inherit a lock without an
  // owner.
  static auto* const the_device = [] {
    auto* made = new Device;
    pthread_atfork([] { device().mutex.lock(); }, [] { device().mutex.unlock(); },
                   [] { new (&device().mutex) std::recursive_mutex; });
    return made;
  }();
  return *the_device;
}

int& current_device() {
  thread_local int current = 0;
  return current;
}

void* new_handle() {
  static std::atomic<std::uintptr_t> last{0x1000};
  return reinterpret_cast<void*>(last += 16);
}

void copy_memory(void* to, const void* from, std::size_t bytes) {
  Locked gpu;
  const bool to_device = gpu->memory.owns(to);
  const bool from_device = gpu->memory.owns(from);
  gpu->queue.copy();
  if (to_device && from_device) {
    gpu->work.copied += bytes;
    gpu->values.copy(from, to, bytes, gpu->kernels);
  } else if (to_device) {
    gpu->work.uploaded += bytes;
    gpu->values.remember(to, from, bytes, gpu->kernels);
  } else if (from_device) {
    download(device(), to, from, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

void fill_memory(void* at, int byte, std::size_t bytes) {
  Locked gpu;
  if (gpu->memory.owns(at)) {
    if (bytes <= Values::kLargestFill) {
      const std::vector<unsigned char> pattern(bytes, static_cast<unsigned char>(byte));
      gpu->values.remember(at, pattern.data(), bytes, gpu->kernels);
    } else {
      gpu->values.forget(at, bytes);
    }
    return;
  }
  if (byte == 0) {
    clear(device(), at, bytes);
  } else {
    std::memset(at, byte, bytes);
  }
}

Status refuse(const char* function, Status status) {
  Locked gpu;
  if (gpu->refused[function]++ == 0) {
    std::fprintf(stderr,
                 "headroom dryrun: the stand-in GPU does not have %s; the program is told that it "
                 "is not supported\n",
                 function);
  }
  return status;
}

}  // namespace headroom::standin
