#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/evaluate/step_time.h"
#include "planner/evaluate/titan_floor.h"

namespace headroom::plan {

/// Peak and time of a plan that is lowered whole.
struct LoweredPlan {
  Bytes peak;      ///< Of live bytes, as `PlanMemory` says it.
  StepParts time;  ///< As `cost::estimate` says it of the same plan.
};

/// What plans have taken that were lowered, for searches of one model on one machine to share.
///
/// Threads: may be used by any number of threads.
class LoweredRecords {
 public:
  [[nodiscard]] std::optional<LoweredPlan> plan(const std::string& text);
  [[nodiscard]] std::optional<Bytes> peak(const std::string& text);
  void add(const std::string& text, const LoweredPlan& plan);
  void add(const std::string& text, Bytes peak);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, LoweredPlan> plans_;  ///< By their texts.
  std::unordered_map<std::string, Bytes> peaks_;  ///< Of plans of few layers or micro-batches.
};

/// Plans of the runtimes on transformers' modelling code and of torchtitan's, for one model on one
/// machine.
///
/// Model:   a plan is lowered whole once; its program gives the peak and, kernel by kernel, the
/// time
///          that its replay gives. Of a pipeline the ranks that `cost::binding_ranks` names are
///          lowered.
/// Threads: may be called from any number of threads; answers do not depend on them.
class LoweredPlans {
 public:
  /// `device`: its total is what plans are judged against. Keeps references to all; without
  /// `records` to its own.
  LoweredPlans(const ir::ModelSpec& model, const cost::DeviceSpec& device,
               const cost::Machine& machine, LoweredRecords* records = nullptr);

  /// `plan`, which is plan number `number` of a space.
  ///
  /// Errors:  those of `cost::lower_replayed`.
  [[nodiscard]] Result<LoweredPlan> of(const ir::ParallelPlan& plan, std::uint64_t number);

  /// What `of` has said of plan number `number`, if it was asked.
  [[nodiscard]] std::optional<LoweredPlan> known(std::uint64_t number);

  /// What a step of `plan` takes at least.
  ///
  /// Model:   every micro-batch runs the products, attention and memory-bound kernels of forward
  /// and
  ///          backward, recomputation among them, one behind the other on the compute stream, as
  ///          they run on a single GPU without an optimizer. Their times are those of a model of
  ///          few layers and grow with the layers by a constant. What the host, other streams and
  ///          the optimizer take counts as nothing. 0 where the model alone cannot be lowered.
  [[nodiscard]] Seconds least_step(const ir::ParallelPlan& plan);

  /// No choice of the cell of `plan`, its first, takes less.
  [[nodiscard]] Seconds least_of_cell(const ir::ParallelPlan& plan);

  /// What the peak of `plan` is at least.
  ///
  /// Model:   at the end of a forward everything is alive that it has kept, as on a single GPU,
  ///          parameters that FSDP gathered and did not reshard, and from the second step on the
  ///          rank's part of the states. What is kept grows with the layers by a constant.
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan);

  /// A higher bound of the peak, from a program: `floor` where there is none that is shorter.
  ///
  /// Model:   of torchtitan's code. Of a pipeline the rank whose floor is the highest, with twice
  /// as
  ///          many micro-batches as ranks, once through: more of them take no less. Without one the
  ///          line through the peaks of three and of four layers, below which that of more layers
  ///          does not fall, as it is the greatest of moments that grow with the layers by a
  ///          constant; where some layers run again, less what all of these no longer keep.
  ///
  /// Errors:  those of `cost::lower_replayed`.
  [[nodiscard]] Result<Bytes> sampled_floor(const ir::ParallelPlan& plan);

  /// Programs that were lowered whole.
  [[nodiscard]] std::uint64_t lowered() const { return lowered_.load(); }

 private:
  /// What a micro-batch takes and keeps without other ranks and optimizer.
  struct Alone {
    Seconds computing;
    std::int64_t kept = 0;  ///< Bytes, at the end of its forward.
  };
  [[nodiscard]] Result<LoweredPlan> lower(const ir::ParallelPlan& plan);
  [[nodiscard]] Result<Bytes> short_peak(const ir::ModelSpec& model, const ir::ParallelPlan& plan);
  [[nodiscard]] Result<Bytes> line_of_layers(const ir::ParallelPlan& plan);
  [[nodiscard]] Alone alone(const ir::ParallelPlan& plan);
  [[nodiscard]] Alone extrapolated(const ir::ParallelPlan& one) const;
  [[nodiscard]] Alone lowered_alone(const ir::ModelSpec& model, const ir::ParallelPlan& one) const;

  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  LoweredRecords own_;
  LoweredRecords& records_;
  std::mutex mutex_;
  std::vector<std::pair<ir::ParallelPlan, Alone>> alone_;  ///< By `Runtime::one_rank_alone`.
  std::map<std::uint64_t, LoweredPlan> known_;
  TitanFloor titan_;
  std::atomic<std::uint64_t> lowered_{0};
};

}  // namespace headroom::plan
