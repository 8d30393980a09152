#include "runtimes/torchtitan/search/titan_floor.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "model_ir/spec/param_count.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/evaluate/plan_figures.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/titan_choices.h"
#include "runtimes/torchtitan/stage_layers.h"

namespace headroom::plan {
namespace {

using ir::ParallelPlan;
using ir::TitanChunk;
using ir::TitanPlan;

/// Kinds of recomputation.
constexpr int kNothing = 0;
constexpr int kOperators = 1;
constexpr int kWholeLayers = 2;

bool checkpoints_all(const ParallelPlan& plan) {
  return titan_of(plan).selective_operators;
}

/// The number of recomputed layers among the layers [first, first + count) of a rank's blocks.
std::int64_t repeated(const ParallelPlan& plan, std::int64_t first, std::int64_t count) {
  if (plan.recompute == ir::Recompute::kNone) {
    return 0;
  }
  return (first + count) / plan.recompute_every - first / plan.recompute_every;
}

/// One pass of `plan` on as few ranks as its degrees permit, without a pipeline.
ParallelPlan one_pass_plan(const ParallelPlan& plan, int again) {
  ParallelPlan one = plan;
  TitanPlan& titan = edit_titan(one);
  one.workload.micro_batch = sequences_of_pass(plan);
  one.workload.accumulation = 1;
  one.workload.steps = 1;
  titan.selective_operators = again == kOperators;
  one.recompute = again == kWholeLayers ? ir::Recompute::kFull : ir::Recompute::kNone;
  one.recompute_every = 1;
  const TitanPlan usual;
  one.mesh.pipeline = 1;
  titan.schedule = usual.schedule;
  titan.pipeline_batch = usual.pipeline_batch;
  titan.stage_layers = usual.stage_layers;
  titan.first_stage_less = usual.first_stage_less;
  titan.last_stage_less = usual.last_stage_less;
  titan.reshard = ir::TitanReshard::kAlways;
  if (is_unsharded_titan(plan)) {
    one.world = 1;
  } else {
    std::int64_t ranks = std::max<std::int64_t>(2, one.mesh.context);
    const std::int64_t inner = one.mesh.expert * titan_expert_tensor(one.mesh);
    while (ranks % one.mesh.context != 0 || ranks * one.mesh.tensor % inner != 0) {
      ++ranks;
    }
    one.world = ranks * one.mesh.tensor;
  }
  one.mesh.replicas = 1;
  return one;
}

/// Whether the lower bound counts this work of the compute stream. Work that waits for other
/// streams or for the host is left out.
bool counts(const ir::WorkShape& shape) {
  return !std::holds_alternative<ir::CopyShape>(shape);
}

bool is_layer(std::string_view operation, std::int32_t layer) {
  return layer >= 0 && !operation.starts_with("fsdp.");
}

bool is_head(std::string_view operation) {
  return operation == "torchtitan.output" || operation == "torchtitan.norm" ||
         operation == "cross_entropy";
}

bool is_end(std::string_view operation) {
  return is_head(operation) || operation == "embedding" || operation == "torchtitan.loss";
}

/// Sums over a short program, by where its work and its memory belong.
class Reading {
 public:
  Reading(const ir::RankProgram& program, std::size_t layers) : program_(program) {
    forward_.resize(layers);
    backward_.resize(layers);
    kept_.resize(layers);
  }

  void add_times(const std::vector<Seconds>& durations) {
    const ir::DeviceWork& work = program_.work;
    bool back = false;
    for (const ir::WorkItem& item : work.items) {
      const ir::Site& site = program_.sites[item.site];
      back = back || site.backward;
      if (item.kind != ir::WorkItem::Kind::kRun || item.stream != 0 ||
          !counts(work.shapes[item.index])) {
        continue;
      }
      const std::string_view operation = program_.operations[site.operation];
      const Seconds time = durations[item.index];
      if (is_layer(operation, site.layer)) {
        (back ? backward_ : forward_)[static_cast<std::size_t>(site.layer)] += time;
      } else if (is_end(operation)) {
        pieces_.ends += time;
        if (is_head(operation) && site.backward) {
          pieces_.head_backward += time;
        } else if (is_head(operation) && operation != "cross_entropy") {
          pieces_.head_forward += time;
        }
      }
    }
  }

  /// Adds the bytes that are alive when backward begins, by the sites that allocated them.
  void add_bytes(const ir::AllocatorSettings& settings) {
    struct Block {
      std::int64_t bytes = 0;
      std::uint32_t site = 0;
    };
    std::vector<Block> blocks(program_.blocks);
    const std::vector<std::int64_t> curve = live_curve(program_, settings);
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      const ir::Event& event = program_.events[i];
      const ir::Site& site = program_.sites[event.site];
      if (site.backward) {
        break;
      }
      const std::int64_t change = curve[i] - (i > 0 ? curve[i - 1] : 0);
      blocks[event.block] =
          event.kind == ir::EventKind::kAllocate ? Block{change, event.site} : Block{};
    }
    for (const Block& block : blocks) {
      const ir::Site& site = program_.sites[block.site];
      const std::string_view operation = program_.operations[site.operation];
      if (is_layer(operation, site.layer)) {
        kept_[static_cast<std::size_t>(site.layer)] += block.bytes;
      } else if (is_head(operation)) {
        pieces_.head_kept += block.bytes;
      }
    }
  }

  [[nodiscard]] TitanFloor::Pieces operator()() {
    pieces_.forward = *std::ranges::min_element(forward_);
    pieces_.backward = *std::ranges::min_element(backward_);
    pieces_.kept = std::max<std::int64_t>(0, *std::ranges::min_element(kept_));
    pieces_.most_kept = *std::ranges::max_element(kept_);
    return pieces_;
  }

 private:
  const ir::RankProgram& program_;
  TitanFloor::Pieces pieces_;
  std::vector<Seconds> forward_, backward_;
  std::vector<std::int64_t> kept_;
};

/// Parameters of one layer that a tensor-parallel and expert-parallel rank holds after the
/// all-gather.
std::int64_t gathered_layer(const ir::ModelSpec& model, const ParallelPlan& plan) {
  const ir::LayerParameters layer = ir::layer_parameters(model, model.layers.front());
  const std::int64_t mlp =
      plan.mesh.expert > 1 ? plan.mesh.expert * titan_expert_tensor(plan.mesh) : plan.mesh.tensor;
  return layer.attention / plan.mesh.tensor + layer.mlp / mlp;
}

}  // namespace

TitanFloor::TitanFloor(const ir::ModelSpec& model, const cost::DeviceSpec& device,
                       const cost::Machine& machine, Samples& samples)
    : model_(model), device_(device), machine_(machine), samples_(samples) {}

TitanFloor::Pieces TitanFloor::pieces(const ParallelPlan& plan, int again) {
  const ParallelPlan one = one_pass_plan(plan, again);
  const TitanPlan& titan = titan_of(one);
  const Key key(one.mesh.tensor, one.mesh.context, one.mesh.expert, titan_expert_tensor(one.mesh),
                one.workload.micro_batch, one.workload.sequence, one.loss,
                2 * again + (titan.compiled ? 1 : 0), one.world == 1, one.precision);
  {
    const std::lock_guard lock(samples_.mutex);
    if (const auto found = samples_.pieces.find(key); found != samples_.pieces.end()) {
      return found->second;
    }
  }
  const Pieces made = sampled(one);
  const std::lock_guard lock(samples_.mutex);
  return samples_.pieces.try_emplace(key, made).first->second;
}

TitanFloor::Pieces TitanFloor::sampled(const ParallelPlan& one) const {
  constexpr std::size_t kMost = 3;  // The middle layer is neither the first nor the last.
  ir::ModelSpec few = model_;
  few.layers.resize(std::min(few.layers.size(), kMost));
  const Result<ir::RankProgram> program = cost::lower_replayed(few, one, device_);
  if (!program) {
    return {};
  }
  const cost::PriceList prices = cost::prices_on(machine_, one);
  std::vector<Seconds> durations;
  for (const ir::WorkShape& shape : program->work.shapes) {
    durations.push_back(prices.time_of(shape));
  }
  Reading reading(*program, few.layers.size());
  reading.add_times(durations);
  reading.add_bytes(one.allocator);
  return reading();
}

Seconds TitanFloor::least_step(const ParallelPlan& plan) {
  if (plan.mesh.pipeline > 1) {
    return kFloorRounding * pipeline_step(plan);
  }
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const std::int64_t again = repeated(plan, 0, layers);
  const Pieces once = pieces(plan, checkpoints_all(plan) ? kOperators : kNothing);
  const Seconds forward = static_cast<double>(layers) * once.forward;
  Seconds backward = static_cast<double>(layers - again) * once.backward;
  if (again > 0) {
    backward += static_cast<double>(again) * pieces(plan, kWholeLayers).backward;
  }
  const Exchange exchange = exchange_of(plan);
  const double between = static_cast<double>(std::max<std::int64_t>(layers - 2, 0));
  const bool resharded = titan_of(plan).reshard != ir::TitanReshard::kNever;
  const Seconds pass = once.ends + std::max(forward, between * exchange.gather) +
                       std::max({backward, between * exchange.reduce,
                                 resharded ? between * exchange.gather : Seconds{}});
  return kFloorRounding * static_cast<double>(plan.workload.accumulation) * pass;
}

TitanFloor::Exchange TitanFloor::exchange_of(const ParallelPlan& plan) const {
  if (is_unsharded_titan(plan)) {
    return {};
  }
  const ir::LayerParameters layer = ir::layer_parameters(model_, model_.layers.front());
  // Under expert parallelism, experts are a group of their own.
  const std::int64_t elements = layer.attention / plan.mesh.tensor + layer.norms +
                                (plan.mesh.expert > 1 ? 0 : layer.mlp / plan.mesh.tensor);
  const std::int64_t ranks =
      plan.world / plan.mesh.replicas / plan.mesh.tensor / plan.mesh.pipeline;
  const cost::PriceList prices = cost::prices_on(machine_, plan);
  const auto time_of = [&](ir::CollectiveKind kind, ir::DType dtype) {
    return prices.time_of(
        ir::CollectiveShape{.kind = kind,
                            .bytes = elements * ir::bits_of(dtype) / 8,
                            .group = {.size = ranks, .stride = plan.mesh.tensor}});
  };
  return {.gather = time_of(ir::CollectiveKind::kAllGather, fsdp_of(plan).param_dtype),
          .reduce = time_of(ir::CollectiveKind::kReduceScatter, fsdp_of(plan).reduce_dtype)};
}

Seconds TitanFloor::least_of_degrees(const ParallelPlan& plan) {
  const auto layers = static_cast<double>(model_.layers.size());
  const std::int64_t stages = plan.mesh.pipeline;
  const std::int64_t passes =
      plan.workload.micro_batch * plan.workload.accumulation / sequences_of_pass(plan);
  const auto pass_of = [&](bool compiled) {
    ParallelPlan one = plan;
    edit_titan(one).compiled = compiled;
    const Pieces once = pieces(one, kNothing);
    const Seconds ends = stages > 1 ? once.head_forward + once.head_backward : once.ends;
    return ends + layers * (once.forward + once.backward);
  };
  const Seconds eager = pass_of(false);
  const Seconds least = can_compile(model_, plan) ? std::min(eager, pass_of(true)) : eager;
  return kFloorRounding * static_cast<double>(passes) / static_cast<double>(stages) * least;
}

Seconds TitanFloor::pipeline_step(const ParallelPlan& plan) {
  const Pieces once = pieces(plan, checkpoints_all(plan) ? kOperators : kNothing);
  const Pieces twice =
      plan.recompute == ir::Recompute::kNone ? Pieces{} : pieces(plan, kWholeLayers);
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const ir::PipelineShape shape = ir::titan_pipeline(plan, layers);
  const bool ends_in_order = shape.kind == ir::PipelineKind::kOneForwardOneBackward ||
                             shape.kind == ir::PipelineKind::kGPipe ||
                             shape.kind == ir::PipelineKind::kInterleaved;
  const Exchange exchange = exchange_of(plan);
  Seconds before;  // Time of the ranks before, through their first chunks.
  Seconds longest;
  for (std::int64_t rank = 0; rank < shape.stages; ++rank) {
    Seconds own;
    Seconds through;
    std::int64_t blocks = 0;
    std::int64_t fewest = layers;
    for (const TitanChunk& chunk : ir::titan_chunks(plan, layers, rank)) {
      fewest = std::min(fewest, chunk.layers.count);
      const std::int64_t again = repeated(plan, blocks, chunk.layers.count);
      const Seconds forward = static_cast<double>(chunk.layers.count) * once.forward +
                              (chunk.last ? once.head_forward : Seconds{});
      const Seconds backward = static_cast<double>(chunk.layers.count - again) * once.backward +
                               static_cast<double>(again) * twice.backward +
                               (chunk.last ? once.head_backward : Seconds{});
      own += forward + backward;
      through += blocks == 0 && chunk.index == rank
                     ? forward + (ends_in_order ? backward : Seconds{})
                     : Seconds{};
      blocks += chunk.layers.count;
    }
    // If there are several chunks, the first pass through one waits for all of its parameters.
    const Seconds gathers =
        static_cast<double>(shape.chunks > 1 ? std::max<std::int64_t>(fewest - 1, 0) : 0) *
        exchange.gather;
    const Seconds reductions =
        static_cast<double>(std::max<std::int64_t>(fewest - 2, 0)) * exchange.reduce;
    longest = std::max(longest, before + static_cast<double>(shape.micro_batches) * own +
                                    std::max(gathers, reductions));
    before += through;
  }
  return static_cast<double>(plan.workload.accumulation) * longest;
}

Bytes TitanFloor::floor(const ParallelPlan& plan) {
  const auto rank = static_cast<std::int64_t>(heaviest(plan));
  return rank_floor(plan, rank * plan.mesh.pipeline / plan.world);
}

Bytes TitanFloor::let_go(const ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const std::int64_t each = pieces(plan, kNothing).most_kept - pieces(plan, kWholeLayers).kept;
  return Bytes{repeated(plan, 0, layers) * std::max<std::int64_t>(each, 0)};
}

ir::Rank TitanFloor::heaviest(const ParallelPlan& plan) {
  if (plan.mesh.pipeline == 1) {
    return ir::Rank{0};
  }
  const std::vector<ir::Rank> ranks = cost::binding_ranks(model_, plan);
  return *std::ranges::max_element(ranks, {}, [&](ir::Rank rank) {
    return rank_floor(plan, static_cast<std::int64_t>(rank) * plan.mesh.pipeline / plan.world);
  });
}

namespace {

/// What a chunk of a rank holds and keeps.
struct ChunkBytes {
  std::int64_t kept = 0;  ///< Kept for each pass.
  /// Unsharded gradients, from its first backward until after its last.
  std::int64_t gradients = 0;
  std::int64_t gathered = 0;  ///< Gathered parameters, until then.
};

/// The maximum over time of passes in flight, gathered parameters and unsharded gradients.
std::int64_t in_flight(const std::vector<ir::PipelineAction>& actions,
                       const std::vector<ChunkBytes>& chunks, std::int64_t micro_batches) {
  std::int64_t live = 0;
  for (const ChunkBytes& chunk : chunks) {
    live += chunk.gathered;
  }
  std::int64_t most = 0;
  std::vector<std::int64_t> ended(chunks.size());
  for (const ir::PipelineAction& action : actions) {
    const auto index = static_cast<std::size_t>(action.chunk);
    const ChunkBytes& chunk = chunks[index];
    switch (action.work) {
      case ir::PipelineWork::kForward:
        live += chunk.kept;
        break;
      case ir::PipelineWork::kBackward:
      case ir::PipelineWork::kBackwardInput:
        live -= chunk.kept;
        break;
      case ir::PipelineWork::kBackwardWeight:
        break;
    }
    const bool sums = action.work == ir::PipelineWork::kBackward ||
                      action.work == ir::PipelineWork::kBackwardWeight;
    live += sums && ended[index] == 0 ? chunk.gradients : 0;
    most = std::max(most, live);
    ended[index] += sums ? 1 : 0;
    live -= sums && ended[index] == micro_batches ? chunk.gradients + chunk.gathered : 0;
  }
  return most;
}

}  // namespace

Bytes TitanFloor::rank_floor(const ParallelPlan& plan, std::int64_t rank) {
  const Pieces once = pieces(plan, checkpoints_all(plan) ? kOperators : kNothing);
  const Pieces twice =
      plan.recompute == ir::Recompute::kNone ? Pieces{} : pieces(plan, kWholeLayers);
  const TitanPlan& titan = titan_of(plan);
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const bool pipelined = plan.mesh.pipeline > 1;
  const bool whole = is_unsharded_titan(plan);
  const bool stays = !whole && (titan.reshard == ir::TitanReshard::kNever ||
                                (titan.reshard == ir::TitanReshard::kDefault && pipelined));
  const std::int64_t gathered = gathered_layer(model_, plan);
  const std::int64_t wide = ir::bits_of(fsdp_of(plan).reduce_dtype) / 8;
  const std::int64_t narrow = ir::bits_of(fsdp_of(plan).param_dtype) / 8;
  const std::int64_t hidden = sequences_of_pass(plan) *
                              (plan.workload.sequence / plan.mesh.context / plan.mesh.tensor) *
                              model_.hidden * narrow;
  // fp32 parameters and, from the second step on, two states for each.
  const std::int64_t held = (plan.workload.steps > 1 ? 3 : 1) * ir::bits_of(ir::DType::kFp32) / 8;
  const std::int64_t sharers = plan.world / plan.mesh.replicas / plan.mesh.pipeline;
  const ir::PipelineShape shape = ir::titan_pipeline(plan, layers);
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  std::vector<ChunkBytes> chunks;
  const std::vector<TitanChunk> own = ir::titan_chunks(plan, layers, rank);
  for (const TitanChunk& chunk : own) {
    const std::int64_t count = chunk.layers.count;
    const std::int64_t again = repeated(plan, blocks, count);
    blocks += count;
    const std::int64_t layer = ir::layer_parameters(model_, model_.layers.front()).total();
    bytes += held * (count * layer / sharers);
    const auto crosses = [&](std::int64_t index) {
      return std::ranges::none_of(
          own, [index](const TitanChunk& other) { return other.index == index; });
    };
    const bool receives = pipelined && !chunk.first && crosses(chunk.index - 1);
    const bool sends = pipelined && !chunk.last && crosses(chunk.index + 1);
    bytes += ((receives ? 1 : 0) + (sends ? 1 : 0)) * shape.micro_batches * hidden;
    const std::int64_t kept = (count - again) * once.kept + again * twice.kept +
                              (chunk.last ? once.head_kept : 0) - (pipelined ? hidden : 0);
    chunks.push_back({.kept = std::max<std::int64_t>(kept, 0),
                      .gradients = pipelined && !whole ? wide * count * gathered : 0,
                      .gathered = stays && own.size() <= static_cast<std::size_t>(kActiveChunks)
                                      ? narrow * count * gathered
                                      : 0});
  }
  if (!pipelined) {
    return Bytes{bytes + chunks.front().kept + chunks.front().gathered};
  }
  return Bytes{bytes + in_flight(ir::actions_of_stage(shape, rank), chunks, shape.micro_batches)};
}

}  // namespace headroom::plan
