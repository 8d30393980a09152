#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/time/model_flops.h"
#include "costmodel/time/program_time.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/registry.h"
#include "tests/executor/executions.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "validators/executor/backend_plugin.h"
#include "validators/executor/confirmation.h"
#include "validators/executor/recording_backend.h"

namespace headroom::exec {
namespace {

ir::ModelSpec catalogue_model(const std::string& name) {
  return ir::load_model(test::kConfigs + "/models", name).value();
}

ir::ParallelPlan plan_of(const std::string& runtime, std::int64_t world) {
  ir::ParallelPlan plan;
  plan.runtime = runtime;
  plan.world = world;
  plan.precision = ir::Precision::kBf16Master;
  ir::runtime_of(plan).complete(plan);
  return plan;
}

/// Unlimited memory.
cost::MemoryTimeline predicted(const Execution& execution) {
  const cost::MemoryTimeline timeline = predict_rank(execution, Bytes{1} * (std::int64_t{1} << 50));
  REQUIRE_FALSE(timeline.out_of_memory);
  return timeline;
}

void check_refused(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                   const std::string& words) {
  const Result<Execution> refused = execution_of(model, plan);
  REQUIRE_FALSE(refused);
  CAPTURE(to_text(refused.error()));
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(to_text(refused.error()).find(words) != std::string::npos);
}

}  // namespace

TEST_CASE("execution of a plan: DeepSpeed's stages and offload") {
  const ir::ModelSpec model = catalogue_model("llama-3.2-1b");
  for (int stage = 0; stage <= 3; ++stage) {
    ir::ParallelPlan plan = plan_of("deepspeed", 8);
    ir::edit_zero(plan).stage = stage;
    const Execution execution = execution_of(model, plan).value();
    CHECK(execution.units.zero_stage == stage);
    CHECK(execution.division.data == 8);
  }
  ir::ParallelPlan plan = plan_of("deepspeed", 8);
  ir::edit_zero(plan).stage = 3;
  ir::edit_zero(plan).offload_optimizer = ir::OffloadDevice::kCpu;
  CHECK(execution_of(model, plan)->units.states_on_host);
  ir::edit_zero(plan).offload_optimizer = ir::OffloadDevice::kNvme;
  check_refused(model, plan, "NVMe");
}

TEST_CASE("execution of a plan: FSDP gathers in bf16 what it keeps in fp32") {
  ir::ParallelPlan plan = plan_of("fsdp", 4);
  plan.precision = ir::Precision::kFp32;
  ir::edit_fsdp(plan).param_dtype = ir::DType::kBf16;
  const Execution execution = execution_of(catalogue_model("llama-3.2-1b"), plan).value();
  CHECK(execution.units.zero_stage == 3);
  CHECK(execution.types.parameter == ir::DType::kFp32);
  CHECK(execution.types.compute == ir::DType::kBf16);
}

TEST_CASE("execution of a plan: Megatron-Core's degrees, recomputation and gradients") {
  const ir::ModelSpec model = catalogue_model("llama-3-8b");
  ir::ParallelPlan plan = plan_of("megatron", 16);
  plan.mesh.tensor = 2;
  plan.mesh.pipeline = 4;
  plan.rank = 5;
  ir::MegatronPlan& megatron = ir::edit_megatron(plan);
  megatron.sequence_parallel = true;
  megatron.distributed_optimizer = true;
  megatron.recompute = ir::MegatronRecompute::kSelective;
  megatron.recompute_modules.core_attention = true;
  Execution execution = execution_of(model, plan).value();
  CHECK(execution.division == Division{.tensor = 2, .data = 2, .pipeline = 4, .rank = 5});
  CHECK(execution.division.stage() == 1);
  CHECK(execution.sequence_parallel);
  CHECK(execution.units.zero_stage == 1);
  CHECK(execution.types.gradient == ir::DType::kFp32);
  CHECK(execution.layers[3] == ir::RecomputedParts{.attention = true});
  // Megatron-Core recomputes core attention if no module is named.
  ir::edit_megatron(plan).recompute_modules = {};
  CHECK(execution_of(model, plan).value().layers == execution.layers);

  ir::edit_megatron(plan).recompute = ir::MegatronRecompute::kFullBlock;
  ir::edit_megatron(plan).recompute_layers = 3;
  execution = execution_of(model, plan).value();
  int layers = 0;
  for (const ir::RecomputedParts& parts : execution.layers) {
    layers += parts.layer ? 1 : 0;
  }
  CHECK(layers == 4 * 3);  // Each stage has three of them.
  ir::edit_megatron(plan).layers_per_chunk = 2;
  check_refused(model, plan, "interleaved pipeline stages");
}

TEST_CASE("execution of a plan: every k-th layer is recomputed") {
  ir::ParallelPlan plan = plan_of("transformers", 1);
  plan.recompute = ir::Recompute::kFull;
  plan.recompute_every = 4;
  const Execution execution = execution_of(catalogue_model("llama-3.2-1b"), plan).value();
  for (std::size_t layer = 0; layer < execution.layers.size(); ++layer) {
    CHECK(execution.layers[layer].layer ==
          ir::recomputes_layer(plan, static_cast<std::int64_t>(layer)));
  }
}

TEST_CASE("execution of a plan: what the executor does not run is refused by name") {
  const ir::ParallelPlan plan = plan_of("transformers", 1);
  check_refused(catalogue_model("gemma-2-2b"), plan, "norm");
  check_refused(catalogue_model("deepseek-v3"), plan, "latent attention");
  check_refused(catalogue_model("bert-base-uncased"), plan, "encoder");
  check_refused(catalogue_model("gpt-oss-20b"), plan, "sinks");
  const ir::ModelSpec llama = catalogue_model("llama-3.2-1b");
  ir::ParallelPlan lora = plan;
  lora.lora = ir::LoraPlan{};
  check_refused(llama, lora, "adapter");
  ir::ParallelPlan sgd = plan;
  sgd.optimizer.kind = ir::OptimizerKind::kSgd;
  check_refused(llama, sgd, "adamw");
  ir::ParallelPlan expandable = plan;
  expandable.allocator.expandable_segments = true;
  CHECK_FALSE(execution_of(llama, expandable)->allocator.expandable_segments);
  CHECK(execution_notes(llama, expandable).size() == 1);
}

TEST_CASE("backend for CUDA: without driver or plugin, one sentence says what is missing") {
  const Result<const HeadroomDeviceTable*> backend = load_cuda_backend({"/no/such/library.so"});
  REQUIRE_FALSE(backend);
  CHECK(backend.error().code == ErrorCode::kEnvironment);
  const std::string words = to_text(backend.error());
  CAPTURE(words);
  CHECK((words.find("no NVIDIA driver") != std::string::npos ||
         words.find("no device library") != std::string::npos));
  CHECK_FALSE(cuda_plugin_places().empty());
}

TEST_CASE("backend for CUDA: only a program in the build folder looks for the plugin there") {
  const std::vector<std::string> installed = cuda_plugin_places_of("/opt/headroom/bin/headroom");
  REQUIRE(installed.size() == 1);
  CHECK(installed.front().starts_with("/opt/headroom/lib"));
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK(cuda_plugin_places_of(own).size() == 2);
}

TEST_CASE("execution: what no batch or rank can run is refused by name") {
  const auto refusal = [](const Execution& execution) {
    const Status checked = check_execution(execution);
    return checked ? std::string() : to_text(checked.error());
  };
  Execution execution = test::tiny_execution(test::tiny_model(2));
  execution.micro_batch = kMostSequences;
  CHECK(refusal(execution).empty());
  execution.micro_batch = kMostSequences + 1;
  CHECK(refusal(execution).find("at most 65535 sequences") != std::string::npos);

  // Four ranks have 2, 2, 1 and 0 of 5 rows.
  execution = test::tiny_execution(test::tiny_model(2));
  execution.model.kv_heads = 4;
  execution.division.tensor = 4;
  execution.model.vocabulary = 5;
  CHECK(refusal(execution).find("rows of the vocabulary (5)") != std::string::npos);
  execution.model.vocabulary = 7;
  CHECK(refusal(execution).empty());
}

TEST_CASE("largest micro-batch: the search tries only batches that the executor runs") {
  Execution execution = test::tiny_execution(test::tiny_model(1));
  execution.division.tensor = 2;
  execution.sequence_parallel = true;
  execution.sequence = 5;  // An odd number of sequences has an odd number of tokens.
  execution.model.vocabulary = 4000;
  DeviceChoice choice{.backend = &cpu_backend(), .ordinal = 0, .budget = Bytes{12 * kMiB}};
  Result<LargestBatch> largest = largest_batch(execution, choice);
  REQUIRE(largest);
  CHECK(largest->predicted == largest->measured);
  CHECK(largest->measured > 0);
  CHECK(largest->measured % 2 == 0);
  CHECK(largest->limit == kMostSequences - 1);

  // On a device that holds everything and computes nothing, the search ends at its limit.
  HeadroomDeviceTable endless = recording_backend();
  endless.info = [](HeadroomDevice*, HeadroomDeviceInfo* info) -> std::int32_t {
    *info = {};
    info->free_bytes = std::int64_t{1} << 50;
    return 0;
  };
  endless.memory_allocate = [](HeadroomDevice*, std::int64_t, void** memory) -> std::int32_t {
    static std::byte anything{};
    *memory = &anything;
    return 0;
  };
  execution.sequence_parallel = false;
  choice = {.backend = &endless, .ordinal = 0, .budget = std::nullopt};
  largest = largest_batch(execution, choice);
  REQUIRE(largest);
  CHECK(largest->limit == kMostSequences);
  CHECK(largest->predicted == kMostSequences);
  CHECK(largest->measured == kMostSequences);
}

TEST_CASE("execution: a full-size rank holds what its parameters need") {
  struct Size {
    const char* model;
    std::int64_t world;
    int stage;
    double bytes;  ///< Bytes of each parameter, on a rank.
  };
  // 2 bytes for bf16 parameters, 2 for gradients, 12 for the master copy and both moments.
  const std::vector<Size> sizes = {{"llama-3-8b", 1, 0, 16},
                                   {"llama-3-8b", 8, 1, 4 + 12.0 / 8},
                                   {"llama-3-8b", 8, 2, 2 + 14.0 / 8},
                                   {"llama-3-70b", 64, 3, 16.0 / 64},
                                   {"llama-3.1-405b", 512, 3, 16.0 / 512},
                                   {"mistral-7b-v0.1", 4, 3, 16.0 / 4},
                                   {"mixtral-8x7b", 16, 3, 16.0 / 16}};
  for (const Size& size : sizes) {
    CAPTURE(size.model);
    const ir::ModelSpec model = catalogue_model(size.model);
    ir::ParallelPlan plan = plan_of("deepspeed", size.world);
    ir::edit_zero(plan).stage = size.stage;
    plan.workload.sequence = 4096;
    plan.recompute = ir::Recompute::kFull;
    const cost::MemoryTimeline timeline = predicted(execution_of(model, plan).value());
    const double expected = size.bytes * static_cast<double>(ir::count_parameters(model).total());
    const auto held = static_cast<double>(timeline.phases.front().requested_after.value());
    // Besides: the workspace, the rotary table, padding of a few KiB for each unit.
    constexpr double kBesides = 40.0 * kMiB;
    CHECK(held >= expected);
    CHECK(held <= expected + kBesides);
    CHECK(timeline.phases.back().allocated_after == timeline.phases.front().allocated_after);
  }
}

TEST_CASE("execution: the recorded work has the FLOPs of the model") {
  for (const char* const name : {"llama-3-8b", "mixtral-8x7b"}) {
    CAPTURE(name);
    ir::ModelSpec model = catalogue_model(name);
    ir::ParallelPlan plan = plan_of("transformers", 1);
    plan.workload.sequence = 2048;
    plan.workload.steps = 1;
    const auto flops = [&](bool again) {
      plan.recompute = again ? ir::Recompute::kFull : ir::Recompute::kNone;
      const Execution execution = execution_of(model, plan).value();
      const ir::RankProgram program = record_rank(execution, Memory::Backing::kWork);
      double sum = 0;
      for (const ir::WorkItem& item : program.work.items) {
        if (item.kind == ir::WorkItem::Kind::kRun) {
          sum += cost::flops_of(program.work.shapes[item.index]);
        }
      }
      return sum;
    };
    const double expected = cost::model_flops_per_token(model, 2048) * 2048;
    CHECK(flops(false) == doctest::Approx(expected).epsilon(0.001));
    // Recomputation runs the layers' forward again: a third of all but the head.
    const double head = 6.0 * 2048 * static_cast<double>(model.hidden * model.vocabulary);
    CHECK(flops(true) == doctest::Approx(expected + (expected - head) / 3).epsilon(0.001));
  }
}

namespace {

/// The bytes that a layer keeps for backward.
std::int64_t kept_by_layer(Execution execution) {
  std::int64_t kept[2] = {};
  for (const std::size_t layers : {std::size_t{2}, std::size_t{3}}) {
    execution.model.layers.resize(layers);
    execution.layers.assign(layers, execution.layers.front());
    const cost::MemoryTimeline timeline = predicted(execution);
    // Requested bytes: those of blocks have tails that depend on the segments.
    kept[layers - 2] =
        (timeline.phases[1].requested_after - timeline.phases[0].requested_after).value();
  }
  return kept[1] - kept[0];
}

}  // namespace

TEST_CASE("execution: what a layer keeps for backward, by hand") {
  // B 2, S 1024, H 1024, A 16, K 4, D 64, F 2816 in bf16; every tensor is a multiple of 512 bytes.
  ir::ModelSpec model = test::tiny_model(2);
  model.hidden = 1024;
  model.heads = 16;
  model.kv_heads = 4;
  model.head_dim = 64;
  model.ffn = 2816;
  Execution execution = test::tiny_execution(model);
  execution.types = {.parameter = ir::DType::kBf16,
                     .compute = ir::DType::kBf16,
                     .gradient = ir::DType::kBf16,
                     .state = ir::DType::kFp32,
                     .master = true};
  execution.sequence = 1024;
  const std::int64_t tokens = 2048;
  // Input, its norm, q, k, v, output of attention, sum, its norm: 2 bytes each; gate, up, product.
  const std::int64_t wide = tokens * 2 * (4 * 1024 + 1024 + 2 * 256 + 1024 + 3 * 2816);
  const std::int64_t statistics = tokens * 4 * 2 + tokens * 4 * 16;  // Two rstd; one per head.
  CHECK(kept_by_layer(execution) == wide + statistics);

  // Selective: attention keeps q, k and v alone, and the next projection its input.
  Execution selective = execution;
  selective.layers.assign(3, {.attention = true});
  CHECK(kept_by_layer(selective) == wide + statistics - tokens * 4 * 16);

  // The MLP keeps its input: gate, up and product go.
  selective.layers.assign(3, {.mlp = true});
  CHECK(kept_by_layer(selective) == wide + statistics - tokens * 2 * 3 * 2816);

  Execution whole = execution;
  whole.layers.assign(3, {.layer = true});
  CHECK(kept_by_layer(whole) == tokens * 2 * 1024);

  // Eager attention: probabilities [B, A, S, S] in place of one number per row.
  Execution eager = execution;
  eager.flash = false;
  CHECK(kept_by_layer(eager) ==
        wide + statistics - tokens * 4 * 16 + std::int64_t{2} * 2 * 16 * 1024 * 1024);

  // Korthikanti et al. 2022, arXiv:2205.05198, table 2: tensor parallelism divides what is inside
  // attention and MLP; sequence parallelism the rest as well.
  Execution divided = execution;
  divided.division.tensor = 4;
  const std::int64_t outside = tokens * 2 * 4 * 1024 + tokens * 4 * 2;
  CHECK(kept_by_layer(divided) == outside + (wide + statistics - outside) / 4);
  divided.sequence_parallel = true;
  CHECK(kept_by_layer(divided) == (wide + statistics) / 4);

  Execution offloaded = execution;
  offloaded.activations_on_host = true;
  CHECK(kept_by_layer(offloaded) == 0);
}

TEST_CASE("execution: ranks of full-size plans are predicted, whatever their division") {
  test::Random random = test::seeded_random(405);
  const std::vector<std::string> names = {"llama-3-8b",      "llama-3-70b",  "llama-3.1-405b",
                                          "mistral-7b-v0.1", "mixtral-8x7b", "mixtral-8x22b",
                                          "qwen2.5-7b",      "qwen2.5-72b",  "gpt3-175b"};
  const int count = test::kSanitized ? 5 : 40;
  for (int number = 0; number < count; ++number) {
    Execution execution;
    execution.model = catalogue_model(random.pick(names));
    execution.model.moe ? execution.model.moe->auxiliary_loss = false : false;
    CAPTURE(number);
    CAPTURE(execution.model.name);
    const bool is_tied = execution.model.tied_embeddings;
    execution.types = {.parameter = ir::DType::kBf16,
                       .compute = ir::DType::kBf16,
                       .gradient = ir::DType::kBf16,
                       .state = ir::DType::kFp32,
                       .master = true};
    execution.division = {.tensor = random.pick<int>({1, 2, 4}),
                          .data = random.pick<int>({1, 2, 8, 64}),
                          .pipeline = is_tied ? 1 : random.pick<int>({1, 2, 4})};
    execution.division.rank = static_cast<int>(random.between(0, execution.division.world() - 1));
    execution.units.zero_stage = static_cast<int>(random.between(0, 3));
    execution.micro_batch = random.between(1, 2);
    execution.sequence = random.pick<std::int64_t>({1024, 2048});
    execution.accumulation = random.between(1, 2);
    execution.layers.assign(execution.model.layers.size(),
                            {.layer = random.chance(1, 2), .attention = random.chance(1, 2)});
    execution.workspace = Bytes{32 * kMiB};
    REQUIRE(check_execution(execution));
    const cost::MemoryTimeline timeline = predicted(execution);
    CHECK(timeline.phases.back().allocated_after == timeline.phases.front().allocated_after);
    CHECK(timeline.phases[timeline.peak_phase].peak_allocated >=
          timeline.phases.front().allocated_after);
  }
}

}  // namespace headroom::exec
