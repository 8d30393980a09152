#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "validators/snapshot/pickle_document.h"
#include "validators/snapshot/snapshot.h"

namespace headroom::check {

/// Stores the stacks of a pickle in a snapshot, each once.
///
/// Model:   a frame or a list of frames that the pickle refers to again is found by its index. A
///          list of the same frames that was pickled anew, as PyTorch does for every event, is
///          found by its contents.
class StackTable {
 public:
  /// Both must outlive the table.
  StackTable(const PickleDocument& document, Snapshot& snapshot);

  /// The stack that the list `frames` is; 0 for None.
  [[nodiscard]] StackId stack_of(PickleValue frames);

  /// What is wrong with a stack that was asked for; nothing if all are right.
  [[nodiscard]] const std::optional<std::string>& fault() const { return fault_; }

  /// Closes the tables of the snapshot.
  void finish();

 private:
  [[nodiscard]] FrameId frame_of(PickleValue value);
  [[nodiscard]] StackFrame read_frame(PickleValue value);
  [[nodiscard]] FrameId known_or_new_frame(const StackFrame& frame);
  [[nodiscard]] std::uint32_t name_of(PickleValue text);
  [[nodiscard]] StackId known_or_new(std::vector<FrameId> frames);

  const PickleDocument& document_;
  Snapshot& snapshot_;
  std::vector<std::uint32_t> frame_ids_;  ///< By container; 0: not read yet, else the id and 1.
  std::vector<std::uint32_t> stack_ids_;  ///< The same for stacks.
  std::vector<std::uint32_t> name_ids_;   ///< By text.
  std::unordered_multimap<std::uint64_t, StackId> by_hash_;
  std::unordered_multimap<std::uint64_t, FrameId> frames_by_hash_;
  std::optional<std::string> fault_;
};

}  // namespace headroom::check
