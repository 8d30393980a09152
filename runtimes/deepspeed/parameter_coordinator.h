#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtimes/deepspeed/partitioned_parameters.h"

namespace headroom::ir::deepspeed {

/// Decides when parameters are gathered and when they go back to partitions.
///
///   1st micro-batch   notes the modules as they run, forward and backward; each gathers its own
///                     parameters and lets them go when it returns
///   from the 2nd on   before a module: gathers what it lacks, then, of what comes next in the
///                     trace, up to the prefetch bucket while few enough elements are live;
///                     after it: keeps what is needed again within the reuse distance
///
/// Ignores: modules that run in another order than in the first micro-batch; NVMe.
/// Source:  deepspeedai/DeepSpeed 0.19.8
///          deepspeed/runtime/zero/partitioned_param_coordinator.py.
class ParameterCoordinator {
 public:
  enum class Pass : std::uint8_t { kForward, kBackward };

  ParameterCoordinator(EngineState state, PartitionedParameters& parameters);

  /// A module of the model's code; all parameters ascend.
  struct Module {
    std::vector<std::size_t> parameters;  ///< Those it needs gathered.
    std::vector<std::size_t> nested;      ///< All within it; asked for where there are leaves.
    bool leaf = false;                    ///< Gathered as one, with what is in it.
    std::set<std::size_t> recomputed{};   ///< Frozen ones that a recomputation gathered for it.
  };
  /// Returns its number.
  [[nodiscard]] std::size_t add_module(Module module);
  /// `register_external_parameter`: the module needs a parameter of another one.
  void add_parameter(std::size_t module, std::size_t parameter);

  /// `reset_step`: the outermost module is about to run forward.
  void reset_step();
  /// `fetch_sub_module`, recorded while the trace is being made.
  void fetch(std::size_t module, Pass pass);
  /// `release_sub_module`
  void release(std::size_t module, Pass pass);
  /// `release_backward_leftovers`: modules whose end of backward nothing has told.
  void release_leftovers();
  /// `release_and_reset_all`
  void release_all();

 private:
  enum class Trace : std::uint8_t { kInvalid, kRecording, kComplete };
  struct Use {
    std::size_t parameter = 0;
    std::int64_t step = 0;
  };

  void finish_trace();
  void start_gather(std::vector<std::size_t> indices);
  void wait(std::size_t parameter);
  void prefetch(std::span<const std::size_t> fetched);
  void release_parameter(std::size_t parameter);
  void forget_user(std::size_t parameter, std::size_t module);
  [[nodiscard]] std::set<std::size_t>& releasable(std::size_t module);
  [[nodiscard]] bool reused_soon(std::size_t parameter) const;
  [[nodiscard]] std::set<std::size_t> reused_after_leaf() const;

  EngineState state_;
  PartitionedParameters& parameters_;
  StreamId stream_;
  std::deque<std::uint32_t> fetches_;  ///< Marks behind the fetches that were waited for last.
  std::vector<Module> modules_;
  Trace trace_ = Trace::kInvalid;
  std::vector<std::size_t> order_;  ///< Modules as they ran.
  /// Elements of the modules before each of `order_`, and where it needs each parameter. To the
  /// distance from a module that is no leaf, leaves count as empty.
  std::vector<std::int64_t> traversed_;
  std::vector<std::vector<std::int64_t>> steps_of_;
  std::vector<Use> uses_;                  ///< Parameters in the order of the trace.
  std::size_t next_use_ = 0;               ///< The queue of what to prefetch.
  std::vector<std::int64_t> fetched_for_;  ///< Latest step that each parameter was fetched for.
  std::int64_t step_ = 0;
  std::int64_t available_ = 0;  ///< Elements gathered since the start of the step.
  std::map<std::size_t, std::shared_ptr<ParameterGather>> in_flight_;
  std::vector<std::size_t> in_backward_;  ///< Modules whose backward is under way.
  /// DeepSpeed caches what to release by module and step, and never asks again.
  std::map<std::pair<std::size_t, std::int64_t>, std::set<std::size_t>> releasable_;
};

}  // namespace headroom::ir::deepspeed
