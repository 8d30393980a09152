#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "planner/placement/stage_placement.h"
#include "planner/space/space_question.h"

namespace headroom::plan {

class Evaluator;
class PlanBounds;
struct SearchInputs;

/// A walk over the axes of a framework. `plan` has the values that were chosen so far: those of the
/// rows before the current one.
class SpaceWalk {
 public:
  explicit SpaceWalk(const SpaceQuestion& asked_question) : question(asked_question) {}

  const SpaceQuestion& question;
  ir::ParallelPlan plan;
  ir::OptimizerPlan optimizer;  ///< As asked; a framework may put its usual one in its place.
  int eight_bit_recipe = 0;     ///< `plan::eight_bit_recipe` of the precision.

  [[nodiscard]] const Constraints& allowed() const { return question.constraints; }
  /// Whether anything was said about `axis`.
  [[nodiscard]] bool asks(Axis axis) const { return !allowed().of(axis).empty(); }
  [[nodiscard]] std::int64_t layers() const {
    return static_cast<std::int64_t>(question.model.layers.size());
  }

  /// What the framework remembers during the walk. A framework uses one type.
  template <typename Memory>
  [[nodiscard]] Memory& memory() {
    if (memory_ == nullptr) {
      memory_ = std::make_shared<Memory>();
    }
    return *static_cast<Memory*>(memory_.get());
  }

 private:
  std::shared_ptr<void> memory_;
};

/// An axis as one framework has it.
struct SearchAxis {
  Axis axis;
  /// The value that a plan of the framework has.
  std::int64_t (*get)(const ir::ParallelPlan& plan);
  /// For the help: the values that the framework has, unless it has all: "none or full".
  std::string_view help = {};
  /// What plans demand of the value, with the figures of the model and the request: "a divisor of
  /// the heads (32)". Null: the framework demands nothing of its own.
  std::string (*rule)(const SpaceQuestion& question) = nullptr;
  /// The values that are possible with those that were chosen so far, in the order of the space.
  /// The walk leaves out those that the constraints do not allow. Null: the value is chosen with
  /// another axis or within a cell, and whoever chooses it has to apply the constraints.
  AxisValues (*candidates)(SpaceWalk& walk) = nullptr;
  /// Gives the plan of the walk a candidate.
  void (*set)(SpaceWalk& walk, std::int64_t value) = nullptr;
  /// One row for several axes: `candidates` returns indices that only `set` understands, already
  /// filtered by the constraints.
  bool several = false;
  /// Other values are offered for a plan that does not fit even if nothing was said.
  bool offered = false;
};

/// A value of an axis that is worth asking about.
struct Alternative {
  Axis axis;
  std::int64_t value;
};

/// How a framework is searched. The defaults search any framework: micro-batches, with and without
/// recomputation of all layers, each plan lowered whole.
class FrameworkSearch {
 public:
  /// `runtime`: `ir::Runtime::name`.
  explicit FrameworkSearch(std::string_view runtime) : runtime_(runtime) {}
  FrameworkSearch(const FrameworkSearch&) = delete;
  FrameworkSearch& operator=(const FrameworkSearch&) = delete;
  virtual ~FrameworkSearch() = default;

  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  /// Whether it is searched only if it is named.
  [[nodiscard]] virtual bool only_if_named() const { return true; }
  /// Whether a search for the best of all plans takes long, so that any plan that fits will do for
  /// an explanation.
  [[nodiscard]] virtual bool takes_long() const { return false; }

  /// Its axes, in the order in which the walk nests them. An axis that all frameworks have
  /// (`common_axes`) has a row here only if the framework reads it in its own way, or demands or
  /// adds something.
  [[nodiscard]] virtual std::span<const SearchAxis> axes() const;

  /// Begins a walk. The plan has the framework's name, GPUs, sequence, optimizer and precision as
  /// asked. Adds the framework's parts and replaces the precision by what the framework calls it;
  /// returns whether the framework has such plans on this device.
  [[nodiscard]] virtual bool begin(SpaceWalk& walk) const;

  /// Ends a walk: makes its plan the first choice of a cell; the number of choices, 0 if there is
  /// no plan.
  [[nodiscard]] virtual std::uint64_t choose_first(SpaceWalk& walk) const;
  /// The choices of a cell of this framework.
  [[nodiscard]] virtual std::unique_ptr<const Choices> choices(const SpaceQuestion& question,
                                                               const Cell& cell) const;
  /// The values of the plans of a cell on an axis that is not `AxisTraits::within_cells`; by
  /// default the plans of a cell have one.
  [[nodiscard]] virtual AxisValues values_of(const SpaceQuestion& question, const Cell& cell,
                                             Axis axis) const;
  /// The values on an axis of numbers that is `AxisTraits::within_cells`.
  [[nodiscard]] virtual AxisValues numbers_within_cells(const SpaceQuestion& question,
                                                        Axis axis) const;

  /// What the framework demands of the model and the device if it has no plan at all.
  [[nodiscard]] virtual std::string requirement(const SpaceQuestion& question) const;

  /// Values next to those of `plan` that are worth asking about.
  [[nodiscard]] virtual std::vector<Alternative> alternatives(const ir::ParallelPlan& plan) const;
  /// What the stages of a plan could do with their activations; by default nothing is known.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<std::vector<StagePlacement>> placements(
      const ir::ModelSpec& model, const ir::ParallelPlan& plan, const cost::DeviceSpec& device,
      const cost::Machine& machine, Bytes capacity) const;

  /// Works out times and peaks of plans for one search.
  [[nodiscard]] virtual std::unique_ptr<Evaluator> evaluator(const SearchInputs& inputs) const;
  /// Bounds for plans that the default evaluator lowers whole.
  [[nodiscard]] virtual std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const;

 private:
  std::string runtime_;
};

/// How each framework of the registry is searched, in its order. This function and the next are
/// defined where all frameworks are known (runtimes/search/searches.cpp).
[[nodiscard]] std::vector<const FrameworkSearch*> framework_searches();

/// That of the framework of `plan`.
[[nodiscard]] const FrameworkSearch& search_of(const ir::ParallelPlan& plan);
/// That of a value of `Axis::kRuntime`.
[[nodiscard]] const FrameworkSearch& search_of_runtime(std::int64_t runtime);

/// Rows that frameworks share.
[[nodiscard]] SearchAxis micro_batch_axis();
/// None or all layers.
[[nodiscard]] SearchAxis whole_recompute_axis();

/// Figures of a question, for rules: the most GPUs, the first sequence, the layers of the model.
[[nodiscard]] std::string gpus_text(const SpaceQuestion& question);
[[nodiscard]] std::string sequence_text(const SpaceQuestion& question);
[[nodiscard]] std::string layers_text(const SpaceQuestion& question);

/// The numbers that divide `number`, from the least.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number);
/// Of `candidates`, those that are allowed.
[[nodiscard]] AxisValues among(const Constraints& allowed, Axis axis, AxisValues candidates);

}  // namespace headroom::plan
