#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "planner/space/search_space.h"
#include "runtimes/megatron/plan.h"

/// The choices within a cell of Megatron-Core.
namespace headroom::plan {

/// All sets of modules that selective recomputation can recompute.
[[nodiscard]] std::vector<ir::MegatronModules> module_sets();

/// What backward recomputes.
struct Recomputation {
  ir::MegatronRecompute kind = ir::MegatronRecompute::kNone;
  std::int64_t layers = 1;
  ir::MegatronModules modules{};
  void apply_to(ir::ParallelPlan& plan) const;
};

/// The choices of a cell: each recomputation with each setting of the switches.
struct MegatronChoices {
  std::vector<ir::ParallelPlan> recomputations;  ///< The cell's plan with each recomputation.
  std::vector<ir::MegatronPlan> switches;        ///< Switches that change no tensor's size.
  /// Plan number `index`: `index = recomputation * switches + switch`.
  [[nodiscard]] ir::ParallelPlan plan_at(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t size() const { return recomputations.size() * switches.size(); }
  /// Whether plan number `more` differs from plan number `less` only in that it recomputes what
  /// `less` recomputes, and more. Copies to the host do not count as equal, because what is
  /// recomputed is not copied.
  [[nodiscard]] bool recomputes_more(std::uint64_t more, std::uint64_t less) const;
};
/// The choices of the cell of `plan`.
[[nodiscard]] MegatronChoices megatron_choices(const SpaceQuestion& question,
                                               const ir::ParallelPlan& plan);

/// Counts the choices of the cells of one question without listing them.
class ChoiceCounter {
 public:
  /// Makes `plan` the first choice of its cell. Returns the number of choices, or 0 if there is
  /// none.
  [[nodiscard]] std::uint64_t choose_first(const SpaceQuestion& question, ir::ParallelPlan& plan);

 private:
  const std::vector<Recomputation>& recomputations(const SpaceQuestion& question,
                                                   const ir::ParallelPlan& plan);
  const std::vector<ir::MegatronPlan>& switches(const SpaceQuestion& question,
                                                const ir::ParallelPlan& plan);

  /// Indexed by `SwitchForm`.
  std::map<std::array<bool, 4>, std::vector<ir::MegatronPlan>> switches_;
  /// Indexed by `RepeatForm`.
  std::map<std::array<std::int64_t, 4>, std::vector<Recomputation>> recomputations_;
};

}  // namespace headroom::plan
