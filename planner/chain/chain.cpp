#include "planner/chain/chain.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <utility>

namespace headroom::plan {
namespace {

using Kind = ChainStep::Kind;

constexpr float kImpossible = std::numeric_limits<float>::infinity();

/// The memory of a chain while steps run.
class ChainMemory {
 public:
  explicit ChainMemory(const Chain& chain)
      : chain_(chain), output_(chain.size() + 1), saved_(chain.size() + 1) {
    live_ = chain.back().gradient;
    output_[0] = true;  // The chain's input, which is not counted.
    pending_ = chain.size();
  }

  /// False if the step lacks what it needs.
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
  /// Of the output of stage `index` - 1.
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
  std::vector<bool> output_;  ///< [i]: the output of stage i - 1 is stored by itself.
  std::vector<bool> saved_;   ///< [i]: all that stage i - 1 saves is stored.
  std::size_t pending_ = 0;   ///< Stages that wait for backward.
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  double time_ = 0;
};

/// C(s, t, .) for one segment, from its least slot on; constant behind its end.
struct Segment {
  std::int64_t least = 0;  ///< Slots below: impossible.
  std::vector<float> cost;

  [[nodiscard]] float at(std::int64_t slots) const {
    if (slots < least || cost.empty()) {
      return kImpossible;
    }
    return cost[static_cast<std::size_t>(
        std::min(slots - least, static_cast<std::int64_t>(cost.size()) - 1))];
  }
};

class ChainSolver {
 public:
  ChainSolver(const Chain& chain, std::int64_t slots)
      : chain_(chain),
        slots_(slots),
        count_(chain.size()),
        segments_(count_ * count_),
        forward_(count_ + 1),
        saved_(count_ + 1) {
    for (std::size_t i = 0; i < count_; ++i) {
      forward_[i + 1] = forward_[i] + chain[i].forward;
      saved_[i + 1] = saved_[i] + chain[i].saved;
    }
  }

  void solve(int threads) {
    for (std::size_t length = 0; length < count_; ++length) {
      std::atomic<std::size_t> next{0};
      const auto run = [&] {
        for (std::size_t s = next++; s + length < count_; s = next++) {
          fill(s, s + length);
        }
      };
      std::vector<std::jthread> others;
      for (int i = 1; i < threads && length + 1 < count_; ++i) {
        others.emplace_back(run);
      }
      run();
    }
  }

  [[nodiscard]] bool possible() const { return segment(0, count_ - 1).at(slots_) < kImpossible; }

  /// The steps behind C(s, t, slots), found again by comparing.
  void write(std::size_t s, std::size_t t, std::int64_t slots,
             std::vector<ChainStep>& steps) const {
    const Choice choice = best(s, t, slots);
    if (choice.split == s) {
      steps.push_back({Kind::kForwardAll, s});
      if (t > s) {
        write(s + 1, t, slots - chain_[s].saved, steps);
      }
      steps.push_back({Kind::kBackward, s});
      return;
    }
    steps.push_back({Kind::kForwardKeep, s});
    for (std::size_t i = s + 1; i < choice.split; ++i) {
      steps.push_back({Kind::kForwardDrop, i});
    }
    write(choice.split, t, slots - chain_[choice.split - 1].output, steps);
    write(s, choice.split - 1, slots, steps);
  }

 private:
  struct Choice {
    float cost = kImpossible;
    std::size_t split = 0;  ///< s: keep all of s; else s'.
  };

  [[nodiscard]] const Segment& segment(std::size_t s, std::size_t t) const {
    return segments_[s * count_ + t];
  }

  /// Slots without which stage s cannot keep all.
  [[nodiscard]] std::int64_t least_all(std::size_t s, std::size_t t) const {
    const ChainStage& stage = chain_[s];
    return std::max(chain_[t].gradient + stage.saved + stage.forward_transient,
                    stage.gradient + stage.saved + stage.backward_transient);
  }
  /// Slots without which forward cannot run from s up to the last stage before t.
  [[nodiscard]] std::int64_t least_run(std::size_t s, std::size_t t) const {
    std::int64_t least = chain_[s].output + chain_[s].forward_transient;
    for (std::size_t i = s + 1; i < t; ++i) {
      least =
          std::max(least, chain_[i - 1].output + chain_[i].output + chain_[i].forward_transient);
    }
    return least + chain_[t].gradient;
  }
  [[nodiscard]] float run_cost(std::size_t s, std::size_t split) const {
    return static_cast<float>(forward_[split] - forward_[s]);
  }
  [[nodiscard]] float all_cost(std::size_t s) const {
    return static_cast<float>(chain_[s].forward + chain_[s].backward);
  }

  [[nodiscard]] Choice best(std::size_t s, std::size_t t, std::int64_t slots) const {
    Choice choice{.cost = kImpossible, .split = s};
    if (slots >= least_all(s, t)) {
      choice.cost = all_cost(s) + (t > s ? segment(s + 1, t).at(slots - chain_[s].saved) : 0.0F);
    }
    if (t > s && slots >= least_run(s, t)) {
      for (std::size_t split = s + 1; split <= t; ++split) {
        const float cost = run_cost(s, split) +
                           segment(split, t).at(slots - chain_[split - 1].output) +
                           segment(s, split - 1).at(slots);
        if (cost < choice.cost) {
          choice = {cost, split};
        }
      }
    }
    return choice;
  }

  /// Above so many slots nothing needs to run again.
  [[nodiscard]] std::int64_t ample(std::size_t s, std::size_t t) const {
    std::int64_t most = 0;
    for (std::size_t i = s; i <= t; ++i) {
      most = std::max(most, least_all(i, t) + saved_[i] - saved_[s]);
    }
    return std::min(most, slots_);
  }

  /// dest[m] = min(dest[m], constant + x(m - shift) + y(m)) for m in [begin, end]; x and y are
  /// constant behind their ends.
  struct Sum {
    float constant = 0;
    const Segment* shifted = nullptr;
    std::int64_t shift = 0;
    const Segment* plain = nullptr;
  };
  static void lower(Segment& into, const Sum& sum, std::int64_t end) {
    const auto last_of = [](const Segment& segment) {
      return segment.least + static_cast<std::int64_t>(segment.cost.size()) - 1;
    };
    if (sum.shifted->cost.empty() || sum.plain->cost.empty()) {
      return;
    }
    const std::int64_t begin =
        std::max({into.least, sum.shifted->least + sum.shift, sum.plain->least});
    const std::int64_t shifted_end = last_of(*sum.shifted) + sum.shift;
    const std::int64_t plain_end = last_of(*sum.plain);
    for (std::int64_t from = begin; from <= end;) {
      const bool x_varies = from <= shifted_end;
      const bool y_varies = from <= plain_end;
      std::int64_t to = end;
      to = x_varies ? std::min(to, shifted_end) : to;
      to = y_varies ? std::min(to, plain_end) : to;
      const auto length = static_cast<std::size_t>(to - from + 1);
      float* const dest = into.cost.data() + (from - into.least);
      const float* const x =
          sum.shifted->cost.data() + (x_varies ? from - sum.shift - sum.shifted->least : 0);
      const float* const y = sum.plain->cost.data() + (y_varies ? from - sum.plain->least : 0);
      const float x_end = sum.shifted->cost.back() + sum.constant;
      const float y_end = sum.plain->cost.back() + sum.constant;
      if (x_varies && y_varies) {
        for (std::size_t i = 0; i < length; ++i) {
          dest[i] = std::min(dest[i], sum.constant + x[i] + y[i]);
        }
      } else if (x_varies) {
        for (std::size_t i = 0; i < length; ++i) {
          dest[i] = std::min(dest[i], x[i] + y_end);
        }
      } else if (y_varies) {
        for (std::size_t i = 0; i < length; ++i) {
          dest[i] = std::min(dest[i], x_end + y[i]);
        }
      } else {
        const float both = x_end + sum.plain->cost.back();
        for (std::size_t i = 0; i < length; ++i) {
          dest[i] = std::min(dest[i], both);
        }
      }
      from = to + 1;
    }
  }

  void fill(std::size_t s, std::size_t t) {
    const std::int64_t all = least_all(s, t);
    const std::int64_t run = t > s ? least_run(s, t) : all;
    Segment& into = segments_[s * count_ + t];
    into.least = std::min(all, run);
    const std::int64_t end = std::max(ample(s, t), into.least);
    if (into.least > slots_) {
      return;
    }
    into.cost.assign(static_cast<std::size_t>(end - into.least + 1), kImpossible);
    const Segment nothing{.least = 0, .cost = {0.0F}};
    if (t == s) {
      lower(into, {.constant = all_cost(s), .shifted = &nothing, .shift = all, .plain = &nothing},
            end);
      return;
    }
    // Each way begins where its own forward fits.
    const Segment from_all{.least = all, .cost = {0.0F}};
    const Segment from_run{.least = run, .cost = {0.0F}};
    Segment part{.least = into.least, .cost = into.cost};
    lower(into,
          {.constant = all_cost(s),
           .shifted = &segment(s + 1, t),
           .shift = chain_[s].saved,
           .plain = &from_all},
          end);
    for (std::size_t split = s + 1; split <= t; ++split) {
      lower(part,
            {.constant = run_cost(s, split),
             .shifted = &segment(split, t),
             .shift = chain_[split - 1].output,
             .plain = &segment(s, split - 1)},
            end);
    }
    const std::int64_t skip = std::max<std::int64_t>(run - into.least, 0);
    for (auto i = static_cast<std::size_t>(skip); i < into.cost.size(); ++i) {
      into.cost[i] = std::min(into.cost[i], part.cost[i]);
    }
    trim(into);
  }

  /// Drops impossible slots in front and what repeats at the end.
  static void trim(Segment& segment) {
    const auto possible =
        std::ranges::find_if(segment.cost, [](float c) { return c < kImpossible; });
    segment.least += possible - segment.cost.begin();
    segment.cost.erase(segment.cost.begin(), possible);
    while (segment.cost.size() > 1 &&
           segment.cost[segment.cost.size() - 2] == segment.cost.back()) {
      segment.cost.pop_back();
    }
    segment.cost.shrink_to_fit();
  }

  const Chain& chain_;
  std::int64_t slots_;
  std::size_t count_;
  std::vector<Segment> segments_;
  std::vector<double> forward_;  ///< Sums up to each stage.
  std::vector<std::int64_t> saved_;
};

void store_all(std::size_t from, std::size_t to, std::vector<ChainStep>& steps) {
  for (std::size_t i = from; i < to; ++i) {
    steps.push_back({Kind::kForwardAll, i});
  }
  for (std::size_t i = to; i > from; --i) {
    steps.push_back({Kind::kBackward, i - 1});
  }
}

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
  ChainSolver solver(chain, slots);
  solver.solve(threads);
  if (!solver.possible()) {
    return std::nullopt;
  }
  std::vector<ChainStep> steps;
  solver.write(0, chain.size() - 1, slots, steps);
  return run_chain(chain, std::move(steps));
}

ChainSchedule grouped_chain(const Chain& chain, std::size_t group) {
  std::vector<ChainStep> steps;
  std::vector<std::size_t> begins;
  for (std::size_t begin = 0; begin < chain.size(); begin += group) {
    begins.push_back(begin);
  }
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    steps.push_back({Kind::kForwardKeep, begins[i]});
    for (std::size_t stage = begins[i] + 1; stage < begins[i + 1]; ++stage) {
      steps.push_back({Kind::kForwardDrop, stage});
    }
  }
  for (std::size_t i = begins.size(); i > 0; --i) {
    store_all(begins[i - 1], std::min(begins[i - 1] + group, chain.size()), steps);
  }
  return run_chain(chain, std::move(steps)).value_or(ChainSchedule{});
}

ChainSchedule block_chain(const Chain& chain, std::size_t recomputed) {
  std::vector<ChainStep> steps;
  const std::size_t first = std::min(recomputed, chain.size() - 1);
  for (std::size_t i = 0; i < first; ++i) {
    steps.push_back({Kind::kForwardKeep, i});
  }
  store_all(first, chain.size(), steps);
  for (std::size_t i = first; i > 0; --i) {
    store_all(i - 1, i, steps);
  }
  return run_chain(chain, std::move(steps)).value_or(ChainSchedule{});
}

}  // namespace headroom::plan
