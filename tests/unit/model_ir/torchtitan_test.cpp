// torchtitan's model code on FSDP2. Step totals were recorded with torchtitan 0.2.2 and PyTorch
// 2.11.0 on rank 0 (compute capability 9.0, 132 multiprocessors): AdamW, fused unless it says
// otherwise, 1024 tokens, three layers, H 1024, eight heads of 128, four of keys, V 32000.

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "model_ir/plan/device_work.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/torchtitan/launch.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/event_text.h"
#include "tests/support/random_plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"
#include "tests/support/titan_plan.h"

namespace headroom::ir {
namespace {

using test::refused_by_lowering;
using test::titan_model;
using test::titan_plan;

ParallelPlan tensor_parallel(std::int64_t world) {
  return titan_plan(world, {}, {.tensor = 2});
}

ParallelPlan selective(std::int64_t world, std::int64_t tensor) {
  return titan_plan(world, {.selective_operators = true}, {.tensor = tensor});
}

/// Of all collectives together.
std::int64_t collective_bytes(const Work& work) {
  std::int64_t bytes = 0;
  for (const Work::Collective& each : work.collectives) {
    bytes += each.bytes;
  }
  return bytes;
}
std::int64_t collective_calls(const Work& work) {
  std::int64_t calls = 0;
  for (const Work::Collective& each : work.collectives) {
    calls += each.calls;
  }
  return calls;
}

}  // namespace

TEST_CASE("torchtitan: before PyTorch 2.9 a norm is eight kernels on an fp32 copy") {
  ParallelPlan plan = titan_plan(2);
  const auto step = [&plan] {
    const RankProgram program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}).value();
    return test::find_phase(program, "step2")->work;
  };
  const Work fused = step();
  plan.runtime_version = "2.8";
  const Work composed = step();
  plan.runtime_version = "2.9";
  CHECK(step().kernels == fused.kernels);
  // Two norms in each of three layers, and the last one: eight kernels forward in place of one.
  constexpr std::int64_t kNorms = 7;
  const std::int64_t more = composed.kernels - fused.kernels;
  CHECK(more % kNorms == 0);
  CHECK(more / kNorms > 2 * 7);
  // The fp32 copy is written, and read by the square and the product; its square written and read.
  constexpr std::int64_t kElements = 1024 * 1024;
  CHECK(composed.traffic_bytes - fused.traffic_bytes > kNorms * 5 * 4 * kElements);
  CHECK(composed.gemm_flops == fused.gemm_flops);
  plan.runtime_version = "2.5";
  const auto refused = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "runtime-version");
}

TEST_CASE("torchtitan: embedding, blocks and the head are groups, the head stays gathered") {
  test::check_phases(titan_model("llama"), titan_plan(2),
                     {{"step1", 875'117'568, 875'129'344}, {"step2", 875'118'080, 1'249'587'712}});
}

TEST_CASE("torchtitan: resharding never keeps all groups, always lets the head go") {
  TitanPlan never;
  never.reshard = TitanReshard::kNever;
  test::check_phases(titan_model("llama"), titan_plan(2, never),
                     {{"step1", 875'117'568, 948'614'144}, {"step2", 875'118'080, 1'385'914'880}});
  TitanPlan always;
  always.reshard = TitanReshard::kAlways;
  test::check_phases(titan_model("llama"), titan_plan(2, always),
                     {{"step2", 875'118'080, 1'184'049'664}});
}

TEST_CASE("torchtitan: the foreach optimizer's temporaries make the first step's peak") {
  ParallelPlan plan = titan_plan(2);
  plan.optimizer.form = OptimizerForm::kForeach;
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 875'102'208, 1'076'977'152}, {"step2", 875'102'720, 1'249'572'352}});
}

TEST_CASE("torchtitan: blocks are run again as a whole, or every second one") {
  ParallelPlan plan = titan_plan(2);
  plan.recompute = Recompute::kFull;
  test::check_phases(titan_model("llama"), plan, {{"step2", 875'118'080, 1'142'507'008}});
  plan.recompute_every = 2;
  test::check_phases(titan_model("llama"), plan, {{"step2", 875'118'080, 1'213'894'144}});
}

TEST_CASE("torchtitan: selective checkpointing keeps every second product and attention") {
  test::check_phases(titan_model("llama"), selective(2, 1),
                     {{"step1", 875'117'568, 875'129'344}, {"step2", 875'118'080, 1'181'929'984}});
}

TEST_CASE(
    "torchtitan: compiled blocks keep what their backward reads, the loss two numbers a row") {
  TitanPlan titan;
  titan.compiled = true;
  ParallelPlan plan = titan_plan(2, titan);
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 875'117'568, 875'129'344}, {"step2", 875'118'080, 1'071'736'320}});
  plan.workload.micro_batch = 8;  // Activations make the peak.
  const auto peak = [&plan] {
    const auto program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{});
    REQUIRE(program);
    const cost::MemoryTimeline timeline =
        cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000});
    return timeline.phases.back().peak_allocated.value();
  };
  const std::int64_t all = peak();
  edit_titan(plan).selective_operators = true;
  const std::int64_t operators = peak();
  edit_titan(plan).selective_operators = false;
  plan.recompute = Recompute::kFull;
  const std::int64_t inputs = peak();
  CHECK(all == 2'589'688'832);
  CHECK(operators == 2'136'507'392);
  CHECK(inputs == 1'871'476'736);
}

TEST_CASE("torchtitan: compiled blocks of Qwen3 norm and rotate heads in one kernel") {
  TitanPlan titan;
  titan.compiled = true;
  ParallelPlan plan = titan_plan(2, titan);
  plan.workload.micro_batch = 8;
  const auto kernels_of = [&plan](const char* family) {
    const RankProgram program = lower(titan_model(family), plan, Rank{0}, DeviceTraits{}).value();
    return test::find_phase(program, "step2")->work.kernels;
  };
  // No complex products of PyTorch's own between casts to fp32 and back.
  CHECK(kernels_of("qwen3") < kernels_of("llama"));
  plan.workload.micro_batch = 1;
  test::check_phases(titan_model("qwen3"), plan,
                     {{"step1", 894'530'048, 894'541'824}, {"step2", 894'530'560, 1'091'148'800}});
}

TEST_CASE("torchtitan: replicas of a whole model are DDP's, wrapped at the first forward") {
  ParallelPlan plan = titan_plan(2);
  plan.mesh.replicas = 2;
  plan.workload.steps = 3;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 2'086'308'864, 2'086'320'640},
                      {"step2", 2'086'309'376, 2'363'245'056},
                      {"step3", 2'086'309'376, 2'363'245'056}});
  plan.mesh.tensor = 2;
  plan.world = 4;
  CHECK(refused_by_lowering(titan_model("llama"), plan) == "gpus");  // Beside no other dimension.
  CHECK(refused_by_lowering(titan_model("qwen3"), titan_plan(1)) == "gpus");
}

TEST_CASE("torchtitan: replicas share what ranks do not") {
  ParallelPlan plan = titan_plan(4);
  plan.mesh.replicas = 2;
  test::check_phases(titan_model("llama"), plan, {{"step2", 875'118'080, 1'249'587'712}});
}

TEST_CASE("torchtitan: tensor and sequence parallelism move activations as DTensor does") {
  test::check_phases(titan_model("llama"), tensor_parallel(4),
                     {{"step1", 471'415'808, 496'112'640}, {"step2", 471'416'320, 731'562'496}});
  ParallelPlan again = tensor_parallel(4);
  again.recompute = Recompute::kFull;
  test::check_phases(titan_model("llama"), again, {{"step2", 471'416'320, 671'729'152}});
}

TEST_CASE("torchtitan: without a parallel loss every rank gathers all logits") {
  ParallelPlan plan = tensor_parallel(4);
  edit_titan(plan).loss_parallel = false;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 471'415'808, 627'149'824}, {"step2", 471'416'320, 862'599'680}});
}

TEST_CASE("torchtitan: selective checkpointing keeps reduce-scatters, but not what they join") {
  ParallelPlan plan = selective(4, 2);
  plan.workload.micro_batch = 2;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 471'424'000, 763'064'320}, {"step2", 471'424'512, 998'514'176}});
  test::check_phases(titan_model("qwen3"), plan,
                     {{"step1", 481'399'296, 769'096'704}, {"step2", 481'399'808, 1'009'274'368}});
}

TEST_CASE("torchtitan: Qwen3 rotates halves in bf16 with a table cast for every block") {
  test::check_phases(titan_model("qwen3"), titan_plan(2), {{"step2", 894'530'560, 1'281'729'024}});
  ParallelPlan plan = titan_plan(2);
  plan.recompute = Recompute::kFull;
  plan.workload.micro_batch = 2;
  test::check_phases(
      titan_model("qwen3"), plan,
      {{"step1", 894'538'240, 1'115'747'328}, {"step2", 894'538'752, 1'562'494'464}});
  test::check_phases(titan_model("qwen3"), tensor_parallel(4),
                     {{"step1", 481'391'104, 508'510'208}, {"step2", 481'391'616, 748'687'872}});
}

TEST_CASE("torchtitan: context parallelism gathers keys and merges parts of attention") {
  Mesh mesh;
  mesh.context = 2;
  test::check_phases(titan_model("llama"), titan_plan(4, {}, mesh),
                     {{"step1", 471'387'136, 483'240'960}, {"step2", 471'387'648, 695'340'544}});
  ParallelPlan plan = titan_plan(4, {}, mesh);
  plan.workload.micro_batch = 2;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 471'395'328, 719'255'552}, {"step2", 471'395'840, 954'691'072}});
  mesh.context = 4;
  test::check_phases(titan_model("llama"), titan_plan(8, {}, mesh),
                     {{"step1", 269'521'920, 385'552'384}, {"step2", 269'522'432, 486'500'864}});
  mesh.context = 2;
  const TitanPlan selecting{.selective_operators = true};
  test::check_phases(titan_model("llama"), titan_plan(4, selecting, mesh),
                     {{"step2", 471'387'648, 668'016'128}});
}

TEST_CASE("torchtitan: context parallelism joins tensor parallelism, and Qwen3's rotations") {
  ParallelPlan plan = tensor_parallel(8);
  plan.mesh.context = 2;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 269'536'256, 306'890'752}, {"step2", 269'536'768, 418'371'584}});
  plan = titan_plan(4);
  plan.mesh.context = 2;
  test::check_phases(titan_model("qwen3"), plan,
                     {{"step1", 481'362'432, 495'639'040}, {"step2", 481'362'944, 710'893'056}});
}

TEST_CASE("torchtitan: one GPU runs fp32 parameters under autocast") {
  ParallelPlan plan = titan_plan(1);
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 1'682'578'432, 1'682'589'696}, {"step2", 1'682'578'944, 1'959'515'136}});
  plan.recompute = Recompute::kFull;
  test::check_phases(titan_model("llama"), plan, {{"step2", 1'682'578'944, 1'761'732'096}});
}

TEST_CASE("torchtitan: shards in bf16 halve parameters, gradients and states") {
  ParallelPlan plan = titan_plan(2);
  plan.precision = Precision::kBf16;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 471'387'136, 711'354'368}, {"step2", 471'387'648, 946'789'888}});
  plan.world = 1;
  test::check_phases(titan_model("llama"), plan,
                     {{"step1", 875'117'568, 875'128'832}, {"step2", 875'118'080, 1'184'050'176}});
}

TEST_CASE("torchtitan: gradients of micro-batches are reduced each and added up") {
  ParallelPlan plan = titan_plan(2);
  plan.workload.accumulation = 2;
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 875'117'568, 1'047'715'328}, {"step2", 875'118'080, 1'451'461'632}});
}

TEST_CASE("torchtitan: a chunked loss keeps an eighth of the logits at a time") {
  ParallelPlan plan = titan_plan(2);
  plan.workload.micro_batch = 8;
  const auto peak_of = [&](LossKind loss) {
    plan.loss = loss;
    const auto program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{});
    REQUIRE(program);
    const cost::MemoryTimeline timeline =
        cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000});
    return timeline.phases.back().peak_allocated.value();
  };
  const std::int64_t logits = std::int64_t{8} * 1024 * 32'000;
  // Two fp32 copies and a 16-bit one at once; a chunk's, and the head's whole gradient in fp32.
  const std::int64_t saved = logits * 10 * 7 / 8 - std::int64_t{32'000} * 1024 * 8;
  CHECK(peak_of(LossKind::kHf) - peak_of(LossKind::kChunked) > saved / 2);
}

TEST_CASE("property: torchtitan's steps end with what they began with") {
  test::Random random = test::seeded_random(71);
  CAPTURE(random.seed());
  for (int round = 0; round < 40; ++round) {
    ParallelPlan plan = test::random_titan_plan(random);
    edit_titan(plan).compiled = false;
    edit_titan(plan).memory_budget.reset();
    plan.mesh.tensor = std::min<std::int64_t>(plan.mesh.tensor, 4);
    plan.mesh.context = plan.mesh.tensor > 1 ? 1 : plan.mesh.context;
    plan.world = plan.mesh.tensor * plan.mesh.context * plan.mesh.replicas * 2;
    plan.loss = random.chance(1, 3) ? LossKind::kChunked : LossKind::kHf;
    plan.recompute = random.chance(1, 2) ? Recompute::kFull : Recompute::kNone;
    plan.workload.steps = 3;
    const auto program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{});
    REQUIRE(program);
    const cost::MemoryTimeline timeline =
        cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000});
    const auto& phases = timeline.phases;
    // What was asked for: blocks that were not split make what is allocated differ.
    const cost::PhaseMemory& before = phases[phases.size() - 2];
    CHECK(phases.back().requested_after.value() == before.requested_after.value());
    CHECK(phases.back().peak_requested.value() == before.peak_requested.value());
  }
}

TEST_CASE("torchtitan: what its code is not modelled for is refused by the plan's key") {
  const ModelSpec llama = titan_model("llama");
  CHECK(refused_by_lowering(titan_model("qwen2"), titan_plan(2)) == "model");
  ModelSpec odd = llama;
  odd.head_dim = 100;
  CHECK(refused_by_lowering(odd, titan_plan(2)) == "head_dim");
  CHECK(refused_by_lowering(llama, tensor_parallel(3)) == "gpus");
  CHECK(refused_by_lowering(llama, tensor_parallel(2)) == "gpus");
  ParallelPlan plan = titan_plan(24);
  plan.mesh.tensor = 3;
  CHECK(refused_by_lowering(llama, plan) == "titan");
  plan = tensor_parallel(8);
  plan.mesh.context = 2;
  CHECK(refused_by_lowering(titan_model("qwen3"), plan) == "titan");  // Both at once.
  plan.workload.sequence = 1022;
  CHECK(refused_by_lowering(llama, plan) == "titan");
  plan = titan_plan(1);
  edit_titan(plan).compiled = true;
  CHECK(refused_by_lowering(llama, plan) == "gpus");
  plan = tensor_parallel(4);
  edit_titan(plan).compiled = true;
  CHECK(refused_by_lowering(llama, plan) == "titan");
  plan = titan_plan(2);
  plan.precision = Precision::kFp16;
  CHECK(refused_by_lowering(llama, plan) == "precision");
  plan = titan_plan(2);
  edit_fsdp(plan).cpu_offload = true;
  CHECK(refused_by_lowering(llama, plan) == "fsdp");
  plan = titan_plan(2);
  plan.optimizer.kind = OptimizerKind::kSgd;
  CHECK(refused_by_lowering(llama, plan) == "optimizer");
}

TEST_CASE("torchtitan: its choices belong to it alone") {
  const ModelSpec llama = titan_model("llama");
  CHECK(check_plan(llama, titan_plan(2)));
  ParallelPlan plan = titan_plan(2);
  plan.runtime = "transformers";
  CHECK(check_plan(llama, plan).error().key == "fsdp");
  plan.own.reset<FsdpPlan>();
  CHECK(check_plan(llama, plan).error().key == "titan");
}

TEST_CASE("torchtitan: weights gathered in 8 bits halve the gathers, products are in 8 bits") {
  TitanPlan titan;
  titan.compiled = true;
  ParallelPlan plan = titan_plan(2, titan);
  const auto step = [&plan] {
    const RankProgram program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}).value();
    return test::find_phase(program, "step2")->work;
  };
  const Work sixteen = step();
  edit_titan(plan).float8 = Float8Recipe::kTensorwise;
  const Work cast = step();
  CHECK(cast.gemm_flops == sixteen.gemm_flops);
  CHECK(cast.kernels > sixteen.kernels);
  CHECK(collective_bytes(cast) == collective_bytes(sixteen));
  edit_titan(plan).float8_gather = true;
  const Work gathered = step();
  // Linear weights of a block: wq, wo 1024 x 1024; wk, wv 512 x 1024; w1, w2, w3 2816 x 1024. Three
  // layers, forward and backward (the last is kept): a byte less each; and 7 maxima of four bytes.
  constexpr std::int64_t kLinear = 2 * 1024 * 1024 + 2 * 512 * 1024 + 3 * 2816 * 1024;
  CHECK(collective_bytes(sixteen) - collective_bytes(gathered) == 6 * (kLinear - 7 * 4));
  CHECK(collective_calls(gathered) - collective_calls(sixteen) == 6 * 7);
  edit_titan(plan).float8_precompute = true;
  const Work once = step();
  CHECK(collective_calls(gathered) - collective_calls(once) == 6 * 7 - 1);
}

TEST_CASE(
    "torchtitan: compiled blocks of 8-bit products keep neither norms nor the gated product") {
  TitanPlan titan;
  titan.compiled = true;
  titan.float8 = Float8Recipe::kTensorwise;
  ParallelPlan plan = titan_plan(2, titan);
  plan.workload.micro_batch = 8;
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 877'272'064, 1'914'382'848}, {"step2", 877'272'576, 2'352'732'160}});
  edit_titan(plan).selective_operators = true;
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 877'272'064, 1'700'279'808}, {"step2", 877'272'576, 2'138'629'120}});
  edit_titan(plan).float8_gather = true;
  test::check_phases(
      titan_model("llama"), plan,
      {{"step1", 877'282'816, 1'700'279'808}, {"step2", 877'283'328, 2'138'629'120}});
}

TEST_CASE(
    "torchtitan: scales by rows are kept in place of scalars, wide gradients undone in bf16") {
  TitanPlan titan;
  titan.compiled = true;
  titan.selective_operators = true;
  ParallelPlan plan = titan_plan(2, titan);
  plan.workload.micro_batch = 8;
  for (const Float8Recipe recipe : {Float8Recipe::kRowwise, Float8Recipe::kRowwiseGradientHp}) {
    edit_titan(plan).float8 = recipe;
    test::check_phases(
        titan_model("llama"), plan,
        {{"step1", 877'272'064, 1'700'451'840}, {"step2", 877'272'576, 2'138'801'152}});
  }
  // A third of the products of linear layers are in 16 bits then.
  const auto eight_bits = [&plan](Float8Recipe recipe) {
    edit_titan(plan).float8 = recipe;
    const RankProgram program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}).value();
    std::int64_t count = 0;
    for (const WorkItem& item : program.work.items) {
      const auto* const gemm = item.kind == WorkItem::Kind::kRun
                                   ? std::get_if<GemmShape>(&program.work.shapes[item.index])
                                   : nullptr;
      count += gemm != nullptr && gemm->dtype == DType::kFp8 ? 1 : 0;
    }
    return count;
  };
  // A layer: seven products forward, three of them again, and fourteen backward; two steps.
  CHECK(eight_bits(Float8Recipe::kRowwise) == 2 * 3 * (7 + 3 + 14));
  CHECK(eight_bits(Float8Recipe::kRowwiseGradientHp) == 2 * 3 * (7 + 3 + 7));
}

TEST_CASE("torchtitan: 8-bit products in eager blocks are refused, and gathers without them") {
  ParallelPlan plan = titan_plan(2);
  edit_titan(plan).float8 = Float8Recipe::kTensorwise;
  CHECK(refused_by_lowering(titan_model("llama"), plan) == "titan");
  edit_titan(plan).compiled = true;
  CHECK(lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}));
  edit_titan(plan).float8_precompute = true;
  CHECK(refused_by_lowering(titan_model("llama"), plan) == "titan");
  edit_titan(plan).float8_gather = true;
  CHECK(lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}));
  edit_titan(plan).float8 = Float8Recipe::kRowwise;
  CHECK(refused_by_lowering(titan_model("llama"), plan) == "titan");
  edit_titan(plan).float8 = Float8Recipe::kNone;
  CHECK(refused_by_lowering(titan_model("llama"), plan) == "titan");
}

TEST_CASE("torchtitan: without a norm of the plan, the launched run clips to torchtitan's own") {
  const auto norms = [](const ParallelPlan& plan) {
    const Launch launch = torchtitan::titan_launch(titan_model("llama"), plan, {});
    CHECK(launch.clips);
    return std::ranges::count_if(launch.command, [](const std::string& word) {
      return word.starts_with("--training.max_norm=");
    });
  };
  ParallelPlan plan = titan_plan(2);
  CHECK(norms(plan) == 0);  // A norm of 0 would make every gradient 0.
  plan.clip_norm = 0.5;
  CHECK(norms(plan) == 1);
}

}  // namespace headroom::ir
