#include "costmodel/memory/driver_addresses.h"

#include <array>
#include <iterator>

#include "costmodel/memory/allocation_size.h"
#include "model_ir/base/check.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

constexpr std::int64_t kChunk = 32 * kMiB;
/// No block may be at address 0, because a viewer takes that for no address.
constexpr std::int64_t kBegin = std::int64_t{1} << 32;
constexpr std::int64_t kEnd = std::int64_t{1} << 61;
constexpr std::array<std::int64_t, 3> kFirstPlaces = {400 * kMiB, 22 * kMiB, 32 * kMiB};

}  // namespace

DriverAddresses::DriverAddresses() {
  space_.emplace(kBegin, kEnd);
  std::int64_t begin = kEnd + kChunk;
  for (const std::int64_t bytes : kFirstPlaces) {
    chunks_.emplace(begin, Chunk{.end = begin + bytes, .first = true});
    add_place(begin, begin + bytes);
    begin += bytes + kChunk;
  }
}

void DriverAddresses::add(Ranges& ranges, std::int64_t begin, std::int64_t end) {
  const auto after = ranges.find(end);
  if (after != ranges.end()) {
    end = after->second;
    ranges.erase(after);
  }
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
    return;
  }
  ranges.emplace(begin, end);
}

void DriverAddresses::add_place(std::int64_t begin, std::int64_t end) {
  places_.emplace(begin, end);
  sizes_.insert(end - begin);
}

DriverAddresses::Ranges::iterator DriverAddresses::drop_place(Ranges::iterator place) {
  sizes_.erase(sizes_.find(place->second - place->first));
  return places_.erase(place);
}

/// A new chunk that begins with a segment of `bytes`.
std::int64_t DriverAddresses::open_chunk(std::int64_t bytes) {
  const std::int64_t whole = align_up(bytes, kChunk);
  for (auto range = space_.rbegin(); range != space_.rend(); ++range) {
    if (range->second - range->first > whole) {
      range->second -= whole;
      const std::int64_t begin = range->second;
      chunks_.emplace(begin, Chunk{.end = begin + whole});
      if (whole > bytes) {
        add_place(begin + bytes, begin + whole);
      }
      return begin;
    }
  }
  HEADROOM_ASSERT(!"addresses for a segment");
  return 0;
}

std::int64_t DriverAddresses::take(std::int64_t bytes) {
  std::int64_t address = 0;
  if (!begun_ && bytes == kSmallSegment) {
    address = kEnd + (std::int64_t{1} << 40);
    chunks_.emplace(address, Chunk{.end = address + bytes, .first = true});
  }
  begun_ = true;
  const bool fits = !sizes_.empty() && *sizes_.rbegin() >= bytes;
  for (auto place = places_.begin(); fits && address == 0; ++place) {
    const auto [begin, end] = *place;
    if (end - begin >= bytes) {
      address = begin;
      drop_place(place);
      if (begin + bytes < end) {
        add_place(begin + bytes, end);
      }
      break;
    }
  }
  address = address == 0 ? open_chunk(bytes) : address;
  segments_.emplace(address, bytes);
  return address;
}

void DriverAddresses::give_back(std::int64_t address) {
  const auto segment = segments_.find(address);
  HEADROOM_ASSERT(segment != segments_.end());
  const auto chunk = std::prev(chunks_.upper_bound(address));
  const auto [begin, whole] = *chunk;
  // Ranges of neighbouring chunks must not merge, so each chunk's ranges are joined separately.
  Ranges own;
  for (auto place = places_.lower_bound(begin);
       place != places_.end() && place->first < whole.end;) {
    own.insert(*place);
    place = drop_place(place);
  }
  add(own, address, address + segment->second);
  segments_.erase(segment);
  if (!whole.first && own.begin()->first == begin && own.begin()->second == whole.end) {
    add(space_, begin, whole.end);
    chunks_.erase(chunk);
    return;
  }
  for (const auto& [from, to] : own) {
    add_place(from, to);
  }
}

}  // namespace headroom::cost
