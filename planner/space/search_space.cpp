#include "planner/space/search_space.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "model_ir/plan/plan_words.h"
#include "planner/space/axis_value.h"
#include "planner/space/choices.h"
#include "planner/space/stage_forms.h"
#include "planner/space/titan_space.h"
#include "runtimes/megatron/option_checks.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "runtimes/transformers/support.h"

namespace headroom::plan {
namespace {

using ir::MegatronPlan;
using ir::ParallelPlan;

/// Walks the axes of one space into cells.
class CellWriter {
 public:
  explicit CellWriter(const SpaceQuestion& question)
      : question_(question), allowed_(question.constraints), counter_(question) {}

  std::vector<Cell> operator()() {
    const AxisValues gpus = values_or(Axis::kGpus, {question_.base.world});
    const AxisValues sequences = values_or(Axis::kSequence, {question_.base.sequence});
    for (const std::int64_t world : gpus) {
      for (const std::int64_t sequence : sequences) {
        plan_ = question_.base;
        plan_.world = world;
        plan_.sequence = sequence;
        write_recipes();
      }
    }
    return std::move(cells_);
  }

 private:
  /// Precisions and optimizers: those of the base where nothing is said.
  void write_recipes() {
    for (const std::int64_t precision : values_or(Axis::kPrecision, {-1})) {
      recipe_ = precision < 0 ? question_.base.precision : recipe_of(precision);
      eight_bits_ = eight_bits_of(precision);
      for (const std::int64_t optimizer : values_or(Axis::kOptimizer, {-1})) {
        plan_.optimizer = optimizer < 0
                              ? question_.base.optimizer
                              : ir::optimizer_words()[static_cast<std::size_t>(optimizer)].value;
        for (int runtime = 0; runtime < 4; ++runtime) {
          if (allowed_.allows(Axis::kRuntime, runtime)) {
            write_runtime(
                std::string(words_of_axis(Axis::kRuntime)[static_cast<std::size_t>(runtime)]));
          }
        }
        if (asks_for_titan()) {
          write_titan_cells(question_, plan_, cells_);
        }
        for (const std::int64_t runtime : allowed_.of(Axis::kRuntime)) {
          if (runtime > kTitanRuntime) {
            write_plain(words_of_axis(Axis::kRuntime)[static_cast<std::size_t>(runtime)]);
          }
        }
      }
    }
  }

  /// 16-bit arithmetic on fp32 masters is what is meant by a 16-bit precision, and what products in
  /// 8 bits stand beside.
  [[nodiscard]] static ir::Precision recipe_of(std::int64_t word) {
    if (eight_bits_of(word) != ir::MegatronFp8::kNone) {
      return ir::Precision::kBf16Master;
    }
    const ir::Precision precision = ir::precision_words()[static_cast<std::size_t>(word)].value;
    switch (precision) {
      case ir::Precision::kBf16:
        return ir::Precision::kBf16Master;
      case ir::Precision::kFp16:
        return ir::Precision::kFp16Master;
      default:
        return precision;
    }
  }

  [[nodiscard]] AxisValues values_or(Axis axis, AxisValues usual) const {
    const AxisValues& given = allowed_.of(axis);
    return given.empty() ? usual : given;
  }
  /// Of `candidates`, those that are allowed.
  [[nodiscard]] AxisValues among(Axis axis, AxisValues candidates) const {
    std::erase_if(candidates, [&](std::int64_t value) { return !allowed_.allows(axis, value); });
    return candidates;
  }
  /// Axes that only Megatron has must be free or off for the others.
  [[nodiscard]] bool degrees_are_one() const {
    const bool ones = std::ranges::all_of(std::array{Axis::kTensor, Axis::kPipeline, Axis::kContext,
                                                     Axis::kExpert, Axis::kExpertTensor},
                                          [&](Axis axis) { return allowed_.allows(axis, 1); });
    const bool off = std::ranges::all_of(
        std::array{Axis::kSequenceParallel, Axis::kDistributedOptimizer, Axis::kOverlapGradReduce,
                   Axis::kOverlapParamGather, Axis::kChunk, Axis::kFirstStage, Axis::kLastStage,
                   Axis::kAccountEmbedding, Axis::kAccountLoss, Axis::kMeshOrder, Axis::kDispatcher,
                   Axis::kContextExchange, Axis::kFp8Parameters, Axis::kOffloadModules},
        [&](Axis axis) { return allowed_.allows(axis, 0); });
    return ones && off && has_no_titan_axis(false);
  }

  /// Axes that torchtitan's code alone has must be free or off for the others; a schedule of
  /// several chunks is interleaved for them, any other 1F1B.
  [[nodiscard]] bool has_no_titan_axis(bool interleaved) const {
    const ir::PipelineKind kind =
        interleaved ? ir::PipelineKind::kInterleaved : ir::PipelineKind::kOneForwardOneBackward;
    return allowed_.allows(Axis::kSchedule, schedule_with(kind)) &&
           allowed_.allows(Axis::kPipelineRuns, 1) && allowed_.allows(Axis::kRecomputeEvery, 1) &&
           allowed_.allows(Axis::kCompiled, 0);
  }

  /// torchtitan's code is only searched where it is named, in fp32 shards that are gathered in
  /// bf16.
  [[nodiscard]] bool asks_for_titan() const {
    return !allowed_.of(Axis::kRuntime).empty() && allowed_.allows(Axis::kRuntime, kTitanRuntime) &&
           recipe_ == ir::Precision::kBf16Master && eight_bits_ == ir::MegatronFp8::kNone;
  }

  /// Replicas and resharding are FSDP's: asking for them asks for it.
  [[nodiscard]] bool asks_for_fsdp() const {
    return !allowed_.of(Axis::kReplicas).empty() || !allowed_.of(Axis::kReshard).empty();
  }

  void write_runtime(const std::string& runtime) {
    const bool megatron = runtime == "megatron";
    if ((asks_for_fsdp() && runtime != "fsdp") ||
        (eight_bits_ != ir::MegatronFp8::kNone && !megatron)) {
      return;
    }
    ParallelPlan before = plan_;
    plan_.runtime = runtime;
    plan_.ddp.reset();
    plan_.zero.reset();
    plan_.fsdp.reset();
    plan_.megatron.reset();
    plan_.precision = recipe_;
    ir::runtime_of(plan_).prepare_for_search(plan_);
    if (runtime == "transformers") {
      if (plan_.world > 1) {
        plan_.ddp = ir::DdpPlan{};
      }
      write_sharding();
    } else if (runtime == "deepspeed") {
      write_zero();
    } else if (runtime == "fsdp") {
      write_fsdp();
    } else {
      write_megatron();
    }
    plan_ = before;
  }

  /// A framework that has no axes of its own and is only searched where it is named: micro-batches
  /// and recomputation.
  void write_plain(std::string_view runtime) {
    const bool usual = allowed_.of(Axis::kZero).empty() && allowed_.allows(Axis::kOffload, 0) &&
                       allowed_.allows(Axis::kOptimizerOffload, 0) &&
                       allowed_.allows(Axis::kAttention, 2) && allowed_.allows(Axis::kLoss, 3);
    if (asks_for_fsdp() || eight_bits_ != ir::MegatronFp8::kNone || !usual || !degrees_are_one()) {
      return;
    }
    const ParallelPlan before = plan_;
    plan_.runtime = std::string(runtime);
    plan_.ddp.reset();
    plan_.zero.reset();
    plan_.fsdp.reset();
    plan_.megatron.reset();
    plan_.precision = recipe_;
    const ir::Runtime& framework = ir::runtime_of(plan_);
    framework.prepare_for_search(plan_);
    if (allowed_.of(Axis::kOptimizer).empty() && plan_.optimizer == ir::OptimizerPlan{}) {
      plan_.optimizer = framework.usual_optimizer(plan_);
    }
    write_micro_batches(plan_.world);
    plan_ = before;
  }

  void write_zero() {
    const bool offloads = plan_.world >= 1;
    for (const std::int64_t stage : among(Axis::kZero, {0, 1, 2, 3})) {
      if (stage == 3 && question_.model.architecture != ir::Architecture::kCausalLm) {
        continue;  // The runtime follows causal models alone there.
      }
      for (const std::int64_t offload : among(Axis::kOffload, {0, 1, 2})) {
        if ((offload == 1 && (stage == 0 || !offloads)) || (offload == 2 && stage != 3)) {
          continue;
        }
        write_offload(stage, offload);
      }
    }
    plan_.zero.reset();
  }

  /// Of an optimizer on the host all of it is, or at stage 3 a share where that is asked for.
  void write_offload(std::int64_t stage, std::int64_t offload) {
    const bool asked = !allowed_.of(Axis::kOptimizerOffload).empty();
    AxisValues shares = {offload > 0 ? kOffloadSteps : 0};
    if (asked && stage == 3 && offload > 0) {
      shares = {1, 2, 3, kOffloadSteps};
    }
    for (const std::int64_t share : among(Axis::kOptimizerOffload, shares)) {
      ir::ZeroPlan zero;
      zero.stage = static_cast<int>(stage);
      zero.offload_optimizer = offload > 0 ? ir::OffloadDevice::kCpu : ir::OffloadDevice::kNone;
      zero.offload_param = offload > 1 ? ir::OffloadDevice::kCpu : ir::OffloadDevice::kNone;
      zero.offload_ratio = offload > 0 ? static_cast<double>(share) / kOffloadSteps : 1;
      plan_.zero = zero;
      const ir::OptimizerPlan before = plan_.optimizer;
      if (plan_.optimizer == ir::OptimizerPlan{}) {
        plan_.optimizer = ir::runtime_of(plan_).usual_optimizer(plan_);
      }
      write_sharding();
      plan_.optimizer = before;
    }
  }

  /// Shards are in fp32, and the policy computes in bf16 or in fp32; in fp16 it is not searched.
  void write_fsdp() {
    if (recipe_ == ir::Precision::kFp16Master) {
      return;
    }
    for (const std::int64_t replicas : among(Axis::kReplicas, divisors(plan_.world))) {
      if (replicas > 1 && replicas == plan_.world) {
        continue;  // That is DistributedDataParallel.
      }
      for (const std::int64_t reshard : among(Axis::kReshard, {1, 0})) {
        for (const std::int64_t offload : among(Axis::kOffload, {0, 2})) {
          ir::FsdpPlan fsdp;
          fsdp.replicas = replicas;
          fsdp.reshard_after_forward = reshard != 0;
          fsdp.cpu_offload = offload != 0;
          if (recipe_ == ir::Precision::kFp32) {
            fsdp.param_dtype = ir::DType::kFp32;
          }
          plan_.fsdp = fsdp;
          write_sharding();
        }
      }
    }
    plan_.fsdp.reset();
  }

  /// Micro-batches, attention and loss of the runtimes on transformers' modelling code.
  void write_sharding() {
    if (!degrees_are_one()) {
      return;
    }
    if (plan_.runtime != "deepspeed" && !allowed_.of(Axis::kZero).empty()) {
      return;
    }
    if (plan_.runtime != "deepspeed" && !allowed_.allows(Axis::kOptimizerOffload, 0)) {
      return;
    }
    if (plan_.runtime == "transformers" && !allowed_.allows(Axis::kOffload, 0)) {
      return;
    }
    // Only where they are asked for: the packages flash-attn and Liger, which have to be there,
    // losses that the training loop has to call, and what is no better than PyTorch's own choice.
    const bool kernels = !allowed_.of(Axis::kAttention).empty();
    const bool losses = !allowed_.of(Axis::kLoss).empty();
    for (const std::int64_t attention :
         among(Axis::kAttention, kernels ? AxisValues{2, 3, 4, 5} : AxisValues{2, 3})) {
      plan_.attention = static_cast<ir::AttentionKind>(attention - 2);  // As `axis_value` has it.
      for (const std::int64_t loss :
           among(Axis::kLoss, losses ? AxisValues{3, 4, 5} : AxisValues{3})) {
        plan_.loss = loss == 3   ? ir::LossKind::kHf
                     : loss == 4 ? ir::LossKind::kChunked
                                 : ir::LossKind::kFusedLinear;
        if (is_modelled()) {
          write_micro_batches(plan_.world);
        }
      }
    }
    plan_.attention = ir::AttentionKind::kSdpa;
    plan_.loss = ir::LossKind::kHf;
  }

  /// Whether transformers' modelling code has the attention and the loss on this device.
  [[nodiscard]] bool is_modelled() const {
    const bool usual =
        plan_.attention != ir::AttentionKind::kFlash && plan_.loss == ir::LossKind::kHf;
    if (usual) {
      return true;
    }
    ir::ParallelPlan plan = plan_;
    plan.precision = arithmetic_of(plan);
    return !ir::transformers::unsupported(question_.model, plan, question_.device);
  }

  /// Megatron has one AdamW: FusedAdam.
  [[nodiscard]] bool is_second_name_of_adam() const {
    const AxisValues& given = allowed_.of(Axis::kOptimizer);
    const auto is_plain = [](std::int64_t word) {
      return ir::optimizer_words()[static_cast<std::size_t>(word)].value == ir::OptimizerPlan{};
    };
    return plan_.optimizer.form == ir::OptimizerForm::kFused &&
           std::ranges::any_of(given, is_plain);
  }

  void write_megatron() {
    if (!allowed_.of(Axis::kZero).empty() || !allowed_.allows(Axis::kOffload, 0)) {
      return;
    }
    if (is_second_name_of_adam() || !ir::check_megatron_fp8_device(eight_bits_, question_.device)) {
      return;
    }
    const ir::ModelSpec& model = question_.model;
    const std::int64_t world = plan_.world;
    const std::int64_t heads = std::gcd(model.heads, model.kv_heads);
    for (const std::int64_t tensor : among(Axis::kTensor, divisors(std::gcd(heads, world)))) {
      for (const std::int64_t pipeline : among(Axis::kPipeline, divisors(world / tensor))) {
        const std::vector<StageForm>& stages = stages_of(pipeline);
        if (stages.empty()) {
          continue;
        }
        for (const std::int64_t context :
             among(Axis::kContext, divisors(world / tensor / pipeline))) {
          if (context > 1 && plan_.sequence % (2 * context) != 0) {
            continue;
          }
          MegatronPlan megatron;
          megatron.tensor = tensor;
          megatron.pipeline = pipeline;
          megatron.context = context;
          megatron.fp8 = eight_bits_;
          plan_.megatron = megatron;
          write_weights();
        }
      }
    }
    plan_.megatron.reset();
  }

  /// Weights are held in 8 bits only where that is asked for.
  void write_weights() {
    const bool able = eight_bits_ != ir::MegatronFp8::kNone;
    const bool asked = !allowed_.of(Axis::kFp8Parameters).empty();
    for (const std::int64_t held :
         among(Axis::kFp8Parameters, able && asked ? AxisValues{0, 1} : AxisValues{0})) {
      plan_.megatron->fp8_parameters = held == 1;
      write_exchanges();
    }
  }

  /// Heads are dealt out to context-parallel ranks only where that is asked for.
  void write_exchanges() {
    MegatronPlan& megatron = *plan_.megatron;
    const bool asked = !allowed_.of(Axis::kContextExchange).empty();
    for (const std::int64_t exchange :
         among(Axis::kContextExchange,
               megatron.context > 1 && asked ? AxisValues{0, 1} : AxisValues{0})) {
      megatron.context_exchange =
          exchange == 1 ? ir::MegatronContext::kAllToAll : ir::MegatronContext::kRing;
      write_experts();
    }
  }

  void write_experts() {
    MegatronPlan& megatron = *plan_.megatron;
    if (!question_.model.moe) {
      if (allowed_.allows(Axis::kExpert, 1) && allowed_.of(Axis::kExpertTensor).empty() &&
          allowed_.allows(Axis::kDispatcher, 0)) {
        write_forms();
      }
      return;
    }
    const std::int64_t ranks = plan_.world / megatron.pipeline;
    for (const std::int64_t expert :
         among(Axis::kExpert, divisors(std::gcd(question_.model.moe->experts, ranks)))) {
      AxisValues cuts = {1};
      if (megatron.tensor > 1) {
        cuts.push_back(megatron.tensor);
      }
      for (const std::int64_t cut : among(Axis::kExpertTensor, cuts)) {
        megatron.expert = expert;
        megatron.expert_tensor = cut;
        write_dispatchers();
      }
    }
  }

  /// HybridEP asks for DeepEP, and is only where it is asked for.
  void write_dispatchers() {
    MegatronPlan& megatron = *plan_.megatron;
    const bool able = megatron.expert > 1 && megatron.expert_tensor == 1;
    const bool asked = !allowed_.of(Axis::kDispatcher).empty();
    for (const std::int64_t dispatcher :
         among(Axis::kDispatcher, able && asked ? AxisValues{0, 1} : AxisValues{0})) {
      megatron.dispatcher =
          dispatcher == 1 ? ir::MegatronDispatcher::kHybridEp : ir::MegatronDispatcher::kAllToAll;
      write_forms();
    }
    megatron.dispatcher = ir::MegatronDispatcher::kAllToAll;
  }

  const std::vector<StageForm>& stages_of(std::int64_t pipeline) {
    const auto [found, added] = stage_forms_.try_emplace(pipeline);
    if (added) {
      const auto layers = static_cast<std::int64_t>(question_.model.layers.size());
      found->second = stage_forms(layers, pipeline, allowed_);
    }
    return found->second;
  }

  /// Layers of the stages, interleaved or not.
  void write_forms() {
    MegatronPlan& megatron = *plan_.megatron;
    const auto layers = static_cast<std::int64_t>(question_.model.layers.size());
    std::set<std::array<std::int64_t, 3>> seen;
    for (const StageForm& form : stages_of(megatron.pipeline)) {
      form.apply_to(megatron);
      for (const std::int64_t chunk : among(Axis::kChunk, chunks_of(megatron))) {
        megatron.layers_per_chunk = chunk;
        // Layers that count for more and ends that are named come to the same without chunks.
        const auto count = [&](std::int64_t stage) {
          return ir::chunk_layer_count(megatron, layers, {.stage = stage, .chunk = 0});
        };
        const std::int64_t last = megatron.pipeline - 1;
        if (!has_no_titan_axis(chunk > 0)) {
          continue;
        }
        if ((chunk == 0 && !seen.insert({count(0), count(last / 2), count(last)}).second) ||
            chunk_sizes(megatron, layers).least < 1) {
          continue;
        }
        write_attention();
      }
      megatron.layers_per_chunk = 0;
    }
  }

  /// Layers that a chunk can have.
  [[nodiscard]] AxisValues chunks_of(const MegatronPlan& megatron) const {
    const auto layers = static_cast<std::int64_t>(question_.model.layers.size());
    AxisValues chunks = {0};
    if (megatron.pipeline > 1 && megatron.first_stage_layers == 0 &&
        megatron.last_stage_layers == 0) {
      const std::int64_t stage = ir::even_stage_layers(megatron, layers);
      for (const std::int64_t chunk : divisors(stage)) {
        if (chunk < stage) {
          chunks.push_back(chunk);
        }
      }
    }
    return chunks;
  }

  /// Sequence parallelism, attention.
  void write_attention() {
    MegatronPlan& megatron = *plan_.megatron;
    for (const std::int64_t parallel :
         among(Axis::kSequenceParallel, megatron.tensor > 1 ? AxisValues{1, 0} : AxisValues{0})) {
      megatron.sequence_parallel = parallel != 0;
      for (const std::int64_t attention :
           among(Axis::kAttention, megatron.context > 1 ? AxisValues{0} : AxisValues{0, 1})) {
        megatron.attention =
            attention == 0 ? ir::MegatronAttention::kFused : ir::MegatronAttention::kUnfused;
        write_offloads();
      }
    }
  }

  /// Activations go to the host only where that is asked for.
  void write_offloads() {
    MegatronPlan& megatron = *plan_.megatron;
    for (const std::int64_t modules : values_or(Axis::kOffloadModules, {0})) {
      megatron.offload_modules = offload_modules_of(modules);
      write_micro_batches(plan_.world / megatron.tensor / megatron.pipeline / megatron.context);
    }
    megatron.offload_modules = {};
  }

  void write_micro_batches(std::int64_t data) {
    if (question_.global_batch % data != 0) {
      return;
    }
    const std::int64_t share = question_.global_batch / data;
    for (const std::int64_t micro : among(Axis::kMicroBatch, divisors(share))) {
      plan_.micro_batch = micro;
      plan_.accumulation = share / micro;
      Cell cell{.plan = plan_, .choices = counter_.count(plan_)};
      if (cell.choices == 0) {
        continue;
      }
      counter_.choose_first(cell.plan);
      if (ir::check_plan(question_.model, cell.plan)) {
        cells_.push_back(std::move(cell));
      }
    }
  }

  const SpaceQuestion& question_;
  const Constraints& allowed_;
  ChoiceCounter counter_;
  ParallelPlan plan_;
  ir::Precision recipe_ = ir::Precision::kBf16Master;
  ir::MegatronFp8 eight_bits_ = ir::MegatronFp8::kNone;
  std::map<std::int64_t, std::vector<StageForm>> stage_forms_;  ///< By stages.
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<Cell> cells_of(const SpaceQuestion& question) {
  return CellWriter(question)();
}

std::uint64_t count_plans(const std::vector<Cell>& cells) {
  return std::accumulate(cells.begin(), cells.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Cell& cell) { return sum + cell.choices; });
}

}  // namespace headroom::plan
