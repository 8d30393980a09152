#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::test {

/// The caching allocator once more, written for sight and not for speed: every question is answered
/// by walking over all pieces of all ranges, and neighbours are merged by sweeping a whole range.
/// Shares no code with `cost::CachingAllocator`. Constants are written out.
class NaiveAllocator {
 public:
  NaiveAllocator(const ir::AllocatorSettings& settings, std::int64_t capacity,
                 std::optional<std::int64_t> allowed)
      : settings_(settings), capacity_(capacity), allowed_(allowed) {}

  bool allocate(std::uint32_t block, std::int64_t requested, int stream) {
    const std::int64_t size = rounded(requested);
    const Kind kind{.stream = stream, .small = size <= kMiB};
    std::optional<Place> place = best_fit(kind, size);
    if (!place) {
      collect_garbage();
      place = grow(kind, size);
    }
    if (!place && release_oversize(kind, size)) {
      place = grow(kind, size);
    }
    if (!place) {
      release_cached();
      ++retries_;
      place = grow(kind, size);
    }
    if (!place) {
      return false;
    }
    take(*place, size, block);
    return true;
  }

  void free(std::uint32_t block) {
    for (Range& range : ranges_) {
      for (Piece& piece : range.pieces) {
        if (piece.state == State::kLive && piece.block == block) {
          piece.state = State::kFree;
          piece.freed_at = searches_[range.kind.small];
          sweep(range);
          return;
        }
      }
    }
  }

  void empty_cache() { release_cached(); }

  [[nodiscard]] std::int64_t allocated() const { return sum(State::kLive); }
  [[nodiscard]] std::int64_t reserved() const { return sum(State::kLive) + sum(State::kFree); }
  [[nodiscard]] std::int64_t retries() const { return retries_; }
  [[nodiscard]] std::int64_t size_of(std::uint32_t block) const {
    for (const Range& range : ranges_) {
      for (const Piece& piece : range.pieces) {
        if (piece.state == State::kLive && piece.block == block) {
          return piece.size;
        }
      }
    }
    return -1;
  }

 private:
  enum class State { kLive, kFree, kUnmapped };
  struct Piece {
    std::int64_t start = 0;  ///< In its range.
    std::int64_t size = 0;
    State state = State::kFree;
    std::uint32_t block = 0;
    std::int64_t freed_at = 0;
  };
  struct Kind {
    int stream = 0;
    bool small = false;
    friend bool operator==(const Kind&, const Kind&) = default;
  };
  struct Range {
    Kind kind;
    std::vector<Piece> pieces;
  };
  struct Place {
    std::size_t range = 0;  ///< Ranges are never removed, only emptied: their order is their age.
    std::size_t piece = 0;
  };

  [[nodiscard]] std::int64_t max_split() const {
    return settings_.max_split_size ? settings_.max_split_size->value()
                                    : std::numeric_limits<std::int64_t>::max();
  }

  [[nodiscard]] std::int64_t rounded(std::int64_t requested) const {
    const std::int64_t divisions = settings_.roundup_power2_divisions;
    if (divisions > 1 && requested > 512 * divisions) {
      std::int64_t power = 1;
      while (power * 2 <= requested) {
        power *= 2;
      }
      std::int64_t size = power;
      while (size < requested) {
        size += power / divisions;
      }
      return size;
    }
    return (requested + 511) / 512 * 512;
  }

  [[nodiscard]] std::int64_t sum(State state) const {
    std::int64_t total = 0;
    for (const Range& range : ranges_) {
      for (const Piece& piece : range.pieces) {
        total += piece.state == state ? piece.size : 0;
      }
    }
    return total;
  }

  /// Joins neighbours that are both free or both unmapped; the joined piece was freed now.
  void sweep(Range& range) {
    std::vector<Piece> joined;
    for (const Piece& piece : range.pieces) {
      if (!joined.empty() && piece.state != State::kLive && joined.back().state == piece.state) {
        joined.back().size += piece.size;
        joined.back().freed_at = searches_[range.kind.small];
      } else {
        joined.push_back(piece);
      }
    }
    range.pieces = std::move(joined);
  }

  [[nodiscard]] std::int64_t with_room_behind(const Place& place) const {
    const std::vector<Piece>& pieces = ranges_[place.range].pieces;
    std::int64_t size = pieces[place.piece].size;
    if (place.piece + 1 < pieces.size() && pieces[place.piece + 1].state == State::kUnmapped) {
      size += pieces[place.piece + 1].size;
    }
    return size;
  }

  std::optional<Place> best_fit(const Kind& kind, std::int64_t size) {
    ++searches_[kind.small];
    // Sizes, then ranges by age, then addresses: all candidates in the order of preference.
    std::map<std::pair<std::int64_t, std::pair<std::size_t, std::size_t>>, Place> candidates;
    for (std::size_t range = 0; range < ranges_.size(); ++range) {
      for (std::size_t piece = 0; piece < ranges_[range].pieces.size(); ++piece) {
        const Piece& one = ranges_[range].pieces[piece];
        if (ranges_[range].kind == kind && one.state == State::kFree && one.size >= size) {
          candidates[{one.size, {range, piece}}] = {.range = range, .piece = piece};
        }
      }
    }
    if (candidates.empty()) {
      return std::nullopt;
    }
    auto choice = candidates.begin();
    if (settings_.expandable_segments) {
      while (std::next(choice) != candidates.end() &&
             with_room_behind(std::next(choice)->second) < with_room_behind(choice->second)) {
        ++choice;
      }
    }
    const std::int64_t found = choice->first.first;
    const bool refused = size < max_split()
                             ? found >= max_split()
                             : found >= size + settings_.max_non_split_rounding.value();
    return refused ? std::nullopt : std::optional<Place>(choice->second);
  }

  void take(const Place& place, std::int64_t size, std::uint32_t block) {
    Range& range = ranges_[place.range];
    Piece& piece = range.pieces[place.piece];
    const std::int64_t rest = piece.size - size;
    const bool split = range.kind.small || settings_.expandable_segments
                           ? rest >= 512
                           : size < max_split() && rest > kMiB;
    piece.state = State::kLive;
    piece.block = block;
    if (split) {
      piece.size = size;
      const Piece remainder{.start = piece.start + size,
                            .size = rest,
                            .state = State::kFree,
                            .block = 0,
                            .freed_at = searches_[range.kind.small]};
      range.pieces.insert(range.pieces.begin() + static_cast<std::ptrdiff_t>(place.piece) + 1,
                          remainder);
    }
  }

  std::optional<Place> grow(const Kind& kind, std::int64_t size) {
    std::int64_t segment = 2 * kMiB;
    if (size > kMiB) {
      segment = size < 10 * kMiB ? 20 * kMiB : (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    }
    if (allowed_ && reserved() + segment > *allowed_) {
      return std::nullopt;
    }
    if (settings_.expandable_segments) {
      return expand(kind, size);
    }
    if (reserved() + segment > capacity_) {
      return std::nullopt;
    }
    ranges_.push_back({.kind = kind, .pieces = {{.start = 0, .size = segment}}});
    return Place{.range = ranges_.size() - 1, .piece = 0};
  }

  std::optional<Place> expand(const Kind& kind, std::int64_t size) {
    const std::int64_t page = kind.small ? 2 * kMiB : 20 * kMiB;
    std::size_t range = 0;
    std::optional<std::int64_t> start;
    for (range = 0; range < ranges_.size(); ++range) {
      if (ranges_[range].kind == kind && (start = room_in(ranges_[range], size))) {
        break;
      }
    }
    if (!start) {
      const std::int64_t length = (capacity_ + capacity_ / 8 + page - 1) / page * page;
      ranges_.push_back(
          {.kind = kind, .pieces = {{.start = 0, .size = length, .state = State::kUnmapped}}});
      range = ranges_.size() - 1;
      start = 0;
    }
    for (;;) {
      Range& chosen = ranges_[range];
      const auto at = std::ranges::find_if(chosen.pieces, [&](const Piece& piece) {
        return piece.start <= *start && *start < piece.start + piece.size;
      });
      const bool free = at->state == State::kFree;
      if (free && at->size >= size) {
        return Place{.range = range, .piece = static_cast<std::size_t>(at - chosen.pieces.begin())};
      }
      const auto unmapped = free ? at + 1 : at;
      const std::int64_t missing = std::min(size - (free ? at->size : 0), unmapped->size);
      const std::int64_t bytes = (missing + page - 1) / page * page;
      if (reserved() + bytes > capacity_) {
        return std::nullopt;
      }
      const Piece rest{.start = unmapped->start + bytes,
                       .size = unmapped->size - bytes,
                       .state = State::kUnmapped};
      unmapped->size = bytes;
      unmapped->state = State::kFree;
      if (rest.size > 0) {
        chosen.pieces.insert(unmapped + 1, rest);
      }
      sweep(chosen);
    }
  }

  /// Start of the lowest stretch without live pieces that has `size` bytes and unmapped room.
  static std::optional<std::int64_t> room_in(const Range& range, std::int64_t size) {
    for (std::size_t first = 0; first < range.pieces.size(); ++first) {
      if (range.pieces[first].state != State::kUnmapped) {
        continue;
      }
      const bool free_before = first > 0 && range.pieces[first - 1].state == State::kFree;
      std::int64_t room = 0;
      for (std::size_t piece = free_before ? first - 1 : first;
           piece < range.pieces.size() && range.pieces[piece].state != State::kLive; ++piece) {
        room += range.pieces[piece].size;
      }
      if (room >= size) {
        return range.pieces[free_before ? first - 1 : first].start;
      }
    }
    return std::nullopt;
  }

  /// The piece of a range that is one free segment; nothing for any other range.
  [[nodiscard]] static const Piece* whole_free(const Range& range) {
    const bool whole = range.pieces.size() == 1 && range.pieces[0].state == State::kFree;
    return whole ? &range.pieces[0] : nullptr;
  }

  void release_cached() {
    for (Range& range : ranges_) {
      if (!settings_.expandable_segments) {
        if (whole_free(range) != nullptr) {
          range.pieces.clear();
        }
        continue;
      }
      const std::int64_t page = range.kind.small ? 2 * kMiB : 20 * kMiB;
      std::vector<Piece> pieces;
      for (const Piece& piece : range.pieces) {
        const std::int64_t begin = (piece.start + page - 1) / page * page;
        const std::int64_t end = (piece.start + piece.size) / page * page;
        if (piece.state != State::kFree || begin >= end) {
          pieces.push_back(piece);
          continue;
        }
        Piece part = piece;
        for (const auto& [from, to, state] :
             {std::tuple(piece.start, begin, State::kFree),
              std::tuple(begin, end, State::kUnmapped),
              std::tuple(end, piece.start + piece.size, State::kFree)}) {
          part.start = from;
          part.size = to - from;
          part.state = state;
          if (part.size > 0) {
            pieces.push_back(part);
          }
        }
      }
      range.pieces = std::move(pieces);
      sweep(range);
    }
  }

  bool release_oversize(const Kind& kind, std::int64_t size) {
    if (!settings_.max_split_size || settings_.expandable_segments) {
      return false;
    }
    const std::int64_t wanted = std::max(size, max_split());
    std::map<std::pair<std::int64_t, std::size_t>, Range*> oversize;
    for (std::size_t range = 0; range < ranges_.size(); ++range) {
      const Piece* piece = whole_free(ranges_[range]);
      if (ranges_[range].kind == kind && piece != nullptr && piece->size >= max_split()) {
        oversize[{piece->size, range}] = &ranges_[range];
      }
    }
    const auto fit = oversize.lower_bound({wanted, 0});
    if (fit != oversize.end()) {
      fit->second->pieces.clear();
      return true;
    }
    std::int64_t released = 0;
    for (auto one = oversize.rbegin(); one != oversize.rend() && released < wanted; ++one) {
      released += one->first.first;
      one->second->pieces.clear();
    }
    return released >= wanted;
  }

  void collect_garbage() {
    if (!allowed_ || settings_.garbage_collection_threshold <= 0) {
      return;
    }
    const std::int64_t target =
        reserved() - static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                               static_cast<double>(*allowed_));
    std::int64_t reclaimed = 0;
    while (reclaimed < target && !settings_.expandable_segments) {
      std::vector<Range*> candidates;
      std::int64_t ages = 0;
      for (Range& range : ranges_) {
        const Piece* piece = whole_free(range);
        if (piece != nullptr && !range.kind.small) {
          candidates.push_back(&range);
          ages += searches_[false] - piece->freed_at;
        }
      }
      if (candidates.empty()) {
        return;
      }
      const double average = static_cast<double>(ages) / static_cast<double>(candidates.size());
      for (Range* range : candidates) {
        if (static_cast<double>(searches_[false] - range->pieces[0].freed_at) >= average) {
          reclaimed += range->pieces[0].size;
          range->pieces.clear();
        }
      }
    }
  }

  ir::AllocatorSettings settings_;
  std::int64_t capacity_;
  std::optional<std::int64_t> allowed_;
  std::vector<Range> ranges_;
  std::map<bool, std::int64_t> searches_;  ///< By whether the pool is the small one.
  std::int64_t retries_ = 0;
};

}  // namespace headroom::test
