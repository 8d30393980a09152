#include "validators/snapshot/growth.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace headroom::check {
namespace {

constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kMostLines = 6;

/// A stack as text, to find it in another snapshot.
std::string stack_text(const Snapshot& snapshot, StackId stack) {
  std::string text;
  for (const FrameId frame : snapshot.stack(stack)) {
    text += snapshot.file(frame);
    text += ':' + std::to_string(snapshot.frames[frame].line) + ' ';
    text += snapshot.function(frame);
    text += '\n';
  }
  return text;
}

std::vector<std::string> python_lines(const Snapshot& snapshot, StackId stack) {
  std::vector<std::string> lines;
  for (const FrameId frame : snapshot.stack(stack)) {
    if (snapshot.file(frame).ends_with(".py") && lines.size() < kMostLines) {
      lines.push_back(frame_text(snapshot, frame));
    }
  }
  return lines;
}

StackGrowth named(const Snapshot& snapshot, const StackSorter& sorter, const BlockLife& life,
                  std::size_t moments) {
  return {.line = sorter.line_of(life.stack),
          .frames = python_lines(snapshot, life.stack),
          .use = sorter.use_of(life),
          .bytes = std::vector<Bytes>(moments),
          .blocks = std::vector<std::size_t>(moments),
          .steady = false};
}

bool is_steady(const std::vector<Bytes>& bytes) {
  return std::ranges::adjacent_find(bytes, std::ranges::greater_equal{}) == bytes.end();
}

/// Keeps what grew, and sorts it: what grows steadily first, then by how much.
void finish(Growth& growth, std::vector<StackGrowth> stacks) {
  for (StackGrowth& stack : stacks) {
    stack.steady = is_steady(stack.bytes);
    if (stack.bytes.back() > stack.bytes.front()) {
      growth.stacks.push_back(std::move(stack));
    }
  }
  std::ranges::stable_sort(growth.stacks, std::ranges::greater{}, [](const StackGrowth& stack) {
    return std::pair(stack.steady, stack.bytes.back() - stack.bytes.front());
  });
}

/// The marks of the optimizer's step, as the entries before which they were set.
std::vector<std::size_t> marked_step_ends(const Snapshot& snapshot, const DeviceHistory& history,
                                          std::span<const TraceEntry> entries) {
  std::vector<std::size_t> ends;
  for (const SnapshotAnnotation& mark : snapshot.annotations) {
    if (mark.begins || mark.device != history.device || !mark.name.starts_with("Optimizer.step")) {
      continue;
    }
    const auto after = std::ranges::upper_bound(entries, mark.time, {}, &TraceEntry::time);
    const auto before = static_cast<std::size_t>(after - entries.begin());
    if (before > 0 && (ends.empty() || before - 1 > ends.back())) {
      ends.push_back(before - 1);
    }
  }
  return ends;
}

std::vector<std::size_t> optimizer_ends(const StackSorter& sorter,
                                        std::span<const TraceEntry> entries) {
  std::vector<std::size_t> ends;
  std::size_t next = 0;  ///< After the last entry of the optimizer; 0: none since the last step.
  for (std::size_t at = 0; at < entries.size(); ++at) {
    const std::string_view phase = sorter.phase_of(entries[at].stack);
    if (phase == "optimizer") {
      next = at + 1;
    } else if (next > 0 && (phase == "forward" || phase == "backward")) {
      ends.push_back(next - 1);
      next = 0;
    }
  }
  if (next > 0) {
    ends.push_back(next - 1);
  }
  return ends;
}

std::span<const TraceEntry> entries_of(const Snapshot& snapshot, std::int64_t device) {
  for (const DeviceTrace& trace : snapshot.traces) {
    if (trace.device == device) {
      return trace.entries;
    }
  }
  return {};
}

/// The stacks of several snapshots. Ids differ from file to file, texts do not.
class StacksByText {
 public:
  explicit StacksByText(std::size_t moments) : moments_(moments) {}

  /// Adds what is allocated when the snapshot is taken, as the moment `at`; returns the sum.
  Bytes add(const NamedSnapshot& named_snapshot, std::size_t at) {
    Bytes sum;
    std::map<StackId, std::size_t> known;
    for (const SnapshotSegment& segment : named_snapshot.snapshot->segments) {
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state != BlockState::kAllocated) {
          continue;
        }
        auto place = known.find(block.stack);
        if (place == known.end()) {
          place = known.emplace(block.stack, place_of(named_snapshot, block.stack)).first;
        }
        sum += block.size;
        stacks_[place->second].bytes[at] += block.size;
        ++stacks_[place->second].blocks[at];
      }
    }
    return sum;
  }
  [[nodiscard]] std::vector<StackGrowth> take() { return std::move(stacks_); }

 private:
  std::size_t place_of(const NamedSnapshot& from, StackId stack) {
    const auto [entry, is_new] =
        by_text_.try_emplace(stack_text(*from.snapshot, stack), stacks_.size());
    if (is_new) {
      BlockLife life;
      life.stack = stack;
      stacks_.push_back(named(*from.snapshot, *from.sorter, life, moments_));
    }
    return entry->second;
  }

  std::size_t moments_;
  std::map<std::string, std::size_t> by_text_;
  std::vector<StackGrowth> stacks_;
};

}  // namespace

Bytes StackGrowth::per_step() const {
  const auto steps = static_cast<std::int64_t>(bytes.size()) - 1;
  return Bytes{(bytes.back() - bytes.front()).value() / std::max(steps, std::int64_t{1})};
}

Growth growth_between(std::span<const NamedSnapshot> snapshots) {
  Growth growth;
  StacksByText stacks(snapshots.size());
  for (std::size_t at = 0; at < snapshots.size(); ++at) {
    growth.moments.push_back(snapshots[at].name);
    growth.allocated.push_back(stacks.add(snapshots[at], at));
  }
  finish(growth, stacks.take());
  return growth;
}

std::vector<std::size_t> step_ends(const Snapshot& snapshot, const StackSorter& sorter,
                                   const DeviceHistory& history) {
  const std::span<const TraceEntry> entries = entries_of(snapshot, history.device);
  std::vector<std::size_t> marked = marked_step_ends(snapshot, history, entries);
  return marked.empty() ? optimizer_ends(sorter, entries) : marked;
}

Growth growth_within(const Snapshot& snapshot, const StackSorter& sorter,
                     const DeviceHistory& history) {
  constexpr std::size_t kLeast = 3;
  const std::vector<std::size_t> all = step_ends(snapshot, sorter, history);
  Growth growth;
  if (all.size() < kLeast + 1) {
    return growth;
  }
  const std::size_t first = std::max<std::size_t>(1, all.size() - std::min(all.size(), kMostSteps));
  const std::vector<std::size_t> ends(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
  for (std::size_t at = first; at < all.size(); ++at) {
    growth.moments.push_back("step " + std::to_string(at + 1));
  }
  growth.allocated.resize(ends.size());
  std::map<StackId, std::size_t> places;
  std::vector<StackGrowth> stacks;
  for (const BlockLife& life : history.lives) {
    // The moments at which it is alive are neighbours.
    const std::size_t begin = life.begin == BlockLife::kBefore ? 0 : life.begin;
    auto from = static_cast<std::size_t>(std::ranges::lower_bound(ends, begin) - ends.begin());
    if (from == ends.size() || !life.lives_after(ends[from])) {
      continue;
    }
    const auto [place, is_new] = places.try_emplace(life.stack, stacks.size());
    if (is_new) {
      stacks.push_back(named(snapshot, sorter, life, ends.size()));
    }
    StackGrowth& stack = stacks[place->second];
    for (; from < ends.size() && life.lives_after(ends[from]); ++from) {
      stack.bytes[from] += life.size;
      ++stack.blocks[from];
      growth.allocated[from] += life.size;
    }
  }
  finish(growth, std::move(stacks));
  std::erase_if(growth.stacks, [](const StackGrowth& stack) { return !stack.steady; });
  return growth;
}

}  // namespace headroom::check
