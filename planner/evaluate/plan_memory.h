#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "planner/evaluate/activation_family.h"
#include "planner/evaluate/program_sample.h"
#include "planner/space/search_space.h"

namespace headroom::plan {

/// How peaks came about.
struct MemoryCounts {
  std::uint64_t plans = 0;     ///< Asked for.
  std::uint64_t families = 0;  ///< Made.
  std::uint64_t samples = 0;   ///< Short programs lowered for them.
  std::uint64_t lowered = 0;   ///< Whole programs lowered because no family holds them.
};

/// Peaks of allocated bytes of plans for one model on one device, without replaying them.
///
/// Model:   a Megatron plan's peak is a max-plus expression over what `StaticMemory` and
///          `ActivationFamily` say of the ranks that `cost::binding_ranks` names,
///
///              max(construction, base + peak(t), optimizer_peak + remains, optimizer_end + log)
///
///          and equals the replayed peak of a plan with expandable segments to the byte; without
///          them the replay allocates at least as much. Plans of the other runtimes, and forms that
///          no family holds, are lowered whole and their live bytes counted: the same figure, at
///          the price of a lowering.
/// Threads: `peak` may be called from any number of threads; answers do not depend on them.
class PlanMemory {
 public:
  PlanMemory(const ir::ModelSpec& model, const cost::DeviceSpec& device);

  /// Errors:  those of `ir::check_plan` and of the lowering.
  [[nodiscard]] Result<Bytes> peak(const ir::ParallelPlan& plan);

  /// What the peak of a Megatron plan is at least: what its first stage's layers keep, and their
  /// parameters, gradients and states. 0 for the other runtimes.
  ///
  /// Model:   every pass of the warm-up keeps its layers' bytes until the first backward; a layer
  ///          keeps the same on any stage. Tables, norms and everything transient count as nothing.
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan);

  [[nodiscard]] MemoryCounts counts() const;

 private:
  friend class CellMemory;
  struct RankPlace {
    ir::Rank rank{};
    std::int64_t stage = 0;
    std::int64_t context = 0;
  };
  /// What a peak is made of, where a family holds the plan.
  struct Parts {
    std::shared_ptr<const Result<ActivationFamily>> family;  ///< None: no family holds it.
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

  [[nodiscard]] std::int64_t kept_of(const ir::ParallelPlan& plan, const ir::LayerSpec& layer);

  ir::ModelSpec model_;
  cost::DeviceSpec device_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Result<ActivationFamily>>> families_;
  std::unordered_map<std::string, std::shared_ptr<const Result<StaticMemory>>> statics_;
  std::unordered_map<std::string, std::int64_t> kept_;
  std::atomic<std::uint64_t> plans_{0};
  std::atomic<std::uint64_t> samples_{0};
  std::atomic<std::uint64_t> lowered_{0};
};

/// Peaks of the plans of one cell, one after the other: what they share is looked up once.
class CellMemory {
 public:
  /// Keeps references to `memory` and `choices`.
  CellMemory(PlanMemory& memory, const Choices& choices);

  /// The peak of plan number `index`, as `PlanMemory::peak` says it.
  ///
  /// Errors:  those of `PlanMemory::peak`.
  [[nodiscard]] Result<Bytes> peak(std::uint64_t index);

  /// What `peak` is at least: without activations. 0 where nothing is known.
  [[nodiscard]] Bytes static_peak(std::uint64_t index);

 private:
  struct RankParts {
    PlanMemory::RankPlace place;
    std::vector<std::shared_ptr<const Result<StaticMemory>>> fixed;  ///< By switch.
    std::vector<std::optional<PlanMemory::Parts>> moving;            ///< By plan.
  };
  [[nodiscard]] Result<Bytes> rank_peak(RankParts& rank, std::uint64_t index);
  [[nodiscard]] const Result<StaticMemory>& fixed_of(RankParts& rank, std::uint64_t index);

  PlanMemory& memory_;
  const Choices& choices_;
  std::vector<RankParts> ranks_;
};

}  // namespace headroom::plan
