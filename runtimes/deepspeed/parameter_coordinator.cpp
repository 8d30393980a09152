#include "runtimes/deepspeed/parameter_coordinator.h"

#include <algorithm>
#include <iterator>

#include "runtimes/torch/stream_scope.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::deepspeed {

using Residence = PartitionedParameter::Residence;

namespace {

constexpr std::int64_t kNever = -10'000'000'000;
/// Number of fetches that may be under way.
/// Source: partitioned_param_coordinator.py, __max_ongoing_fetch_events.
constexpr std::size_t kMostFetches = 2;

}  // namespace

ParameterCoordinator::ParameterCoordinator(EngineState state, PartitionedParameters& parameters)
    : state_(state),
      parameters_(parameters),
      stream_(state.zero.overlap_comm.value_or(true) ? kGatherStream : StreamId{0}) {
  state.eager.recorder().name_stream(kGatherStream, "all_gather");
  state.eager.recorder().name_stream(kReduceStream, "reduce_and_partition");
}

std::size_t ParameterCoordinator::add_module(Module module) {
  modules_.push_back(std::move(module));
  return modules_.size() - 1;
}

void ParameterCoordinator::add_parameter(std::size_t module, std::size_t parameter) {
  std::vector<std::size_t>& own = modules_[module].parameters;
  const auto place = std::lower_bound(own.begin(), own.end(), parameter);
  if (place == own.end() || *place != parameter) {
    own.insert(place, parameter);
  }
}

void ParameterCoordinator::finish_trace() {
  steps_of_.resize(parameters_.size());
  std::int64_t elements = 0;
  for (std::size_t step = 0; step < order_.size(); ++step) {
    traversed_.push_back(elements);
    const Module& module = modules_[order_[step]];
    const auto at = static_cast<std::int64_t>(step);
    for (const std::size_t parameter : module.parameters) {
      uses_.push_back({.parameter = parameter, .step = at});
      if (!module.leaf) {
        steps_of_[parameter].push_back(at);
        elements += parameters_[parameter].whole.elements();
      }
    }
  }
}

void ParameterCoordinator::reset_step() {
  while (!in_flight_.empty()) {  // Prefetched in the last step, but not used.
    const std::size_t parameter = in_flight_.begin()->first;
    parameters_.wait(*in_flight_.begin()->second);
    in_flight_.erase(in_flight_.begin());
    release_parameter(parameter);
  }
  if (trace_ == Trace::kRecording) {
    finish_trace();
    trace_ = Trace::kComplete;
  } else if (trace_ == Trace::kInvalid) {
    trace_ = Trace::kRecording;
  }
  next_use_ = 0;
  fetched_for_.assign(parameters_.size(), kNever);
  step_ = 0;
  available_ = 0;
}

void ParameterCoordinator::start_gather(std::span<const std::size_t> wanted) {
  const auto partitioned = [&](std::size_t index) {
    return parameters_[index].status == Residence::kPartitioned;
  };
  if (std::ranges::none_of(wanted, partitioned)) {
    return;
  }
  std::vector<std::size_t> indices;
  std::ranges::copy_if(wanted, std::back_inserter(indices), partitioned);
  for (const std::size_t index : indices) {
    available_ += parameters_[index].whole.elements();
  }
  const torch::StreamScope stream(state_.eager, stream_);
  // Parameters with a secondary partition are gathered from the ranks of their node.
  const auto primary =
      std::stable_partition(indices.begin(), indices.end(),
                            [&](std::size_t index) { return parameters_[index].has_secondary; });
  for (const auto& [begin, end] :
       {std::pair(indices.begin(), primary), std::pair(primary, indices.end())}) {
    if (begin == end) {
      continue;
    }
    const std::shared_ptr<ParameterGather> gather = parameters_.start_gather({begin, end});
    for (auto index = begin; index != end; ++index) {
      in_flight_[*index] = gather;
    }
  }
}

void ParameterCoordinator::wait(std::size_t parameter) {
  const auto found = in_flight_.find(parameter);
  if (found == in_flight_.end()) {
    return;
  }
  const torch::StreamScope stream(state_.eager, stream_);
  const std::shared_ptr<ParameterGather> gather = std::move(found->second);
  in_flight_.erase(found);
  if (fetches_.size() > kMostFetches) {  // The host does not run further ahead.
    state_.eager.host_wait(fetches_.front());
    fetches_.pop_front();
  }
  parameters_.wait(*gather);
  fetches_.push_back(state_.eager.record_mark(stream_));
}

void ParameterCoordinator::fetch(std::size_t module, Pass pass) {
  if (trace_ == Trace::kRecording) {
    order_.push_back(module);
  }
  if (pass == Pass::kBackward &&
      std::find(in_backward_.begin(), in_backward_.end(), module) == in_backward_.end()) {
    in_backward_.push_back(module);
  }
  const std::vector<std::size_t>& wanted = modules_[module].parameters;
  start_gather(wanted);
  const bool recomputes = pass == Pass::kForward && state_.eager.in_backward();
  for (const std::size_t index : wanted) {
    add_user(index, module);
    if (recomputes && !in_backward_.empty() && !parameters_[index].whole.requires_grad()) {
      modules_[in_backward_.back()].recomputed.insert(index);
      add_user(index, in_backward_.back());
    }
    wait(index);
  }
  state_.eager.wait_stream(state_.eager.stream(), stream_);
  if (trace_ == Trace::kComplete) {
    prefetch(wanted);
  }
  ++step_;
}

void ParameterCoordinator::prefetch(std::span<const std::size_t> fetched) {
  // Parameters that the module had to fetch itself leave the queue.
  const auto missing = std::count_if(fetched.begin(), fetched.end(), [&](std::size_t parameter) {
    return fetched_for_[parameter] < step_;
  });
  for (std::ptrdiff_t i = 0; i < missing && next_use_ < uses_.size(); ++i) {
    const Use& use = uses_[next_use_++];
    fetched_for_[use.parameter] = use.step;
  }
  const std::int64_t limit =
      std::min(state_.zero.max_live_parameters - available_, state_.zero.prefetch_bucket_size);
  std::set<std::size_t> wanted;
  std::int64_t elements = 0;
  while (next_use_ < uses_.size() && elements < limit) {
    const Use& use = uses_[next_use_++];
    fetched_for_[use.parameter] = std::max(fetched_for_[use.parameter], use.step);
    const PartitionedParameter& parameter = parameters_[use.parameter];
    if (parameter.status == Residence::kPartitioned && wanted.insert(use.parameter).second) {
      elements += parameter.whole.elements();
    }
  }
  if (elements > 0) {
    start_gather(std::vector(wanted.begin(), wanted.end()));
  }
}

bool ParameterCoordinator::reused_soon(std::size_t parameter) const {
  const std::vector<std::int64_t>& steps = steps_of_[parameter];
  const auto next = std::lower_bound(steps.begin(), steps.end(), step_);
  return next != steps.end() &&
         traversed_[static_cast<std::size_t>(*next)] - traversed_[static_cast<std::size_t>(step_)] <
             state_.zero.max_reuse_distance;
}

/// For a leaf, the distance counts every module with all parameters inside it.
std::set<std::size_t> ParameterCoordinator::reused_after_leaf() const {
  std::set<std::size_t> reused;
  std::int64_t traversed = 0;
  for (auto step = static_cast<std::size_t>(step_);
       step < order_.size() && traversed < state_.zero.max_reuse_distance; ++step) {
    for (const std::size_t parameter : modules_[order_[step]].nested) {
      reused.insert(parameter);
      traversed += parameters_[parameter].whole.elements();
    }
  }
  return reused;
}

std::vector<std::size_t>& ParameterCoordinator::releasable(std::size_t module) {
  const auto step = static_cast<std::size_t>(step_);
  if (releasable_.size() <= step) {
    releasable_.resize(step + 1);
  }
  std::vector<Release>& known = releasable_[step];
  const auto found = std::ranges::find(known, module, &Release::module);
  if (found != known.end()) {
    return found->parameters;
  }
  Release& made = known.emplace_back(Release{.module = module, .parameters = {}});
  const bool leaf = modules_[module].leaf;
  const std::set<std::size_t> reused = leaf ? reused_after_leaf() : std::set<std::size_t>{};
  for (const std::size_t parameter : modules_[module].parameters) {
    const bool skipped = fetched_for_[parameter] > step_;  // Its next use is not fetched.
    const bool soon = leaf ? reused.contains(parameter) : reused_soon(parameter);
    if (!parameters_[parameter].persists && !skipped && !soon) {
      made.parameters.push_back(parameter);
    }
  }
  return made.parameters;
}

void ParameterCoordinator::add_user(std::size_t parameter, std::size_t module) {
  std::vector<std::size_t>& users = parameters_[parameter].users;
  if (std::ranges::find(users, module) == users.end()) {
    users.push_back(module);
  }
}

void ParameterCoordinator::forget_user(std::size_t parameter, std::size_t module) {
  std::erase(parameters_[parameter].users, module);
}

void ParameterCoordinator::release_parameter(std::size_t parameter) {
  if (parameters_[parameter].status == Residence::kAvailable &&
      parameters_[parameter].users.empty()) {
    parameters_.partition(parameter);
    available_ -= parameters_[parameter].whole.elements();
  }
}

void ParameterCoordinator::release(std::size_t module, Pass pass) {
  const Module& owner = modules_[module];
  if (pass == Pass::kBackward && !owner.recomputed.empty()) {
    release_recomputed(module);
    return;
  }
  const std::vector<std::size_t>* const leaving =
      trace_ == Trace::kComplete ? &releasable(module) : &owner.parameters;
  auto next = leaving->begin();  // Both lists ascend.
  for (const std::size_t parameter : owner.parameters) {
    forget_user(parameter, module);
    while (next != leaving->end() && *next < parameter) {
      ++next;
    }
    if (next != leaving->end() && *next == parameter) {
      release_parameter(parameter);
    }
  }
  if (pass == Pass::kBackward) {
    std::erase(in_backward_, module);
  }
}

/// The end of a backward that has recomputed parameters of other modules.
void ParameterCoordinator::release_recomputed(std::size_t module) {
  Module& owner = modules_[module];
  std::set<std::size_t> all(owner.parameters.begin(), owner.parameters.end());
  std::vector<std::size_t> recording = owner.parameters;
  std::vector<std::size_t>& leaving = trace_ == Trace::kComplete ? releasable(module) : recording;
  for (const std::size_t parameter : owner.recomputed) {
    all.insert(parameter);
    const auto place = std::ranges::lower_bound(leaving, parameter);
    if (!parameters_[parameter].persists && (place == leaving.end() || *place != parameter)) {
      leaving.insert(place, parameter);
    }
  }
  owner.recomputed.clear();
  std::erase(in_backward_, module);
  for (const std::size_t parameter : all) {
    forget_user(parameter, module);
    if (std::ranges::binary_search(leaving, parameter)) {
      release_parameter(parameter);
    }
  }
}

void ParameterCoordinator::release_leftovers() {
  while (!in_backward_.empty()) {
    const std::size_t module = in_backward_.back();
    in_backward_.pop_back();
    Module& owner = modules_[module];
    std::set<std::size_t> all(owner.parameters.begin(), owner.parameters.end());
    all.merge(owner.recomputed);
    owner.recomputed.clear();
    for (const std::size_t parameter : all) {
      forget_user(parameter, module);
      if (!parameters_[parameter].persists) {
        release_parameter(parameter);
      }
    }
  }
}

void ParameterCoordinator::release_all() {
  for (std::size_t parameter = 0; parameter < parameters_.size(); ++parameter) {
    const auto found = in_flight_.find(parameter);
    if (found != in_flight_.end()) {
      const std::shared_ptr<ParameterGather> gather = std::move(found->second);
      in_flight_.erase(found);
      parameters_.wait(*gather);  // On the caller's stream.
    }
    parameters_[parameter].users.clear();
    release_parameter(parameter);
  }
}

}  // namespace headroom::ir::deepspeed
