// ZeRO stage 3. Phase totals were recorded with DeepSpeed 0.19.8, PyTorch 2.11.0, transformers
// 5.17.0 and peft 0.21.2 on rank 0 (compute capability 9.0, 132 multiprocessors): bf16, one
// sequence of 1100 tokens, gradients clipped, sizes as transformers' "auto" sets them.

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/memory_efficient_linear.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

ZeroPlan auto_sizes() {
  ZeroPlan zero;
  zero.stage = 3;
  zero.reduce_bucket_size = 1024 * 1024;
  zero.prefetch_bucket_size = 943'718;
  zero.param_persistence_threshold = 10'240;
  return zero;
}

ParallelPlan partitioned(const ZeroPlan& zero = auto_sizes()) {
  ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = Precision::kBf16Master;
  plan.optimizer.form = OptimizerForm::kForeach;
  plan.workload.sequence = 1100;
  plan.world = 4;
  plan.clip_norm = 1.0;
  edit_zero(plan) = zero;
  return plan;
}

/// Calls and bytes of one collective in a phase.
Work::Collective collective_of_phase(const RankProgram& program, std::string_view phase,
                                     std::string_view operation) {
  Work::Collective none;
  for (const Phase& each : program.phases) {
    for (const Work::Collective& one : each.work.collectives) {
      if (to_text(each.name) == phase && name_of(one.kind) == operation) {
        return one;
      }
    }
  }
  return none;
}

}  // namespace

TEST_CASE("zero 3: parameters are gathered by module first, along the trace afterwards") {
  test::check_phases(test::wide_llama(), partitioned(),
                     {{"model", 62'696'960, 165'457'408},
                      {"deepspeed.initialize", 253'317'632, 356'078'080},
                      {"step1.forward", 614'091'264, 944'292'352},
                      {"step1.backward", 320'435'712, 1'054'484'992},
                      {"step1.step", 570'345'472, 821'114'880},
                      {"step2.forward", 1'149'737'984, 1'479'939'072},
                      {"step2.backward", 570'345'472, 1'590'131'712},
                      {"step2.step", 570'345'472, 821'115'392}});
}

TEST_CASE(
    "zero 3: an evaluation follows the trace of training and keeps what backward would need") {
  ParallelPlan plan = partitioned();
  plan.world = 8;
  plan.workload.evaluation = true;
  test::check_phases(
      test::wide_llama(), plan,
      {{"step2.step", 319'787'008, 444'727'808}, {"evaluation", 571'969'536, 1'124'634'624}});
}

TEST_CASE("zero 3: every module of an encoder is a step of the trace") {
  const ModelSpec bert = parse_hf_config(R"({"model_type": "bert", "hidden_size": 1024,
      "intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16,
      "vocab_size": 30522, "max_position_embeddings": 512})",
                                         "bert")
                             .value();
  ParallelPlan plan = partitioned();
  plan.workload.sequence = 500;
  test::check_phases(bert, plan,
                     {{"model", 29'037'056, 107'624'960},
                      {"deepspeed.initialize", 119'215'616, 182'130'176},
                      {"step1.forward", 224'775'680, 287'750'656},
                      {"step1.backward", 186'332'672, 385'307'136},
                      {"step1.step", 303'174'656, 419'886'080},
                      {"step2.forward", 493'438'976, 524'896'256},
                      {"step2.backward", 303'174'656, 557'440'000},
                      {"step2.step", 303'174'656, 419'886'592}});
}

TEST_CASE("zero 3: of a tied table that is saved, the copy is gathered beside the original") {
  const auto saving = [](std::vector<std::string> targets, std::string table) {
    ParallelPlan plan = partitioned();
    plan.precision = Precision::kFp32;
    plan.workload.sequence = 500;
    edit_zero(plan).reduce_bucket_size = 512 * 512;
    edit_zero(plan).prefetch_bucket_size = 235'929;
    edit_zero(plan).param_persistence_threshold = 5'120;
    plan.lora = LoraPlan{.rank = 8, .targets = std::move(targets)};
    plan.lora->modules_to_save = {std::move(table)};
    return plan;
  };
  // Positions and token types are frozen: no gradient asks for their tables in backward.
  const ModelSpec bert = parse_hf_config(R"({"model_type": "bert", "hidden_size": 512,
      "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8,
      "vocab_size": 4096, "max_position_embeddings": 512})",
                                         "bert")
                             .value();
  test::check_phases(bert, saving({"query", "value"}, "word_embeddings"),
                     {{"step1.backward", 83'547'136, 145'372'160},
                      {"step2.forward", 183'374'336, 191'566'336},
                      {"step2.backward", 88'135'168, 199'759'360}});
  // GPT-2's dropout layers are steps of the trace, too.
  const ModelSpec gpt2 = parse_hf_config(R"({"model_type": "gpt2", "n_embd": 512, "n_layer": 3,
      "n_head": 8, "vocab_size": 4096, "n_positions": 1024})",
                                         "gpt2")
                             .value();
  const ParallelPlan plan = saving({"c_attn"}, "wte");
  test::check_phases(
      gpt2, plan,
      {{"step2.forward", 229'649'408, 237'841'408}, {"step2.backward", 92'155'904, 246'030'336}});
  // PEFT has the original gathered while it copies it, and rank 0 sends it round.
  const RankProgram program = lower(gpt2, plan, Rank{0}, DeviceTraits{}).value();
  CHECK(collective_of_phase(program, "model", "all_gather").bytes == 4096 * 512 * 4);
  CHECK(collective_of_phase(program, "model", "broadcast").calls == 42);
}

TEST_CASE("zero 3: an encoder-decoder hands its biases from module to module, recomputed too") {
  const ModelSpec t5 = parse_hf_config(R"({"model_type": "t5", "d_model": 1024, "d_kv": 64,
      "d_ff": 4096, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 16,
      "vocab_size": 32128})",
                                       "t5")
                           .value();
  ParallelPlan plan = partitioned();
  plan.workload.sequence = 500;
  plan.recompute = Recompute::kFull;
  test::check_phases(t5, plan,
                     {{"model", 46'144'512, 161'618'944},
                      {"deepspeed.initialize", 186'326'528, 252'124'672},
                      {"step1.forward", 293'165'056, 359'986'176},
                      {"step1.backward", 253'441'536, 525'441'024},
                      {"step2.forward", 694'534'656, 727'686'656},
                      {"step2.backward", 438'016'000, 819'197'440},
                      {"step2.step", 438'016'000, 622'540'288}});
}

TEST_CASE("zero 3: bf16 copies of modules to save beside fp32 adapters are refused by name") {
  ParallelPlan plan = partitioned();
  plan.lora = LoraPlan{.targets = {}, .modules_to_save = {"lm_head"}};
  const auto program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "lora");
}

TEST_CASE("zero 3: collectives of a step without and with a trace") {
  const RankProgram program =
      lower(test::wide_llama(), partitioned(), Rank{0}, DeviceTraits{}).value();
  // 21 parameters, each sent to all ranks once and gathered for its hook.
  CHECK(collective_of_phase(program, "model", "broadcast").calls == 21);
  CHECK(collective_of_phase(program, "deepspeed.initialize", "all_gather").bytes == 249'899'008);
  CHECK(collective_of_phase(program, "step1.backward", "all_gather").calls == 21);
  // Norms persist; what stays until backward is not gathered again.
  CHECK(collective_of_phase(program, "step2.forward", "all_gather").calls == 12);
  CHECK(collective_of_phase(program, "step2.forward", "all_gather").bytes == 249'888'768);
  CHECK(collective_of_phase(program, "step2.backward", "all_gather").calls == 0);
  CHECK(collective_of_phase(program, "step2.backward", "reduce_scatter").calls == 19);
  CHECK(collective_of_phase(program, "step2.step", "all_gather").bytes == 5 * 2048);
}

TEST_CASE("zero 3: recomputation, and few live parameters stop the prefetch") {
  ZeroPlan zero = auto_sizes();
  zero.max_live_parameters = 10'000'000;
  ParallelPlan plan = partitioned(zero);
  plan.recompute = Recompute::kFull;
  test::check_phases(test::wide_llama(), plan,
                     {{"step1.forward", 520'904'704, 851'105'792},
                      {"step1.backward", 320'435'712, 961'298'432},
                      {"step2.forward", 1'056'027'136, 1'386'228'224},
                      {"step2.backward", 570'345'472, 1'496'420'864}});
  const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(collective_of_phase(program, "step2.forward", "all_gather").calls == 16);
}

TEST_CASE("zero 3: shards of three ranks are padded") {
  ParallelPlan plan = partitioned();
  plan.world = 3;
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 335'884'800, 438'645'248},
                      {"step1.backward", 403'002'880, 1'136'768'512},
                      {"step2.forward", 1'314'814'464, 1'645'015'552},
                      {"step2.step", 736'215'552, 1'069'403'648}});
}

TEST_CASE("zero 3: sub-groups step one after the other") {
  ZeroPlan zero = auto_sizes();
  zero.sub_group_size = 5'000'000;
  test::check_phases(test::wide_llama(), partitioned(zero),
                     {{"deepspeed.initialize", 252'877'824, 355'638'272},
                      {"step1.step", 569'905'664, 672'303'616},
                      {"step2.step", 569'905'664, 672'304'128}});
}

TEST_CASE("zero 3: one stream for everything") {
  ZeroPlan zero = auto_sizes();
  zero.overlap_comm = false;
  test::check_phases(test::wide_llama(), partitioned(zero),
                     {{"step2.forward", 1'149'970'432, 1'480'171'520},
                      {"step2.backward", 570'345'472, 1'590'364'160}});
}

TEST_CASE("zero 3: adapters in fp32 on frozen bf16 weights") {
  ParallelPlan plan = partitioned();
  plan.lora = test::all_linear(8);
  test::check_phases(test::wide_llama(), plan,
                     {{"model", 63'860'224, 165'457'408},
                      {"deepspeed.initialize", 65'522'176, 65'612'288},
                      {"step1.forward", 487'712'256, 817'913'344},
                      {"step1.backward", 132'738'560, 928'105'984},
                      {"step1.step", 133'855'232, 133'856'256},
                      {"step2.forward", 667'844'608, 998'045'696},
                      {"step2.backward", 133'855'232, 1'108'238'336}});
}

TEST_CASE("zero 3: in fp32 a module to save is gathered for its copy") {
  ParallelPlan plan = partitioned();
  plan.world = 16;
  plan.precision = Precision::kFp32;
  plan.lora = test::all_linear(8);
  plan.lora->modules_to_save = {"lm_head"};
  test::check_phases(test::wide_llama(), plan,
                     {{"model", 237'923'840, 443'444'736},
                      {"step1.forward", 660'146'688, 880'347'648},
                      {"step1.step", 168'476'672, 193'580'032},
                      {"step2.backward", 168'476'672, 1'455'070'208}});
}

TEST_CASE("zero 3: 4-bit weights are loaded whole and partitioned by the engine") {
  ParallelPlan plan = partitioned();
  plan.world = 16;
  plan.lora = test::all_linear(8);
  plan.quant = QuantPlan{.bits = 4, .double_quant = true, .prepare_kbit = false};
  test::check_phases(test::wide_llama(), plan,
                     {{"model", 218'359'808, 218'388'480},
                      {"deepspeed.initialize", 16'297'472, 224'331'776},
                      {"step1.forward", 373'320'192, 703'521'280},
                      {"step1.backward", 83'464'704, 813'713'920},
                      {"step2.forward", 510'372'864, 840'573'952},
                      {"step2.step", 83'883'008, 83'884'544}});
}

TEST_CASE("zero 3: DoRA reads each frozen weight again, for its norm") {
  ParallelPlan plan = partitioned();
  plan.world = 16;
  plan.lora = test::all_linear(8);
  plan.lora->dora = true;
  test::check_phases(test::wide_llama(), plan,
                     {{"model", 50'413'056, 118'382'080},
                      {"deepspeed.initialize", 51'467'776, 51'557'888},
                      {"step1.forward", 564'763'136, 894'964'224},
                      {"step1.backward", 85'135'872, 1'005'156'864},
                      {"step2.forward", 747'171'840, 1'077'372'928},
                      {"step2.step", 85'893'120, 85'894'656}});
}

TEST_CASE("zero 3: LLM.int8() keeps every weight whole") {
  ParallelPlan plan = partitioned();
  plan.world = 16;
  plan.lora = test::all_linear(8);
  plan.quant = QuantPlan{.bits = 8, .double_quant = true, .prepare_kbit = true};
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 39'860'736, 538'391'552},
                      {"step1.backward", 107'027'968, 825'916'928},
                      {"step2.forward", 521'494'528, 851'695'616},
                      {"step2.step", 107'446'272, 107'447'808}});
}

TEST_CASE("zero 3: states and parameters on the host") {
  ZeroPlan zero = auto_sizes();
  zero.offload_optimizer = OffloadDevice::kCpu;
  zero.offload_param = OffloadDevice::kCpu;
  test::check_phases(test::wide_llama(), partitioned(zero),
                     {{"model", 1024, 102'761'472},
                      {"deepspeed.initialize", 2'098'688, 130'459'136},
                      {"step1.backward", 69'227'520, 802'596'864},
                      {"step1.step", 69'227'008, 69'230'592},
                      {"step2.forward", 647'032'832, 977'233'920}});
}

TEST_CASE("zero 3: of three sub-groups half, rounded down, stays on the device") {
  // Embedding; most of the layers; the rest and the head. int(0.5 * 3) = 1: the embedding stays.
  ZeroPlan zero = auto_sizes();
  zero.offload_optimizer = OffloadDevice::kCpu;
  zero.offload_ratio = 0.5;
  zero.sub_group_size = 4'000'000;
  ParallelPlan plan = partitioned(zero);
  plan.optimizer.form = OptimizerForm::kFused;
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 167'413'760, 270'174'208},
                      {"step1.forward", 528'370'176, 858'571'264},
                      {"step1.backward", 234'542'592, 968'763'904},
                      {"step1.step", 336'941'568, 388'142'080},
                      {"step2.backward", 336'952'320, 1'356'191'744},
                      {"step2.step", 336'941'568, 388'142'080}});
  // 31,237,376 elements of this rank: the embedding's 12,800,000 keep 16-bit gradients alone there.
  const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(program.host_bytes == 2 * 31'237'376 + 16 * 18'437'376);
  std::int64_t host_work = 0;  // Of one step, each shape once: the other two groups differ in size.
  for (const WorkShape& shape : program.work.shapes) {
    const auto* copy = std::get_if<CopyShape>(&shape);
    host_work += copy != nullptr && copy->kind == CopyKind::kHostWork ? copy->bytes : 0;
  }
  CHECK(host_work == (7 * 4 + 2) * 18'437'376);
}

TEST_CASE("zero 3: without a share for the host only the buffer of 16-bit gradients is there") {
  ZeroPlan zero = auto_sizes();
  zero.offload_optimizer = OffloadDevice::kCpu;
  zero.offload_ratio = 0;
  zero.sub_group_size = 4'000'000;
  ParallelPlan plan = partitioned(zero);
  plan.optimizer.form = OptimizerForm::kFused;
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 314'912'768, 417'673'216},
                      {"step1.backward", 382'041'600, 1'116'328'448},
                      {"step1.step", 632'300'032, 689'270'784},
                      {"step2.step", 632'300'032, 689'270'784}});
  const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(program.host_bytes == 2 * 31'237'376);
  zero.offload_param = OffloadDevice::kCpu;
  zero.offload_ratio = 0.5;
  edit_zero(plan) = zero;
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 104'859'648, 233'220'096},
                      {"step1.step", 274'387'456, 325'587'968}});
}

TEST_CASE("zero 3: a block of experts is gathered, kept and reduced as one") {
  const ModelSpec mixtral = parse_hf_config(R"({"hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    "max_position_embeddings": 32768, "tie_word_embeddings": false, "model_type": "mixtral"})",
                                            "mixtral of two layers")
                                .value();
  ZeroPlan defaults;
  defaults.stage = 3;
  ParallelPlan plan = partitioned(defaults);
  plan.world = 8;
  plan.workload.sequence = 1024;
  plan.recompute = Recompute::kFull;
  test::check_phases(mixtral, plan,
                     {{"model", 792'745'984, 3'460'319'232},
                      {"deepspeed.initialize", 4'165'696'000, 6'044'744'192},
                      {"step1.forward", 4'381'208'576, 9'870'621'184},
                      {"step1.backward", 4'232'813'056, 10'330'064'384},
                      {"step2.forward", 11'091'261'952, 12'644'189'184},
                      {"step2.backward", 7'398'679'552, 13'841'879'040}});
  const RankProgram program = lower(mixtral, plan, Rank{0}, DeviceTraits{}).value();
  CHECK(collective_of_phase(program, "step2.backward", "all_gather").calls == 2);
  CHECK(collective_of_phase(program, "step2.backward", "reduce_scatter").calls == 7);
}

TEST_CASE("zero 3: a linear layer keeps its weight, and makes the input's gradient first") {
  torch::Eager eager(DeviceTraits{});
  eager.begin_phase(parse_phase_name("step"));
  const torch::Tensor weight = eager.parameter({300, 200}, DType::kBf16, true);
  const torch::Tensor input = eager.parameter({2, 50, 200}, DType::kBf16, true);
  torch::Tensor output = deepspeed::memory_efficient_linear(eager, input, weight, {});
  const std::size_t forward = eager.program().events.size();
  // Backward finds the weight in other memory than forward did.
  eager.move_storage(weight, eager.empty({300, 200}, DType::kBf16, TensorRole::kParameter));
  eager.backward(output, eager.empty(output.shape(), DType::kBf16, TensorRole::kTemporary));
  std::vector<std::int64_t> sizes;
  for (std::size_t at = forward; at < eager.program().events.size(); ++at) {
    const Event& event = eager.program().events[at];
    if (event.kind == EventKind::kAllocate && event.role != TensorRole::kWorkspace) {
      sizes.push_back(event.bytes);
    }
  }
  // The new weight, the seed; 2*50*200, then 300*200 gradients of two bytes.
  CHECK(sizes == std::vector<std::int64_t>{120'000, 60'000, 40'000, 120'000});
}

}  // namespace headroom::ir
