// Heads that classify. Phase totals were recorded with PyTorch 2.11.0, transformers 5.17.0 and PEFT
// 0.21.2 on compute capability 9.0: AdamW, labels of zeros, the batch let go after backward; the
// tensor of one number that initialises the device is part of them.

#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "model_ir/graph/decoder.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/task.h"
#include "runtimes/registry.h"
#include "tests/support/graph_verify/verify.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

constexpr std::string_view kSizes = R"("hidden_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 16, )";

ModelSpec model_of_family(const std::string& family,
                          const std::string& rest = "\"num_labels\": 2") {
  return parse_hf_config("{\"model_type\": \"" + family + "\", " + std::string(kSizes) + rest + "}",
                         "test")
      .value();
}

ModelSpec bert_for(Task task, int labels) {
  ModelSpec model = model_of_family("bert", R"("intermediate_size": 4096, "vocab_size": 30522,
      "max_position_embeddings": 512)");
  REQUIRE(set_task(model, task, labels));
  return model;
}

ModelSpec llama_for(Task task, int labels, const std::string& pad = "0") {
  ModelSpec model = model_of_family("llama", R"("intermediate_size": 2816, "num_key_value_heads": 4,
      "vocab_size": 32000, "pad_token_id": )" + pad);
  REQUIRE(set_task(model, task, labels));
  return model;
}

ParallelPlan classifying(Precision precision, std::int64_t batch, std::int64_t sequence) {
  ParallelPlan plan;
  plan.precision = precision;
  plan.workload.micro_batch = batch;
  plan.workload.sequence = sequence;
  return plan;
}

std::optional<Error> lowering_error(const ModelSpec& model, const ParallelPlan& plan) {
  const Result<RankProgram> program = lower(model, plan, Rank{0}, DeviceTraits{});
  return program ? std::nullopt : std::optional(program.error());
}

}  // namespace

TEST_CASE("classification: BERT's pooler and classifier stand in the place of its decoder") {
  const ModelSpec model = bert_for(Task::kSequenceClassification, 2);
  // word, position and token type tables, LayerNorm, two layers, pooler, classifier.
  CHECK(count_parameters(model).total() == 58'027'010);
  CHECK(count_parameters(model).head == 1024 * 1024 + 1024 + 2 * 1024 + 2);
  test::check_phases(model, classifying(Precision::kFp32, 3, 500),
                     {{"load", 232'927'744, 232'927'744},
                      {"step1.forward", 491'345'408, 497'460'224},
                      {"step1.backward", 534'889'472, 585'276'416},
                      {"step2.forward", 985'811'456, 991'926'272},
                      {"step2.backward", 1'000'728'576, 1'048'076'288},
                      {"step2.optimizer", 1'000'728'576, 1'233'795'584}});
}

TEST_CASE("classification: a single label is a regression") {
  ParallelPlan plan = classifying(Precision::kFp32, 3, 500);
  plan.clip_norm = 1.0;
  plan.workload.evaluation = true;
  test::check_phases(bert_for(Task::kSequenceClassification, 1), plan,
                     {{"load", 232'923'648, 232'923'648},
                      {"step1.forward", 491'340'800, 497'456'128},
                      {"step1.backward", 534'881'280, 585'268'224},
                      {"step2.optimizer", 1'000'712'192, 1'233'775'104},
                      {"evaluation", 766'912'000, 834'803'712}});
}

TEST_CASE("classification: a decoder pools the logits of the last token") {
  test::check_phases(llama_for(Task::kSequenceClassification, 2),
                     classifying(Precision::kBf16, 3, 1100),
                     {{"load", 111'688'704, 111'688'704},
                      {"step1.forward", 468'380'672, 495'434'240},
                      {"step1.backward", 292'525'056, 556'222'976},
                      {"step2.forward", 726'428'672, 753'482'240},
                      {"step2.backward", 521'438'208, 780'487'168},
                      {"step2.optimizer", 521'438'208, 633'125'888}});
  ParallelPlan plan = classifying(Precision::kAutocastBf16, 1, 1100);
  plan.workload.keep_logits = true;
  test::check_phases(llama_for(Task::kSequenceClassification, 2, "null"), plan,
                     {{"step1.forward", 442'619'904, 447'130'112},
                      {"step1.backward", 518'054'912, 522'571'776},
                      {"step2.forward", 932'675'584, 937'185'792},
                      {"step2.backward", 980'337'664, 984'854'528}});
}

TEST_CASE("classification: tokens are dropped out, labelled each, in fp32 where the code widens") {
  test::check_phases(llama_for(Task::kTokenClassification, 9),
                     classifying(Precision::kBf16, 3, 1100),
                     {{"load", 111'703'552, 111'703'552},
                      {"step1.forward", 473'636'864, 495'448'576},
                      {"step1.backward", 293'603'328, 557'300'736},
                      {"step2.forward", 731'018'240, 754'574'848},
                      {"step2.backward", 522'546'176, 781'594'624}});
}

TEST_CASE("classification: PEFT trains a copy of the head beside the adapters") {
  ParallelPlan plan = classifying(Precision::kBf16, 3, 1100);
  plan.lora = test::all_linear(16);
  const ModelSpec model = llama_for(Task::kSequenceClassification, 2);
  test::check_phases(model, plan,
                     {{"load", 114'019'328, 114'076'672},
                      {"step1.forward", 598'451'200, 658'276'864},
                      {"step1.backward", 183'458'816, 692'820'480},
                      {"step2.backward", 188'120'064, 695'867'904}});
  const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
  CHECK(program.trainable_parameters == 583'680);
}

TEST_CASE("classification: every family's graph is sound, or its head is refused by name") {
  for (const Family family : kFamilies) {
    CAPTURE(name_of(family));
    for (const Task task : {Task::kSequenceClassification, Task::kTokenClassification}) {
      ModelSpec model = test::small_llama();
      model.family = family;
      const Status set = set_task(model, task, 3);
      CHECK(bool(set) == classifier_form(family, task).has_value());
      if (!set) {
        CHECK(set.error().key == "task");
        CHECK(set.error().got == name_of(task));
        CHECK(model.task == Task::kLanguage);
      }
    }
  }
  for (const char* family : {"llama", "gpt_neox", "falcon", "bloom", "bert"}) {
    ModelSpec model = model_of_family(family, R"("vocab_size": 320, "tie_word_embeddings": true)");
    for (const Task task : {Task::kSequenceClassification, Task::kTokenClassification}) {
      REQUIRE(set_task(model, task, 5));
      CHECK(verify(build_graph(model, {.batch = 2, .sequence = 16})).empty());
    }
  }
}

TEST_CASE("classification: a configuration's class, labels and padding token are read") {
  const std::string sizes = R"("vocab_size": 320, )";
  const ModelSpec model =
      model_of_family("llama", sizes + R"("architectures": ["LlamaForSequenceClassification"],
               "id2label": {"0": "a", "1": "b", "2": "c"}, "pad_token_id": 7)");
  CHECK(model.task == Task::kSequenceClassification);
  CHECK(model.labels == 3);
  CHECK(model.pad_token);
  CHECK(head_module(model) == "score");
  CHECK(model_of_family("llama", sizes + R"("architectures": ["LlamaForCausalLM"])").task ==
        Task::kLanguage);
  CHECK_FALSE(model_of_family("llama", sizes + R"("pad_token_id": null)").pad_token);
  CHECK(model_of_family("bert", sizes + R"("hidden_dropout_prob": 0.2)").dropout.classifier == 0.2);
  CHECK(model_of_family("bert", sizes + R"("classifier_dropout": 0.3)").dropout.classifier == 0.3);
  CHECK(
      model_of_family("llama", sizes + R"("problem_type": "single_label_classification")").labels ==
      2);
  for (const char* const problem : {"multi_label_classification", "regression"}) {
    const auto several = parse_hf_config(
        R"({"model_type": "t5", "d_model": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 100,
            "problem_type": ")" +
            std::string(problem) + R"("})",
        "several");
    REQUIRE_FALSE(several);
    CHECK(several.error().pointer == "/problem_type");
  }
  const auto refused = parse_hf_config(
      R"({"model_type": "t5", "d_model": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 100,
          "architectures": ["T5ForSequenceClassification"]})",
      "test");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().pointer == "/architectures");
}

TEST_CASE("classification: what is not modelled is refused by name") {
  const ModelSpec sequences = llama_for(Task::kSequenceClassification, 2);
  ParallelPlan plan = classifying(Precision::kBf16, 1, 64);
  plan.loss = LossKind::kFusedLinear;
  CHECK(lowering_error(sequences, plan).value().key == "loss");
  plan = classifying(Precision::kBf16, 1, 64);
  plan.runtime = "litgpt";
  CHECK(lowering_error(sequences, plan).value().key == "task");
  plan = classifying(Precision::kBf16, 1, 64);
  plan.lora = test::all_linear(8);
  plan.quant = QuantPlan{};
  CHECK(lowering_error(sequences, plan).value().key == "task");
  plan.quant.reset();
  CHECK_FALSE(lowering_error(sequences, plan));
  CHECK(lowering_error(llama_for(Task::kTokenClassification, 2), plan).value().key == "lora");
}

}  // namespace headroom::ir
