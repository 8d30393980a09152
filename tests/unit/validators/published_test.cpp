#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torchtune/plan.h"
#include "validators/measured/published_plan.h"

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "validators/measured/published_words.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

/// A regular published row; `with` replaces the value of a key.
std::string published_row(const std::string& key = "", const std::string& with = "") {
  const std::pair<const char*, const char*> keys[] = {
      {"framework", R"j("PEFT method comparison (transformers)")j"},
      {"model", R"({"name": "m", "arch": "llama", "layers": 2, "hidden": 64, "heads": 4,)"
                R"( "kv_heads": 2, "head_dim": 16, "ffn": 128, "vocab": 256,)"
                R"( "tied_embeddings": true, "moe": null, "mla": null})"},
      {"gpu", R"("NVIDIA L40S")"},
      {"num_gpus", "1"},
      {"mode", R"("finetune")"},
      {"tp", "1"},
      {"precision", R"("bfloat16, adapters autocast to fp32")"},
      {"optimizer", R"("AdamW")"},
      {"micro_batch", "4"},
      {"global_batch", "8"},
      {"num_microbatches", "2"},
      {"seq_len", "768"},
      {"checkpointing", R"("none")"},
      {"attention", R"j("sdpa (transformers default)")j"},
      {"lora", R"({"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"]})"},
      {"quant", "null"},
      {"compile", R"("none")"},
      {"measured", R"({"peak_mem_value": 2000, "peak_mem_unit": "MiB",)"
                   R"( "mem_metric": "max_reserved", "step_time_ms": 12.5, "fits": true})"}};
  std::string text = R"({"source": "s", "rows": [{"id": "p")";
  for (const auto& [name, value] : keys) {
    text += ", \"" + std::string(name) + "\": " + (name == key ? with : value);
  }
  return text + "}]}";
}

MeasuredRow parse_published(const std::string& text) {
  const auto rows = parse_rows(text, "book.json");
  REQUIRE(rows);
  return rows->front();
}

ScoreTools published_tools(cost::Verdict verdict = cost::Verdict::kFits) {
  ScoreTools tools;
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  tools.estimate = [verdict](const ir::ModelSpec&, const ir::ParallelPlan&, const cost::DeviceSpec&,
                             const ir::RunConditions&) -> Result<cost::StepEstimate> {
    cost::StepEstimate estimate;
    estimate.verdict = verdict;
    estimate.peak_allocated = Bytes{1000 * kMiB};
    estimate.peak_reserved = Bytes{1500 * kMiB};
    estimate.outside_bytes = Bytes{500 * kMiB};
    return estimate;
  };
  return tools;
}

std::string published_skip(const std::string& key, const std::string& with) {
  const auto planned =
      plan_of_published(parse_published(published_row(key, with)), published_tools());
  const Skip* skip = std::get_if<Skip>(&planned);
  return skip != nullptr ? skip->reason : "(planned)";
}

std::string shown_as(const std::string& framework) {
  const MeasuredRow row = parse_published(published_row("framework", '"' + framework + '"'));
  return labels_of(row).runtime;
}

Scoring score_measured(const std::string& measured, cost::Verdict verdict = cost::Verdict::kFits) {
  return score_row(parse_published(published_row("measured", measured)), published_tools(verdict));
}

}  // namespace

TEST_CASE("published row: a regular one becomes a model, a plan and a device") {
  const auto planned = plan_of_published(parse_published(published_row()), published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const auto& setting = std::get<PublishedSetting>(planned);
  CHECK(setting.device.name == "l40s");
  CHECK(setting.run.model.hidden == 64);
  CHECK(setting.run.model.tied_embeddings);
  CHECK(setting.run.model.layers.size() == 2);
  CHECK(setting.run.plan.precision == ir::Precision::kBf16);
  CHECK(setting.run.plan.workload.micro_batch == 4);
  CHECK(setting.run.plan.workload.sequence == 768);
  CHECK(setting.run.plan.workload.accumulation == 2);
  CHECK(setting.run.plan.lora->rank == 32);
}

TEST_CASE("published row: an architecture with a classification head is that class") {
  const std::string bert = R"j({"name": "b", "arch": "bert (encoder, classification head)",)j"
                           R"( "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 4,)"
                           R"( "head_dim": 16, "ffn": 128, "vocab": 256})";
  const auto planned =
      plan_of_published(parse_published(published_row("model", bert)), published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const ir::ModelSpec& model = std::get<PublishedSetting>(planned).run.model;
  CHECK(model.family == ir::Family::kBert);
  CHECK(model.task == ir::Task::kSequenceClassification);
  CHECK_FALSE(model.tied_embeddings);
}

TEST_CASE("published row: a release that keeps gradients of zeros is named") {
  CHECK(published_skip("tp", R"(1, "framework_version": "2022-01, CUDA 11.2")") ==
        "framework_version: '2022-01, CUDA 11.2', before PyTorch 2.0, which keeps gradients");
  CHECK(published_skip("tp", R"(1, "framework_version": "2024")") == "(planned)");
}

TEST_CASE("published row: what is prose or missing skips it with the key") {
  CHECK(published_skip("precision", R"("see the script")") == "precision: 'see the script'");
  CHECK(published_skip("precision", "null") == "precision: not stated");
  CHECK(published_skip("optimizer", R"("Muon")") == "optimizer: 'Muon'");
  CHECK(published_skip("gpu", R"j("80GB (H100/A100)")j") == "gpu: '80GB (H100/A100)'");
  CHECK(published_skip("micro_batch", "null") == "micro_batch: not stated");
  CHECK(published_skip("lora", R"("LoRA r=8")") == "lora: \"LoRA r=8\"");
  CHECK(published_skip("lora", R"({"peft_type": "BOFT"})") == "lora.peft_type: 'BOFT'");
  CHECK(published_skip("quant", R"("nf4")") == "quant: \"nf4\"");
  CHECK(published_skip("tp", "8") == "tp: must be 1");
  CHECK(published_skip("mode", R"("infer")") == "mode: 'infer'");
  CHECK(published_skip("framework", R"("nanotron")") == "framework: 'nanotron'");
  CHECK(published_skip("num_gpus", "8").starts_with("num_gpus: 8"));
  CHECK(published_skip("sparsity", "1") == "(planned)");  // No such key in the row.
  CHECK(published_skip("model", R"j({"arch": "bert (encoder, two heads)"})j") ==
        "model.arch: 'bert (encoder, two heads)'");
}  // namespace headroom::check

TEST_CASE("published row: a key that the tables do not know is never passed over") {
  std::string text = published_row();
  text.insert(text.find("\"gpu\""), "\"liger\": true, ");
  const auto planned = plan_of_published(parse_published(text), published_tools());
  REQUIRE(std::holds_alternative<Skip>(planned));
  CHECK(std::get<Skip>(planned).reason == "liger: not modelled");
}

TEST_CASE("published row: memory in its unit, under its metric, in the phase run") {
  const Scoring reserved = score_row(parse_published(published_row()), published_tools());
  REQUIRE(reserved.scores.size() == 2);
  CHECK(reserved.scores[0].metric == Metric::kFits);
  CHECK(reserved.scores[1].metric == Metric::kPeakReserved);
  CHECK(reserved.scores[1].phase == "run");
  CHECK(reserved.scores[1].error == doctest::Approx(-0.25));
  REQUIRE(reserved.skipped.size() == 1);
  CHECK(reserved.skipped[0].reason == "step_time_ms: no performance data of l40s");
  CHECK(reserved.skipped[0].metric == Metric::kStepTime);

  const Scoring driver = score_measured(
      R"({"peak_mem_value": 2000, "peak_mem_unit": "MiB", "mem_metric": "nvidia-smi"})");
  REQUIRE(driver.scores.size() == 1);
  CHECK(driver.scores[0].metric == Metric::kPeakDriver);
  CHECK(driver.scores[0].error == 0);  // 1500 reserved and 500 outside.
}

TEST_CASE("published row: one that measured nothing is skipped, not refused") {
  const Scoring nothing = score_measured("null");
  CHECK(nothing.scores.empty());
  REQUIRE(nothing.skipped.size() == 1);
  CHECK(nothing.skipped[0].reason == "measured: nothing");
}

TEST_CASE("published row: a unit that is not stated is not guessed") {
  const Scoring vague = score_measured(
      R"({"peak_mem_value": 20, "peak_mem_unit": "GB", "mem_metric": "max_allocated"})");
  CHECK(vague.scores.empty());
  REQUIRE(vague.skipped.size() == 1);
  CHECK(vague.skipped[0].reason == "peak_mem_unit: 'GB'");
  // Unless whoever read the source could tell and wrote GiB.
  const Scoring known =
      score_measured(R"({"peak_mem_value": 1, "peak_mem_unit": "GB", "peak_mem_gib": 0.9765625,)"
                     R"( "mem_metric": "max_allocated"})");
  REQUIRE(known.scores.size() == 1);
  CHECK(known.scores[0].error == 0);
  const Scoring metric = score_measured(
      R"j({"peak_mem_value": 1, "peak_mem_unit": "GiB", "mem_metric": "nvidia-smi (upper bound)"})j");
  REQUIRE(metric.skipped.size() == 1);
  CHECK(metric.skipped[0].reason == "mem_metric: 'nvidia-smi (upper bound)'");
}

TEST_CASE("published row: LitGPT's words become its modelling code and adapters") {
  std::string text = published_row("framework", R"("LitGPT config_hub")");
  const auto replace = [&text](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace(R"("bfloat16, adapters autocast to fp32")", R"("bf16-true")");
  replace(R"({"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"]})",
          R"j("LoRA r8 alpha16 on q,v (script defaults)")j");
  replace(R"("quant": null)", R"("quant": "bnb.nf4-dq")");
  replace(R"("arch": "llama")", R"j("padded_vocab": 320, "arch": "phi (gpt-neox style)")j");
  const auto planned = plan_of_published(parse_published(text), published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const auto& setting = std::get<PublishedSetting>(planned);
  CHECK(setting.run.plan.runtime == "litgpt");
  CHECK(setting.run.plan.lora->targets == std::vector<std::string>{"query", "value"});
  CHECK(setting.run.plan.quant->double_quant);
  CHECK(setting.run.plan.optimizer.form == ir::OptimizerForm::kPaged);
  CHECK(setting.run.model.vocabulary == 320);
  CHECK_FALSE(setting.run.model.tied_embeddings);
  CHECK(setting.run.model.residual == ir::ResidualForm::kParallelOneNorm);
}

namespace {

/// A regular row of torchtune: replacements of whole `"key": value` pairs.
std::string tune_row(const std::vector<std::pair<std::string, std::string>>& replaced = {}) {
  std::string text = published_row("framework", R"("torchtune")");
  std::vector<std::pair<std::string, std::string>> all = {
      {R"j("precision": "bfloat16, adapters autocast to fp32")j",
       R"j("precision": "bf16 (params, grads, states)")j"},
      {R"j("attention": "sdpa (transformers default)")j", R"("attention": null)"},
      {R"("checkpointing": "none")", R"j("checkpointing": "full (every layer)")j"},
      {R"("compile": "none")", R"("compile": "torch.compile")"},
      {R"("lora": {"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"]})",
       R"j("lora": null, "other": {"packed": true, "loss": "chunked CE (8 chunks)"})j"}};
  all.insert(all.end(), replaced.begin(), replaced.end());
  for (const auto& [was, is] : all) {
    const std::size_t at = text.find(was);
    REQUIRE(at != std::string::npos);
    text.replace(at, was.size(), is);
  }
  return text;
}

std::string tune_skip(const std::vector<std::pair<std::string, std::string>>& replaced) {
  const auto planned = plan_of_published(parse_published(tune_row(replaced)), published_tools());
  const Skip* skip = std::get_if<Skip>(&planned);
  return skip != nullptr ? skip->reason : "(planned)";
}

}  // namespace

TEST_CASE("published row: torchtune's recipes become plans of its code") {
  const auto planned = plan_of_published(
      parse_published(tune_row(
          {{R"("optimizer": "AdamW")", R"("optimizer": "PagedAdamW8bit, optimizer in backward")"},
           {R"("lora": null)", R"("lora": "LoRA r16 alpha32 on q,v,output_proj + MLP")"},
           {R"("quant": null)", R"("quant": "NF4 base")"}})),
      published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const ir::ParallelPlan& plan = std::get<PublishedSetting>(planned).run.plan;
  CHECK(plan.runtime == "torchtune");
  CHECK(tune_of(plan).compiled);
  CHECK(tune_of(plan).optimizer_in_backward);
  CHECK(plan.optimizer.form == ir::OptimizerForm::kPagedEightBit);
  CHECK(plan.loss == ir::LossKind::kChunked);
  CHECK(plan.lora->rank == 16);
  CHECK(plan.lora->targets.size() == 6);
  CHECK_FALSE(plan.quant->prepare_kbit);
}

TEST_CASE("published row: torchtune's on several GPUs are FSDP2's, bf16 throughout") {
  const auto planned = plan_of_published(
      parse_published(tune_row(
          {{R"("num_gpus": 1)",
            R"j("num_gpus": 8, "fsdp": "FSDP2 full shard", "offload": "FSDP CPU offload (params, grads, optimizer)")j"}})),
      published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const ir::ParallelPlan& plan = std::get<PublishedSetting>(planned).run.plan;
  CHECK(plan.runtime == "torchtune");
  CHECK(fsdp_of(plan).cpu_offload);
  CHECK(fsdp_of(plan).shard_embeddings);
  CHECK(fsdp_of(plan).reduce_dtype == ir::DType::kBf16);
  CHECK(plan.optimizer.form == ir::OptimizerForm::kFused);
}

TEST_CASE("published row: what torchtune's leave open skips them") {
  CHECK(tune_skip({{R"("packed": true)", R"("packed": false)"}}) ==
        "other.packed: false, so seq_len is only the limit");
  CHECK(tune_skip({{R"j("full (every layer)")j", R"("none")"}})
            .starts_with("compile: 'torch.compile' without checkpointing"));
  CHECK(tune_skip({{R"("compile": "torch.compile")", R"("compile": null)"}}) ==
        "compile: 'not stated'");
  CHECK(tune_skip({{R"("num_gpus": 1)", R"("num_gpus": 8)"}})
            .starts_with("num_gpus: 8 GPUs, but the row does not state"));
}

TEST_CASE("published row: a rate beyond the GPU's datasheet is not that of one GPU") {
  ScoreTools tools = published_tools();
  tools.estimate = [](const ir::ModelSpec&, const ir::ParallelPlan&, const cost::DeviceSpec&,
                      const ir::RunConditions&) -> Result<cost::StepEstimate> {
    cost::StepEstimate estimate;
    estimate.verdict = cost::Verdict::kFits;
    estimate.time.emplace();
    estimate.time->total = Seconds{1};
    estimate.time->tokens = 100;
    estimate.time->model_flops = 50;
    estimate.time->peak = FlopsPerSecond{100};
    return estimate;
  };
  const auto score_rate = [&tools](const std::string& rate) {
    return score_row(
        parse_published(published_row("measured", R"({"tokens_per_s_per_gpu": )" + rate + "}")),
        tools);
  };
  CHECK(score_rate("150").scores.size() == 1);
  const Scoring beyond = score_rate("250");  // Half of the peak makes 100 tokens a second.
  CHECK(beyond.scores.empty());
  REQUIRE(beyond.skipped.size() == 1);
  CHECK(beyond.skipped[0].reason == "tokens_per_s_per_gpu: more than one GPU can compute");
}

TEST_CASE(
    "published row: Qwen's fine-tuning, with adapters alone or under a stated stage of ZeRO") {
  std::string text = published_row("framework", R"j("Qwen finetune.py (HF Trainer)")j");
  for (const auto& [was, is] :
       {std::pair<std::string, std::string>{
            R"j("precision": "bfloat16, adapters autocast to fp32")j", R"("precision": "bf16")"},
        {R"("optimizer": "AdamW")", R"j("optimizer": "AdamW (Trainer)")j"},
        {R"("checkpointing": "none")",
         R"j("checkpointing": "full (gradient_checkpointing in the scripts)")j"},
        {R"("lora": {"peft_type": "LORA", "r": 32, "target_modules": ["q_proj"]})",
         R"j("lora": "LoRA r=64 on c_attn, c_proj, w1, w2 (script defaults)")j"}}) {
    text.replace(text.find(was), was.size(), is);
  }
  const auto planned = plan_of_published(parse_published(text), published_tools());
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const ir::ParallelPlan& plan = std::get<PublishedSetting>(planned).run.plan;
  CHECK(plan.precision == ir::Precision::kBf16AutocastBf16);
  CHECK(plan.recompute == ir::Recompute::kFullReentrant);
  CHECK(plan.lora->rank == 64);
  text.replace(text.find(R"("num_gpus": 1)"), 13, R"("num_gpus": 4)");
  const auto spread = plan_of_published(parse_published(text), published_tools());
  REQUIRE(std::holds_alternative<Skip>(spread));
  CHECK(std::get<Skip>(spread).reason == "zero_stage: not stated");
}

TEST_CASE("published row: bytes of an unknown kind, or too few for what is stated, are skipped") {
  const Scoring vague = score_measured(
      R"j({"peak_mem_value": 2, "peak_mem_unit": "GiB", "mem_metric": "nvidia-smi or torch peak"})j");
  CHECK(vague.scores.empty());
  REQUIRE(vague.skipped.size() == 1);
  CHECK(vague.skipped[0].reason == "mem_metric: 'nvidia-smi or torch peak'");
  // Full fine-tuning in bf16 takes 8 bytes per parameter; 100 bytes are another run's.
  std::string text = published_row("lora", "null");
  text.replace(text.find("2000, "), 6, "0.0001, ");
  const Scoring few = score_row(parse_published(text), published_tools());
  CHECK(few.scores.empty());
  REQUIRE(few.skipped.size() == 1);
  CHECK(few.skipped[0].reason.starts_with("peak_mem_value: less than"));
}

TEST_CASE("published row: a wrong or a negative verdict is its only score") {
  const Scoring ran = score_measured(
      R"({"peak_mem_value": 1, "peak_mem_unit": "GiB", "mem_metric": "max_reserved",)"
      R"( "fits": true})",
      cost::Verdict::kDoesNotFit);
  REQUIRE(ran.scores.size() == 1);
  CHECK(ran.scores[0].error == 1);
  const Scoring failed = score_measured(R"({"fits": false})", cost::Verdict::kDoesNotFit);
  REQUIRE(failed.scores.size() == 1);
  CHECK(failed.scores[0].error == 0);
}

namespace {

/// A run of Megatron-LM; `with` is added to its arguments.
Scoring score_arguments(const std::string& gpu, const std::string& with) {
  const std::string arguments =
      R"("num-layers": "2", "hidden-size": "256", "num-attention-heads": "4", "seq-length": "128",)"
      R"( "max-position-embeddings": "128", "micro-batch-size": "2", "global-batch-size": "8",)"
      R"( "bf16": "true", "transformer-impl": "transformer_engine")";
  const std::string text =
      R"({"source": "s", "rows": [{"id": "g", "framework": "Megatron-LM", "mode": "train", "gpu": ")" +
      gpu + R"(", "num_gpus": 2, "framework_version": "dev container", "model": {"arch": "gpt",)" +
      R"( "vocab": 1000}, "other": {"model_args": {)" + arguments + with +
      R"(}, "env": {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}}, "measured": {"peak_mem_value": 1000,)" +
      R"( "peak_mem_unit": "bytes", "mem_metric": "max_allocated"}}]})";
  ScoreTools tools = published_tools();
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    device.traits.compute_major = name.starts_with("a100") ? 8 : (name == "gb200" ? 10 : 9);
    return device;
  };
  tools.predict = [](const ir::RunSetting& setting) -> Result<Prediction> {
    // What the setting says, as a peak that can be read off the score.
    const auto attention = static_cast<double>(megatron_of(setting.plan).attention);
    const double peak = static_cast<double>(setting.plan.workload.accumulation) * 100 +
                        attention * 10 + static_cast<double>(setting.rank);
    return Prediction{.fits = true,
                      .phases = {{.name = ir::parse_phase_name("step1"),
                                  .values = {{Metric::kPeakAllocated, peak}}}}};
  };
  return score_row(parse_published(text), tools);
}

const char* const kA100 = "NVIDIA A100 (dgx_a100; A100-80GB assumed)";
const char* const kH100 = "NVIDIA H100 (dgx_h100; H100-80GB assumed)";
const char* const kGb200 = "NVIDIA GB200 (dgx_gb200)";

}  // namespace

TEST_CASE("published Megatron arguments: micro-batches, the last rank, the device's attention") {
  const auto predicted = [](const std::string& gpu, const std::string& with) {
    const Scoring scoring = score_arguments(gpu, with);
    REQUIRE(scoring.scores.size() == 1);
    CHECK(scoring.scores[0].phase == "run");
    return scoring.scores[0].predicted;
  };
  // Two ranks of two: 8 samples are two micro-batches. Fused 0, flash 1, unfused 2. Rank 1.
  CHECK(predicted(kH100, "") == 201);
  CHECK(predicted(kA100, "") == 211);
  CHECK(predicted(kGb200, "") == 211);
  CHECK(predicted(kH100, R"(, "attention-backend": "unfused")") == 221);
  CHECK(predicted(kH100, R"(, "tensor-model-parallel-size": "2")") == 401);
}

TEST_CASE("published Megatron arguments: what cannot be followed skips the row by its argument") {
  const auto reason = [](const std::string& with) {
    const Scoring scoring = score_arguments(kH100, with);
    REQUIRE(scoring.skipped.size() == 1);
    return scoring.skipped[0].reason;
  };
  CHECK(reason(R"(, "fp8-format": "hybrid")") == "other.model_args.fp8-format: not modelled");
  CHECK(reason(R"(, "recompute-granularity": "selective")") ==
        "other.model_args.recompute-granularity: 'selective'");
}

TEST_CASE("published words: frameworks by their beginning, everything else whole") {
  CHECK(shown_as("Megatron-Bridge (NeMo container 25.11)") == "megatron");
  CHECK(shown_as("torchtitan (FSDP2)") == "fsdp");
  CHECK(shown_as("Megatron-DeepSpeed").empty());
  CHECK(shown_as("DeepSpeedX").empty());
  CHECK(published_metric("max_allocated (max over 8 ranks)") == Metric::kPeakAllocated);
  CHECK_FALSE(published_metric("max_allocated_ish"));
  CHECK_FALSE(published_metric("nvidia-smi (assumed)"));
  CHECK(published_unit("GB(1e9)") == 1e9);
  CHECK_FALSE(published_unit("GB"));
}

}  // namespace headroom::check
