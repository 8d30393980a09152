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

namespace headroom::ir {
class Runtime;
}  // namespace headroom::ir

namespace headroom::plan {

class Evaluator;
class PlanBounds;
struct SearchInputs;

/// A walk over the axes of a framework. `plan` has the values of the axes before the current one.
class SpaceWalk {
 public:
  explicit SpaceWalk(const SpaceQuestion& asked_question) : question(asked_question) {}

  const SpaceQuestion& question;
  ir::ParallelPlan plan;
  ir::OptimizerPlan
      optimizer;             ///< The requested one; a framework may replace it by its own default.
  int eight_bit_recipe = 0;  ///< `plan::eight_bit_recipe` of the precision.
  /// Set by `FrameworkSearch::begin` if it returns false: what the framework lacks, such as "no
  /// --precision fp16-master". Empty: the same plans are written under another name.
  std::string refusal;

  [[nodiscard]] const Constraints& allowed() const { return question.constraints; }
  /// Whether the user has constrained `axis`.
  [[nodiscard]] bool asks(Axis axis) const { return !allowed().of(axis).empty(); }
  [[nodiscard]] std::int64_t layers() const {
    return static_cast<std::int64_t>(question.model.layers.size());
  }

  /// What the framework stores during the walk, in a type of its own.
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

/// How one framework implements an axis.
struct SearchAxis {
  Axis axis;
  /// The value of a plan of the framework.
  std::int64_t (*get)(const ir::ParallelPlan& plan);
  /// For the help: the values that the framework has, unless it has all of them: "none, full".
  std::string_view help = {};
  /// The requirement on the value, with the figures of the model and the question, such as "a
  /// divisor of the heads (32)". Null: the framework has no requirement of its own.
  std::string (*rule)(const SpaceQuestion& question) = nullptr;
  /// The values that are possible with those chosen so far, in the order of the space. The walk
  /// leaves out values that the constraints do not allow. Null: the value is chosen with another
  /// axis or within a cell, and that code must apply the constraints.
  AxisValues (*candidates)(SpaceWalk& walk) = nullptr;
  /// Sets the value in the plan of the walk.
  void (*set)(SpaceWalk& walk, std::int64_t value) = nullptr;
  /// Whether the row stands for several axes. Then `candidates` returns indices that only `set`
  /// understands, already filtered by the constraints.
  bool several = false;
  /// Whether other values are offered for a plan that does not fit, although the user did not name
  /// the axis.
  bool offered = false;
};

/// `SearchAxis::get` and `set` of an axis that is a degree of the plan's mesh.
template <std::int64_t ir::Mesh::*kDegree>
std::int64_t get_degree(const ir::ParallelPlan& plan) {
  return plan.mesh.*kDegree;
}
template <std::int64_t ir::Mesh::*kDegree>
void set_degree(SpaceWalk& walk, std::int64_t value) {
  walk.plan.mesh.*kDegree = value;
}

/// A plan with another value of a held axis.
struct OfferedChange {
  Alternative alternative;
  ir::ParallelPlan plan;
  bool changes_training = true;  ///< Results differ: types of numbers, not when something runs.
};

/// How a framework is searched. The defaults search any framework: micro-batches, with and without
/// recomputation of all layers; each plan is lowered whole.
class FrameworkSearch {
 public:
  /// `runtime`: `ir::Runtime::name`.
  explicit FrameworkSearch(std::string_view runtime) : runtime_(runtime) {}
  FrameworkSearch(const FrameworkSearch&) = delete;
  FrameworkSearch& operator=(const FrameworkSearch&) = delete;
  virtual ~FrameworkSearch() = default;

  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  /// Whether the framework is searched only if the user names it.
  [[nodiscard]] virtual bool only_if_named() const { return true; }

  /// The axes of the framework, in the order in which the walk nests them. An axis that all
  /// frameworks have (`common_axes`) has a row here only if the framework reads its value in its
  /// own way, or adds a requirement or values.
  [[nodiscard]] virtual std::span<const SearchAxis> axes() const;

  /// Begins a walk. The plan has the framework's name, and GPUs, sequence, optimizer and precision
  /// as requested. Adds the framework's own options and replaces the precision by the framework's
  /// form of it. Returns whether the framework has such plans on this device; if it has none,
  /// `SpaceWalk::refusal` says why.
  [[nodiscard]] virtual bool begin(SpaceWalk& walk) const;

  /// The value that plans of the framework have where `value` is asked for. By default that of
  /// `read_precision`, in its canonical form.
  [[nodiscard]] virtual std::int64_t read(Axis axis, std::int64_t value) const;

  /// Ends a walk: makes its plan the first choice of a cell. Returns the number of choices; 0 if
  /// there is no plan.
  [[nodiscard]] virtual std::uint64_t choose_first(SpaceWalk& walk) const;
  /// The choices of a cell of this framework.
  [[nodiscard]] virtual std::unique_ptr<const Choices> choices(const SpaceQuestion& question,
                                                               const Cell& cell) const;
  /// The values of the plans of a cell on an axis that is not `AxisTraits::within_cells`. By
  /// default the plans of a cell have the same value.
  [[nodiscard]] virtual AxisValues values_of(const SpaceQuestion& question, const Cell& cell,
                                             Axis axis) const;
  /// The same if the plans differ: the values of all of them.
  [[nodiscard]] AxisValues listed_values(const SpaceQuestion& question, const Cell& cell,
                                         Axis axis) const;
  /// The values on a numeric axis that is `AxisTraits::within_cells`.
  [[nodiscard]] virtual AxisValues numbers_within_cells(const SpaceQuestion& question,
                                                        Axis axis) const;

  /// The requirement of the framework on model and device, if it has no plan at all.
  [[nodiscard]] virtual std::string requirement(const SpaceQuestion& question) const;

  /// Neighbouring values of `plan` for which an explanation is useful.
  [[nodiscard]] virtual std::vector<Alternative> alternatives(const ir::ParallelPlan& plan) const;
  /// `plan` with values of held axes that people use for speed. By default there are none.
  [[nodiscard]] virtual std::vector<OfferedChange> offered_changes(
      const SpaceQuestion& question, const ir::ParallelPlan& plan) const;
  /// The possible treatments of activations on the stages of a plan. By default nothing is known.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<std::vector<StagePlacement>> placements(
      const ir::ModelSpec& model, const ir::ParallelPlan& plan, const cost::DeviceSpec& device,
      const cost::Machine& machine, Bytes capacity) const;

  /// Creates the evaluator of one search.
  [[nodiscard]] virtual std::unique_ptr<Evaluator> evaluator(const SearchInputs& inputs) const;
  /// Creates the bounds for plans that the default evaluator lowers whole.
  [[nodiscard]] virtual std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const;

 private:
  std::string runtime_;
};

/// The searches of all frameworks, in the order of the registry. This function and the next one are
/// defined where all frameworks are known (runtimes/search/searches.cpp).
[[nodiscard]] std::vector<const FrameworkSearch*> framework_searches();

/// The search of the framework of `plan`.
[[nodiscard]] const FrameworkSearch& search_of(const ir::ParallelPlan& plan);
/// The search of the framework with this value of `Axis::kRuntime`.
[[nodiscard]] const FrameworkSearch& search_of_runtime(std::int64_t runtime);

/// The precision of a framework's plans where `asked` is asked for.
///
/// Model:   master weights in the framework's own form (`ir::Runtime::prepare_for_search`). A
///          framework that has no plain 16-bit precision takes the one with fp32 masters, as
///          headroom fit does.
[[nodiscard]] ir::Precision read_precision(const ir::Runtime& runtime, ir::Precision asked);

/// Replaces the precision of the walk by the framework's form of it. Returns whether the framework
/// has it; otherwise `SpaceWalk::refusal` says that it has not.
///
/// Model:   a framework without fp32 master weights is searched in 16 bits without them only if it
///          is named, since its plans train something else than those of the others.
[[nodiscard]] bool take_precision(SpaceWalk& walk);

/// Gives the plan the optimizer with which its framework is searched, unless one was asked for.
void take_optimizer(SpaceWalk& walk);

/// "no --lora": what a framework says that lacks an option.
[[nodiscard]] std::string lacking(Axis axis, std::int64_t value);

/// Axes that frameworks share.
[[nodiscard]] SearchAxis micro_batch_axis();
/// Recomputes no layer or all layers.
[[nodiscard]] SearchAxis whole_recompute_axis();
/// `plan` without recomputation, with recomputation of every layer and, if `framework` has the axis
/// `Axis::kRecomputeEvery`, of every k-th layer, as far as they are allowed and accepted.
[[nodiscard]] std::vector<ir::ParallelPlan> whole_recomputations(const FrameworkSearch& framework,
                                                                 const SpaceQuestion& question,
                                                                 const ir::ParallelPlan& plan);

/// Figures of a question for the text of rules: the most GPUs, the first sequence, the number of
/// layers.
[[nodiscard]] std::string gpus_text(const SpaceQuestion& question);
[[nodiscard]] std::string sequence_text(const SpaceQuestion& question);
[[nodiscard]] std::string layers_text(const SpaceQuestion& question);
/// The rules of the tensor and context degrees, which Megatron and torchtitan share.
[[nodiscard]] std::string tensor_rule(const SpaceQuestion& question);
[[nodiscard]] std::string context_rule(const SpaceQuestion& question);

/// The divisors of `number`, in ascending order.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number);
/// The allowed values of `candidates`.
[[nodiscard]] AxisValues among(const Constraints& allowed, Axis axis, AxisValues candidates);

}  // namespace headroom::plan
