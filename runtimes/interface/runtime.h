#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/change.h"
#include "runtimes/interface/held_parameters.h"
#include "runtimes/interface/option.h"
#include "runtimes/interface/outside_term.h"
#include "runtimes/interface/pipeline.h"
#include "runtimes/interface/plan_control.h"
#include "runtimes/interface/settle.h"

namespace headroom::ir {

struct MeasuredRuns;  // runtimes/interface/runs/measured_runs.h

/// An option of the command line that a framework's words for a plan stand for.
struct WordedOption {
  std::string_view option;  ///< "zero", without dashes.
  /// Those keys of its value that are in words: "tp", or with its value "attention=fused". Empty:
  /// all of the option.
  std::span<const std::string_view> keys{};
};

/// The value of an option as one would type it to ask for a plan; empty where the plan does not
/// need the option.
using TypedOption = std::function<std::string(std::string_view option)>;

/// A file that configures a framework.
struct ConfigurationFormat {
  std::string_view name;     ///< What `emit` calls it: "deepspeed".
  std::string_view options;  ///< Options of a plan that can be written so: "--zero 2".
  std::string_view option;   ///< Option of `fit` that reads it back: "deepspeed".
};

/// What the host calls to launch the kernels of a layer.
enum class KernelCalls : std::uint8_t {
  kEager,     ///< PyTorch's operators, one by one.
  kModules,   ///< Modules of one autograd function each, which take Python longer.
  kCompiled,  ///< Code that Inductor has generated.
};

/// A framework that runs models, and all that the rest of the program asks about it. A folder of
/// `runtimes/` implements it, `runtimes/registry.h` lists the implementations, and nobody else
/// knows which framework a plan is for.
class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  /// The word for it in options and files: "megatron". Lower case, unique, never changed.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// What it is, for help and the window: "Megatron-Core with Transformer Engine".
  [[nodiscard]] virtual std::string_view title() const = 0;

  /// The parts of a plan that the framework reads besides what is common to all; a plan with the
  /// part of another framework is refused.
  [[nodiscard]] virtual std::span<const PlanPart* const> parts() const { return {}; }

  /// Whether the framework takes `plan` for `model`, as far as that does not depend on the device.
  ///
  /// Errors:  kInvalidArgument naming the option, its value and what would do.
  [[nodiscard]] virtual Status check(const ModelSpec& model, const ParallelPlan& plan) const = 0;

  /// Lowers `model` under `plan` for one rank: what that rank's process does to its device memory
  /// and asks of the device, in order. Requires that `check` accepts the plan.
  ///
  /// Errors:  kInvalidArgument naming the option where plan, model and device do not go together.
  [[nodiscard]] virtual Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                                  Rank rank, const DeviceTraits& device) const = 0;

  /// Gives `plan`, of a search, what this framework has in place of 16-bit arithmetic on fp32
  /// master weights, and the options that its ranks need. Otherwise parameters are stored in 16
  /// bits.
  virtual void prepare_for_search(ParallelPlan& plan) const;

  /// A plan of one rank that computes what a rank of `plan` computes in a micro-batch, without
  /// other ranks and without an optimizer; none if there is no such plan. Its kernels and what its
  /// forward keeps bound the plan from below.
  [[nodiscard]] virtual std::optional<ParallelPlan> one_rank_alone(const ParallelPlan& plan) const;

  /// The optimizer that the framework takes where none is named: PyTorch's foreach AdamW.
  [[nodiscard]] virtual OptimizerPlan usual_optimizer(const ParallelPlan& /*plan*/) const {
    return {};
  }

  /// The measured runs that the framework knows how to read; nullptr: none.
  [[nodiscard]] virtual const MeasuredRuns* measured_runs() const { return nullptr; }

  // How a plan is said.

  /// How the ranks share the model, behind the framework's name: "ZeRO-3 hpz=8", "TP 4 x PP 2".
  [[nodiscard]] virtual std::string layout(const ParallelPlan& /*plan*/,
                                           const TypedOption& /*typed*/) const {
    return {};
  }
  /// Kernels and what else of the framework decides memory: "fused attention, fp8 delayed". By
  /// default the attention.
  [[nodiscard]] virtual std::string kernels(const ParallelPlan& plan) const;
  /// The framework's options that `layout` and `kernels` say, so that a line with those words need
  /// not repeat them.
  [[nodiscard]] virtual std::vector<WordedOption> worded_options() const { return {}; }
  /// The plan in one line: "megatron tp 8 pp 4 dp 32, micro-batch 1 x 48, recomputes core_attn".
  [[nodiscard]] virtual std::string describe(const ParallelPlan& plan) const;
  /// Whether the plan's ranks differ, so that a peak is said with its rank.
  [[nodiscard]] virtual bool names_rank(const ParallelPlan& /*plan*/) const { return false; }
  /// What somebody who asks for the plan should know, a sentence each.
  [[nodiscard]] virtual std::vector<std::string> notes(const ModelSpec& /*model*/,
                                                       const ParallelPlan& /*plan*/) const {
    return {};
  }

  // What the window offers.

  /// The precisions that the framework runs, in the order in which they are offered.
  [[nodiscard]] virtual std::span<const Precision> precisions() const { return torch_precisions(); }
  /// Brings a plan that was made for another framework, or with other degrees, in line with this
  /// one: gives it the framework's own part, takes away those of others, and replaces what the
  /// framework does not take. Idempotent. The precision is settled by the caller.
  virtual void settle(ParallelPlan& plan) const { drop_foreign_parts(plan, {}); }
  /// The framework's own choices, in the order in which they are shown.
  [[nodiscard]] virtual std::vector<PlanControl> controls() const { return {}; }
  /// Which activations are recomputed, where the framework says so in an option of its own.
  [[nodiscard]] virtual Recompute recomputation(const ParallelPlan& plan) const {
    return plan.recompute;
  }
  virtual void set_recomputation(ParallelPlan& plan, Recompute recompute) const {
    plan.recompute = recompute;
  }

  // Configuration files.

  /// The files that `emit` writes. By default none.
  [[nodiscard]] virtual std::vector<ConfigurationFormat> configuration_formats() const {
    return {};
  }
  /// The text of a file that configures the framework as `plan` says. Requires a plan of this
  /// framework that `check_plan` accepts and a name of `configuration_formats`.
  [[nodiscard]] virtual Result<std::string> emit(const ModelSpec& model, const ParallelPlan& plan,
                                                 std::string_view format) const;

  // Experts and stages.

  /// Ranks that share a layer's experts, so that each gets the tokens which are routed to its own;
  /// 1 where a rank keeps its own tokens, or where experts get the same number of rows.
  [[nodiscard]] virtual std::int64_t expert_ranks(const ParallelPlan& /*plan*/) const { return 1; }
  /// Sets the tokens that reach the experts of the rank shown, over an even share. Requires that
  /// `expert_ranks` is above 1.
  virtual void set_expert_load(ParallelPlan& /*plan*/, double /*load*/) const {}
  /// The plan with twice the pipeline stages on twice the ranks; nothing where the framework's
  /// pipelines are no way to fit a model.
  [[nodiscard]] virtual std::optional<ParallelPlan> with_more_stages(
      const ParallelPlan& /*plan*/) const {
    return std::nullopt;
  }
  // Memory.

  /// The ranks among which the one with the highest peak is, where a plan asks for none.
  [[nodiscard]] virtual std::vector<Rank> binding_ranks(const ModelSpec& /*model*/,
                                                        const ParallelPlan& /*plan*/) const {
    return {Rank{0}};
  }
  /// What every rank holds of the parameters, at least.
  [[nodiscard]] virtual HeldParameters held_parameters(const ParallelPlan& plan) const {
    return whole_parameters(plan);
  }
  /// The plan on one device, with nothing sharded or replicated.
  [[nodiscard]] virtual ParallelPlan on_one_device(ParallelPlan plan) const {
    plan.world = 1;
    return plan;
  }
  /// Device memory that neither PyTorch's allocator nor CUDA and NCCL take by themselves: buffers
  /// of the framework's own.
  [[nodiscard]] virtual std::vector<OutsideTerm> outside_terms(const ModelSpec& /*model*/,
                                                               const ParallelPlan& /*plan*/) const {
    return {};
  }
  /// Whether ranks sum up gradients by all-reduce, for which NCCL may take NVLink SHARP.
  [[nodiscard]] virtual bool has_all_reduce(const ParallelPlan& /*plan*/) const { return true; }
  /// Whether live bytes at each moment of a program grow with the number of layers by a constant,
  /// so that few layers bound the peak of many. Buckets that fill up break this.
  [[nodiscard]] virtual bool grows_by_layers(const ParallelPlan& /*plan*/) const { return false; }
  /// Micro-batches of a step after which memory repeats itself: gradients exist from the second on,
  /// and every further one does the same.
  [[nodiscard]] virtual std::int64_t steady_micro_batches(const ParallelPlan& /*plan*/) const {
    return 4;
  }
  /// The framework under whose name measured runs are compared with runs of the plan.
  [[nodiscard]] virtual std::string_view residual_family(const ParallelPlan& /*plan*/) const {
    return name();
  }

  // Time.

  [[nodiscard]] virtual PipelineRuns pipeline(const ParallelPlan& plan) const {
    return {.stage_stride = std::max<std::int64_t>(plan.world, 1),
            .micro_batches = plan.accumulation};
  }
  /// In which order the stages work, of a plan with several.
  [[nodiscard]] virtual PipelineShape schedule(const ModelSpec& /*model*/,
                                               const ParallelPlan& plan) const {
    return {.micro_batches = plan.accumulation};
  }
  /// What each stage holds, as far as that decides its time; empty: all of them as much.
  [[nodiscard]] virtual std::vector<StageLayers> stage_layers(const ModelSpec& /*model*/,
                                                              const ParallelPlan& /*plan*/) const {
    return {};
  }
  /// Ranks that work on one sequence together: those that are not data-parallel.
  [[nodiscard]] virtual std::int64_t ranks_per_replica(const ParallelPlan& /*plan*/) const {
    return 1;
  }
  /// Layers of multi-token prediction beside those of the model.
  [[nodiscard]] virtual std::int64_t predicted_layers(const ParallelPlan& /*plan*/) const {
    return 0;
  }
  /// The type that matrix products multiply in: kFp32, kBf16 for any of 16 bits, or kFp8.
  [[nodiscard]] virtual DType product_dtype(const ParallelPlan& plan) const {
    return plan.precision == Precision::kFp32 ? DType::kFp32 : DType::kBf16;
  }
  [[nodiscard]] virtual KernelCalls kernel_calls(const ParallelPlan& /*plan*/) const {
    return KernelCalls::kEager;
  }
  /// Whether kernels bound by memory read as wide as it allows; PyTorch's own do not where operands
  /// differ in type, size or order.
  [[nodiscard]] virtual bool has_wide_kernels(const ParallelPlan& /*plan*/) const { return false; }

  // What can be done about a plan.

  /// The changes that the framework has for a plan that is too large, cheapest first.
  [[nodiscard]] virtual std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const {
    return usual_changes();
  }
  /// Steps of the decision tree for a plan that is too large; those that `changes` lacks are
  /// passed over.
  [[nodiscard]] virtual std::vector<Change> remedy_order(const ParallelPlan& plan) const {
    return usual_remedy_order(plan);
  }
  /// Plans that one choice of the framework's own sets apart from `plan`, against a bottleneck.
  [[nodiscard]] virtual std::vector<ParallelPlan> plans_against(Bottleneck /*bottleneck*/,
                                                                const ParallelPlan& /*plan*/,
                                                                std::int64_t /*layers*/) const {
    return {};
  }
};

}  // namespace headroom::ir
