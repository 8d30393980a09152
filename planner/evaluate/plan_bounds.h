#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/evaluate/lowered_plan.h"
#include "planner/space/search_space.h"

namespace headroom::plan {

/// Lower bounds of the peak and of the step time of a plan.
struct SampledBound {
  Bytes peak;
  Seconds step;
};

/// Lower bounds of time and memory of plans that are lowered whole, known before they are lowered.
///
/// Threads: may be called from any number of threads; answers do not depend on them.
class PlanBounds {
 public:
  PlanBounds() = default;
  PlanBounds(const PlanBounds&) = delete;
  PlanBounds& operator=(const PlanBounds&) = delete;
  virtual ~PlanBounds() = default;

  /// A lower bound of the step time of `plan`.
  [[nodiscard]] virtual Seconds least_step(const ir::ParallelPlan& plan) = 0;
  /// A lower bound for all choices of the cell whose first plan is `plan`.
  [[nodiscard]] virtual Seconds least_of_cell(const ir::ParallelPlan& plan) {
    return least_step(plan);
  }
  /// A lower bound (floor) of the peak of `plan`.
  [[nodiscard]] virtual Bytes floor(const ir::ParallelPlan& plan) = 0;
  /// Higher bounds, which cost lowering short programs; nothing if there are none.
  ///
  /// Errors:  those of `cost::lower_replayed`.
  [[nodiscard]] virtual Result<std::optional<SampledBound>> sampled(
      const ir::ParallelPlan& /*plan*/, LoweredPlans& /*plans*/) {
    return std::optional<SampledBound>();
  }
  /// For each choice of a cell, the other choices that are no slower, because their programs have
  /// the same work or less. Empty: nothing is known.
  [[nodiscard]] virtual std::vector<std::vector<std::uint64_t>> lighter(
      const SpaceQuestion& /*question*/, const Cell& /*cell*/) {
    return {};
  }
  /// A lower bound of the peak of `plan`, given the figures of `other`, one of those choices of its
  /// cell that are no slower. 0: none is known.
  [[nodiscard]] virtual Bytes least_peak(const ir::ParallelPlan& /*plan*/,
                                         const ir::ParallelPlan& /*other*/,
                                         const LoweredPlan& /*figures*/) {
    return Bytes{0};
  }
};

/// Bounds for every framework that has `ir::Runtime::one_rank_alone`.
class AloneBounds : public PlanBounds {
 public:
  /// The frameworks whose peaks are convex in the number of layers.
  enum class Convex : std::uint8_t {
    kIfEven,  ///< The line is drawn if `ir::Runtime::grows_by_layers` says so.
    kAlways,
  };

  struct Samples;

  /// Keeps references to the first four arguments.
  AloneBounds(const ir::ModelSpec& model, const cost::DeviceSpec& device,
              const cost::Machine& machine, Samples& samples, Convex convex = Convex::kIfEven)
      : model_(model), device_(device), machine_(machine), samples_(samples), convex_(convex) {}

  /// Model:   every micro-batch runs the products, attention and memory-bound kernels of forward
  ///          and backward, including recomputation, one after the other on the compute stream, as
  ///          they run on a single GPU without an optimizer. Their times come from a model of few
  ///          layers and grow by a constant per layer. If some layers are recomputed, each adds its
  ///          part of what all of them add; layers that differ count as adding nothing. The time of
  ///          the host, other streams and the optimizer counts as 0. The bound is 0 if the model
  ///          alone cannot be lowered. Frameworks store adapters in different types: beside
  ///          adapters another framework's program counts with its products of 16-bit operands
  ///          alone.
  [[nodiscard]] Seconds least_step(const ir::ParallelPlan& plan) override;

  /// Model:   at the end of a forward, everything is alive that the forward keeps on a single GPU,
  ///          the parameters that the framework gathered and did not reshard, from the second step
  ///          on the rank's part of the optimizer states, and from the second micro-batch on its
  ///          part of the gradients. What forward keeps grows by a
  ///          constant per layer. If some layers are recomputed, each frees its part of what all of
  ///          them free, and one more; layers that differ count as if all were recomputed. Beside
  ///          adapters, another framework's program counts as keeping nothing. With quantised
  ///          weights, it is at least what loading and preparing the model takes (`prepared`).
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan) override;

  /// Model:   the line through two programs of few layers of the framework itself. Peaks are convex
  ///          in the number of layers (`cost::layer_bound`); where they are not, their bound is 0.
  ///          Times are almost linear, and an error is taken off. If some layers are recomputed,
  ///          each adds its part to the time and frees its part of what forward keeps, and one more
  ///          is freed. There is no bound for buckets of DeepSpeed on several GPUs: they fill up
  ///          after some layers.
  [[nodiscard]] Result<std::optional<SampledBound>> sampled(const ir::ParallelPlan& plan,
                                                            LoweredPlans& plans) override;

  /// Model:   a plan whose recomputed layers are among those of another one, and which is otherwise
  ///          the same, is no slower: the program of the other one has its work and more.
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> lighter(const SpaceQuestion& question,
                                                                const Cell& cell) override;

 protected:
  [[nodiscard]] const ir::ModelSpec& model() const { return model_; }

 private:
  /// Time and memory of a micro-batch without other ranks and without the optimizer.
  struct Alone {
    Seconds computing;
    Seconds products;       ///< Its part in products of 16-bit operands.
    std::int64_t kept = 0;  ///< Bytes kept at the end of its forward.
  };
  /// Figures of a plan, by the line through short programs.
  struct Line {
    Bytes peak;
    Seconds step;
    Bytes kept;
  };
  [[nodiscard]] Result<std::optional<Line>> line(const ir::ParallelPlan& plan, LoweredPlans& plans);
  /// The peak before the first step, when there are neither batches, losses nor recomputed layers:
  /// that of the plan with one short sequence. What is sized by the sequence, such as LitGPT's
  /// rotary tables, is smaller there. 0 if it cannot be lowered.
  [[nodiscard]] Bytes prepared(const ir::ParallelPlan& plan);
  [[nodiscard]] Bytes peak_before_steps(const ir::ParallelPlan& plan) const;
  [[nodiscard]] Alone alone(const ir::ParallelPlan& plan);
  [[nodiscard]] Alone measured(const ir::ParallelPlan& one);
  [[nodiscard]] Alone between(const ir::ParallelPlan& one);
  [[nodiscard]] Alone extrapolated(const ir::ParallelPlan& one) const;
  [[nodiscard]] Alone lowered_alone(const ir::ModelSpec& model, const ir::ParallelPlan& one) const;

  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  Samples& samples_;
  Convex convex_;
};

/// Figures of single ranks that searches of one model on one machine share, whatever their
/// frameworks and budgets are.
struct AloneBounds::Samples {
  std::mutex mutex;
  std::vector<std::pair<ir::ParallelPlan, Alone>> alone;  ///< By `Runtime::one_rank_alone`.
  /// The peak of a plan with a short step before that step.
  struct Prepared {
    ir::ParallelPlan plan;
    Bytes room;  ///< Memory of the device, if the framework looks at it; otherwise 0.
    Bytes peak;
  };
  std::vector<Prepared> prepared;
};

}  // namespace headroom::plan
