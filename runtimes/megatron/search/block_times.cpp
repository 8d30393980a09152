#include "runtimes/megatron/search/block_times.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/hardware/work_time.h"
#include "model_ir/graph/op.h"
#include "model_ir/plan/work_range.h"
#include "model_ir/spec/param_count.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// Layers of a short program. The middle one is neither the first nor the last.
constexpr std::int64_t kTimedLayers = 3;
constexpr std::int32_t kMiddle = 1;

/// One micro-batch of `plan` on a single stage, with as few ranks as its degrees allow.
ir::ParallelPlan single_stage_plan(const ir::ParallelPlan& plan) {
  ir::ParallelPlan one = plan;
  ir::MegatronPlan& megatron = edit_megatron(one);
  one.mesh.pipeline = 1;
  ir::deal_evenly(megatron);
  megatron.pipeline_before_data = false;
  megatron.recompute = ir::MegatronRecompute::kNone;
  megatron.recompute_modules = {};
  megatron.recompute_layers = 1;
  megatron.distributed_optimizer = megatron.fp8_parameters;  // FP8 parameters require it.
  megatron.overlap_grad_reduce = megatron.overlap_param_gather = false;
  megatron.accumulation_fusion = true;  // `ExchangeTimes` adds the time without it.
  megatron.optimizer_offload = 0;
  megatron.optimizer_instances = 1;
  megatron.precision_aware = megatron.bf16_moments = false;
  megatron.cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
  megatron.mask_in_dataloader = false;
  megatron.offload_modules = {};
  megatron.overlap_expert_exchange = false;
  megatron.least_offloaded = ir::MegatronPlan{}.least_offloaded;
  const std::int64_t experts = one.mesh.expert * expert_tensor_of(one.mesh);
  one.world = std::lcm(one.mesh.tensor * one.mesh.context, experts);
  one.workload.accumulation = 1;
  one.workload.steps = 1;
  return one;
}

/// Times of one micro-batch's passes, layer by layer.
struct PassTimes {
  std::vector<Seconds> forward;  ///< Forward time of each layer.
  std::vector<Seconds> backward;
  Seconds before;  ///< Embedding, forward and backward.
  Seconds behind;  ///< Output layer and loss, forward and backward.
  /// What the backward of the middle layer recomputes, by module.
  Seconds attention_again;
  Seconds norms_again;
  Seconds mlp_again;
  double host_share = 0;  ///< `BlockTimes::host_share`.
};

/// Reads the times off a priced program.
class PassReader {
 public:
  PassReader(const ir::RankProgram& program, const cost::StreamTimeline& timeline)
      : program_(program), timeline_(timeline) {
    const std::vector<ir::WorkItem>& items = program.work.items;
    computed_.reserve(items.size() + 1);
    computed_.emplace_back();
    for (std::size_t i = 0; i < items.size(); ++i) {
      computed_.push_back(computes(i) ? timeline.end[i] : computed_.back());
    }
  }

  /// The times of the first and of the last micro-batch.
  [[nodiscard]] std::pair<PassTimes, PassTimes> read(std::int64_t layers) const {
    PassTimes first;
    PassTimes times;
    for (const ir::WorkRange& range : ir::work_ranges(program_)) {
      if (range.kind == ir::RangeKind::kForwardPass) {
        if (first.forward.empty()) {
          first = times;
        }
        times = {};
        read_pass(range, layers, false, times);
      } else if (range.kind == ir::RangeKind::kBackwardPass) {
        read_pass(range, layers, true, times);
        if (first.forward.empty()) {  // A later forward has waited for the embedding before it.
          times.before += embedding_after(range.end);
        }
      } else if (range.kind == ir::RangeKind::kRecomputation) {
        read_recomputation(range, times);
      }
    }
    return {first.forward.empty() ? times : first, times};
  }

  /// The time of the middle layer in the last pass forward and backward at the same time: it runs
  /// in both directions, after the last work of the layers beside it.
  [[nodiscard]] Seconds read_joint() const {
    Seconds time;
    for (const ir::WorkRange& range : ir::work_ranges(program_)) {
      if (range.kind != ir::RangeKind::kJointPass) {
        continue;
      }
      std::optional<Seconds> before;
      Seconds end;
      for (std::size_t i = range.begin; i < range.end; ++i) {
        const std::int32_t layer = program_.sites[program_.work.items[i].site].layer;
        if (computes(i) && layer == kMiddle) {
          before = before ? before : std::optional(computed_[i]);
          end = computed_[i + 1];
        }
      }
      time = before ? end - *before : time;
    }
    return time;
  }

 private:
  [[nodiscard]] bool computes(std::size_t i) const {
    const ir::WorkItem& item = program_.work.items[i];
    return item.kind == ir::WorkItem::Kind::kRun && item.stream == 0;
  }

  /// Layers follow each other. The time of a layer is from the end of the previous layer to its own
  /// end.
  void read_pass(const ir::WorkRange& range, std::int64_t layers, bool backward,
                 PassTimes& times) const {
    std::vector<Seconds> ends(static_cast<std::size_t>(layers), computed_[range.begin]);
    Seconds first = computed_[range.begin];
    bool begun = false;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const std::int32_t layer = program_.sites[program_.work.items[i].site].layer;
      if (computes(i) && layer >= 0 && layer < layers) {
        first = begun ? first : computed_[i];
        begun = true;
        ends[static_cast<std::size_t>(layer)] = computed_[i + 1];
      }
    }
    times.host_share = std::max(times.host_share, host_share_of(range));
    std::vector<Seconds>& out = backward ? times.backward : times.forward;
    out.resize(ends.size());
    Seconds at = first;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const std::size_t layer = backward ? ends.size() - 1 - i : i;
      out[layer] = std::max(Seconds{0}, ends[layer] - at);
      at = std::max(at, ends[layer]);
    }
    (backward ? times.behind : times.before) += first - computed_[range.begin];
    (backward ? times.before : times.behind) += computed_[range.end] - at;
  }

  /// The share of a pass in which the compute stream waits for the host.
  [[nodiscard]] double host_share_of(const ir::WorkRange& range) const {
    Seconds waited;
    for (const cost::Stall& stall :
         cost::stalls_of(program_.work, timeline_, {.first = range.begin, .last = range.end})) {
      waited += stall.blocker == cost::StreamTimeline::kHost ? stall.time : Seconds{};
    }
    const Seconds whole = computed_[range.end] - computed_[range.begin];
    return whole > Seconds{} ? waited / whole : 0;
  }

  /// The time by which the accumulation of the embedding's gradient outlasts the backward pass that
  /// ends at `end`. It runs on the stream of gradient hooks, and the next forward waits for it.
  [[nodiscard]] Seconds embedding_after(std::size_t end) const {
    const std::string_view embedding = ir::name_of(ir::OpKind::kEmbedding);
    Seconds last = computed_[end];
    for (std::size_t i = 0; i < program_.work.items.size(); ++i) {
      const ir::WorkItem& item = program_.work.items[i];
      if (item.kind == ir::WorkItem::Kind::kRun && item.stream != 0 &&
          program_.operations[program_.sites[item.site].operation] == embedding) {
        last = std::max(last, timeline_.end[i]);
      }
    }
    return last - computed_[end];
  }

  /// Core attention and the MLP are recognised by their operators.
  void read_recomputation(const ir::WorkRange& range, PassTimes& times) const {
    Seconds* module = &times.norms_again;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const ir::Site& site = program_.sites[program_.work.items[i].site];
      if (computes(i) && site.layer != kMiddle) {
        return;
      }
      const std::string_view operation = program_.operations[site.operation];
      if (operation == ir::name_of(ir::OpKind::kAttention)) {
        module = &times.attention_again;
      } else if (operation == ir::name_of(ir::OpKind::kActivation)) {
        module = &times.mlp_again;
      }
    }
    *module += computed_[range.end] - computed_[range.begin];
  }

  const ir::RankProgram& program_;
  const cost::StreamTimeline& timeline_;
  std::vector<Seconds> computed_;  ///< Before each item: when the compute stream's last item ends.
};

/// Prices short programs of one plan.
class Sampler {
 public:
  Sampler(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const cost::Machine& machine,
          const cost::DeviceSpec& device)
      : model_(model),
        plan_(single_stage_plan(plan)),
        offloads_(megatron_of(plan).offload_modules),
        least_offloaded_(megatron_of(plan).least_offloaded),
        overlaps_(megatron_of(plan).overlap_expert_exchange),
        prices_(cost::prices_on(machine, plan)),
        device_(device) {}

  /// Times of `layers` layers like `layer` under `plan`, in the first and in the last micro-batch.
  [[nodiscard]] Result<std::pair<PassTimes, PassTimes>> passes(const ir::ParallelPlan& plan,
                                                               const ir::LayerSpec& layer,
                                                               std::int64_t layers) {
    model_.layers.assign(static_cast<std::size_t>(layers), layer);
    const Result<ir::RankProgram> program = ir::lower(model_, plan, ir::Rank{0}, device_.traits);
    if (!program) {
      return program.error();
    }
    const cost::ProgramTime priced = cost::price_program(*program, plan, prices_);
    return PassReader(*program, priced.timeline).read(layers);
  }

  /// Reads the middle layer, and the operators before and after the layers with Transformer
  /// Engine's loss.
  [[nodiscard]] std::optional<Error> read_layer(const ir::LayerSpec& layer, LayerTimes& times,
                                                BlockTimes& blocks) {
    ir::ParallelPlan whole = plan_;
    whole.workload.accumulation = megatron_of(plan_).fp8 == ir::MegatronFp8::kNone ? 1 : 2;
    const auto read = passes(whole, layer, kTimedLayers);
    if (!read) {
      return read.error();
    }
    const auto& [first, plain] = *read;
    blocks.host_share = std::max(blocks.host_share, plain.host_share);
    times.forward = plain.forward[kMiddle];
    times.backward = plain.backward[kMiddle];
    times.once = std::max(Seconds{}, first.forward[kMiddle] - plain.forward[kMiddle]) +
                 std::max(Seconds{}, first.backward[kMiddle] - plain.backward[kMiddle]);
    if (overlaps_ && layer.moe) {
      const Result<Seconds> joint = joint_time(layer);
      if (!joint) {
        return joint.error();
      }
      times.saved = times.forward + times.backward - *joint;
    }
    blocks.embedding = plain.before;
    blocks.head[static_cast<std::size_t>(megatron_of(plan_).cross_entropy)] = plain.behind;
    if (megatron_of(plan_).fp8 == ir::MegatronFp8::kDelayed) {
      return std::nullopt;  // Nothing is recomputed.
    }
    ir::ParallelPlan with = plan_;
    edit_megatron(with).recompute = ir::MegatronRecompute::kSelective;
    edit_megatron(with).recompute_modules = {.core_attention = true, .norms = true, .mlp = true};
    const auto recomputed = passes(with, layer, kTimedLayers);
    if (!recomputed) {
      return recomputed.error();
    }
    times.core_attention = recomputed->second.attention_again;
    times.norms = recomputed->second.norms_again;
    times.mlp = recomputed->second.mlp_again;
    return std::nullopt;
  }

  /// Reads the times of a layer's copies to the host and back, for each set of recomputed modules.
  [[nodiscard]] std::optional<Error> read_copies(const ir::LayerSpec& layer, LayerTimes& times) {
    const bool repeats = megatron_of(plan_).fp8 != ir::MegatronFp8::kDelayed;
    for (std::size_t set = 0; !(offloads_ == ir::MegatronOffload{}) && set < kModuleSets; ++set) {
      ir::ParallelPlan with = plan_;
      edit_megatron(with).offload_modules = offloads_;
      edit_megatron(with).least_offloaded = least_offloaded_;
      if (set > 0 && repeats) {
        edit_megatron(with).recompute = ir::MegatronRecompute::kSelective;
        edit_megatron(with).recompute_modules = {
            .core_attention = (set & 1U) != 0, .norms = (set & 2U) != 0, .mlp = (set & 4U) != 0};
      }
      model_.layers.assign(static_cast<std::size_t>(kTimedLayers), layer);
      const Result<ir::RankProgram> program = ir::lower(model_, with, ir::Rank{0}, device_.traits);
      if (!program) {
        return program.error();
      }
      times.copies.at(set) = copies_in(*program);
    }
    return std::nullopt;
  }

  /// Reads the output layer with the other implementations of the loss.
  [[nodiscard]] std::optional<Error> read_heads(const ir::LayerSpec& layer, BlockTimes& blocks) {
    for (std::size_t form = 0; form < blocks.head.size(); ++form) {
      ir::ParallelPlan with = plan_;
      edit_megatron(with).cross_entropy = static_cast<ir::MegatronCrossEntropy>(form);
      if (megatron_of(with).cross_entropy == megatron_of(plan_).cross_entropy) {
        continue;
      }
      const auto times = passes(with, layer, 1);
      if (!times) {
        return times.error();
      }
      blocks.head.at(form) = times->second.behind;
    }
    return std::nullopt;
  }

 private:
  /// The time in which the middle one of `kTimedLayers` layers runs forward for one micro-batch and
  /// backward for another.
  [[nodiscard]] Result<Seconds> joint_time(const ir::LayerSpec& layer) {
    ir::ParallelPlan with = plan_;
    edit_megatron(with).overlap_expert_exchange = true;
    with.workload.accumulation = 3;
    model_.layers.assign(static_cast<std::size_t>(kTimedLayers), layer);
    const Result<ir::RankProgram> program = ir::lower(model_, with, ir::Rank{0}, device_.traits);
    if (!program) {
      return program.error();
    }
    const cost::ProgramTime priced = cost::price_program(*program, with, prices_);
    return PassReader(*program, priced.timeline).read_joint();
  }

  /// A layer's share of the copies in `program`. In the first step, all groups are offloaded and
  /// reloaded.
  [[nodiscard]] HostCopies copies_in(const ir::RankProgram& program) const {
    HostCopies all;
    for (const ir::WorkItem& item : program.work.items) {
      const auto* const copy = item.kind == ir::WorkItem::Kind::kRun
                                   ? std::get_if<ir::CopyShape>(&program.work.shapes[item.index])
                                   : nullptr;
      if (copy != nullptr && copy->kind == ir::CopyKind::kDeviceToHost) {
        all.sent += prices_.time_of(*copy);
      } else if (copy != nullptr && copy->kind == ir::CopyKind::kHostToDevice) {
        all.fetched += prices_.time_of(*copy);
      }
    }
    constexpr double kShare = 1.0 / kTimedLayers;
    return {.sent = kShare * all.sent, .fetched = kShare * all.fetched};
  }

  ir::ModelSpec model_;
  ir::ParallelPlan plan_;  ///< Without copies to the host.
  ir::MegatronOffload offloads_;
  std::int64_t least_offloaded_;
  bool overlaps_;  ///< One micro-batch runs forward while another runs backward.
  cost::PriceList prices_;
  const cost::DeviceSpec& device_;
};

void count_block_parameters(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                            BlockTimes& times) {
  const ir::LayerSpec dense;
  times.dense_parameters = ir::layer_parameters(model, dense).total() / plan.mesh.tensor;
  times.table_parameters = model.vocabulary * model.hidden / plan.mesh.tensor;
  if (!model.moe) {
    return;
  }
  const ir::LayerSpec sparse{.moe = true, .window = {}};
  const std::int64_t whole = ir::layer_parameters(model, sparse).total();
  const std::int64_t experts =
      model.moe->experts * model.moe->expert_ffn * model.hidden * (model.gated_mlp ? 3 : 2);
  const std::int64_t cut = expert_tensor_of(plan.mesh);
  times.expert_parameters = experts / (plan.mesh.expert * cut);
  times.sparse_parameters = (whole - experts) / plan.mesh.tensor;
}

/// The kinds of sparse or dense layers, which may differ in their windows, and the share of each
/// kind.
std::vector<std::pair<ir::LayerSpec, double>> kinds_of(const ir::ModelSpec& model, bool sparse) {
  std::vector<std::pair<ir::LayerSpec, double>> kinds;
  for (const ir::LayerSpec& layer : model.layers) {
    const auto is_known = [&](const auto& kind) { return kind.first == layer; };
    if (layer.moe == sparse && std::ranges::none_of(kinds, is_known)) {
      const auto alike = std::ranges::count(model.layers, layer);
      const auto all = std::ranges::count(model.layers, sparse, &ir::LayerSpec::moe);
      kinds.emplace_back(layer, static_cast<double>(alike) / static_cast<double>(all));
    }
  }
  return kinds;
}

void add(const LayerTimes& one, double share, LayerTimes& sum) {
  for (Seconds LayerTimes::*const part :
       {&LayerTimes::forward, &LayerTimes::backward, &LayerTimes::once, &LayerTimes::saved,
        &LayerTimes::core_attention, &LayerTimes::norms, &LayerTimes::mlp}) {
    sum.*part += share * (one.*part);
  }
}

/// Bytes of the hidden states that one stage sends to the next.
std::int64_t sent_bytes(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const ir::MegatronPlan& degrees = megatron_of(plan);
  const std::int64_t cut = plan.mesh.context * (degrees.sequence_parallel ? plan.mesh.tensor : 1);
  const std::int64_t tokens =
      std::max<std::int64_t>(plan.workload.micro_batch * plan.workload.sequence / cut, 1);
  return tokens * model.hidden * (plan.precision == ir::Precision::kFp32 ? 4 : 2);
}

}  // namespace

std::size_t module_set(const ir::MegatronModules& modules) {
  return (modules.core_attention ? 1U : 0U) + (modules.norms ? 2U : 0U) + (modules.mlp ? 4U : 0U);
}

Result<BlockTimes> block_times(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                               const cost::Machine& machine, const cost::DeviceSpec& device) {
  Sampler sampler(model, plan, machine, device);
  BlockTimes times;
  for (const bool sparse : {false, true}) {
    LayerTimes& mean = sparse ? times.sparse : times.dense;
    for (const auto& [layer, share] : kinds_of(model, sparse)) {
      LayerTimes one;
      if (std::optional<Error> error = sampler.read_layer(layer, one, times)) {
        return *std::move(error);
      }
      add(one, share, mean);
    }
    const auto first = std::ranges::find(model.layers, sparse, &ir::LayerSpec::moe);
    if (first == model.layers.end()) {
      continue;
    }
    if (std::optional<Error> error = sampler.read_copies(*first, mean)) {
      return *std::move(error);
    }
  }
  if (std::optional<Error> error = sampler.read_heads(model.layers.front(), times)) {
    return *std::move(error);
  }
  count_block_parameters(model, plan, times);
  return with_transfers(times, model, plan, machine);
}

BlockTimes with_transfers(BlockTimes blocks, const ir::ModelSpec& model,
                          const ir::ParallelPlan& plan, const cost::Machine& machine) {
  blocks.transfer = blocks.beside = {};
  for (std::size_t order = 0; plan.mesh.pipeline > 1 && order < blocks.transfer.size(); ++order) {
    ir::ParallelPlan placed = plan;
    edit_megatron(placed).pipeline_before_data = order != 0;
    blocks.transfer.at(order) = cost::work_time(
        machine.performance, machine.topology,
        ir::CollectiveShape{.kind = ir::CollectiveKind::kReceive,
                            .bytes = sent_bytes(model, plan),
                            .group = {.size = 2, .stride = ir::stage_stride(placed)}});
    // One transfer in and one out take multiprocessors from computation.
    blocks.beside.at(order) = 2 * cost::taken_ratio(machine) * blocks.transfer.at(order);
  }
  return blocks;
}

}  // namespace headroom::plan
