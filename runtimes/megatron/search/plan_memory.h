#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "planner/evaluate/plan_figures.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/activation_family.h"
#include "runtimes/megatron/search/plan_key.h"
#include "runtimes/megatron/search/program_sample.h"

namespace headroom::plan {

/// max(construction, base + peak, optimizer_peak + remains, optimizer_end + log) over the steps.
[[nodiscard]] Bytes composed_peak(const StaticMemory& fixed,
                                  std::span<const ActivationFamily::Step> moving);

/// Peaks of allocated bytes of plans for one model on one device, computed without a replay.
///
/// Model:   a Megatron plan's peak is a max-plus expression of what `StaticMemory` and
///          `ActivationFamily` give for the ranks that `cost::binding_ranks` names,
///
///             max(construction, base + peak(t), optimizer_peak + remains, optimizer_end + log)
///
///          It equals the replayed peak of a plan with expandable segments to the byte. Without
///          them the replay allocates at least as much. Plans of other runtimes, and forms that no
///          family covers, are lowered whole and their live bytes are counted: the same figure, for
///          the cost of a lowering.
/// Threads: `peak` may be called from any number of threads; answers do not depend on them.
class PlanMemory {
 public:
  PlanMemory(const ir::ModelSpec& model, const cost::DeviceSpec& device);

  /// Errors:  those of `ir::check_plan` and of the lowering.
  [[nodiscard]] Result<Bytes> peak(const ir::ParallelPlan& plan);

  /// A lower bound of the peak of a Megatron plan: what the layers of its first stage keep, and
  /// their parameters, gradients and states. It is 0 for the other runtimes.
  ///
  /// Model:   every pass of the warm-up keeps its layers' bytes until the first backward, and a
  ///          layer keeps the same on every stage. Before the backward of a group of recomputed
  ///          layers, the recomputation has kept what the group keeps without recomputation.
  ///          Without a pipeline the logits are alive then, too. Tables, norms and everything else
  ///          are not counted.
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan);

  /// A lower bound of what a stage holds at some time of every step, besides parameters, gradients
  /// and states. For the first stage it is the remainder of `floor`.
  [[nodiscard]] Bytes kept_floor(const ir::ParallelPlan& plan, std::int64_t stage);

  /// A lower bound of the peak of a Megatron plan for any recomputation. It counts, on the stage
  /// that needs the most, parameters, gradients and states, and the input of a chunk for each pass
  /// of the warm-up.
  [[nodiscard]] Bytes cell_floor(const ir::ParallelPlan& plan);

  [[nodiscard]] MemoryCounts counts() const;

 private:
  friend class CellMemory;
  struct RankPlace {
    ir::Rank rank{};
    std::int64_t stage = 0;
    std::int64_t context = 0;
  };
  /// The parts of a peak, if a family covers the plan.
  struct Parts {
    std::shared_ptr<const Result<ActivationFamily>> family;  ///< Null if no family covers the plan.
    ActivationFamily::Counts counts{};
  };
  [[nodiscard]] static std::vector<RankPlace> places_of(const ir::ModelSpec& model,
                                                        const ir::ParallelPlan& plan);
  [[nodiscard]] Parts parts_of(const ir::ParallelPlan& plan, const RankPlace& place);
  [[nodiscard]] Result<Bytes> lowered_peak(const ir::ParallelPlan& plan);
  [[nodiscard]] Result<Bytes> rank_peak(const ir::ParallelPlan& plan, const RankPlace& place);
  [[nodiscard]] Result<Bytes> whole_peak(const ir::ParallelPlan& plan, ir::Rank rank);
  [[nodiscard]] std::shared_ptr<const Result<ActivationFamily>> family_of(
      const ir::ParallelPlan& plan, const SampleForm& form, StagePlace stage,
      const FamilyPlace& place, std::int64_t context);
  [[nodiscard]] std::shared_ptr<const Result<StaticMemory>> static_of(const ir::ParallelPlan& plan,
                                                                      const RankPlace& place);

  /// What a layer keeps of a pass, under the recomputation `how` of `plan`. For a group that is
  /// recomputed together, it is the group's first layer.
  [[nodiscard]] std::int64_t kept_of(const ir::ParallelPlan& plan, ir::MegatronRecompute how,
                                     const ir::LayerSpec& layer);

  /// Parameters, gradients and states of the layers of these chunks, from the second step on.
  [[nodiscard]] std::int64_t resident_of(
      const ir::ParallelPlan& plan, const std::vector<std::vector<ir::LayerSpec>>& chunks) const;

  ir::ModelSpec model_;
  ir::ModelSpec windowless_;  ///< Megatron's layers keep the same with and without a window.
  cost::DeviceSpec device_;
  std::mutex mutex_;
  std::unordered_map<PlanKey, std::shared_ptr<const Result<ActivationFamily>>, PlanKeyHash>
      families_;
  std::unordered_map<PlanKey, std::shared_ptr<const Result<StaticMemory>>, PlanKeyHash> statics_;
  std::unordered_map<PlanKey, std::int64_t, PlanKeyHash> kept_;
  std::unordered_map<std::string, Bytes> wholes_;
  std::atomic<std::uint64_t> plans_{0};
  std::atomic<std::uint64_t> samples_{0};
  std::atomic<std::uint64_t> lowered_{0};
};

}  // namespace headroom::plan
