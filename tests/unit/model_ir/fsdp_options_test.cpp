// FSDP's options. Phase totals were recorded with PyTorch 2.11.0, transformers 5.17.0 and PEFT
// 0.21.2 on rank 0 of four (compute capability 9.0, 132 multiprocessors): AdamW, one sequence of
// 1100 tokens.

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "runtimes/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

/// Three layers, H 1024, F 2816, V 8000, untied.
ModelSpec three_layers() {
  return parse_hf_config(R"({"model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 3, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 8000, "tie_word_embeddings": false})",
                         "three layers")
      .value();
}

ParallelPlan on_four_ranks(const FsdpPlan& fsdp = {}) {
  ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = Precision::kFp32;
  plan.workload.sequence = 1100;
  plan.world = 4;
  edit_fsdp(plan) = fsdp;
  return plan;
}

ParallelPlan wrapped() {
  FsdpPlan fsdp;
  fsdp.version = 1;
  fsdp.reduce_dtype = DType::kBf16;
  return on_four_ranks(fsdp);
}

}  // namespace

TEST_CASE("fsdp: offloaded shards leave workspaces alone on the device between micro-batches") {
  FsdpPlan fsdp;
  fsdp.cpu_offload = true;
  test::check_phases(three_layers(), on_four_ranks(fsdp),
                     {{"load", 0, 0},
                      {"step1.forward", 225'771'008, 335'647'744},
                      {"step1.backward", 67'108'864, 353'690'112},
                      {"step1.optimizer", 67'108'864, 67'108'864},
                      {"step2.forward", 259'440'128, 369'316'864},
                      {"step2.zero_grad", 67'108'864, 67'108'864}});
}

TEST_CASE("fsdp: autocast in the place of a mixed-precision policy gathers fp32") {
  FsdpPlan fsdp;
  fsdp.param_dtype = DType::kFp32;
  ParallelPlan plan = on_four_ranks(fsdp);
  plan.precision = Precision::kAutocastBf16;
  test::check_phases(three_layers(), plan,
                     {{"step1.forward", 403'814'912, 574'822'400},
                      {"step1.backward", 167'917'568, 589'292'544},
                      {"step2.backward", 270'168'064, 721'821'184}});
}

TEST_CASE("fsdp: frozen weights are gathered twice and never reduced") {
  ParallelPlan plan = on_four_ranks();
  plan.lora = LoraPlan{.rank = 8,
                       .dropout = 0,
                       .dora = false,
                       .rank_stabilised = false,
                       .targets = {"q_proj", "v_proj"}};
  test::check_phases(three_layers(), plan,
                     {{"load", 50'288'640, 50'288'640},
                      {"step1.forward", 226'977'792, 339'107'328},
                      {"step1.backward", 117'477'376, 354'896'896},
                      {"step2.optimizer", 117'637'120, 117'716'992}});
}

TEST_CASE("fsdp: resharding among two ranks keeps halves, among one rank everything") {
  FsdpPlan fsdp;
  fsdp.reshard_ranks = 2;
  test::check_phases(
      three_layers(), on_four_ranks(fsdp),
      {{"step1.forward", 325'274'112, 418'376'704}, {"step1.backward", 167'917'568, 436'025'856}});
  fsdp.reshard_ranks = 1;
  test::check_phases(
      three_layers(), on_four_ranks(fsdp),
      {{"step1.forward", 379'713'024, 456'033'280}, {"step1.backward", 167'917'568, 451'006'976}});
}

TEST_CASE("fsdp: copies that are trained in full are reduced in their own type") {
  ParallelPlan plan = on_four_ranks();
  plan.lora = LoraPlan{.rank = 8,
                       .dropout = 0,
                       .dora = false,
                       .rank_stabilised = false,
                       .targets = {"q_proj", "v_proj"},
                       .modules_to_save = {"embed_tokens", "lm_head"}};
  test::check_phases(three_layers(), plan,
                     {{"load", 67'459'072, 67'459'072},
                      {"step1.forward", 251'822'592, 395'253'760},
                      {"step2.backward", 185'139'200, 478'192'128}});
}

TEST_CASE("fsdp: the last of seven ranks has fewer rows and pads them") {
  FsdpPlan fsdp;
  fsdp.reshard_after_forward = false;
  ParallelPlan plan = on_four_ranks(fsdp);
  plan.world = 7;
  plan.rank = 6;
  test::check_phases(three_layers(), plan,
                     {{"load", 29'108'224, 33'785'856},
                      {"step1.forward", 357'910'016, 434'230'272},
                      {"step2.optimizer", 183'511'552, 211'779'072}});
}

TEST_CASE("fsdp 1: without use_orig_params the last of seven ranks pads its part and gradients") {
  ParallelPlan plan = wrapped();
  plan.world = 7;
  plan.rank = 6;
  edit_fsdp(plan).use_orig_params = false;
  test::check_phases(
      three_layers(), plan,
      {{"load", 28'691'456, 169'921'024}, {"step2.backward", 181'871'616, 472'961'024}});
}

TEST_CASE("fsdp 1: flat parameters, and gradients that outlive zero_grad until the next forward") {
  test::check_phases(three_layers(), wrapped(),
                     {{"load", 50'208'768, 182'075'392},
                      {"step1.forward", 309'361'152, 362'612'736},
                      {"step1.backward", 167'917'568, 403'723'776},
                      {"step1.optimizer", 268'725'248, 318'932'992},
                      {"step1.zero_grad", 268'725'248, 268'725'248},
                      {"step2.forward", 443'089'408, 496'340'992},
                      {"step2.backward", 268'333'056, 537'452'032}});
}

TEST_CASE("fsdp 1: a second micro-batch adds to the reduced gradients") {
  ParallelPlan plan = wrapped();
  plan.workload.accumulation = 2;
  test::check_phases(three_layers(), plan,
                     {{"step1.2.forward", 395'100'672, 447'900'672},
                      {"step1.2.backward", 167'917'568, 489'011'712},
                      {"step2.2.backward", 268'333'056, 587'489'792}});
}

TEST_CASE("fsdp 1: layers are run again inside their wrapper, which gathers them once") {
  ParallelPlan plan = wrapped();
  plan.recompute = Recompute::kFull;
  test::check_phases(three_layers(), plan,
                     {{"step1.forward", 169'134'592, 221'934'592},
                      {"step1.backward", 167'917'568, 299'737'088},
                      {"step2.backward", 268'333'056, 400'265'216}});
}

TEST_CASE("fsdp 1: a unit gathered after the gradients, or only when it is needed") {
  ParallelPlan plan = wrapped();
  for (const FsdpPrefetch prefetch : {FsdpPrefetch::kBackwardPost, FsdpPrefetch::kNone}) {
    edit_fsdp(plan).backward_prefetch = prefetch;
    test::check_phases(three_layers(), plan,
                       {{"step1.backward", 167'917'568, 380'655'104},
                        {"step2.backward", 268'333'056, 514'383'360}});
  }
}

TEST_CASE("fsdp 1: one flat parameter per unit, whose gradient zero_grad drops at once") {
  ParallelPlan plan = wrapped();
  edit_fsdp(plan).use_orig_params = false;
  test::check_phases(three_layers(), plan,
                     {{"step1.backward", 167'917'568, 403'723'776},
                      {"step2.forward", 443'603'456, 496'855'040},
                      {"step2.backward", 268'981'248, 537'966'080},
                      {"step2.optimizer", 268'981'248, 319'188'992}});
}

TEST_CASE("fsdp 1: whole parameters on every rank are cast for each use and reduced in place") {
  ParallelPlan plan = wrapped();
  plan.mesh.replicas = 4;
  test::check_phases(three_layers(), plan,
                     {{"load", 203'953'152, 271'066'112},
                      {"step1.forward", 429'312'512, 516'118'528},
                      {"step1.backward", 475'014'144, 557'229'568},
                      {"step2.backward", 891'618'304, 1'009'352'192}});
}

TEST_CASE("fsdp 1: offloaded shards come to the device before each gather") {
  ParallelPlan plan = wrapped();
  edit_fsdp(plan).cpu_offload = true;
  test::check_phases(three_layers(), plan,
                     {{"load", 1024, 148'252'672},
                      {"step1.forward", 257'819'136, 311'070'720},
                      {"step1.backward", 67'109'888, 352'181'760},
                      {"step2.backward", 67'109'888, 386'017'792}});
}

TEST_CASE("fsdp 1: what is gathered ahead in forward is reduced later in backward") {
  ParallelPlan plan = wrapped();
  edit_fsdp(plan).forward_prefetch = true;
  plan.recompute = Recompute::kFull;
  test::check_phases(three_layers(), plan, {{"step2.backward", 268'333'056, 436'217'856}});
}

TEST_CASE("fsdp 1: a reentrant checkpoint reduces its layer before the next one runs again") {
  ParallelPlan plan = wrapped();
  plan.recompute = Recompute::kFullReentrant;
  test::check_phases(
      three_layers(), plan,
      {{"step1.backward", 167'917'568, 301'199'360}, {"step2.backward", 268'333'056, 402'518'016}});
}

TEST_CASE("fsdp 1: each trained module of PEFT is a unit of its own, frozen layers others") {
  ParallelPlan plan = wrapped();
  plan.precision = Precision::kAutocastBf16;
  plan.lora = LoraPlan{.rank = 8,
                       .dropout = 0,
                       .dora = false,
                       .rank_stabilised = false,
                       .targets = {"q_proj", "v_proj"}};
  test::check_phases(three_layers(), plan,
                     {{"load", 50'288'640, 182'155'264},
                      {"step1.forward", 269'364'224, 324'868'608},
                      {"step1.backward", 117'477'376, 363'275'264},
                      {"step2.backward", 117'637'120, 397'722'624}});
  plan.precision = Precision::kBf16AutocastBf16;  // Copies become fp32, as Accelerate has it.
  plan.lora->modules_to_save = {"embed_tokens", "lm_head"};
  test::check_phases(
      three_layers(), plan,
      {{"load", 50'153'984, 100'094'464}, {"step2.backward", 158'953'984, 424'458'752}});
}

TEST_CASE("fsdp 1: hybrid sharding among two ranks, resharded after forward or not") {
  ParallelPlan plan = wrapped();
  plan.mesh.replicas = 2;
  test::check_phases(three_layers(), plan,
                     {{"load", 102'241'280, 234'107'904},
                      {"step1.forward", 361'120'256, 414'371'840},
                      {"step2.backward", 475'038'720, 693'042'688}});
  edit_fsdp(plan).reshard_after_forward = false;
  test::check_phases(
      three_layers(), plan,
      {{"step1.forward", 430'326'272, 483'577'856}, {"step2.backward", 475'038'720, 739'180'032}});
}

TEST_CASE("fsdp 1: gradients of a tied weight are added up on the stream that made its view") {
  const auto sums = [](bool tied) {
    ModelSpec model = three_layers();
    model.tied_embeddings = tied;
    const RankProgram program = lower(model, wrapped(), Rank{0}, DeviceTraits{}).value();
    int count = 0;
    for (std::size_t i = program.phases[2].begin; i < program.phases[2].end; ++i) {
      const Event& event = program.events[i];
      const bool table = event.bytes == 8000 * 1024 * 2;  // bf16
      count += event.kind == EventKind::kAllocate && table && event.stream == 1 ? 1 : 0;
    }
    return count;
  };
  CHECK(sums(true) == 1);
  CHECK(sums(false) == 0);
}

TEST_CASE("fsdp 2: options of FullyShardedDataParallel are refused by name") {
  FsdpPlan fsdp;
  fsdp.use_orig_params = false;
  const auto program = lower(three_layers(), on_four_ranks(fsdp), Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "fsdp");
}

}  // namespace headroom::ir
