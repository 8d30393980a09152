#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/host_memory.h"
#include "costmodel/memory/timeline.h"
#include "costmodel/outside_memory.h"
#include "costmodel/time/machine.h"
#include "costmodel/time/step_time.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

enum class Verdict : std::uint8_t { kFits, kTight, kDoesNotFit };

/// The operator that a moment belongs to.
struct PeakSite {
  std::size_t event = 0;
  std::int32_t layer = -1;  ///< -1: outside the layers.
  std::string operation;    ///< "silu"; empty if the program does not name one.
  bool backward = false;
  friend bool operator==(const PeakSite&, const PeakSite&) = default;
};

/// The answer to `fit`: one rank of a plan on one kind of GPU.
struct StepEstimate {
  Verdict verdict = Verdict::kFits;  ///< The worse of the device's and the host's.
  Verdict device_verdict = Verdict::kFits;
  Verdict host_verdict = Verdict::kFits;
  Bytes device_total;  ///< What the device reports, or the user's budget.
  std::vector<OutsideTerm> outside;
  Bytes outside_bytes;   ///< Their sum.
  Bytes capacity;        ///< device_total - outside_bytes: what the allocator may reserve.
  Bytes peak_allocated;  ///< Over the whole program.
  Bytes peak_reserved;
  Bytes margin;             ///< capacity - peak_reserved; negative: missing.
  MemoryTimeline timeline;  ///< Replayed without a limit if the plan does not fit.
  ir::RankProgram program;
  ir::PhaseName peak_phase;  ///< "step2.backward"
  std::string peak_moment;   ///< "step 2, backward: log_softmax", "step 1, forward, layer 31: silu"
  PeakSite peak_site;        ///< The same, as data.
  RoleBytes peak_by_role{};
  bool out_of_memory = false;          ///< The replay on the real capacity ran out.
  std::optional<OutOfMemory> failure;  ///< Where it ran out.
  std::int64_t retries = 0;            ///< Of the replay on the real capacity.
  ir::Rank rank{};                     ///< The binding rank.
  std::optional<StepTime> time;        ///< Set if the machine is known.
  std::optional<double> chance;        ///< To fit on the device, if measured errors tell it.
  std::optional<double> at_once;       ///< The same without PyTorch emptying its cache.
  HostMemory host;  ///< Host memory of a node; judged if `DeviceSpec::host` is set.
};

/// Replaces the device's verdict by one that measured errors give (`confidence.h`).
using Judge = std::function<void(const ir::ParallelPlan& plan, StepEstimate& estimate)>;

/// Margin below this share of the device makes a verdict "tight": fragmentation and outside terms
/// vary by that much from run to run (docs/model-assumptions.md, "Verdict").
inline constexpr double kTightShare = 0.05;

/// Judges a program that is already lowered: replays it and forms the verdict and the peak's name.
///
/// Model:   replays on `total` less the outside terms; if that runs out of memory, once more
///          without a limit, so that peaks and phases are whole. "Tight": it fits, but with less
///          than `kTightShare` of `total` to spare, or only after the allocator released its cache
///          and retried.
/// Units:   `total` in bytes: what the device reports, or a budget.
[[nodiscard]] StepEstimate judge(ir::RankProgram program, const ir::AllocatorSettings& settings,
                                 Bytes total, std::vector<OutsideTerm> outside);

/// Sets the host's part of an estimate and the verdict with it.
///
/// Model:   the node's memory and drives must hold what the run takes there; with less than
///          `kTightShare` of the memory to spare it is tight.
void judge_host(StepEstimate& estimate, HostMemory host);

/// A moment in words: "step 2, backward, layer 31: silu".
[[nodiscard]] std::string moment_text(const ir::PhaseName& phase, const PeakSite& site);
/// The operator behind event `event` of `program`.
[[nodiscard]] PeakSite site_of(const ir::RankProgram& program, std::size_t event);

/// Whether an answer is a yes: the run fits, or it is tight and more likely to fit than not.
[[nodiscard]] bool is_yes(Verdict verdict, const std::optional<double>& chance);

/// "fits", "tight", "does not fit": the values in JSON. Texts show `verdict_words`.
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// The verdict as every text shows it: "probably does not fit" where a tight run is not a yes,
/// otherwise its name.
[[nodiscard]] std::string_view verdict_words(Verdict verdict, const std::optional<double>& chance);

/// How many of a step's micro-batches are replayed. After these, memory repeats itself
/// (`ir::Runtime::steady_micro_batches`).
[[nodiscard]] std::int64_t replayed_micro_batches(const ir::ParallelPlan& plan);

/// Lowers `model` for the plan's runtime: the program that `estimate` replays.
///
/// Model:   micro-batches beyond `replayed_micro_batches` are left out; a step's work is that of
///          the remaining micro-batches.
/// Errors:  kInvalidArgument if the plan does not fit the model, the runtime or the device
///          (`ir::Runtime::check_device`).
[[nodiscard]] Result<ir::RankProgram> lower_replayed(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const DeviceSpec& device,
                                                     ir::Rank rank = ir::Rank{0});

/// Lowers `model` for the plan's runtime, replays it and judges it against `device`. If ranks
/// differ, the answer is for the binding rank. If `device.host` is set, the verdict is also that
/// of the host: every rank of a node is taken to hold what the replayed rank with most holds.
///
/// Errors:  those of `lower_replayed`.
/// `budget`: bytes to judge against instead of the device's total; 0: the device's total.
/// `machine`: the machine for which the step's time is predicted; null: no time is predicted.
[[nodiscard]] Result<StepEstimate> estimate(const ir::ModelSpec& model,
                                            const ir::ParallelPlan& plan, const DeviceSpec& device,
                                            Bytes budget = Bytes{0},
                                            const Machine* machine = nullptr);

/// The time that `estimate` predicts for `machine`, without a replay of the memory: only the ranks
/// that stand for the stages of a pipeline are lowered. Requires that `plan` names no rank.
///
/// Errors:  those of `lower_replayed`.
[[nodiscard]] Result<StepTime> step_time(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                         const DeviceSpec& device, Bytes budget,
                                         const Machine& machine);

}  // namespace headroom::cost
