#include "validators/dryrun/standin/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace headroom::standin {

void HostMemory::add(void* address, Block block) {
  live_[static_cast<const char*>(address)] = block;
  Use& use = use_of(block.kind);
  use.now += block.bytes;
  use.peak = std::max(use.peak, use.now);
}

void* HostMemory::allocate(std::size_t bytes, Kind kind) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return nullptr;
  }
  add(address, {size, kind});
  return address;
}

bool HostMemory::enrol(void* address, std::size_t bytes) {
  if (kind(address) != Kind::kNone) {
    return false;
  }
  add(address, {bytes, Kind::kRegistered});
  return true;
}

bool HostMemory::release(void* address) {
  return remove(address, false);
}

bool HostMemory::withdraw(void* address) {
  return remove(address, true);
}

bool HostMemory::remove(void* address, bool registered) {
  const auto found = live_.find(static_cast<const char*>(address));
  if (found == live_.end() || (found->second.kind == Kind::kRegistered) != registered) {
    return false;
  }
  const Block block = found->second;
  live_.erase(found);
  use_of(block.kind).now -= block.bytes;
  if (block.kind != Kind::kRegistered) {
    munmap(address, block.bytes);
  }
  return true;
}

HostMemory::Kind HostMemory::kind(const void* address) const {
  const char* at = static_cast<const char*>(address);
  const auto after = live_.upper_bound(at);
  if (after == live_.begin()) {
    return Kind::kNone;
  }
  const auto& [begin, block] = *std::prev(after);
  return at < begin + block.bytes ? block.kind : Kind::kNone;
}

void clear_host_pages(void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + bytes) / page * page;
  if (last <= first) {
    std::memset(address, 0, bytes);
    return;
  }
  std::memset(address, 0, first - begin);
  // Private anonymous pages that are given back read as zero.
  madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(last), 0, begin + bytes - last);
}

}  // namespace headroom::standin
