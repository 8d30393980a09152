#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/plan_execution.h"
#include "validators/executor/context.h"
#include "validators/executor/unit.h"

namespace headroom::exec {

/// The most sequences of a micro-batch: each has a place in the third dimension of a kernel's grid.
/// Source: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute
/// Capability".
inline constexpr std::int64_t kMostSequences = 65535;

/// Degrees of parallelism and this rank's place. Neighbouring ranks are tensor-parallel, then
/// data-parallel; stages are farthest apart.
struct Division {
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int rank = 0;
  [[nodiscard]] int world() const { return tensor * data * pipeline; }
  [[nodiscard]] int tensor_rank() const { return rank % tensor; }
  [[nodiscard]] int data_rank() const { return rank / tensor % data; }
  [[nodiscard]] int stage() const { return rank / tensor / data; }
  friend bool operator==(const Division&, const Division&) = default;
};

/// Everything that the executor does, without a choice left open.
struct Execution {
  ir::ModelSpec model;
  Types types;
  Division division;
  UnitSettings units;
  /// Tensor-parallel ranks share the tokens outside attention and MLP (Korthikanti et al. 2022,
  /// arXiv:2205.05198, section 4.2.2).
  bool sequence_parallel = false;
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 1;
  std::int64_t accumulation = 1;  ///< Micro-batches of a step on each data-parallel rank.
  int steps = 1;
  bool flash = true;
  bool chunked_loss = false;
  std::vector<ir::RecomputedParts> layers;  ///< One for each layer of the model.
  bool activations_on_host = false;         ///< Activations that layers keep for backward.
  std::optional<double> clip_norm;
  double loss_scale = 1;
  ir::AllocatorSettings allocator;
  Bytes workspace;  ///< Buffer for products.
  std::uint64_t seed = 1;
  /// Numbers of a step. Source: torch.optim.AdamW's defaults.
  double learning_rate = 1e-3;
};

/// The execution of a plan, with its framework's choices as `ir::Runtime::execution` says them.
///
/// Ignores: dropout and expandable segments; `execution_notes` says so.
/// Errors:  kInvalidArgument naming the first part of the model or of the plan that the executor
///          does not run.
[[nodiscard]] Result<Execution> execution_of(const ir::ModelSpec& model,
                                             const ir::ParallelPlan& plan);

/// Notes that a user should read about the execution of this plan: one sentence each.
[[nodiscard]] std::vector<std::string> execution_notes(const ir::ModelSpec& model,
                                                       const ir::ParallelPlan& plan);

/// Errors:  kInvalidArgument naming the first part of the model that the executor does not run, or
///          a degree that does not divide it.
[[nodiscard]] Status check_execution(const Execution& execution);

}  // namespace headroom::exec
