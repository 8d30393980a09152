#include "runtimes/megatron/search/program_sample.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/evaluate/live_bytes.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

bool is_step(const ir::Phase& phase) {
  return phase.name.kind == ir::PhaseKind::kForwardBackward;
}
bool is_optimizer(const ir::Phase& phase) {
  return phase.name.kind == ir::PhaseKind::kOptimizer;
}

std::int64_t before(const std::vector<std::int64_t>& curve, std::size_t event) {
  return event == 0 ? 0 : curve[event - 1];
}

std::int64_t peak_between(const std::vector<std::int64_t>& curve, std::size_t begin,
                          std::size_t end) {
  std::int64_t peak = before(curve, begin);
  for (std::size_t event = begin; event < end; ++event) {
    peak = std::max(peak, curve[event]);
  }
  return peak;
}

/// Positions within `count` items: "0", "1" from the front; "y", "z" from the back. In a run of
/// three, the middle item is both the second and the last but one.
std::vector<char> anchors(std::int64_t position, std::int64_t count) {
  std::vector<char> found;
  if (position < 2) {
    found.push_back(position == 0 ? '0' : '1');
  }
  if (count - position <= 2) {
    found.push_back(count - position == 1 ? 'z' : 'y');
  }
  return found;
}

/// Keys of a layer at `position` of its chunk. A chunk with one unit less has keys of its own.
std::vector<std::string> layer_keys(const SampleForm& form, bool is_short, std::int64_t position) {
  std::vector<std::string> keys;
  std::int64_t begin = 0;
  for (std::size_t index = 0; index < form.runs.size(); ++index) {
    const LayerRun& run = form.runs[index];
    const std::int64_t units = run.units - (is_short && index + 1 == form.runs.size() ? 1 : 0);
    const std::int64_t length = units * run.group;
    if (position < begin + length) {
      const std::int64_t inside = position - begin;
      for (const char unit : anchors(inside / run.group, units)) {
        for (const char layer : anchors(inside % run.group, run.group)) {
          keys.push_back(std::string(1, static_cast<char>((is_short ? 'A' : 'a') + index)) + unit +
                         layer);
        }
      }
      return keys;
    }
    begin += length;
  }
  return {"?"};
}

/// Reads the events of a step and keeps the maximum of each region.
class RegionReader {
 public:
  RegionReader(const ir::RankProgram& program, const ShortQuestion& question,
               const SampleForm& form, std::int64_t stage)
      : program_(program), layer_keys_(question.model.layers.size()) {
    const auto layers = static_cast<std::int64_t>(question.model.layers.size());
    for (std::int64_t chunk = 0; chunk < form.chunks; ++chunk) {
      const ir::LayerSpan span =
          ir::chunk_layers(question.plan, layers, {.stage = stage, .chunk = chunk});
      for (std::int64_t position = 0; position < span.count; ++position) {
        layer_keys_[static_cast<std::size_t>(span.first + position)] =
            layer_keys(form, form.is_short(chunk), position);
      }
    }
    keys_of_site_.resize(program.sites.size());
  }

  void add(const std::string& step, std::uint32_t site, std::int64_t bytes) {
    std::vector<std::int64_t*>& slots = slots_of(step, site);
    for (std::int64_t* const slot : slots) {
      *slot = std::max(*slot, bytes);
    }
  }
  void new_step() { keys_of_site_.assign(program_.sites.size(), {}); }

  [[nodiscard]] const std::map<RegionKey, std::int64_t>& regions() const { return regions_; }

 private:
  std::vector<std::int64_t*>& slots_of(const std::string& step, std::uint32_t site) {
    std::vector<std::int64_t*>& slots = keys_of_site_[site];
    if (slots.empty()) {
      const ir::Site& at = program_.sites[site];
      const std::string operation = at.operation < program_.operations.size()
                                        ? program_.operations[at.operation]
                                        : std::string();
      std::vector<std::string> layers = {"-"};
      if (at.layer >= 0) {
        layers = layer_keys_[static_cast<std::size_t>(at.layer)];
      }
      for (const std::string& layer : layers) {
        const RegionKey key = step + (at.backward ? "b" : "f") + layer + operation;
        slots.push_back(&regions_.try_emplace(key, INT64_MIN).first->second);
      }
      if (slots.empty()) {
        slots.push_back(&ignored_);  // A layer between the second and the last but one.
      }
    }
    return slots;
  }

  const ir::RankProgram& program_;
  std::vector<std::vector<std::string>> layer_keys_;  ///< Indexed by layer of the model.
  std::vector<std::vector<std::int64_t*>> keys_of_site_;
  std::map<RegionKey, std::int64_t> regions_;
  std::int64_t ignored_ = 0;
};

/// Bytes above `base` in the phase in which losses are logged, and at its begin.
ProgramSample::Step read_optimizer(const ir::RankProgram& program, const ir::Phase& phase,
                                   const std::vector<std::int64_t>& curve,
                                   const StaticMemory::Step& fixed) {
  ProgramSample::Step step;
  step.remains = before(curve, phase.begin) - fixed.base;
  step.log = before(curve, phase.end) - fixed.optimizer_end;
  for (std::size_t event = phase.begin; event < phase.end; ++event) {
    const ir::Site& site = program.sites[program.events[event].site];
    if (site.operation < program.operations.size() && program.operations[site.operation] == "log") {
      step.log = std::max(step.log, curve[event] - fixed.optimizer_end);
    }
  }
  return step;
}

}  // namespace

Result<StaticMemory> static_memory(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                   ir::Rank rank, const DeviceTraits& device) {
  ir::ParallelPlan still = plan;
  still.workload.accumulation = 0;
  Result<ir::RankProgram> program = ir::lower(model, still, rank, device);
  if (!program) {
    return std::move(program).error();
  }
  const std::vector<std::int64_t> curve = live_curve(*program, plan.allocator);
  StaticMemory memory;
  memory.host = std::move(program->host);
  for (const ir::Phase& phase : program->phases) {
    const std::int64_t peak = peak_between(curve, phase.begin, phase.end);
    if (is_step(phase)) {
      memory.steps.push_back({.base = before(curve, phase.end)});
    } else if (is_optimizer(phase) && !memory.steps.empty()) {
      memory.steps.back().optimizer_peak = peak;
      memory.steps.back().optimizer_end = before(curve, phase.end);
    } else {
      memory.construction_peak = std::max(memory.construction_peak, peak);
    }
  }
  return memory;
}

Result<ProgramSample> sample_program(const ShortQuestion& question, const SampleForm& form,
                                     ir::Rank rank, const DeviceTraits& device) {
  Result<StaticMemory> fixed = static_memory(question.model, question.plan, rank, device);
  if (!fixed) {
    return std::move(fixed).error();
  }
  Result<ir::RankProgram> lowered = ir::lower(question.model, question.plan, rank, device);
  if (!lowered) {
    return std::move(lowered).error();
  }
  const ir::RankProgram& program = *lowered;
  const std::vector<std::int64_t> curve = live_curve(program, question.plan.allocator);
  ProgramSample sample;
  const std::int64_t stage = static_cast<std::int64_t>(rank) / (question.plan.world / form.stages);
  RegionReader reader(program, question, form, stage);
  int step = -1;
  for (const ir::Phase& phase : program.phases) {
    if (is_step(phase)) {
      ++step;
      reader.new_step();
      const std::int64_t base = fixed->steps[static_cast<std::size_t>(step)].base;
      const std::string name(1, static_cast<char>('1' + step));
      for (std::size_t event = phase.begin; event < phase.end; ++event) {
        if (program.events[event].kind == ir::EventKind::kAllocate) {
          reader.add(name, program.events[event].site, curve[event] - base);
        }
      }
    } else if (is_optimizer(phase) && step >= 0) {
      const StaticMemory::Step& still = fixed->steps[static_cast<std::size_t>(step)];
      sample.steps.push_back(read_optimizer(program, phase, curve, still));
    }
  }
  for (const auto& [key, bytes] : reader.regions()) {
    sample.regions.push_back({.key = key, .step = key[0] - '1', .bytes = bytes});
  }
  return sample;
}

}  // namespace headroom::plan
