#include "validators/dryrun/standin/values.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace headroom::standin {

void Values::remember(const void* address, const void* bytes, std::size_t size,
                      std::uint64_t kernels) {
  forget(address, size);
  if (size == 0 || size > kLargest) {
    return;
  }
  if (total_ + size > kMost) {
    entries_.clear();
    total_ = 0;
  }
  const auto* from = static_cast<const unsigned char*>(bytes);
  entries_[static_cast<const char*>(address)] = {{from, from + size}, kernels, Origin::kWritten};
  total_ += size;
}

void Values::state(const void* address, const void* bytes, std::size_t size) {
  remember(address, bytes, size, 0);
  if (const auto found = entries_.find(static_cast<const char*>(address));
      found != entries_.end()) {
    found->second.origin = Origin::kStated;
  }
}

void Values::receive(const void* address, const void* bytes, std::size_t size,
                     std::uint64_t kernels, bool counted) {
  remember(address, bytes, size, kernels);
  const auto found = entries_.find(static_cast<const char*>(address));
  if (counted && found != entries_.end()) {
    found->second.origin = Origin::kReceived;
  }
}

bool Values::recall(const void* address, std::size_t size, std::uint64_t kernels, void* to) const {
  return find(address, size, kernels, Which::kAny, to);
}

bool Values::recall_untouched(const void* address, std::size_t size, std::uint64_t kernels,
                              void* to) const {
  return find(address, size, kernels, Which::kUntouched, to);
}

bool Values::recall_counted(const void* address, std::size_t size, std::uint64_t kernels,
                            void* to) const {
  return find(address, size, kernels, Which::kCounted, to);
}

bool Values::find(const void* address, std::size_t size, std::uint64_t kernels, Which which,
                  void* to) const {
  const char* at = static_cast<const char*>(address);
  const auto after = entries_.upper_bound(at);
  if (after == entries_.begin()) {
    return false;
  }
  const auto& [begin, entry] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(at - begin);
  const bool untouched = entry.origin == Origin::kStated || entry.kernels == kernels;
  const bool whole = offset == 0 && size == entry.bytes.size() && size >= kSmallestKept;
  const bool exact = whole && (which == Which::kAny ||
                               (which == Which::kCounted && entry.origin == Origin::kReceived));
  const bool inside = offset + size <= entry.bytes.size();
  if (!exact && !(inside && untouched)) {
    return false;
  }
  std::memcpy(to, entry.bytes.data() + offset, size);
  return true;
}

void Values::copy(const void* from, const void* to, std::size_t size, std::uint64_t kernels) {
  std::vector<unsigned char> bytes(size <= kLargest ? size : 0);
  if (!bytes.empty() && recall(from, size, kernels, bytes.data())) {
    remember(to, bytes.data(), size, kernels);
  } else {
    forget(to, size);
  }
}

void Values::forget(const void* address, std::size_t size) {
  const char* begin = static_cast<const char*>(address);
  const char* end = begin + size;
  auto at = entries_.lower_bound(begin);
  if (at != entries_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.bytes.size() > begin) {
      at = before;
    }
  }
  while (at != entries_.end() && at->first < end) {
    total_ -= at->second.bytes.size();
    at = entries_.erase(at);
  }
}

}  // namespace headroom::standin
