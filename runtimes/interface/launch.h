#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/option.h"

namespace headroom::ir {

/// The machines on which a run starts.
struct LaunchSite {
  std::int64_t gpus_per_node = 8;
  std::string model;  ///< The model as the user named it.
};

/// Variables of the shell that commands on several nodes refer to, as a word ("$NODE_RANK") or
/// with a port ("$HEAD_NODE:29500"). The user sets them on each node.
inline constexpr std::array<std::string_view, 2> kLaunchVariables = {"HEAD_NODE", "NODE_RANK"};

/// How a user starts a framework with a plan.
struct Launch {
  /// The words of the command. `train.py` stands for the user's script where the framework has
  /// none of its own.
  std::vector<std::string> command;
  std::vector<std::string> environment{};  ///< Variables that must be set: "NAME=value".
  /// Lines that the script needs because no argument says the same: Python, or comments about what
  /// the user adds.
  std::vector<std::string> code;
  bool clips = false;  ///< The framework clips gradients without being told to.
  friend bool operator==(const Launch&, const Launch&) = default;
};

/// PyTorch's launcher with a process for each GPU, or `python` for one GPU.
/// Source: pytorch/pytorch torch/distributed/run.py.
[[nodiscard]] std::vector<std::string> torchrun_words(const ParallelPlan& plan,
                                                      const LaunchSite& site);

/// The options of a part that differ from `usual` and whose own names begin with `prefix`, each as
/// words of a command line: "--tensor-model-parallel-size 8", "--sequence-parallel". `joined`: name
/// and value are one word with "=" between, and a switch has the value `true` or `false`.
enum class OwnForm : std::uint8_t { kSeparate, kJoined };
[[nodiscard]] std::vector<std::string> own_words(std::span<const OptionField> fields,
                                                 const ParallelPlan& plan,
                                                 const ParallelPlan& usual, std::string_view prefix,
                                                 OwnForm form);

/// Appends words.
void append_words(std::vector<std::string>& words, const std::vector<std::string>& more);

/// "True" or "False", as Python spells them.
[[nodiscard]] std::string python_text(bool value);

}  // namespace headroom::ir
