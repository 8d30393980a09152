#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

enum class Verdict : std::uint8_t { kFits, kTight, kDoesNotFit };

/// How a figure outside the replay is known.
enum class Basis : std::uint8_t { kMeasured, kDerived, kAssumed };

/// Device memory that PyTorch's allocator does not see, by name.
struct OutsideTerm {
  std::string name;  ///< "CUDA context and kernels", "NCCL communicator"
  Bytes bytes;
  Basis basis = Basis::kAssumed;
  std::string source;
};

/// The answer to `fit`: one rank of a plan on one kind of GPU.
struct StepEstimate {
  Verdict verdict = Verdict::kFits;
  Bytes device_total;           ///< What the device reports, or the user's budget.
  std::vector<OutsideTerm> outside;
  Bytes outside_bytes;          ///< Their sum.
  Bytes capacity;               ///< device_total - outside_bytes: what the allocator may reserve.
  Bytes peak_allocated;         ///< Over the whole program.
  Bytes peak_reserved;
  Bytes margin;                 ///< capacity - peak_reserved; negative: missing.
  MemoryTimeline timeline;      ///< Replayed without a limit if it does not fit, so peaks are whole.
  ir::RankProgram program;
  std::string peak_phase;       ///< "step2.backward"
  std::string peak_moment;      ///< "backward of the loss: log_softmax", "forward of layer 31, silu"
  RoleBytes peak_by_role{};
  bool out_of_memory = false;   ///< The replay on the real capacity ran out.
  std::int64_t retries = 0;     ///< Of the replay on the real capacity.
};

/// Margin below this share of the device makes a verdict "tight": fragmentation and outside terms
/// vary by that much from run to run (docs/model-assumptions.md, "Verdict").
inline constexpr double kTightShare = 0.05;

/// Lowers `model` for the plan's runtime, replays it and judges it against `device`.
///
/// Errors:  kInvalidArgument where the plan and the model or runtime do not go together.
/// `budget`: bytes to judge against instead of the device's total; 0: the device's.
[[nodiscard]] Result<StepEstimate> estimate(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                            const DeviceSpec& device, Bytes budget = Bytes{0});

}  // namespace headroom::cost
