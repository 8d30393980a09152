#include "costmodel/time/program_time.h"

#include <algorithm>
#include <array>
#include <string>

#include "costmodel/time/item_parts.h"
#include "model_ir/plan/work_range.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::WorkItem;

/// Whether `shape` is a transfer between stages of a pipeline.
bool is_transfer(const ir::WorkShape& shape) {
  const auto* const collective = std::get_if<ir::CollectiveShape>(&shape);
  return collective != nullptr && collective->axis == ir::MeshAxis::kPipeline &&
         (collective->kind == ir::CollectiveKind::kSend ||
          collective->kind == ir::CollectiveKind::kReceive);
}

/// Reads the times of ranges off a replayed program.
class StretchReader {
 public:
  StretchReader(const ir::RankProgram& program, const StreamTimeline& timeline)
      : work_(program.work), timeline_(timeline), parts_(item_parts(program)) {}

  /// Sums up to the time from the end of the compute stream's last item before `range` to the end
  /// of its last item in it.
  [[nodiscard]] WorkTime read(ItemRange range) const {
    WorkTime stretch;
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (work_.items[i].kind == WorkItem::Kind::kRun && work_.items[i].stream == 0) {
        const StepPart part = add_item(i, timeline_.end[i] - timeline_.begin[i], stretch);
        const double flops = flops_of(work_.shapes[work_.items[i].index]);
        stretch.flops += flops;
        stretch.recomputed_flops += part == StepPart::kRecompute ? flops : 0;
      }
    }
    for (const Stall& stall : stalls_of(work_, timeline_, range)) {
      if (stall.blocker == StreamTimeline::kHost) {
        stretch.parts.add(StepPart::kHost, stall.time);
      } else {
        add_item(stall.blocker, stall.time, stretch);
      }
    }
    return stretch;
  }

  /// Adds what still runs after the compute stream's last item.
  void read_tail(WorkTime& stretch) const {
    std::size_t last = 0;
    Seconds computed;
    for (std::size_t i = 0; i < work_.items.size(); ++i) {
      if (work_.items[i].kind != WorkItem::Kind::kRun) {
        continue;
      }
      last = timeline_.end[i] >= timeline_.end[last] ? i : last;
      computed = work_.items[i].stream == 0 ? std::max(computed, timeline_.end[i]) : computed;
    }
    if (!work_.items.empty() && timeline_.end[last] > computed) {
      add_item(last, timeline_.end[last] - computed, stretch);
    }
  }

 private:
  /// Adds `time` to the part of an item and returns that part.
  StepPart add_item(std::size_t item, Seconds time, WorkTime& stretch) const {
    const StepPart part = parts_[item];
    stretch.parts.add(part, time);
    if (is_transfer(work_.shapes[work_.items[item].index])) {
      stretch.transfers += time;
    }
    return part;
  }

  const ir::DeviceWork& work_;
  const StreamTimeline& timeline_;
  std::vector<StepPart> parts_;  ///< The part of each item.
};

/// The items of the program's last step, not of an evaluation or generation after it; all of them
/// if it has no steps.
ItemRange last_step_of(const ir::RankProgram& program) {
  int last = 0;
  std::size_t begin = 0;
  std::size_t end = program.work.items.size();
  for (const ir::Phase& phase : program.phases) {
    const int step = phase.name.at.step;
    if (step == 0) {
      continue;
    }
    if (step != last) {
      last = step;
      begin = phase.first_item;
    }
    end = phase.end_item;
  }
  return {begin, end};
}

/// First items of the micro-batches of a step: passes forward through chunk 0, or their phases
/// forward.
std::vector<std::size_t> micro_batches_of(const ir::RankProgram& program, ItemRange step) {
  std::vector<std::size_t> starts;
  for (const ir::WorkRange& range : ir::work_ranges(program)) {
    const bool forward =
        range.kind == ir::RangeKind::kForwardPass || range.kind == ir::RangeKind::kJointPass;
    if (forward && range.chunk == 0 && range.begin >= step.first) {
      starts.push_back(range.begin);
    }
  }
  if (!starts.empty()) {
    return starts;
  }
  for (const ir::Phase& phase : program.phases) {
    if (phase.name.kind == ir::PhaseKind::kForward && phase.first_item >= step.first) {
      starts.push_back(phase.first_item);
    }
  }
  return starts;
}

/// A pass waits for the previous stage; that time belongs to the pipeline, not to the pass.
void drop_transfers(WorkTime& pass) {
  pass.parts.add(StepPart::kPipeline, -1.0 * pass.transfers);
  pass.transfers = Seconds{};
}

/// Passes by what they do, in the order of `kPasses`.
constexpr std::array<ir::RangeKind, 5> kPasses = {
    ir::RangeKind::kForwardPass, ir::RangeKind::kBackwardPass, ir::RangeKind::kInputPass,
    ir::RangeKind::kWeightPass, ir::RangeKind::kJointPass};
using Passes = std::array<std::vector<WorkTime>, kPasses.size()>;

WorkTime steady_of(const std::vector<WorkTime>& passes) {
  return passes.empty() ? WorkTime{} : passes[passes.size() >= 2 ? passes.size() - 2 : 0];
}

ProgramTime::Chunk chunk_of(const Passes& passes) {
  ProgramTime::Chunk chunk{.forward = steady_of(passes[0]),
                           .backward = steady_of(passes[1]),
                           .backward_input = steady_of(passes[2]),
                           .backward_weight = steady_of(passes[3])};
  if (passes[1].empty()) {
    chunk.backward.add(chunk.backward_input);
    chunk.backward.add(chunk.backward_weight);
  }
  return chunk;
}

/// Compares the passes that ran at the same time with those that ran alone. A joint pass goes
/// backward through any chunk, so that the mean of all chunks stands for it.
void note_saved(const std::vector<Passes>& passes, std::vector<ProgramTime::Chunk>& chunks) {
  WorkTime backward;
  for (const ProgramTime::Chunk& chunk : chunks) {
    backward.add(chunk.backward, 1.0 / static_cast<double>(chunks.size()));
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!passes[i][4].empty()) {
      chunks[i].saved = chunks[i].forward;
      chunks[i].saved.add(backward);
      chunks[i].saved.add(steady_of(passes[i][4]), -1);
    }
  }
}

/// From the first pass of the last but one time that a step runs its pipeline to the first of
/// the last; nothing where it runs once.
ItemRange last_full_run(const ir::RankProgram& program, const ir::ParallelPlan& plan,
                        ItemRange step) {
  const ir::PipelineRuns pipeline = ir::runtime_of(plan).pipeline(plan);
  if (pipeline.stages == 1 || pipeline.runs == 1) {
    return {};
  }
  const std::vector<std::size_t> starts = micro_batches_of(program, step);
  const auto passes = static_cast<std::size_t>(pipeline.micro_batches);
  return starts.size() < 2 * passes
             ? ItemRange{}
             : ItemRange{starts[starts.size() - 2 * passes], starts[starts.size() - passes]};
}

/// Reads the passes of a program. The last backward also reduces gradients, so the one before it is
/// used as the steady state, if there is one.
void read_chunks(const ir::RankProgram& program, const ir::ParallelPlan& plan,
                 const StretchReader& reader, ProgramTime& out) {
  out.outside = out.step;
  std::vector<Passes> chunks;
  const ItemRange run = last_full_run(program, plan, out.last_step);
  out.outside_run = reader.read(run);
  for (const ir::WorkRange& range : ir::work_ranges(program)) {
    const auto kind = std::find(kPasses.begin(), kPasses.end(), range.kind);
    if (kind == kPasses.end() || range.begin < out.last_step.first) {
      continue;
    }
    const auto chunk = static_cast<std::size_t>(range.chunk);
    chunks.resize(std::max(chunks.size(), chunk + 1));
    WorkTime pass = reader.read({range.begin, range.end});
    out.outside.add(pass, -1);
    if (range.begin >= run.first && range.begin < run.last) {
      out.outside_run.add(pass, -1);
    }
    drop_transfers(pass);
    chunks[chunk].at(static_cast<std::size_t>(kind - kPasses.begin())).push_back(pass);
  }
  for (const Passes& passes : chunks) {
    out.chunks.push_back(chunk_of(passes));
    // The step pays once for the time that the last pass takes beyond the steady one.
    for (const std::vector<WorkTime>& kind : passes) {
      if (!kind.empty()) {
        out.outside.add(kind.back());
        out.outside.add(steady_of(kind), -1);
      }
    }
  }
  note_saved(chunks, out.chunks);
  drop_transfers(out.outside);
  drop_transfers(out.outside_run);
}

Seconds transfer_of(const ir::DeviceWork& work, const std::vector<Seconds>& durations) {
  Seconds longest;
  for (std::size_t i = 0; i < work.shapes.size(); ++i) {
    if (is_transfer(work.shapes[i])) {
      longest = std::max(longest, durations[i]);
    }
  }
  return longest;
}

/// For each site: whether its operator is one of `operations`, in a layer.
std::vector<bool> graphed_sites(const ir::RankProgram& program,
                                const std::vector<std::string>& operations) {
  std::vector<bool> graphed;
  if (operations.empty()) {
    return graphed;
  }
  graphed.reserve(program.sites.size());
  for (const ir::Site& site : program.sites) {
    const std::string& name = program.operations[site.operation];
    graphed.push_back(site.layer >= 0 && std::ranges::find(operations, name) != operations.end());
  }
  return graphed;
}

}  // namespace

void WorkTime::add(const WorkTime& other, double factor) {
  parts.add(other.parts, factor);
  flops += factor * other.flops;
  recomputed_flops += factor * other.recomputed_flops;
  transfers += factor * other.transfers;
}

double flops_of(const ir::WorkShape& shape) {
  if (const auto* gemm = std::get_if<ir::GemmShape>(&shape)) {
    return gemm->flops();
  }
  const auto* attention = std::get_if<ir::AttentionShape>(&shape);
  if (attention == nullptr) {
    return 0;
  }
  const std::int64_t keys =
      attention->window > 0 ? std::min(attention->window, attention->keys) : attention->keys;
  const double pairs = static_cast<double>(attention->batch * attention->heads) *
                       static_cast<double>(attention->queries) * static_cast<double>(keys);
  const auto dims = static_cast<double>(attention->head_dim + attention->value_dim);
  return (attention->backward ? 4 : 2) * pairs * dims;
}

ProgramTime price_program(const ir::RankProgram& program, const ir::ParallelPlan& plan,
                          const PriceList& prices) {
  std::vector<Seconds> durations;
  durations.reserve(program.work.shapes.size());
  for (const ir::WorkShape& shape : program.work.shapes) {
    durations.push_back(prices.time_of(shape));
  }
  ProgramTime out;
  out.timeline = replay_streams(program.work, {.durations = durations,
                                               .launch = prices.launch,
                                               .looped = prices.looped,
                                               .exchange = prices.exchange,
                                               .tensor = prices.tensor,
                                               .graph = prices.graph,
                                               .graphed = graphed_sites(program, prices.graphed),
                                               .taken_ratio = prices.taken_ratio});
  const StretchReader reader(program, out.timeline);
  out.last_step = last_step_of(program);
  out.step = reader.read(out.last_step);
  reader.read_tail(out.step);
  const std::vector<std::size_t> starts = micro_batches_of(program, out.last_step);
  out.micro_batches = std::max<std::int64_t>(1, static_cast<std::int64_t>(starts.size()));
  if (starts.size() >= 2) {
    out.micro_batch = reader.read({starts[starts.size() - 2], starts.back()});
  }
  read_chunks(program, plan, reader, out);
  out.transfer = transfer_of(program.work, durations);
  return out;
}

}  // namespace headroom::cost
