#pragma once

#include <string_view>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

struct MeasuredRuns;  // runtimes/interface/runs/measured_runs.h

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

  /// The measured runs that the framework knows how to read; nullptr: none.
  [[nodiscard]] virtual const MeasuredRuns* measured_runs() const { return nullptr; }
};

}  // namespace headroom::ir
