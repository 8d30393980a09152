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

/// Decides when parameters are gathered and when they are partitioned again.
///
///   1st micro-batch   records the modules as they run, forward and backward; each module gathers
///                     its own parameters and releases them when it returns
///   from the 2nd on   before a module: gathers the parameters that it lacks, then prefetches those
///                     that the trace needs next, up to the prefetch bucket, while few enough
///                     elements are live;
///                     after it: keeps what is needed again within the reuse distance
///
/// Ignores: modules that run in another order than in the first micro-batch; offload to NVMe.
/// Source:  deepspeedai/DeepSpeed 0.19.8
///          deepspeed/runtime/zero/partitioned_param_coordinator.py.
class ParameterCoordinator {
 public:
  enum class Pass : std::uint8_t { kForward, kBackward };

  ParameterCoordinator(EngineState state, PartitionedParameters& parameters);

  /// A module of the model's code. All lists of parameters ascend.
  struct Module {
    std::vector<std::size_t> parameters;  ///< Those that must be gathered for it.
    std::vector<std::size_t> nested;      ///< Those of all modules inside; set if leaves exist.
    bool leaf = false;                    ///< Gathered as one module, with all inside it.
    std::set<std::size_t> recomputed{};   ///< Frozen ones gathered by a recomputation.
  };
  /// Adds a module; returns its number.
  [[nodiscard]] std::size_t add_module(Module module);
  /// `register_external_parameter`: the module needs a parameter of another module.
  void add_parameter(std::size_t module, std::size_t parameter);

  /// `reset_step`: called when the outermost module is about to run forward.
  void reset_step();
  /// `fetch_sub_module`; recorded while the trace is being made.
  void fetch(std::size_t module, Pass pass);
  /// `release_sub_module`
  void release(std::size_t module, Pass pass);
  /// `release_backward_leftovers`: releases modules whose end of backward was not reported.
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
  void start_gather(std::span<const std::size_t> wanted);
  void wait(std::size_t parameter);
  void prefetch(std::span<const std::size_t> fetched);
  void release_parameter(std::size_t parameter);
  void forget_user(std::size_t parameter, std::size_t module);
  [[nodiscard]] std::vector<std::size_t>& releasable(std::size_t module);
  void add_user(std::size_t parameter, std::size_t module);
  void release_recomputed(std::size_t module);
  [[nodiscard]] bool reused_soon(std::size_t parameter) const;
  [[nodiscard]] std::set<std::size_t> reused_after_leaf() const;

  EngineState state_;
  PartitionedParameters& parameters_;
  StreamId stream_;
  std::deque<std::uint32_t> fetches_;  ///< Marks after the latest completed fetches.
  std::vector<Module> modules_;
  Trace trace_ = Trace::kInvalid;
  std::vector<std::size_t> order_;  ///< Modules in the order in which they ran.
  /// Elements of the modules before each entry of `order_`, and the entries that need each
  /// parameter. Leaves count as empty in the distance from a module that is not a leaf.
  std::vector<std::int64_t> traversed_;
  std::vector<std::vector<std::int64_t>> steps_of_;
  std::vector<Use> uses_;                  ///< Parameters in the order of the trace.
  std::size_t next_use_ = 0;               ///< Next entry of the prefetch queue.
  std::vector<std::int64_t> fetched_for_;  ///< Latest step for which each was fetched.
  std::int64_t step_ = 0;
  std::int64_t available_ = 0;  ///< Elements gathered since the start of the step.
  std::map<std::size_t, std::shared_ptr<ParameterGather>> in_flight_;
  std::vector<std::size_t> in_backward_;  ///< Modules whose backward is running.
  /// Parameters that a module releases at a step of the trace.
  struct Release {
    std::size_t module = 0;
    std::vector<std::size_t> parameters;  ///< Ascending.
  };
  /// Indexed by step: DeepSpeed caches what to release and never computes it again.
  std::vector<std::vector<Release>> releasable_;
};

}  // namespace headroom::ir::deepspeed
