#include <algorithm>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "model_ir/spec/hf_config.h"
#include "planner/space/axis.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/plan_memory.h"
#include "runtimes/megatron/search/stage_forms.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"
#include "tests/support/random.h"
#include "tests/support/random_plan.h"

namespace headroom::plan {
namespace {

ir::ModelSpec narrow_model(const char* type, std::int64_t layers) {
  ir::ModelSpec model = ir::parse_hf_config(std::string(R"({"hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 16384,
    "num_local_experts": 8, "num_experts_per_tok": 2, "model_type": ")") +
                                                type + "\"}",
                                            "narrow")
                            .value();
  model.layers.resize(static_cast<std::size_t>(layers), model.layers.back());
  return model;
}

cost::DeviceSpec device_of(int compute_major) {
  cost::DeviceSpec device;
  device.name = "some";
  device.total = Bytes{80 * kGiB};
  device.traits = {.compute_major = compute_major, .compute_minor = 0, .multiprocessors = 108};
  return device;
}
cost::DeviceSpec ampere() {
  return device_of(8);
}

/// More layers, stages and groups than any sample has.
ir::ParallelPlan long_plan(test::Random& random, const ir::ModelSpec& model, bool uneven) {
  ir::ParallelPlan plan = test::random_megatron_plan(random);
  ir::MegatronPlan& megatron = edit_megatron(plan);
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  plan.mesh.pipeline = random.pick<std::int64_t>({1, 2, 4, 8});
  megatron.layers_per_chunk = 0;
  megatron.first_stage_layers = megatron.last_stage_layers = megatron.micro_batch_group = 0;
  megatron.overlap_warmup_flush = false;
  megatron.account_for_embedding = megatron.account_for_loss = false;
  if (plan.mesh.pipeline > 1 && random.chance(1, 3)) {
    megatron.layers_per_chunk = random.pick<std::int64_t>({1, 2, layers / plan.mesh.pipeline});
  }
  const std::int64_t chunk =
      megatron.layers_per_chunk > 0 ? megatron.layers_per_chunk : layers / plan.mesh.pipeline;
  if (megatron.recompute == ir::MegatronRecompute::kFullBlock) {
    megatron.recompute_layers = random.between(1, chunk);
  } else if (megatron.recompute == ir::MegatronRecompute::kFullUniform) {
    do {
      megatron.recompute_layers = random.between(1, chunk);
    } while (chunk % megatron.recompute_layers != 0);
  }
  if (model.moe) {
    plan.mesh.expert = random.pick<std::int64_t>({1, 2, 4});
    plan.mesh.expert_tensor = 1;
    megatron.sequence_parallel = plan.mesh.tensor > 1;
  }
  if (model.attention_sinks) {  // What Megatron-Core takes of gpt-oss.
    megatron.attention = ir::MegatronAttention::kFused;
    plan.mesh.context = 1;
    megatron.grouped_gemm = true;
    megatron.sinkhorn = false;
  }
  if (uneven) {
    const std::vector<StageForm> forms = stage_forms(layers, plan.mesh.pipeline, {});
    if (!forms.empty()) {
      forms[static_cast<std::size_t>(
                random.between(0, static_cast<std::int64_t>(forms.size()) - 1))]
          .apply_to(megatron);
    }
    if (megatron.layers_per_chunk > 0) {
      megatron.layers_per_chunk = random.pick<std::int64_t>({1, 2, 4});
    }
    megatron.recompute_layers =
        megatron.recompute == ir::MegatronRecompute::kFullBlock ? random.between(1, 4) : 1;
  }
  if (megatron.distributed_optimizer && plan.precision == ir::Precision::kBf16Master &&
      random.chance(1, 3)) {
    megatron.precision_aware = true;
    megatron.bf16_moments = false;
    megatron.optimizer_offload = random.pick<double>({0.25, 0.5, 1});
  }
  megatron.pipeline_before_data = random.chance(1, 3);
  plan.world = plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context *
               (model.moe ? 4 * random.between(1, 2) : random.between(1, 4));
  plan.workload.accumulation = plan.mesh.pipeline * random.between(1, 4);
  plan.allocator.expandable_segments = true;
  return plan;
}

/// The greatest replayed peak of the ranks that can bind.
Bytes replayed_peak(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                    const cost::DeviceSpec& device = ampere()) {
  Bytes peak;
  for (const ir::Rank rank : cost::binding_ranks(model, plan)) {
    const ir::RankProgram program = cost::lower_replayed(model, plan, device, rank).value();
    const cost::MemoryTimeline timeline =
        cost::replay(program, plan.allocator, Bytes{std::int64_t{1} << 60});
    for (const cost::PhaseMemory& phase : timeline.phases) {
      peak = std::max(peak, phase.peak_allocated);
    }
  }
  return peak;
}

enum class Stages { kEven, kUneven };

/// What random plans have besides, and the device that they ask for.
struct Extra {
  std::vector<ir::MegatronFp8> eight_bits{};
  bool holds = false;     ///< Weights are held in 8 bits.
  bool offloads = false;  ///< Activations go to the host.
  bool joint = false;     ///< Micro-batches run forward beside others that run backward.
  int compute_major = 8;
};

void add_extra(test::Random& random, const Extra& extra, ir::ParallelPlan& plan) {
  ir::MegatronPlan& megatron = edit_megatron(plan);
  if (!extra.eight_bits.empty()) {
    plan.precision = ir::Precision::kBf16Master;
    megatron.fp8 = extra.eight_bits[static_cast<std::size_t>(
        random.between(0, static_cast<std::int64_t>(extra.eight_bits.size()) - 1))];
  }
  if (extra.holds) {
    megatron.fp8_parameters = megatron.distributed_optimizer = true;
    megatron.precision_aware = megatron.bf16_moments = false;
    megatron.optimizer_offload = 0;
  }
  if (extra.joint) {
    plan.mesh.expert = random.pick<std::int64_t>({2, 4});
    megatron.overlap_expert_exchange = true;
    megatron.delayed_weight_gradients = !megatron.tp_comm_overlap && random.chance(1, 2);
    megatron.layers_per_chunk = plan.mesh.pipeline > 1 ? random.pick<std::int64_t>({1, 2}) : 0;
    if (megatron.recompute != ir::MegatronRecompute::kSelective) {
      megatron.recompute = ir::MegatronRecompute::kNone;
      megatron.recompute_layers = 1;
    }
  }
  if (extra.offloads) {
    const auto sets =
        static_cast<std::int64_t>(words_of_axis(megatron_axes::kOffloadModules).size());
    megatron.offload_modules = offload_modules_of(random.between(1, sets - 1));
    megatron.offload_modules.attention_norm = false;
    const auto moe = plan.mesh.expert_tensor > 0;
    megatron.offload_modules.mlp_norm &= moe;
    megatron.offload_modules.expert_up &= moe;
    megatron.offload_modules.expert_activation &= moe;
    if (!(megatron.offload_modules == ir::MegatronOffload{})) {
      megatron.least_offloaded = random.pick<std::int64_t>({1 << 12, 1 << 17, 1 << 20});
    }
    if (megatron.recompute != ir::MegatronRecompute::kSelective) {
      megatron.recompute = ir::MegatronRecompute::kNone;
      megatron.recompute_layers = 1;
    }
  }
}

void compare(const ir::ModelSpec& model, std::uint64_t series, int rounds,
             Stages stages = Stages::kEven, const Extra& extra = {}) {
  test::Random random = test::seeded_random(series);
  CAPTURE(random.seed());
  const cost::DeviceSpec device = device_of(extra.compute_major);
  PlanMemory memory(model, device);
  int compared = 0;
  for (int round = 0; round < rounds; ++round) {
    ir::ParallelPlan plan = long_plan(random, model, stages == Stages::kUneven);
    add_extra(random, extra, plan);
    if (!ir::check_plan(model, plan)) {
      continue;
    }
    ++compared;
    CAPTURE(ir::to_json(ir::plan_to_json(plan)));
    const Bytes replayed = replayed_peak(model, plan, device);
    CHECK(memory.peak(plan).value() == replayed);
    CHECK(memory.floor(plan) <= replayed);
    CHECK(memory.cell_floor(plan) <= replayed);
    if (extra.offloads) {
      ir::ParallelPlan twin = plan;  // With the same static part.
      edit_megatron(twin).offload_modules = {};
      edit_megatron(twin).least_offloaded = ir::MegatronPlan{}.least_offloaded;
      CHECK(memory.peak(twin).value() == replayed_peak(model, twin, device));
    }
    if (megatron_of(plan).distributed_optimizer && megatron_of(plan).overlap_grad_reduce) {
      ir::ParallelPlan twin = plan;  // Which shares what is known of the first.
      edit_megatron(twin).overlap_param_gather = !megatron_of(twin).overlap_param_gather;
      CHECK(memory.peak(twin).value() == replayed_peak(model, twin, device));
    }
  }
  CHECK(compared > rounds / 5);
  CHECK((stages == Stages::kUneven || extra.joint || memory.counts().lowered == 0));
  CHECK((extra.joint || memory.counts().lowered < static_cast<std::uint64_t>(compared)));
  CHECK((!extra.joint || memory.counts().lowered > 0));
}

/// The recipes of two generations of products, whose weights are held in 8 bits where `holds`.
void compare_recipes(std::uint64_t series, bool holds) {
  using Recipe = ir::MegatronFp8;
  const Extra hopper{.eight_bits = {Recipe::kDelayed, Recipe::kTensorwise, Recipe::kBlockwise},
                     .holds = holds,
                     .compute_major = 9};
  const Extra blackwell{
      .eight_bits = {Recipe::kMxfp8, Recipe::kTensorwise}, .holds = holds, .compute_major = 10};
  const int few = test::kSanitized ? 16 : 40;
  compare(narrow_model("llama", 32), series, few, Stages::kEven, hopper);
  compare(narrow_model("mixtral", 16), series + 1, few, Stages::kEven, hopper);
  compare(narrow_model("llama", 30), series + 2, few, Stages::kUneven, hopper);
  compare(narrow_model("llama", 32), series + 3, few, Stages::kEven, blackwell);
  compare(narrow_model("mixtral", 16), series + 4, few, Stages::kEven, blackwell);
}

}  // namespace

TEST_CASE("plan memory: the fast path is the replay of dense models, to the byte") {
  compare(narrow_model("llama", 32), 301, 60);
}

TEST_CASE("plan memory: the fast path is the replay of mixtures of experts, to the byte") {
  compare(narrow_model("mixtral", 16), 302, 40);
}

TEST_CASE("plan memory: the fast path is the replay where stages are uneven, to the byte") {
  compare(narrow_model("llama", 30), 303, 60, Stages::kUneven);
}

TEST_CASE("plan memory: the fast path is the replay of uneven stages of two kinds of layers") {
  ir::ModelSpec model = narrow_model("mixtral", 27);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    model.layers[layer].moe = false;  // As DeepSeek's: more than one stage holds both kinds.
  }
  compare(model, 304, 60, Stages::kUneven);
}

TEST_CASE("plan memory: the fast path is the replay of windows, sinks and biased experts") {
  ir::ModelSpec model = narrow_model("gpt_oss", 16);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    model.layers[layer].window = layer % 2 == 0 ? std::optional<std::int64_t>(128) : std::nullopt;
  }
  compare(model, 319, 40);
  model.layers.resize(13);
  compare(model, 320, 20, Stages::kUneven);
}

TEST_CASE("plan memory: the fast path is the replay of products in 8 bits, to the byte" *
          doctest::skip(test::kSanitized)) {  // The next has the same products.
  compare_recipes(305, false);
}

TEST_CASE("plan memory: the fast path is the replay of weights in 8 bits, to the byte") {
  compare_recipes(314, true);
}

TEST_CASE("plan memory: the fast path is the replay of activations on the host, to the byte") {
  const Extra some{.offloads = true};
  const Extra eight{.eight_bits = {ir::MegatronFp8::kNone, ir::MegatronFp8::kTensorwise},
                    .offloads = true,
                    .compute_major = 9};
  constexpr int kFew = 50;  // Among fewer draws, the fast path covers too few plans.
  compare(narrow_model("llama", 32), 310, kFew, Stages::kEven, some);
  compare(narrow_model("llama", 30), 312, kFew, Stages::kUneven, some);
  if (!test::kSanitized) {  // Experts come again below.
    compare(narrow_model("mixtral", 16), 311, kFew, Stages::kEven, some);
  }
  compare(narrow_model("mixtral", 16), 313, kFew, Stages::kEven, eight);
}

TEST_CASE("plan memory: plans with joint passes are lowered whole, and bounded from below") {
  compare(narrow_model("mixtral", 16), 323, test::kSanitized ? 20 : 60, Stages::kEven,
          {.joint = true});
}

TEST_CASE("plan memory: other orders of an interleaved schedule are lowered whole, and counted") {
  const ir::ModelSpec model = narrow_model("llama", 8);
  PlanMemory memory(model, ampere());
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh.pipeline = 2;
  edit_megatron(plan).layers_per_chunk = 2;
  SUBCASE("micro-batches in groups") {
    edit_megatron(plan).micro_batch_group = 4;
  }
  SUBCASE("the next tensor received during a pass") {
    edit_megatron(plan).overlap_warmup_flush = true;
  }
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 2;
  plan.workload.accumulation = 8;
  plan.workload.sequence = 512;
  plan.allocator.expandable_segments = true;
  CHECK(memory.peak(plan).value() == replayed_peak(model, plan));
  CHECK(memory.counts().lowered > 0);
}

TEST_CASE("plan memory: other runtimes are lowered whole, and that is counted") {
  const ir::ModelSpec model = narrow_model("llama", 4);
  PlanMemory memory(model, ampere());
  ir::ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = ir::Precision::kFp32;
  edit_fsdp(plan) = ir::FsdpPlan{};
  plan.world = 4;
  plan.workload.sequence = 512;
  plan.allocator.expandable_segments = true;
  CHECK(memory.peak(plan).value() == replayed_peak(model, plan));
  CHECK(memory.counts().lowered == 1);
}

}  // namespace headroom::plan
