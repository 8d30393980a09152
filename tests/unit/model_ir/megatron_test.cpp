#include <map>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/plan/pipeline_schedule.h"
#include "runtimes/megatron/build_chunks.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/rank_grid.h"
#include "runtimes/megatron/schedule.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/random_plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

using test::refused_by_check;

ModelSpec narrow_llama() {
  return parse_hf_config(R"({"hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 32, "num_attention_heads": 8, "num_key_value_heads": 8,
    "vocab_size": 1000, "tie_word_embeddings": true, "max_position_embeddings": 4096,
    "model_type": "llama"})",
                         "narrow")
      .value();
}

ParallelPlan plan_with(const Mesh& mesh, std::int64_t world, const MegatronPlan& megatron = {}) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = megatron;
  plan.mesh = mesh;
  plan.world = world;
  plan.workload.sequence = 1024;
  return plan;
}

std::int64_t parameters_of(const RankProgram& program) {
  std::int64_t parameters = 0;
  for (const Event& event : program.events) {
    const bool parameter =
        event.kind == EventKind::kAllocate && event.role == TensorRole::kParameter;
    parameters += parameter ? event.bytes / 2 : 0;
  }
  return parameters;
}

std::int64_t model_parameters(const ModelSpec& model) {
  return parameters_of(lower(model, plan_with({}, 1), Rank{0}, DeviceTraits{}).value());
}

/// What the kernels of an operation read and write.
std::int64_t traffic_of(const RankProgram& program, const std::string& operation) {
  std::int64_t bytes = 0;
  for (const WorkItem& item : program.work.items) {
    const bool here = program.operations[program.sites[item.site].operation] == operation;
    const auto* const traffic = item.kind == WorkItem::Kind::kRun && here
                                    ? std::get_if<TrafficShape>(&program.work.shapes[item.index])
                                    : nullptr;
    bytes += traffic != nullptr ? traffic->bytes : 0;
  }
  return bytes;
}

}  // namespace

TEST_CASE("megatron mesh: tensor varies fastest, then context, data and pipeline") {
  const Mesh mesh{.tensor = 2, .pipeline = 2, .context = 2};
  const RankGrid grid = rank_grid(plan_with(mesh, 16), 13).value();
  CHECK(grid.tensor.rank == 1);
  CHECK(grid.context.rank == 0);
  CHECK(grid.data.rank == 1);
  CHECK(grid.pipeline.rank == 1);
  CHECK(grid.data.size == 2);
  CHECK(grid.data_context().size == 4);
  CHECK(grid.data_context().rank == 2);
  CHECK(grid.last_stage());
}

TEST_CASE("megatron mesh: stages can come before data") {
  const MegatronPlan stages_first{.pipeline_before_data = true};
  const Mesh mesh{.tensor = 2, .pipeline = 2, .context = 2};
  // 13 = 1 + 0 * 2 + 1 * 4 + 1 * 8
  const RankGrid grid = rank_grid(plan_with(mesh, 16, stages_first), 13).value();
  CHECK(grid.tensor.rank == 1);
  CHECK(grid.context.rank == 0);
  CHECK(grid.pipeline.rank == 1);
  CHECK(grid.pipeline.stride == 4);
  CHECK(grid.data.rank == 1);
  CHECK(grid.data.group() == RankGroup{.size = 2, .stride = 8});
  // 1, 3 and, behind the other stage, 9, 11.
  CHECK(grid.data_context().group() ==
        RankGroup{.size = 2, .stride = 2, .outer_size = 2, .outer_stride = 8});
  CHECK(grid.data_context().size == 4);
  CHECK(grid.data_context().rank == 2);
  const Mesh experts{.tensor = 4, .pipeline = 2, .expert = 4, .expert_tensor = 1};
  const RankGrid sparse = rank_grid(plan_with(experts, 16, stages_first), 13).value();
  CHECK(sparse.expert.rank == 1);
  CHECK(sparse.pipeline.rank == 1);
  CHECK(sparse.expert_data.group() == RankGroup{.size = 2, .stride = 8});
}

TEST_CASE("megatron mesh: experts have a grid of their own") {
  const Mesh mesh{.tensor = 4, .expert = 8, .expert_tensor = 1};
  const RankGrid grid = rank_grid(plan_with(mesh, 16), 11).value();
  CHECK(grid.data.size == 4);
  CHECK(grid.expert.size == 8);
  CHECK(grid.expert.rank == 3);
  CHECK(grid.expert_data.size == 2);
  CHECK(grid.expert_data.rank == 1);
  CHECK_FALSE(rank_grid(plan_with(mesh, 15), 0));
}

TEST_CASE("megatron schedule: chunks take turns in groups of as many micro-batches as stages") {
  CHECK(chunk_order(4, 2, 2) == std::vector<std::int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
  const auto warmup = [](std::int64_t stage, std::int64_t micro_batches, std::int64_t chunks) {
    return warmup_of_stage(
        {.kind = chunks > 1 ? PipelineKind::kInterleaved : PipelineKind::kOneForwardOneBackward,
         .stages = 4,
         .micro_batches = micro_batches,
         .chunks = chunks},
        stage);
  };
  CHECK(warmup(0, 8, 1) == 3);
  CHECK(warmup(3, 8, 1) == 0);
  CHECK(warmup(1, 8, 2) == 8);
  CHECK(warmup(0, 2, 1) == 2);
}

TEST_CASE("megatron: the token table is padded to a multiple of every rank's share") {
  ModelSpec model = narrow_llama();
  CHECK(padded_vocabulary(model, plan_with({.tensor = 1}, 1)) == 1024);
  model.vocabulary = 50'257;
  CHECK(padded_vocabulary(model, plan_with({.tensor = 8}, 8)) == 51'200);
}

TEST_CASE("megatron: plans that cut unevenly are refused with the degree") {
  const ModelSpec model = narrow_llama();
  CHECK(refused_by_check(model, plan_with({.tensor = 2}, 4)).empty());
  CHECK(refused_by_check(model, plan_with({.tensor = 3}, 3)) == "tp=3");
  CHECK(refused_by_check(model, plan_with({.tensor = 2, .pipeline = 2}, 6)) ==
        "tp=2,pp=2: tp x pp x cp is 4, which does not divide --gpus 6");
  CHECK(refused_by_check(model, plan_with({.pipeline = 5}, 5)) == "pp=5");
  CHECK(refused_by_check(model, plan_with({.pipeline = 2}, 2, {.layers_per_chunk = 3})) ==
        "layers-per-virtual-stage=3");
  CHECK(refused_by_check(model, plan_with({.expert = 2}, 2)) == "ep=2");
  CHECK(
      refused_by_check(model, plan_with({}, 1, {.attention = MegatronAttention::kFlash})).empty());
  CHECK(refused_by_check(model,
                         plan_with({.context = 2}, 2, {.attention = MegatronAttention::kFlash}))
            .empty());
  ModelSpec uneven = model;  // Transformer Engine's kernels take heads of multiples of 8.
  uneven.head_dim = 100;
  CHECK(refused_by_check(uneven, plan_with({}, 1)) == "attention=fused with head size 100");
  CHECK(refused_by_check(
            model, plan_with({.context = 2}, 2, {.attention = MegatronAttention::kUnfused})) ==
        "attention=unfused with cp=2");
  CHECK(refused_by_check(model, plan_with({.pipeline = 4}, 4, {.first_stage_layers = 7})) ==
        "pp=4");
  CHECK(refused_by_check(model, plan_with({.pipeline = 4}, 4, {.first_stage_layers = 8})).empty());
  CHECK(refused_by_check(model, plan_with({.pipeline = 2}, 2, {.account_for_loss = true})) ==
        "pp=2");
  CHECK(refused_by_check(model, plan_with({}, 1, {.rope_fusion = false})).empty());
  ModelSpec partial = model;
  partial.rope_fraction = 0.5;
  CHECK(refused_by_check(partial, plan_with({}, 1, {.rope_fusion = false})) ==
        "rope-fusion=no with latent attention, or with rotary embedding on a part of each head");
  const MegatronPlan exchange{.context_exchange = MegatronContext::kAllToAll};
  CHECK(refused_by_check(model, plan_with({.context = 16}, 16, exchange)) == "tp x cp=16");
  CHECK(refused_by_check(model, plan_with({.pipeline = 2}, 4, {.pipeline_before_data = true}))
            .empty());
  CHECK(refused_by_check(
            model, plan_with({}, 4, {.optimizer_instances = 2, .pipeline_before_data = true})) ==
        "use-tp-pp-dp-mapping with optimizer-instances=2");
  CHECK(refused_by_check(model, plan_with({}, 1, {.layers_per_chunk = 4})) ==
        "has layers-per-virtual-stage, which needs pp of 2 or more");
  CHECK(refused_by_check(model, plan_with({}, 1, {.overlap_param_gather = true})) ==
        "has overlap-param-gather, which needs distributed-optimizer and overlap-grad-reduce");
  CHECK(refused_by_check(model, plan_with({}, 1, {.recompute_layers = 2})) ==
        "has recompute-layers, which needs recompute=uniform or recompute=block");
  ParallelPlan odd = plan_with({.context = 2}, 2);
  odd.workload.sequence = 1022;
  CHECK(refused_by_check(model, odd) == "1022");
}

TEST_CASE("megatron stages: layers are dealt out to chunks in turn, uneven stages counted") {
  const auto spans = [](const Mesh& mesh, const MegatronPlan& megatron, std::int64_t layers) {
    const ParallelPlan plan = plan_with(mesh, mesh.pipeline, megatron);
    std::vector<std::int64_t> counts;
    std::int64_t next = 0;
    for (std::int64_t chunk = 0; chunk < chunks_per_stage(plan, layers); ++chunk) {
      for (std::int64_t stage = 0; stage < mesh.pipeline; ++stage) {
        const LayerSpan span = chunk_layers(plan, layers, {.stage = stage, .chunk = chunk});
        CHECK(span.first == next);  // Every layer is on one chunk.
        next += span.count;
        counts.push_back(span.count);
      }
    }
    CHECK(next == layers);
    return counts;
  };
  using Counts = std::vector<std::int64_t>;
  CHECK(spans({.pipeline = 2}, {.layers_per_chunk = 2}, 8) == Counts{2, 2, 2, 2});
  CHECK(spans({.pipeline = 4}, {.first_stage_layers = 2, .last_stage_layers = 2}, 12) ==
        Counts{2, 4, 4, 2});
  // Six layers, the embedding and the loss on four stages of two chunks: the first and the last
  // chunk have no layer.
  CHECK(spans({.pipeline = 4},
              {.layers_per_chunk = 1, .account_for_embedding = true, .account_for_loss = true},
              6) == Counts{0, 1, 1, 1, 1, 1, 1, 0});
}

TEST_CASE("megatron mesh: instances of the optimizer spread states over fewer ranks") {
  const RankGrid grid =
      rank_grid(plan_with({.tensor = 2}, 16, {.optimizer_instances = 2}), 11).value();
  CHECK(grid.data.size == 8);
  CHECK(grid.data_context().size == 4);
  CHECK(grid.data_context().rank == 1);  // The sixth of eight: the second of its instance.
}

TEST_CASE("megatron: deterministic algorithms come with cuBLAS workspaces of 32 MiB") {
  const auto workspaces = [](bool deterministic) {
    const RankProgram program =
        lower(test::small_llama(), plan_with({}, 1, {.deterministic = deterministic}), Rank{0},
              DeviceTraits{.compute_major = 8})
            .value();
    std::int64_t bytes = 0;
    for (const Event& event : program.events) {
      const bool handle = event.kind == EventKind::kAllocate &&
                          event.role == TensorRole::kWorkspace &&
                          (event.bytes == 4096 * 8 * kKiB || event.bytes == 8320 * kKiB);
      bytes += handle ? event.bytes : 0;
    }
    return bytes;
  };
  CHECK(workspaces(true) == 2 * 4096 * 8 * kKiB);  // Forward and backward.
  CHECK(workspaces(false) == 2 * 8320 * kKiB);
}

TEST_CASE("megatron: FlashAttention keeps copies of what several sequences interleave") {
  const auto kept = [](MegatronAttention attention, std::int64_t batch) {
    ParallelPlan plan = plan_with({}, 1, {.attention = attention});
    plan.workload.micro_batch = batch;
    return test::alive_at_loss(lower(test::small_llama(), plan, Rank{0}, DeviceTraits{}).value());
  };
  CHECK(kept(MegatronAttention::kFlash, 1) == kept(MegatronAttention::kFused, 1));
  const ModelSpec model = test::small_llama();
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t output = 2 * 1024 * model.heads * model.head_dim * 2;
  CHECK(kept(MegatronAttention::kFlash, 2) - kept(MegatronAttention::kFused, 2) == layers * output);
}

TEST_CASE("megatron: ranks exchange queries, keys, values and results for heads, and back") {
  MegatronPlan megatron{.context_exchange = MegatronContext::kAllToAll};
  const RankProgram program =
      lower(test::small_llama(), plan_with({.context = 2}, 2, megatron), Rank{1}, DeviceTraits{})
          .value();
  const auto layers = static_cast<std::int64_t>(test::small_llama().layers.size());
  std::int64_t calls = 0;
  for (const Phase& phase : program.phases) {
    for (const Work::Collective& each : phase.work.collectives) {
      calls += each.kind == CollectiveKind::kAllToAll ? each.calls : 0;
    }
  }
  CHECK(calls == 2 * layers * 8);  // Two steps; the gradient of the result and of the three too.
}

TEST_CASE("megatron: rotation without a fused kernel keeps cosines and sines of each call") {
  const auto peak_kept = [](bool fused) {
    const ParallelPlan plan = plan_with({}, 1, {.rope_fusion = fused});
    return test::alive_at_loss(lower(test::small_llama(), plan, Rank{0}, DeviceTraits{}).value());
  };
  const ModelSpec model = test::small_llama();
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  CHECK(peak_kept(false) - peak_kept(true) == layers * 2 * 2 * 1024 * model.head_dim * 2);
}

TEST_CASE("megatron: the precision-aware optimizer keeps half of what the usual one does") {
  const ModelSpec model = test::small_llama();
  const auto kept = [&](MegatronPlan megatron) {
    megatron.distributed_optimizer = true;
    const RankProgram program =
        lower(model, plan_with({}, 1, megatron), Rank{0}, DeviceTraits{}).value();
    const cost::MemoryTimeline timeline = cost::replay(program, {}, Bytes{600'000'000'000});
    return timeline.phases[4].requested_after.value();  // After the first step.
  };
  const std::int64_t parameters = model_parameters(model);
  const std::int64_t usual = kept({});
  // 4 bytes of master copy become 2.
  CHECK(usual - kept({.precision_aware = true}) == 2 * parameters);
  // 8 bytes of moments become 4, with two scales for each parameter.
  const std::int64_t saved = usual - kept({.precision_aware = true, .bf16_moments = true});
  CHECK(saved < 6 * parameters);
  CHECK(saved > 6 * parameters - 1024);
}

// The tied table [1024 / 2, 256] in fp32; on the first rank all that it has counts either way.
TEST_CASE("megatron: tables of vocabulary that nothing has marked count on the first rank alone") {
  ParallelPlan plan = plan_with({.tensor = 2}, 2);
  plan.workload.steps = 1;
  const auto norm = [&plan](std::int32_t rank, bool initialised) {
    edit_megatron(plan).perform_initialization = initialised;
    return traffic_of(lower(narrow_llama(), plan, Rank{rank}, DeviceTraits{}).value(), "grad_norm");
  };
  CHECK(norm(0, true) == norm(0, false));
  CHECK(norm(1, true) - norm(1, false) == 4 * 512 * 256);
}

TEST_CASE("megatron: an optimizer on the host leaves neither master copies nor moments behind") {
  const auto state_bytes = [](double share) {
    const MegatronPlan megatron{
        .distributed_optimizer = true, .precision_aware = true, .optimizer_offload = share};
    const RankProgram program =
        lower(test::small_llama(), plan_with({}, 1, megatron), Rank{0}, DeviceTraits{}).value();
    std::map<BlockId, std::int64_t> alive;
    for (const Event& event : program.events) {
      const bool kept =
          event.role == TensorRole::kMasterParameter || event.role == TensorRole::kOptimizerState;
      if (event.kind == EventKind::kAllocate && kept) {
        alive[event.block] = event.bytes;
      } else if (event.kind == EventKind::kFree) {
        alive.erase(event.block);
      }
    }
    std::int64_t bytes = 0;
    for (const auto& [block, size] : alive) {
      bytes += size;
    }
    return bytes;
  };
  CHECK(state_bytes(1) == 4);  // The gradient scale.
  // A share too small for more than the first parameter, the token table.
  const ModelSpec model = test::small_llama();
  const std::int64_t table = padded_vocabulary(model, plan_with({}, 1)) * model.hidden;
  CHECK(state_bytes(1e-6) - state_bytes(1) == 12 * (model_parameters(model) - table) + 4);
}

TEST_CASE("megatron: a layer of multi-token prediction brings logits and weights of its own") {
  const ModelSpec model = test::small_llama();
  const auto totals = [&model](std::int64_t layers) {
    const RankProgram program =
        lower(model, plan_with({}, 1, {.mtp_layers = layers}), Rank{0}, DeviceTraits{}).value();
    std::int64_t tables = 0;
    std::int64_t logits = 0;
    const std::int64_t wide = 1024 * padded_vocabulary(model, plan_with({}, 1)) * 4;
    for (const Event& event : program.events) {
      if (event.kind == EventKind::kAllocate) {
        tables += event.role == TensorRole::kParameter ? event.bytes / 2 : 0;
        logits += event.role == TensorRole::kLogits && event.bytes == wide ? 1 : 0;
      }
    }
    return std::pair{tables, logits};
  };
  const auto [parameters, logits] = totals(0);
  const auto [more, twice] = totals(1);
  const std::int64_t hidden = model.hidden;
  const std::int64_t layer = hidden * (model.heads + 2 * model.kv_heads) * model.head_dim +
                             model.heads * model.head_dim * hidden + 3 * hidden * model.ffn +
                             2 * hidden;
  CHECK(more - parameters == layer + 3 * hidden + 2 * hidden * hidden);
  CHECK(twice == 2 * logits);
  const MegatronPlan tied{.mtp_layers = 1, .overlap_grad_reduce = true};
  CHECK(refused_by_check(narrow_llama(), plan_with({.pipeline = 2}, 2, tied)) ==
        "overlap-grad-reduce with mtp-layers and tied embeddings on several stages");
}

TEST_CASE("megatron: the projection of predicted tokens is cut by columns") {
  const ModelSpec model = test::small_llama();
  const auto parameters = [&model](std::int64_t tensor, std::int64_t layers) {
    const MegatronPlan megatron{.mtp_layers = layers, .sequence_parallel = tensor > 1};
    const RankProgram program =
        lower(model, plan_with({.tensor = tensor}, tensor, megatron), Rank{0}, DeviceTraits{})
            .value();
    return parameters_of(program);
  };
  const std::int64_t norms = 5 * model.hidden;  // Whole on every rank.
  const std::int64_t whole = parameters(1, 1) - parameters(1, 0) - norms;
  CHECK(2 * (parameters(2, 1) - parameters(2, 0) - norms) == whole);
}

TEST_CASE("megatron: tokens moved by one pass the ends of stretches on to neighbours") {
  const auto columns = [](std::int32_t rank) {
    const ParallelPlan plan = plan_with({.context = 4}, 4, {.mtp_layers = 1});
    const RankProgram program =
        lower(test::small_llama(), plan, Rank{rank}, DeviceTraits{}).value();
    std::int64_t sent = 0;
    for (const WorkItem& item : program.work.items) {
      if (item.kind == WorkItem::Kind::kRun) {
        const auto* shape = std::get_if<CollectiveShape>(&program.work.shapes[item.index]);
        sent += shape != nullptr && shape->kind == CollectiveKind::kSend && shape->bytes <= 8;
      }
    }
    return sent / plan.workload.steps;
  };
  // Ids, positions, labels and mask; the ends of the ring have one neighbour.
  CHECK(columns(0) == 4);
  CHECK(columns(1) == 8);
  CHECK(columns(3) == 4);
}

TEST_CASE("megatron: modules are recomputed where the model has them") {
  const auto with = [](const MegatronModules& modules) {
    return refused_by_check(narrow_llama(), plan_with({}, 1,
                                                      {.recompute = MegatronRecompute::kSelective,
                                                       .recompute_modules = modules}));
  };
  CHECK(with({.mlp = true}).empty());
  CHECK(with({.moe = true}) == "recompute-modules=moe, moe_act or shared_experts");
  CHECK(with({.latent_up = true}) == "recompute-modules=mla_up_proj");
  CHECK(refused_by_check(narrow_llama(), plan_with({}, 1, {.precision_aware = true})) ==
        "has precision-aware, which needs distributed-optimizer");
  CHECK(refused_by_check(narrow_llama(),
                         plan_with({}, 1, {.distributed_optimizer = true, .bf16_moments = true})) ==
        "has bf16-moments, which needs precision-aware");
}

TEST_CASE("megatron: models that its layers have no words for are refused by what they have") {
  const ModelSpec model = narrow_llama();
  const auto with = [&](auto change) {
    ModelSpec other = model;
    change(other);
    return refused_by_check(other, plan_with({}, 1));
  };
  CHECK(with([](ModelSpec& m) { m.residual = ResidualForm::kParallelOneNorm; }) ==
        "is not supported for a model with attention and MLP side by side");
  CHECK(with([](ModelSpec& m) { m.activation = Activation::kRelu; }) ==
        "is not supported for a model with an activation other than SwiGLU and GELU");
}

TEST_CASE("megatron: windows and sinks are Transformer Engine's, of whole sequences") {
  const auto with = [](const Mesh& mesh, std::int64_t world, auto change,
                       const MegatronPlan& megatron = {}) {
    ModelSpec other = narrow_llama();
    change(other);
    return refused_by_check(other, plan_with(mesh, world, megatron));
  };
  const auto window = [](ModelSpec& m) { m.layers[1].window = 512; };
  CHECK(with({}, 1, window).empty());
  CHECK(with({}, 1, window, {.attention = MegatronAttention::kUnfused}).empty());
  CHECK(with({}, 1, window, {.attention = MegatronAttention::kFlash}) == "attention=flash");
  CHECK(with({.context = 2}, 2, window) == "cp=2");
  const auto sinks = [](ModelSpec& m) { m.attention_sinks = true; };
  CHECK(with({}, 1, sinks).empty());
  CHECK(with({}, 1, sinks, {.attention = MegatronAttention::kUnfused}) == "attention=unfused");
  const auto dropped = [](ModelSpec& m) {
    m.layers[1].window = 512;
    m.dropout.attention = 0.1;
  };
  CHECK(with({}, 1, dropped) == "attention=fused");
  CHECK(with({}, 1, dropped, {.attention = MegatronAttention::kUnfused}).empty());
  ModelSpec wide = narrow_llama();
  wide.attention_sinks = true;
  ParallelPlan plan = plan_with({}, 1);
  plan.precision = Precision::kFp32;
  CHECK(refused_by_check(wide, plan) == "--precision fp32");
}

TEST_CASE("megatron: experts with biases are grouped, whole and in 16 bits") {
  const auto with = [](const Mesh& mesh, std::int64_t world, const MegatronPlan& megatron = {}) {
    ModelSpec other = narrow_llama();
    other.moe = MoeSpec{.experts = 4, .top_k = 2, .expert_ffn = 64, .expert_bias = true};
    for (LayerSpec& layer : other.layers) {
      layer.moe = true;
    }
    return refused_by_check(other, plan_with(mesh, world, megatron));
  };
  CHECK(with({}, 1).empty());
  CHECK(with({.tensor = 2, .expert_tensor = 1}, 2, {.sequence_parallel = true}).empty());
  CHECK(with({.tensor = 2}, 2, {.sequence_parallel = true}) == "etp=2");
  CHECK(with({}, 1, {.grouped_gemm = false}) == "grouped-gemm=no");
  CHECK(with({}, 1, {.fp8 = MegatronFp8::kTensorwise}) == "fp8-recipe");
}

TEST_CASE("megatron: selective recomputation without modules is that of core attention") {
  CHECK(recomputed_modules({.recompute = MegatronRecompute::kSelective}).core_attention);
  CHECK_FALSE(recomputed_modules({}).core_attention);
  MegatronPlan mlp{.recompute = MegatronRecompute::kSelective};
  mlp.recompute_modules.mlp = true;
  CHECK_FALSE(recomputed_modules(mlp).core_attention);
}

TEST_CASE("megatron: options of other runtimes are refused, not dropped") {
  ParallelPlan plan = plan_with({}, 1);
  plan.recompute = Recompute::kFull;
  CHECK(check_plan(narrow_llama(), plan).error().key == "checkpointing");
  plan = plan_with({}, 1);
  plan.optimizer.kind = OptimizerKind::kSgd;
  CHECK(check_plan(narrow_llama(), plan).error().key == "optimizer");
  plan = plan_with({}, 1);
  plan.runtime = "transformers";
  CHECK(check_plan(narrow_llama(), plan).error().key == "megatron");
}

TEST_CASE("megatron: a layer without a place in its specification is refused by name") {
  const ModelSpec gemma = parse_hf_config(R"({"hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
    "vocab_size": 100, "model_type": "gemma2"})",
                                          "gemma")
                              .value();
  const auto program = lower(gemma, plan_with({}, 1), Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "megatron");
}

TEST_CASE("megatron: tensor parallelism halves what the ranks of a pair hold") {
  const ModelSpec model = test::small_llama();
  const auto after = [&](const Mesh& mesh, const std::string& phase) {
    const RankProgram program = lower(model, plan_with(mesh, 2), Rank{0}, DeviceTraits{}).value();
    const cost::MemoryTimeline timeline = cost::replay(program, {}, Bytes{600'000'000'000});
    for (const cost::PhaseMemory& each : timeline.phases) {
      if (to_text(each.name) == phase) {
        return each.requested_after.value();
      }
    }
    return std::int64_t{0};
  };
  const std::int64_t whole = after({}, "model");
  const std::int64_t half = after({.tensor = 2}, "model");
  const std::int64_t norms = 5 * 1024 * 2;  // Two a layer and the last one, in bf16.
  const std::int64_t frequencies = 32 * 4;
  CHECK(2 * half - whole == norms + frequencies);
}

TEST_CASE("property: every random plan of megatron frees what it takes, once") {
  test::Random random = test::seeded_random(61);
  CAPTURE(random.seed());
  const ModelSpec model = narrow_llama();
  for (int round = 0; round < 40; ++round) {
    const ParallelPlan plan = test::random_megatron_plan(random);
    const auto rank = static_cast<std::int32_t>(random.between(0, plan.world - 1));
    const auto program = lower(model, plan, Rank{rank}, DeviceTraits{});
    REQUIRE(program);
    std::vector<int> live(program->blocks, 0);
    bool balanced = true;
    for (const Event& event : program->events) {
      if (event.kind == EventKind::kAllocate) {
        balanced = balanced && live[event.block]++ == 0;
      } else if (event.kind == EventKind::kFree) {
        balanced = balanced && live[event.block]-- == 1;
      }
    }
    CHECK(balanced);
    const cost::MemoryTimeline timeline = cost::replay(*program, {}, Bytes{600'000'000'000'000});
    REQUIRE(timeline.phases.size() == 3 + 2 * static_cast<std::size_t>(plan.workload.steps));
    // Nothing but the optimizer's states and the process's own buffers outlives a step.
    if (plan.workload.steps == 2) {
      CHECK(timeline.phases[6].allocated_after.value() -
                timeline.phases[4].allocated_after.value() <=
            Bytes{kMiB}.value());
    }
  }
}

}  // namespace headroom::ir::megatron
