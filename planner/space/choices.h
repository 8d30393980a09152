#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "planner/space/search_space.h"

/// What is chosen within a cell.
namespace headroom::plan {

/// The numbers that divide `number`, from the least.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number);

/// All sets of modules that selective recomputation can run again.
[[nodiscard]] std::vector<ir::MegatronModules> module_sets();

/// What is run again in backward; of the runtimes other than Megatron `whole` alone is read.
struct Recomputation {
  ir::MegatronRecompute kind = ir::MegatronRecompute::kNone;
  std::int64_t layers = 1;
  ir::MegatronModules modules{};
  bool whole = false;  ///< Every layer.
  void apply_to(ir::ParallelPlan& plan) const;
};

/// Counts the choices of cells without listing them.
class ChoiceCounter {
 public:
  explicit ChoiceCounter(const SpaceQuestion& question);
  /// Those of the cell of `plan`.
  [[nodiscard]] std::uint64_t count(const ir::ParallelPlan& plan);
  /// Makes `plan` the first of them. Requires that there is one.
  void choose_first(ir::ParallelPlan& plan);

 private:
  std::vector<Recomputation> recomputations(const ir::ParallelPlan& plan);
  const std::vector<ir::MegatronPlan>& switches(const ir::ParallelPlan& plan);

  const SpaceQuestion& question_;
  std::map<std::array<bool, 4>, std::vector<ir::MegatronPlan>> switches_;  ///< By `SwitchForm`.
  std::map<std::array<std::int64_t, 4>, std::vector<Recomputation>> megatron_;  ///< `RepeatForm`.
};

}  // namespace headroom::plan
