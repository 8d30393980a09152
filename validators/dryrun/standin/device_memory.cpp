#include "validators/dryrun/standin/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace headroom::standin {
namespace {

constexpr std::size_t kSmallRequest = std::size_t{1} << 20;
constexpr std::size_t kSmallUnit = 512;  ///< cudaMalloc's alignment is at least 256, PyTorch's 512.
/// Where `ulimit -v` leaves less than 32 TiB of addresses, smaller spans are tried.
constexpr int kMostAddressBits = 45;
constexpr int kFewestAddressBits = 38;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}

}  // namespace

DeviceMemory::DeviceMemory(const Profile& profile)
    : total_(profile.total_bytes), context_(profile.context_bytes) {
  for (int bits = kMostAddressBits; bits >= kFewestAddressBits && begin_ == nullptr; --bits) {
    const std::size_t span = std::size_t{1} << bits;
    void* space =
        mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space != MAP_FAILED) {
      begin_ = static_cast<char*>(space);
      end_ = begin_ + span;
    }
  }
  const std::size_t past = reinterpret_cast<std::uintptr_t>(begin_) % kPage;
  next_ = begin_ + (past == 0 ? 0 : kPage - past);
  for (Use& use : use_) {
    use.peak = context_;
    use.recent_peak = context_;
  }
}

DeviceMemory::~DeviceMemory() {
  if (begin_ != nullptr) {
    munmap(begin_, static_cast<std::size_t>(end_ - begin_));
  }
}

std::uint64_t DeviceMemory::bytes_of(const Use& use) {
  return use.pages + (use.small == 0 ? 0 : round_up(use.small, kPage));
}

bool DeviceMemory::grow(Use& use, std::uint64_t pages, std::uint64_t small) const {
  Use grown = use;
  grown.pages += pages;
  grown.small += small;
  const std::uint64_t bytes = context_ + bytes_of(grown);
  if (bytes > total_) {
    return false;
  }
  use = grown;
  use.peak = std::max(use.peak, bytes);
  use.recent_peak = std::max(use.recent_peak, bytes);
  return true;
}

void* DeviceMemory::allocate(std::size_t bytes, int device) {
  const bool small = bytes < kSmallRequest;
  Use& use = use_[static_cast<std::size_t>(device)];
  const Use before = use;
  if (bytes > total_ ||
      !grow(use, small ? 0 : round_up(bytes, kPage), small ? round_up(bytes, kSmallUnit) : 0)) {
    return nullptr;
  }
  void* address = reserve(bytes);
  if (address == nullptr) {
    use = before;
    return nullptr;
  }
  live_[static_cast<const char*>(address)] = {address, bytes, device, false};
  return address;
}

std::optional<DeviceMemory::Allocation> DeviceMemory::release(void* address) {
  const auto found = live_.find(static_cast<const char*>(address));
  if (found == live_.end() || found->second.mapped) {
    return std::nullopt;
  }
  const Allocation gone = found->second;
  Use& use = use_[static_cast<std::size_t>(gone.device)];
  if (gone.bytes < kSmallRequest) {
    use.small -= round_up(gone.bytes, kSmallUnit);
  } else {
    use.pages -= round_up(gone.bytes, kPage);
  }
  unreserve(address, gone.bytes);
  live_.erase(found);
  return gone;
}

void* DeviceMemory::reserve(std::size_t bytes) {
  const std::size_t span = round_up(bytes, kPage);
  if (span <= static_cast<std::size_t>(end_ - next_)) {
    char* address = next_;
    next_ += span;
    return address;
  }
  const auto fits =
      std::ranges::find_if(returned_, [span](const auto& entry) { return entry.second >= span; });
  if (fits == returned_.end()) {
    return nullptr;
  }
  const auto [address, size] = *fits;
  returned_.erase(fits);
  if (size > span) {
    returned_.emplace(address + span, size - span);
  }
  return address;
}

void DeviceMemory::unreserve(void* address, std::size_t bytes) {
  auto at = returned_.emplace(static_cast<char*>(address), round_up(bytes, kPage)).first;
  if (const auto after = std::next(at);
      after != returned_.end() && at->first + at->second == after->first) {
    at->second += after->second;
    returned_.erase(after);
  }
  if (at != returned_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      returned_.erase(at);
    }
  }
}

bool DeviceMemory::take(std::size_t bytes, int device) {
  return bytes <= total_ && grow(use_[static_cast<std::size_t>(device)], round_up(bytes, kPage), 0);
}

void DeviceMemory::give(std::size_t bytes, int device) {
  use_[static_cast<std::size_t>(device)].pages -= round_up(bytes, kPage);
}

void DeviceMemory::map(void* address, std::size_t bytes, int device) {
  live_[static_cast<const char*>(address)] = {address, bytes, device, true};
}

void DeviceMemory::unmap(void* address) {
  live_.erase(static_cast<const char*>(address));
}

std::optional<DeviceMemory::Allocation> DeviceMemory::find(const void* address) const {
  const char* at = static_cast<const char*>(address);
  auto after = live_.upper_bound(at);
  if (after == live_.begin()) {
    return std::nullopt;
  }
  const Allocation& candidate = std::prev(after)->second;
  const bool inside = at < static_cast<const char*>(candidate.address) + candidate.bytes;
  return inside ? std::optional(candidate) : std::nullopt;
}

std::uint64_t DeviceMemory::used(int device) const {
  return context_ + bytes_of(use_[static_cast<std::size_t>(device)]);
}

std::uint64_t DeviceMemory::peak(int device) const {
  return use_[static_cast<std::size_t>(device)].peak;
}

void DeviceMemory::reset_peak(int device) {
  use_[static_cast<std::size_t>(device)].peak = used(device);
}

std::uint64_t DeviceMemory::take_peak(int device) {
  return std::exchange(use_[static_cast<std::size_t>(device)].recent_peak, used(device));
}

std::uint64_t DeviceMemory::free(int device) const {
  return total_ - std::min(total_, used(device));
}

}  // namespace headroom::standin
