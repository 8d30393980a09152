#include "planner/chain/chain.h"

#include <algorithm>
#include <utility>

#include "planner/chain/chain_tables.h"

namespace headroom::plan {
namespace {

using Kind = ChainStep::Kind;

/// The memory of a chain while its steps run.
class ChainMemory {
 public:
  explicit ChainMemory(const Chain& chain)
      : chain_(chain), output_(chain.size() + 1), saved_(chain.size() + 1) {
    live_ = chain.back().gradient;
    output_[0] = true;  // The chain's input, which is not counted.
    pending_ = chain.size();
  }

  /// Runs a step. False if data that the step needs is not stored.
  [[nodiscard]] bool run(const ChainStep& step) {
    const ChainStage& stage = chain_[step.stage];
    if (step.kind == Kind::kBackward) {
      return run_backward(step.stage);
    }
    if (!output_[step.stage] && !saved_[step.stage]) {
      return false;
    }
    time_ += stage.forward;
    if (step.kind == Kind::kForwardAll) {
      take(stage.saved, stage.forward_transient);
      saved_[step.stage + 1] = true;
      return true;
    }
    take(stage.output, stage.forward_transient);
    output_[step.stage + 1] = true;
    if (step.kind == Kind::kForwardDrop) {
      drop_output(step.stage);
    }
    return true;
  }

  [[nodiscard]] bool finished() const { return pending_ == 0; }
  [[nodiscard]] double time() const { return time_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  void take(std::int64_t slots, std::int64_t transient) {
    live_ += slots;
    peak_ = std::max(peak_, live_ + transient);
  }
  /// Frees the output of stage `index` - 1.
  void drop_output(std::size_t index) {
    if (index > 0 && output_[index]) {
      live_ -= chain_[index - 1].output;
      output_[index] = false;
    }
  }
  [[nodiscard]] bool run_backward(std::size_t index) {
    const ChainStage& stage = chain_[index];
    const bool has_input = output_[index] || saved_[index];
    if (pending_ != index + 1 || !saved_[index + 1] || !has_input) {
      return false;
    }
    peak_ = std::max(peak_, live_ + stage.backward_transient);
    time_ += stage.backward;
    live_ -= stage.saved + stage.gradient;
    saved_[index + 1] = false;
    drop_output(index);
    live_ += index > 0 ? chain_[index - 1].gradient : 0;
    pending_ = index;
    return true;
  }

  const Chain& chain_;
  std::vector<bool> output_;  ///< [i]: whether only the output of stage i - 1 is stored.
  std::vector<bool> saved_;   ///< [i]: whether all that stage i - 1 saves is stored.
  std::size_t pending_ = 0;   ///< Number of stages whose backward is still to run.
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  double time_ = 0;
};

}  // namespace

std::optional<ChainSchedule> run_chain(const Chain& chain, std::vector<ChainStep> steps) {
  if (chain.empty()) {
    return std::nullopt;
  }
  ChainMemory memory(chain);
  for (const ChainStep& step : steps) {
    if (step.stage >= chain.size() || !memory.run(step)) {
      return std::nullopt;
    }
  }
  if (!memory.finished()) {
    return std::nullopt;
  }
  return ChainSchedule{.steps = std::move(steps), .time = memory.time(), .peak = memory.peak()};
}

std::optional<ChainSchedule> optimal_chain(const Chain& chain, std::int64_t slots, int threads) {
  if (chain.empty()) {
    return std::nullopt;
  }
  double all = 0;
  for (const ChainStage& stage : chain) {
    all += stage.forward;
  }
  // The first limit is little above the least recomputation: tighter limits have smaller tables.
  constexpr double kFirstRoom = 1.0 / 32;
  ChainTables tables(chain, slots);
  const double least = tables.least_again();
  for (double room = kFirstRoom * all;; room *= 2) {
    const bool last = room > all;
    const double limit = last ? static_cast<double>(chain.size()) * all : least + room;
    tables.solve(limit, threads);
    if (tables.possible()) {
      return run_chain(chain, tables.steps());
    }
    if (last) {
      return std::nullopt;
    }
  }
}

}  // namespace headroom::plan
