#include "costmodel/time/pipeline_makespan.h"

#include <algorithm>
#include <optional>
#include <string>

namespace headroom::cost {
namespace {

using ir::PipelineAction;
using ir::PipelinePlace;
using ir::PipelineShape;
using ir::PipelineWork;

class Simulation {
 public:
  Simulation(const PipelineShape& shape, const PipelineTimes& times)
      : shape_(shape),
        times_(times),
        chunks_(ir::chunks_of(shape)),
        done_(static_cast<std::size_t>(shape.stages * chunks_ * shape.micro_batches)) {
    for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
      stages_.push_back({ir::actions_of_stage(shape, stage), 0, Seconds{}});
    }
  }

  [[nodiscard]] PipelineTimeline operator()() {
    PipelineTimeline out;
    out.stages.resize(stages_.size());
    out.busy.resize(stages_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        while (advance(stage, out)) {
          moved = true;
        }
      }
    }
    for (const Stage& stage : stages_) {
      HEADROOM_ASSERT(stage.next == stage.actions.size());  // Otherwise the schedule is deadlocked.
    }
    return out;
  }

 private:
  struct Stage {
    std::vector<PipelineAction> actions;
    std::size_t next = 0;
    Seconds free;
  };
  struct Done {
    std::optional<Seconds> forward;
    std::optional<Seconds> backward;
  };

  [[nodiscard]] Done& done(PipelinePlace place, std::int32_t micro_batch) {
    return done_[static_cast<std::size_t>(
        (place.stage * chunks_ + place.chunk) * shape_.micro_batches + micro_batch)];
  }

  /// When the input of `action` is on `stage`; nothing if that is not known yet.
  [[nodiscard]] std::optional<Seconds> ready(std::int64_t stage, const PipelineAction& action) {
    const PipelinePlace here{stage, action.chunk};
    if (action.work == PipelineWork::kBackwardWeight) {
      return done(here, action.micro_batch).backward;
    }
    const bool forward = action.work == PipelineWork::kForward;
    const std::optional<PipelinePlace> from =
        forward ? ir::place_before(shape_, here) : ir::place_after(shape_, here);
    if (!from) {
      return forward ? std::optional(Seconds{}) : done(here, action.micro_batch).forward;
    }
    const Done& source = done(*from, action.micro_batch);
    const std::optional<Seconds> sent = forward ? source.forward : source.backward;
    if (!sent || (!forward && !done(here, action.micro_batch).forward)) {
      return std::nullopt;
    }
    return from->stage == stage ? *sent : *sent + times_.transfer.time;
  }

  [[nodiscard]] Seconds time_of(std::int64_t stage, const PipelineAction& action) const {
    const ChunkTimes& times =
        times_.stages[static_cast<std::size_t>(stage)][static_cast<std::size_t>(action.chunk)];
    switch (action.work) {
      case PipelineWork::kForward:
        return times.forward;
      case PipelineWork::kBackward:
        return times.backward_input + times.backward_weight;
      case PipelineWork::kBackwardInput:
        return times.backward_input;
      case PipelineWork::kBackwardWeight:
        return times.backward_weight;
    }
    return {};
  }

  [[nodiscard]] bool sends(std::int64_t stage, const PipelineAction& action) const {
    if (action.work == PipelineWork::kBackwardWeight) {
      return false;
    }
    const PipelinePlace here{stage, action.chunk};
    const auto to = action.work == PipelineWork::kForward ? ir::place_after(shape_, here)
                                                          : ir::place_before(shape_, here);
    return to && to->stage != stage;
  }

  void note(std::int64_t stage, const PipelineAction& action, Seconds end) {
    Done& mark = done({stage, action.chunk}, action.micro_batch);
    if (action.work == PipelineWork::kForward) {
      mark.forward = end;
    } else if (action.work != PipelineWork::kBackwardWeight) {
      mark.backward = end;
    }
  }

  /// Runs the next action of a stage, together with those that must run with it, if their inputs
  /// are known.
  bool advance(std::size_t index, PipelineTimeline& out) {
    Stage& stage = stages_[index];
    const auto number = static_cast<std::int64_t>(index);
    Seconds begin = stage.free;
    Seconds duration;
    std::size_t end = stage.next;
    for (bool more = true; more; ++end) {
      if (end == stage.actions.size()) {
        return false;
      }
      const std::optional<Seconds> at = ready(number, stage.actions[end]);
      if (!at) {
        return false;
      }
      begin = std::max(begin, *at);
      const PipelineAction& action = stage.actions[end];
      duration += time_of(number, action);
      more = action.with_next;
      if (more) {
        duration += -1.0 * times_.stages[index][static_cast<std::size_t>(action.chunk)].saved;
      }
    }
    const Seconds finish = begin + duration;
    stage.free = finish;
    for (; stage.next < end; ++stage.next) {
      const PipelineAction& action = stage.actions[stage.next];
      note(number, action, finish);
      out.stages[index].push_back({action, begin, finish});
      if (times_.transfer.blocking && sends(number, action)) {
        stage.free += times_.transfer.time;
      }
    }
    out.busy[index] += duration;
    out.total = std::max(out.total, finish);
    return true;
  }

  const PipelineShape& shape_;
  const PipelineTimes& times_;
  std::int64_t chunks_;
  std::vector<Stage> stages_;
  std::vector<Done> done_;
};

}  // namespace

Result<PipelineTimeline> pipeline_makespan(const PipelineShape& shape, const PipelineTimes& times) {
  if (Status status = ir::check_pipeline(shape); !status) {
    return std::move(status).error();
  }
  const auto chunks = static_cast<std::size_t>(ir::chunks_of(shape));
  const bool fits = times.stages.size() == static_cast<std::size_t>(shape.stages) &&
                    std::all_of(times.stages.begin(), times.stages.end(),
                                [chunks](const auto& stage) { return stage.size() == chunks; });
  if (!fits) {
    return Error::invalid_argument(
        "stage times", std::to_string(times.stages.size()) + " stages",
        std::to_string(shape.stages) + " stages of " + std::to_string(chunks) + " chunks");
  }
  return Simulation(shape, times)();
}

}  // namespace headroom::cost
