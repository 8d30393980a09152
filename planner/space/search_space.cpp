#include "planner/space/search_space.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "model_ir/plan/plan_words.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The precision of a value. An 8-bit recipe has bf16 with fp32 masters for everything else.
ir::Precision precision_of(std::int64_t value) {
  return eight_bit_recipe(value) != 0
             ? ir::Precision::kBf16Master
             : ir::precision_words()[static_cast<std::size_t>(value)].value;
}

/// Weights beside adapters as `Axis::kFrozenWeights` stores them. `usual` has the other settings.
std::optional<ir::QuantPlan> quantisation_of(std::int64_t value,
                                             const std::optional<ir::QuantPlan>& usual) {
  const int bits = kFrozenBits[static_cast<std::size_t>(value)];
  if (value == 0) {
    return std::nullopt;
  }
  ir::QuantPlan quant = usual.value_or(ir::QuantPlan{});
  quant.bits = bits;
  return quant;
}

std::string reason_of(const Error& error) {
  return error.wanted.empty() ? "--" + error.key + " " + error.got
                              : "--" + error.key + " has to be " + error.wanted;
}

/// The values of the axes that are set before a framework begins.
struct Asked {
  std::int64_t precision = -1;  ///< -1: the axis is free.
  std::int64_t optimizer = -1;
  std::int64_t frozen = -1;
  [[nodiscard]] std::int64_t of(Axis axis) const {
    return axis == Axis::kPrecision ? precision : axis == Axis::kOptimizer ? optimizer : frozen;
  }
  /// Whether the values differ in `axis` alone.
  [[nodiscard]] bool differs_in(const Asked& other, Axis axis) const {
    const auto same = [&](Axis one) { return one == axis || of(one) == other.of(one); };
    return of(axis) != other.of(axis) && same(Axis::kPrecision) && same(Axis::kOptimizer) &&
           same(Axis::kFrozenWeights);
  }
};

/// The plans of one framework for one combination of values.
struct Attempt {
  Asked asked;
  std::size_t cells = 0;
  std::string reason;  ///< The first reason why a plan is not in the space.
};

/// Turns the axes of one space into cells.
class CellWalk {
 public:
  CellWalk(const SpaceQuestion& question, const std::function<bool(Cell)>& take)
      : question_(question), allowed_(question.constraints), take_(take) {
    for (const FrameworkSearch* const framework : framework_searches()) {
      if (!is_asked(*framework)) {
        continue;
      }
      frameworks_.push_back({.search = framework,
                             .axes = {},
                             .walk = SpaceWalk(question),
                             .foreign = foreign_axis(*framework),
                             .attempts = {}});
      for (const SearchAxis& row : framework->axes()) {
        if (row.candidates != nullptr) {
          frameworks_.back().axes.push_back(&row);
        }
      }
    }
  }

  std::vector<LeftOut> operator()() {
    for (const std::int64_t world : values_or(Axis::kGpus, question_.base.world)) {
      for (const std::int64_t sequence :
           values_or(Axis::kSequence, question_.base.workload.sequence)) {
        for (const std::int64_t precision : values_or(Axis::kPrecision, -1)) {
          for (const std::int64_t frozen : values_or(Axis::kFrozenWeights, -1)) {
            for (const std::int64_t optimizer : values_or(Axis::kOptimizer, -1)) {
              ir::ParallelPlan plan = question_.base;
              plan.world = world;
              plan.workload.sequence = sequence;
              write(plan, {.precision = precision, .optimizer = optimizer, .frozen = frozen});
            }
          }
        }
      }
    }
    return left_out();
  }

 private:
  struct Framework {
    const FrameworkSearch* search;
    std::vector<const SearchAxis*> axes;  ///< Those with candidates.
    SpaceWalk walk;
    std::optional<Axis> foreign;  ///< A constrained axis that the framework lacks.
    std::vector<Attempt> attempts;
  };

  [[nodiscard]] AxisValues values_or(Axis axis, std::int64_t usual) const {
    const AxisValues& given = allowed_.of(axis);
    return given.empty() ? AxisValues{usual} : given;
  }

  [[nodiscard]] bool is_asked(const FrameworkSearch& framework) const {
    const AxisValues& named = allowed_.of(Axis::kRuntime);
    const AxisWords words = words_of_axis(Axis::kRuntime);
    const auto number = std::ranges::find(words, framework.runtime()) - words.begin();
    return named.empty() ? !framework.only_if_named()
                         : std::ranges::binary_search(named, std::int64_t{number});
  }

  /// The first axis that the framework does not have and whose constraints permit no plan of it.
  [[nodiscard]] std::optional<Axis> foreign_axis(const FrameworkSearch& framework) const {
    const std::vector<Axis> axes = all_axes();
    const auto found = std::ranges::find_if(axes, [&](Axis axis) {
      return !allowed_.of(axis).empty() && find_common_axis(axis) == nullptr &&
             find_axis(framework, axis) == nullptr &&
             (axis->demanded || !allowed_.allows(axis, axis->absent));
    });
    return found == axes.end() ? std::nullopt : std::optional(*found);
  }

  void write(ir::ParallelPlan plan, const Asked& asked) {
    plan.precision = asked.precision < 0 ? plan.precision : precision_of(asked.precision);
    if (asked.optimizer >= 0) {
      plan.optimizer = ir::optimizer_words()[static_cast<std::size_t>(asked.optimizer)].value;
    }
    if (asked.frozen >= 0) {
      plan.quant = quantisation_of(asked.frozen, question_.base.quant);
    }
    for (Framework& framework : frameworks_) {
      if (ended_) {
        return;
      }
      framework.attempts.push_back({.asked = asked, .cells = 0, .reason = {}});
      if (framework.foreign) {
        continue;
      }
      SpaceWalk& walk = framework.walk;
      walk.plan = plan;
      walk.plan.runtime = framework.search->runtime();
      walk.optimizer = plan.optimizer;
      walk.eight_bit_recipe = eight_bit_recipe(asked.precision);
      walk.refusal.clear();
      if (framework.search->begin(walk)) {
        visit(framework, 0);
      } else {
        framework.attempts.back().reason = walk.refusal;
      }
    }
  }

  void visit(Framework& framework, std::size_t depth) {
    if (depth == framework.axes.size()) {
      write_cell(framework);
      return;
    }
    const SearchAxis& row = *framework.axes[depth];
    AxisValues values = row.candidates(framework.walk);
    for (const std::int64_t value :
         row.several ? std::move(values) : among(allowed_, row.axis, std::move(values))) {
      if (ended_) {
        return;
      }
      row.set(framework.walk, value);
      visit(framework, depth + 1);
    }
  }

  void write_cell(Framework& framework) {
    SpaceWalk& walk = framework.walk;
    Attempt& attempt = framework.attempts.back();
    ir::ParallelPlan before = walk.plan;
    const std::uint64_t choices = framework.search->choose_first(walk);
    const bool needs_reason = attempt.cells == 0 && attempt.reason.empty();
    const Status status = choices > 0 || needs_reason ? accepted(walk.plan) : ok();
    if (choices > 0 && status) {
      ended_ =
          !take_({.plan = std::move(walk.plan), .choices = choices, .framework = framework.search});
      ++attempt.cells;
    } else if (!status && needs_reason) {
      attempt.reason = reason_of(status.error());
    }
    walk.plan = std::move(before);
  }

  [[nodiscard]] Status accepted(const ir::ParallelPlan& plan) const {
    Status status = ir::check_plan(question_.model, plan);
    return status ? ir::runtime_of(plan).check_device(plan, question_.device) : status;
  }

  [[nodiscard]] std::vector<LeftOut> left_out() const {
    std::vector<LeftOut> all;
    for (const Framework& framework : frameworks_) {
      const bool has_cells = std::ranges::any_of(
          framework.attempts, [](const Attempt& attempt) { return attempt.cells > 0; });
      if (!has_cells) {
        all.push_back(
            {.framework = framework.search, .values = {}, .reason = reason_for_all(framework)});
        continue;
      }
      for (const Axis axis : {Axis::kPrecision, Axis::kFrozenWeights, Axis::kOptimizer}) {
        add_values(framework, axis, all);
      }
    }
    return all;
  }

  [[nodiscard]] std::string reason_for_all(const Framework& framework) const {
    if (framework.foreign) {
      return "it has no --" + std::string(option_of(*framework.foreign)) + " as asked";
    }
    for (const Attempt& attempt : framework.attempts) {
      if (!attempt.reason.empty()) {
        return attempt.reason;
      }
    }
    const std::string own = framework.search->requirement(question_);
    return own.empty() ? "no values of its axes go together with what is asked" : "it needs " + own;
  }

  /// The reason for which the framework has no plan with `value`; empty if it has some, or has them
  /// under another name.
  ///
  /// Model:   of an attempt that has plans once `value` is exchanged for another one, if there is
  ///          such an attempt: then it is `value` that is refused.
  [[nodiscard]] static std::string reason_against(const Framework& framework, Axis axis,
                                                  std::int64_t value) {
    std::string any;
    for (const Attempt& attempt : framework.attempts) {
      if (attempt.asked.of(axis) != value) {
        continue;
      }
      if (attempt.cells > 0) {
        return "";
      }
      const bool alone = std::ranges::any_of(framework.attempts, [&](const Attempt& other) {
        return other.cells > 0 && other.asked.differs_in(attempt.asked, axis);
      });
      if (alone) {
        return attempt.reason;
      }
      any = any.empty() ? attempt.reason : any;
    }
    return any;
  }

  /// Adds the values of `axis` that were asked for beside others and that no plan of `framework`
  /// has.
  void add_values(const Framework& framework, Axis axis, std::vector<LeftOut>& all) const {
    const AxisValues& given = allowed_.of(axis);
    for (const std::int64_t value : given.size() > 1 ? given : AxisValues{}) {
      std::string reason = reason_against(framework, axis, value);
      if (reason.empty()) {
        continue;
      }
      reason = reason == lacking(axis, value) ? "it has no such value" : reason;
      const auto same = std::ranges::find_if(all, [&](const LeftOut& other) {
        return other.framework == framework.search && !other.values.empty() &&
               other.values.front().axis == axis && other.reason == reason;
      });
      if (same != all.end()) {
        same->values.push_back({axis, value});
      } else {
        all.push_back({.framework = framework.search, .values = {{axis, value}}, .reason = reason});
      }
    }
  }

  const SpaceQuestion& question_;
  const Constraints& allowed_;
  const std::function<bool(Cell)>& take_;
  bool ended_ = false;
  std::vector<Framework> frameworks_;
};

AxisValues words_within_cells(const SpaceQuestion& question, Axis axis) {
  if (is_held(axis) && question.constraints.of(axis).empty()) {
    return {0};
  }
  AxisValues values;
  const auto words = static_cast<std::int64_t>(words_of_axis(axis).size());
  for (std::int64_t value = 0; value < words; ++value) {
    SpaceQuestion with = question;
    with.constraints.of(axis) = {value};
    if (question.constraints.allows(axis, value) && has_plans(with)) {
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::vector<LeftOut> walk_cells(const SpaceQuestion& question,
                                const std::function<bool(Cell)>& take) {
  return CellWalk(question, take)();
}

Space space_of(const SpaceQuestion& question) {
  Space space;
  space.left_out = walk_cells(question, [&space](Cell cell) {
    space.cells.push_back(std::move(cell));
    return true;
  });
  return space;
}

bool has_plans(const SpaceQuestion& question) {
  bool found = false;
  static_cast<void>(walk_cells(question, [&found](const Cell& /*cell*/) {
    found = true;
    return false;
  }));
  return found;
}

std::vector<Cell> cells_of(const SpaceQuestion& question) {
  return space_of(question).cells;
}

std::unique_ptr<const Choices> choices_of(const SpaceQuestion& question, const Cell& cell) {
  return cell.framework->choices(question, cell);
}

std::uint64_t count_plans(const std::vector<Cell>& cells) {
  return std::accumulate(cells.begin(), cells.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Cell& cell) { return sum + cell.choices; });
}

AxisValues values_in_space(const SpaceQuestion& question, Axis axis) {
  if (axis->within_cells && axis->words != nullptr) {
    return words_within_cells(question, axis);
  }
  std::set<std::int64_t> values;
  if (axis->within_cells) {
    for (const FrameworkSearch* const framework : framework_searches()) {
      const AxisValues some = framework->numbers_within_cells(question, axis);
      values.insert(some.begin(), some.end());
    }
    return {values.begin(), values.end()};
  }
  for (const Cell& cell : cells_of(question)) {
    const AxisValues some = cell.framework->values_of(question, cell, axis);
    values.insert(some.begin(), some.end());
  }
  return {values.begin(), values.end()};
}

}  // namespace headroom::plan
