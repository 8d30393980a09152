#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/evaluate/plan_figures.h"

namespace headroom::plan {

/// Peak and time of a plan that is lowered whole, which means that its complete program is made.
struct LoweredPlan {
  Bytes peak;      ///< Peak of the live bytes.
  StepParts time;  ///< The time that `cost::estimate` gives for the same plan.
  Bytes host{};    ///< The same as in `RatedPlan`.
  Bytes host_capacity{};
  bool host_fits = true;
  Bytes kept;  ///< The bytes that the last forward keeps until backward.
  /// The part of the last step in which the host steps the optimizer and the compute stream waits.
  Seconds host_step{};
  /// The events of its programs, which measure the work of lowering and evaluating them.
  std::uint64_t events = 0;
};

/// The peak of a program with few layers or micro-batches.
struct ShortPeak {
  Bytes peak;
  std::uint64_t events = 0;  ///< The events of the program.
};

/// Results of lowered plans, which searches of one model on one machine share.
///
/// Threads: may be used by any number of threads. Each plan is lowered once: who asks for a plan
/// that another thread is lowering waits for it.
class LoweredRecords {
 public:
  /// The result for the plan with this text, which `lower` gives at the first call.
  [[nodiscard]] Result<LoweredPlan> plan(const std::string& text,
                                         const std::function<Result<LoweredPlan>()>& lower);
  [[nodiscard]] Result<ShortPeak> peak(const std::string& text,
                                       const std::function<Result<ShortPeak>()>& lower);

  /// The number of events of all programs that were lowered, which measures the work.
  [[nodiscard]] std::uint64_t events() const { return events_.load(); }

 private:
  template <typename Value>
  struct Slot {
    std::mutex mutex;
    std::optional<Result<Value>> result;
  };
  template <typename Value>
  using Slots = std::unordered_map<std::string, std::shared_ptr<Slot<Value>>>;

  template <typename Value>
  [[nodiscard]] Result<Value> of(Slots<Value>& slots, const std::string& text,
                                 const std::function<Result<Value>()>& lower);

  std::mutex mutex_;
  Slots<LoweredPlan> plans_;
  Slots<ShortPeak> peaks_;
  std::atomic<std::uint64_t> events_{0};
};

/// Evaluates plans of one model on one machine that are lowered whole.
///
/// Model:   a plan is lowered once. Its program gives the peak and, kernel by kernel, the time of
///          its replay. Of a pipeline, the ranks that `cost::binding_ranks` names are lowered.
/// Threads: may be called from any number of threads; answers do not depend on them.
class LoweredPlans {
 public:
  /// `device`: its total is the memory that plans must fit in. Keeps references to all arguments.
  LoweredPlans(const ir::ModelSpec& model, const cost::DeviceSpec& device,
               const cost::Machine& machine, LoweredRecords& records);

  /// Evaluates `plan`, which is plan number `number` of a space.
  ///
  /// Errors:  those of `cost::lower_replayed`.
  [[nodiscard]] Result<LoweredPlan> of(const ir::ParallelPlan& plan, std::uint64_t number);

  /// The result of `of` for plan number `number`, if it was called.
  [[nodiscard]] std::optional<LoweredPlan> known(std::uint64_t number);

  /// The same for `plan` with another model, which has fewer layers.
  ///
  /// Errors:  those of `cost::lower_replayed`.
  [[nodiscard]] Result<LoweredPlan> of_fewer_layers(const ir::ModelSpec& fewer,
                                                    const ir::ParallelPlan& plan);

  /// Number of plans that were lowered.
  [[nodiscard]] std::uint64_t lowered() const { return lowered_.load(); }

 private:
  [[nodiscard]] Result<LoweredPlan> lower(const ir::ModelSpec& model,
                                          const ir::ParallelPlan& plan) const;

  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  LoweredRecords& records_;
  std::mutex mutex_;
  std::map<std::uint64_t, LoweredPlan> known_;
  std::atomic<std::uint64_t> lowered_{0};
};

}  // namespace headroom::plan
