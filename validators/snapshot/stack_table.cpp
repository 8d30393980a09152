#include "validators/snapshot/stack_table.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace headroom::check {
namespace {

/// Stacks are cut here: what a deeper one adds are calls of Python's own recursion.
constexpr std::size_t kMostFrames = 1'024;

/// FNV-1a over the ids. Source: Fowler, Noll, Vo; RFC 9923.
std::uint64_t hash_of(std::span<const std::uint32_t> ids) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint32_t id : ids) {
    hash = (hash ^ id) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace

StackTable::StackTable(const PickleDocument& document, Snapshot& snapshot)
    : document_(document),
      snapshot_(snapshot),
      frame_ids_(document.containers(), 0),
      stack_ids_(document.containers(), 0),
      name_ids_(document.texts(), 0) {
  snapshot_.names.assign(1, std::string());
  snapshot_.stack_begins.assign(1, 0);
  (void)known_or_new({});  // Stack 0.
}

StackId StackTable::stack_of(PickleValue frames) {
  if (frames.kind() == PickleKind::kNone) {
    return 0;
  }
  if (frames.kind() != PickleKind::kList) {
    fault_ = "\"frames\" that is no list";
    return 0;
  }
  std::uint32_t& known = stack_ids_[frames.payload()];
  if (known == 0) {
    const std::span<const PickleValue> items = document_.items(frames);
    std::vector<FrameId> ids(std::min(items.size(), kMostFrames));
    for (std::size_t at = 0; at < ids.size(); ++at) {
      ids[at] = frame_of(items[at]);
    }
    known = known_or_new(std::move(ids)) + 1;
  }
  return known - 1;
}

void StackTable::finish() {
  if (snapshot_.frames.empty()) {
    snapshot_.frames.emplace_back();
  }
}

FrameId StackTable::frame_of(PickleValue value) {
  if (value.kind() != PickleKind::kDict) {
    fault_ = "a frame that is no dictionary";
    return 0;
  }
  if (frame_ids_[value.payload()] == 0) {
    frame_ids_[value.payload()] = known_or_new_frame(read_frame(value)) + 1;
  }
  return frame_ids_[value.payload()] - 1;
}

StackFrame StackTable::read_frame(PickleValue value) {
  StackFrame frame;
  const std::span<const PickleValue> items = document_.items(value);
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    if (items[at].kind() != PickleKind::kText) {
      continue;
    }
    const std::string_view key = document_.text(items[at]);
    const PickleValue member = items[at + 1];
    if (key == "filename" && member.kind() == PickleKind::kText) {
      frame.file = name_of(member);
    } else if (key == "name" && member.kind() == PickleKind::kText) {
      frame.function = name_of(member);
    } else if (key == "line" && member.kind() == PickleKind::kInteger) {
      frame.line = PickleDocument::integer(member);
    }
  }
  return frame;
}

FrameId StackTable::known_or_new_frame(const StackFrame& frame) {
  const std::array<std::uint32_t, 3> parts = {frame.file, frame.function,
                                              static_cast<std::uint32_t>(frame.line)};
  const std::uint64_t hash = hash_of(parts);
  const auto [first, last] = frames_by_hash_.equal_range(hash);
  for (auto found = first; found != last; ++found) {
    if (snapshot_.frames[found->second] == frame) {
      return found->second;
    }
  }
  snapshot_.frames.push_back(frame);
  const auto id = static_cast<FrameId>(snapshot_.frames.size() - 1);
  frames_by_hash_.emplace(hash, id);
  return id;
}

std::uint32_t StackTable::name_of(PickleValue text) {
  std::uint32_t& id = name_ids_[text.payload()];
  if (id == 0) {
    snapshot_.names.emplace_back(document_.text(text));
    id = static_cast<std::uint32_t>(snapshot_.names.size() - 1);
  }
  return id;
}

StackId StackTable::known_or_new(std::vector<FrameId> frames) {
  const std::uint64_t hash = hash_of(frames);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto found = first; found != last; ++found) {
    if (std::ranges::equal(snapshot_.stack(found->second), frames)) {
      return found->second;
    }
  }
  const auto id = static_cast<StackId>(snapshot_.stacks());
  snapshot_.stack_frames.insert(snapshot_.stack_frames.end(), frames.begin(), frames.end());
  snapshot_.stack_begins.push_back(static_cast<std::uint32_t>(snapshot_.stack_frames.size()));
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace headroom::check
