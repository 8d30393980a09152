#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/snapshot/history.h"
#include "validators/snapshot/snapshot.h"

namespace headroom::check {

/// What a block of a snapshot is for, as far as stacks and lifetimes tell.
enum class BlockUse : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizerStates,
  kActivations,
  kTemporaries,
  kCommunication,
  kWorkspaces,
  kOther,        ///< Allocated by code that no rule knows: the user's own.
  kUnexplained,  ///< No stack was recorded.
};
inline constexpr std::size_t kBlockUseCount = 9;
/// "optimizer states"
[[nodiscard]] std::string_view name_of(BlockUse use);

/// Bytes by use.
using UseBytes = std::array<Bytes, kBlockUseCount>;

/// Stacks of one kind, and what the blocks are for that such code allocates.
struct StackRule {
  std::string phase;                    ///< "backward": part of a step; equal for several rules.
  std::string file;                     ///< Part of a frame's file; empty: any.
  std::vector<std::string> functions;   ///< Whole names; empty: any.
  std::string function_part;            ///< Part of a name, for C++; empty: any.
  BlockUse kept = BlockUse::kOther;     ///< What outlives its phase.
  BlockUse passing = BlockUse::kOther;  ///< What is released in the phase that allocated it.
};

/// The rules of `configs/snapshot/stacks.json`, in the order in which they count.
struct StackRules {
  std::vector<StackRule> rules;
  std::optional<std::size_t> without_frames;  ///< The rule for stacks without frames.
  /// Parts of the names of files that are no code of a model or a user.
  std::vector<std::string> libraries;
};

/// Reads `configs/snapshot/stacks.json` (`configs/schema/stacks.schema.json`).
///
/// Errors:  those of `read_file`; kInvalidInput for anything that is not of that form.
[[nodiscard]] Result<StackRules> read_stack_rules(const std::string& path);

/// The rules applied to one snapshot: stacks and frames are looked up once.
class StackSorter {
 public:
  /// `snapshot` must outlive the sorter.
  StackSorter(const StackRules& rules, const Snapshot& snapshot);

  /// Model:   the first rule that any frame of the stack matches. What is released under a stack of
  ///          the same phase was passing, all else was kept. A stack without frames counts as the
  ///          rule for these says, if it is of the history and other entries have frames: Python's
  ///          stacks are empty on the threads of PyTorch's autograd engine.
  [[nodiscard]] BlockUse use_of(const BlockLife& life) const;

  /// The phase of a stack: "optimizer"; empty: no rule knows it.
  [[nodiscard]] std::string_view phase_of(StackId stack) const;

  /// The innermost line of a stack that is no library's, "train.py:12 forward"; if all are
  /// libraries', the innermost line of Python; if there is none, the operator of PyTorch and the
  /// autograd node, "mm of AddmmBackward0"; empty for a stack without frames.
  [[nodiscard]] std::string line_of(StackId stack) const;

 private:
  [[nodiscard]] std::optional<std::size_t> rule_of(StackId stack) const;

  const StackRules& rules_;
  const Snapshot& snapshot_;
  std::vector<std::uint32_t> rule_by_stack_;  ///< Index of a rule; the number of rules: none.
  std::vector<bool> is_library_;              ///< By frame.
  bool has_frames_ = false;                   ///< Whether any stack of the history has frames.
};

/// "train.py:12 forward": the last two parts of the path are kept if the last one is short of
/// meaning (__init__.py).
[[nodiscard]] std::string frame_text(const Snapshot& snapshot, FrameId frame);

}  // namespace headroom::check
