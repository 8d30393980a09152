#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/plan_control.h"
#include "runtimes/interface/settle.h"

namespace headroom::ir {

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

  /// The optimizer that the framework takes where none is named: PyTorch's foreach AdamW.
  [[nodiscard]] virtual OptimizerPlan usual_optimizer(const ParallelPlan& /*plan*/) const {
    return {};
  }

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
};

}  // namespace headroom::ir
