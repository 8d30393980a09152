#include "runtimes/registry.h"

#include <algorithm>
#include <array>

#include "model_ir/base/check.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/runtime.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/litgpt/runtime.h"
#include "runtimes/megatron/runtime.h"
#include "runtimes/torchtitan/runtime.h"
#include "runtimes/torchtune/runtime.h"
#include "runtimes/transformers/runtime.h"

namespace headroom::ir {
namespace {

const std::array<const Runtime*, 7>& built_in() {
  static const std::array<const Runtime*, 7> list = {
      &transformers::runtime(), &deepspeed::runtime(), &fsdp::runtime(),  &megatron::runtime(),
      &torchtitan::runtime(),   &torchtune::runtime(), &litgpt::runtime()};
  return list;
}

/// The frameworks added by `RegisteredRuntime`.
std::vector<const Runtime*>& added() {
  static std::vector<const Runtime*> list;
  return list;
}

std::vector<const MeasuredRuns*> all_measured_runs() {
  std::vector<const MeasuredRuns*> all;
  for (const Runtime* const runtime : runtimes()) {
    if (const MeasuredRuns* const runs = runtime->measured_runs()) {
      all.push_back(runs);
    }
  }
  return all;
}

/// The names of all frameworks, stored for `runtime_words`.
std::vector<std::string_view>& words() {
  static std::vector<std::string_view> list = [] {
    std::vector<std::string_view> names;
    for (const Runtime* const runtime : built_in()) {
      names.push_back(runtime->name());
    }
    return names;
  }();
  return list;
}

}  // namespace

std::span<const std::string_view> runtime_words() {
  return words();
}

std::vector<const Runtime*> runtimes() {
  std::vector<const Runtime*> all(built_in().begin(), built_in().end());
  all.insert(all.end(), added().begin(), added().end());
  return all;
}

std::vector<std::string> runtime_names() {
  std::vector<std::string> names;
  for (const Runtime* const runtime : runtimes()) {
    names.emplace_back(runtime->name());
  }
  return names;
}

const Runtime* find_runtime(std::string_view name) {
  const auto has_name = [name](const Runtime* runtime) { return runtime->name() == name; };
  const auto* const known = std::ranges::find_if(built_in(), has_name);
  if (known != built_in().end()) {
    return *known;
  }
  const auto more = std::ranges::find_if(added(), has_name);
  return more == added().end() ? nullptr : *more;
}

const Runtime& runtime_of(const ParallelPlan& plan) {
  const Runtime* const runtime = find_runtime(plan.runtime);
  HEADROOM_ASSERT(runtime != nullptr);
  return *runtime;
}

RegisteredRuntime::RegisteredRuntime(const Runtime& runtime) : runtime_(&runtime) {
  HEADROOM_ASSERT(find_runtime(runtime.name()) == nullptr);
  added().push_back(runtime_);
  words().push_back(runtime_->name());
}

RegisteredRuntime::~RegisteredRuntime() {
  std::erase(added(), runtime_);
  std::erase(words(), runtime_->name());
}

std::vector<OwnChange> changes_of(const ParallelPlan& plan) {
  const Runtime& own = runtime_of(plan);
  const std::span<const OwnChange> first = own.changes(plan);
  std::vector<OwnChange> changes(first.begin(), first.end());
  if (own.can_move(plan)) {
    for (const Runtime* const runtime : runtimes()) {
      if (runtime != &own) {
        changes.insert(changes.end(), runtime->moves_here().begin(), runtime->moves_here().end());
      }
    }
  }
  std::ranges::stable_sort(changes, {},
                           [](const OwnChange& change) { return change.change.price; });
  return changes;
}

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                          const DeviceTraits& device) {
  const Runtime* const runtime = find_runtime(plan.runtime);
  if (runtime == nullptr) {
    const std::vector<std::string> known = runtime_names();
    return Error::invalid_argument("runtime", plan.runtime, "one of " + join(known),
                                   suggestion(plan.runtime, known));
  }
  return runtime->lower(model, plan, rank, device);
}

const RecordedFormat* find_recorded_format(std::string_view program) {
  for (const MeasuredRuns* const runs : all_measured_runs()) {
    for (const RecordedFormat& format : runs->recorded) {
      if (format.program == program) {
        return &format;
      }
    }
  }
  return nullptr;
}

const PublishedFormat* find_published_format(std::string_view program) {
  for (const MeasuredRuns* const runs : all_measured_runs()) {
    for (const PublishedFormat& format : runs->published) {
      if (begins_with(program, format.program)) {
        return &format;
      }
    }
  }
  return nullptr;
}

}  // namespace headroom::ir
