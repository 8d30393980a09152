// Recorded families with other heads than the first that transformers has for them. Parameters are
// those that huggingface.co/api/models states for roberta-base (safetensors.total, masked words),
// and those of RobertaClassificationHead on top of its encoder.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/time/model_flops.h"
#include "model_ir/spec/auto_class.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/task.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kHidden = 768;
constexpr std::int64_t kEncoder = 124'055'040;
constexpr std::int64_t kMaskedWords = 124'697'433;

/// The published configuration of roberta-base, with `more` keys.
std::string roberta(const std::string& more) {
  return R"({"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768,
             "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
             "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
             "pad_token_id": 1)" +
         more + "}";
}

Result<HfConfig> read(const std::string& more, const AskedHead& head = {}) {
  return inspect_hf_config(roberta(more), "config.json", {.as = {}, .name = "m", .head = head});
}

ParallelPlan short_plan() {
  ParallelPlan plan;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 128;
  return plan;
}

std::int64_t parameters_with(std::int64_t labels) {
  return kEncoder + kHidden * kHidden + kHidden + labels * (kHidden + 1);
}

}  // namespace

TEST_CASE("recorded heads: architectures chooses the head") {
  const auto masked = read(R"(, "architectures": ["RobertaForMaskedLM"])");
  REQUIRE(masked);
  CHECK(count_parameters(masked->model).total() == kMaskedWords);
  CHECK(auto_class(masked->model) == "AutoModelForMaskedLM");
  CHECK(masked->notes.empty());
  const auto labelled = read(R"(, "architectures": ["RobertaForSequenceClassification"],
                                "id2label": {"0": "no", "1": "maybe", "2": "yes"},
                                "label2id": {"no": 0, "maybe": 1, "yes": 2})");
  REQUIRE(labelled);
  CHECK(labelled->model.task == Task::kSequenceClassification);
  CHECK(labelled->model.labels == 3);
  CHECK(count_parameters(labelled->model).total() == parameters_with(3));
  CHECK(auto_class(labelled->model) == "AutoModelForSequenceClassification");
  const auto tokens = read(R"(, "architectures": ["RobertaForTokenClassification"])");
  REQUIRE(tokens);
  CHECK(tokens->model.labels == 2);
  CHECK(count_parameters(tokens->model).total() == kEncoder + 2 * (kHidden + 1));
}

TEST_CASE("recorded heads: what is asked for goes before what the file says") {
  const std::string masked = R"(, "architectures": ["RobertaForMaskedLM"])";
  const auto asked = read(masked, {.task = Task::kSequenceClassification, .labels = 5});
  REQUIRE(asked);
  CHECK(count_parameters(asked->model).total() == parameters_with(5));
  CHECK(asked->notes.empty());
  const auto language = read(R"(, "architectures": ["RobertaForSequenceClassification"])",
                             {.task = Task::kLanguage, .labels = std::nullopt});
  REQUIRE(language);
  CHECK(language->model.task == Task::kLanguage);
  ModelSpec model = language->model;
  CHECK_FALSE(set_task(model, Task::kSequenceClassification, 2));
}

TEST_CASE("recorded heads: what was not recorded is refused where it was named") {
  const auto named = read(R"(, "architectures": ["RobertaForQuestionAnswering"])");
  REQUIRE_FALSE(named);
  CHECK(named.error().pointer == "/architectures");
  const std::string text = R"({"model_type": "smollm3", "architectures": [)";
  const auto file =
      inspect_hf_config(text + R"("SmolLM3ForSequenceClassification"]})", "config.json");
  REQUIRE_FALSE(file);
  CHECK(file.error().pointer == "/architectures");
  const auto typed = inspect_hf_config(
      text + R"("SmolLM3ForCausalLM"]})", "config.json",
      {.as = {}, .name = "m", .head = {.task = Task::kTokenClassification, .labels = {}}});
  REQUIRE_FALSE(typed);
  CHECK(typed.error().key == "task");
  const auto several = read(R"(, "problem_type": "multi_label_classification")",
                            {.task = Task::kSequenceClassification, .labels = {}});
  REQUIRE_FALSE(several);
  CHECK(several.error().pointer == "/problem_type");
  const auto one = read("", {.task = Task::kSequenceClassification, .labels = 1});
  REQUIRE_FALSE(one);  // Regression has another loss.
  CHECK(one.error().key == "num-labels");
}

TEST_CASE("recorded heads: sharded frameworks take them, but not with copies of modules") {
  ModelSpec model = read("", {.task = Task::kSequenceClassification, .labels = 3}).value().model;
  ParallelPlan plan = short_plan();
  plan.world = 2;
  plan.runtime = "fsdp";
  edit_fsdp(plan) = {};
  const auto sharded = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(sharded);
  CHECK(sharded->parameters == parameters_with(3));
  plan.lora.emplace();
  const auto adapted = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(adapted);
  CHECK(adapted.error().key == "lora");
}

TEST_CASE("recorded heads: PEFT copies a head that classifies and adapts the rest") {
  ModelSpec model = read("", {.task = Task::kSequenceClassification, .labels = 3}).value().model;
  ParallelPlan plan = short_plan();
  plan.lora.emplace();
  plan.lora->rank = 8;
  plan.lora->targets = {"query", "value"};
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  const std::int64_t adapters = 12 * 2 * 8 * 2 * kHidden;
  CHECK(program->trainable_parameters == adapters + parameters_with(3) - kEncoder);
}

TEST_CASE("recorded heads: quantised layers are refused beside a head that classifies") {
  const ModelSpec model =
      read("", {.task = Task::kSequenceClassification, .labels = 3}).value().model;
  ParallelPlan plan = short_plan();
  plan.lora.emplace();
  plan.quant.emplace();
  plan.quant->prepare_kbit = false;
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "task");
}

TEST_CASE("recorded heads: modules to save are copied where they are read, tied ones, too") {
  const ModelSpec model = read(R"(, "architectures": ["RobertaForMaskedLM"])").value().model;
  const auto trained = [&](std::vector<std::string> names) {
    ParallelPlan plan = short_plan();
    plan.lora.emplace();
    plan.lora->rank = 8;
    plan.lora->targets = {"query"};
    plan.lora->modules_to_save = std::move(names);
    return lower(model, plan, Rank{0}, DeviceTraits{}).value().trainable_parameters;
  };
  constexpr std::int64_t kAdapters = 12 * 2 * 8 * kHidden;
  constexpr std::int64_t kTable = 50'265 * kHidden;
  CHECK(trained({}) == kAdapters);
  CHECK(trained({"word_embeddings"}) == kAdapters + kTable);
  CHECK(trained({"word_embeddings", "decoder"}) == kAdapters + 2 * kTable + 50'265);
  CHECK(trained({"lm_head.dense"}) == kAdapters + kHidden * kHidden + kHidden);
}

TEST_CASE("recorded heads: a name of the catalogue is read with the head that is asked for") {
  const std::string folder = HEADROOM_SOURCE_DIR "/configs/models";
  const auto model =
      load_model(folder, "roberta-base", {.task = Task::kSequenceClassification, .labels = 3});
  REQUIRE(model);
  CHECK(count_parameters(*model).total() == parameters_with(3));
  CHECK(count_parameters(load_model(folder, "roberta-base").value()).total() == kMaskedWords);
}

TEST_CASE("recorded heads: evaluation runs no dropout and keeps nothing, but not under autocast") {
  const ModelSpec model = read("").value().model;
  ParallelPlan plan = short_plan();
  plan.workload.evaluation = true;
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  const auto dropouts = [&](PhaseKind kind) {
    int count = 0;
    for (const Phase& phase : program->phases) {
      for (std::size_t at = phase.begin; phase.name.kind == kind && at < phase.end; ++at) {
        const Site& site = program->sites[program->events[at].site];
        count += program->operations[site.operation] == "native_dropout" ? 1 : 0;
      }
    }
    return count;
  };
  CHECK(dropouts(PhaseKind::kForward) > 0);
  CHECK(dropouts(PhaseKind::kEvaluation) == 0);
  plan.precision = Precision::kAutocastBf16;
  const auto refused = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "evaluation");
}

TEST_CASE("recorded heads: the positions of Whisper's transcripts are not counted from padding") {
  const std::string folder = HEADROOM_SOURCE_DIR "/configs/models";
  CHECK(load_model(folder, "whisper-small").value().max_positions == 448);
  CHECK(load_model(folder, "bart-base").value().max_positions == 1024);
}

TEST_CASE("recorded heads: a token of a transcript has its share of what is heard") {
  const ModelSpec model =
      load_model(HEADROOM_SOURCE_DIR "/configs/models", "whisper-small").value();
  // The encoder's layers see 1,500 positions of each sequence: 12 layers of 7,087,872 parameters.
  constexpr double kHeard = 12.0 * 7'087'872 * 1500 / 100;
  const double flops = cost::model_flops_per_token(model, 100);
  CHECK(flops > 6 * kHeard);
  CHECK(flops < 1.5 * 6 * kHeard);
}

TEST_CASE("recorded heads: no sequence is longer than the table of positions") {
  const ModelSpec model = read("").value().model;
  CHECK(model.max_positions == 512);  // Positions are counted from the one behind that of padding.
  ParallelPlan plan;
  plan.workload.sequence = 512;
  CHECK(check_plan(model, plan));
  plan.workload.sequence = 513;
  const Status refused = check_plan(model, plan);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "seq");
}

}  // namespace headroom::ir
