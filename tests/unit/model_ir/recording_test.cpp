// Model recordings: what is read, what is refused, and that the engine gives the bytes of the
// family that is written by hand. tests/golden/recordings/llama.json was recorded with
// PyTorch 2.11.0 and transformers 5.17.0 by headroom import (two layers of Llama, H 256).

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/layer_bound.h"
#include "model_ir/base/file.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/transformers/recording/typed_code.h"
#include "tests/support/deep_recording.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

const std::string kRecording = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";

/// The same, recorded with --qlora.
const std::string kQuantised = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama_quantised.json";

/// The same, recorded with --liger.
const std::string kLiger = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama_liger.json";

std::string recording_text() {
  return read_file(kRecording).value();
}

Result<ModelSpec> read_model(const std::string& text) {
  const Result<JsonValue> document = parse_json(text, "llama.json");
  return document ? read_recorded_model(*document, "llama.json")
                  : Result<ModelSpec>(document.error());
}

/// As every reader of a model's configuration gets it.
ModelSpec recorded() {
  return read_hf_config(kRecording, {.as = std::nullopt, .name = "recorded"}).value();
}

/// The same model as its family describes it.
ModelSpec written() {
  return parse_hf_config(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 688,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 1000, "max_position_embeddings": 2048, "tie_word_embeddings": false})",
                         "llama")
      .value();
}

std::vector<test::RecordedPhase> phases_of(const ModelSpec& model, const ParallelPlan& asked) {
  const ParallelPlan plan = test::on_accounting_device(asked);
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  std::vector<test::RecordedPhase> phases;
  for (const cost::PhaseMemory& phase :
       cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases) {
    phases.push_back(
        {to_text(phase.name), phase.allocated_after.value(), phase.peak_allocated.value()});
  }
  return phases;
}

/// The text with `from` replaced once by `to`.
std::string edited(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The phases of `model` have the bytes of the family that is written by hand.
void check_same_bytes(const ModelSpec& model, const ParallelPlan& plan) {
  const std::vector<test::RecordedPhase> expected = phases_of(written(), plan);
  const std::vector<test::RecordedPhase> found = phases_of(model, plan);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(found[i].name == expected[i].name);
    CHECK(found[i].allocated_after == expected[i].allocated_after);
    CHECK(found[i].peak_allocated == expected[i].peak_allocated);
  }
}

ParallelPlan plan_of(Precision precision, std::int64_t micro_batch, std::int64_t sequence) {
  ParallelPlan plan;
  plan.precision = precision;
  plan.workload.micro_batch = micro_batch;
  plan.workload.sequence = sequence;
  return plan;
}

}  // namespace

TEST_CASE("recording: sizes are sums of products of B, S, I and quotients") {
  const BatchSizes sizes{.batch = 3, .sequence = 130, .images = 2};
  for (const auto& [text, value] : {std::pair{"7", 7},
                                    {"B*S", 390},
                                    {"257*I + 1", 515},
                                    {"256*B*I", 1536},
                                    {"2*B*S*S + 64", 101464},
                                    {"ceil(S/64)*128 - 4", 380},
                                    {"S*S - S", 16770}}) {
    CAPTURE(text);
    const std::optional<SizeExpression> size = SizeExpression::parse(text);
    REQUIRE(size);
    CHECK(size->at(sizes) == value);
  }
  for (const char* text : {"", "B*", "S/2", "ceil(S/0)", "2 B", "B**S", "-", "x", "1.5*S"}) {
    CAPTURE(text);
    CHECK_FALSE(SizeExpression::parse(text));
  }
  CHECK_FALSE(SizeExpression::parse("B - 4")->at(sizes));  // Negative.
  CHECK_FALSE(SizeExpression::parse("S*S*S*S*S*S*S*S*S*S")->at(sizes));
}

TEST_CASE("recording: the engine gives the bytes of the family that is written by hand") {
  const ModelSpec recording = recorded();
  CHECK(recording.name == "recorded");
  CHECK(count_parameters(recording).total() == count_parameters(written()).total());
  const ParallelPlan usual = plan_of(Precision::kBf16, 2, 512);
  std::vector<std::pair<std::string, ParallelPlan>> plans{
      {"bf16", usual},
      {"one sequence", plan_of(Precision::kBf16, 1, 384)},
      {"odd sizes", plan_of(Precision::kBf16, 5, 333)},
      {"autocast", plan_of(Precision::kAutocastBf16, 3, 200)},
      {"read as fp32", plan_of(Precision::kFp32, 3, 200)},
      {"read as fp16", plan_of(Precision::kFp16, 5, 333)},
      {"autocast read as fp16", plan_of(Precision::kAutocastFp16, 2, 512)}};
  const auto changed = [&](std::string name, const std::function<void(ParallelPlan&)>& change) {
    plans.emplace_back(std::move(name), usual);
    change(plans.back().second);
  };
  changed("recomputed", [](ParallelPlan& plan) { plan.recompute = Recompute::kFull; });
  changed("recomputed inside backward",
          [](ParallelPlan& plan) { plan.recompute = Recompute::kFullReentrant; });
  changed("adapters", [](ParallelPlan& plan) { plan.lora = test::all_linear(8); });
  changed("adapters, recomputed", [](ParallelPlan& plan) {
    plan.lora = test::all_linear(8);
    plan.recompute = Recompute::kFull;
  });
  changed("adapters, recomputed inside backward", [](ParallelPlan& plan) {
    plan.lora = test::all_linear(8);
    plan.recompute = Recompute::kFullReentrant;
  });
  changed("adapters, read as fp16", [](ParallelPlan& plan) {
    plan.precision = Precision::kFp16;
    plan.lora = test::all_linear(8);
  });
  changed("adapters, read as fp32, recomputed", [](ParallelPlan& plan) {
    plan.precision = Precision::kFp32;
    plan.lora = test::all_linear(8);
    plan.recompute = Recompute::kFull;
  });
  changed("accumulation", [](ParallelPlan& plan) { plan.workload.accumulation = 2; });
  changed("padding", [](ParallelPlan& plan) { plan.workload.padded_batch = true; });
  changed("padding, recomputed, accumulation", [](ParallelPlan& plan) {
    plan.workload.padded_batch = true;
    plan.workload.accumulation = 2;
    plan.recompute = Recompute::kFull;
  });
  changed("padding, autocast, odd sizes", [](ParallelPlan& plan) {
    plan.precision = Precision::kAutocastBf16;
    plan.workload.micro_batch = 3;
    plan.workload.sequence = 333;
    plan.workload.padded_batch = true;
  });
  changed("shards", [](ParallelPlan& plan) {
    plan.runtime = "fsdp";
    plan.precision = Precision::kFp32;
    plan.world = 4;
    edit_fsdp(plan) = {};
  });
  changed("shards in fp32", [](ParallelPlan& plan) {
    plan.runtime = "fsdp";
    plan.precision = Precision::kFp32;
    plan.world = 4;
    edit_fsdp(plan).param_dtype = DType::kFp32;
  });
  const auto cast = [](ParallelPlan& plan) { plan.precision = Precision::kBf16AutocastBf16; };
  changed("bf16 weights under autocast", cast);
  changed("bf16 weights under autocast, adapters, recomputed", [&](ParallelPlan& plan) {
    cast(plan);
    plan.lora = test::all_linear(8);
    plan.recompute = Recompute::kFull;
  });
  changed("shards in bf16 under autocast", [](ParallelPlan& plan) {
    plan.runtime = "fsdp";
    plan.precision = Precision::kAutocastBf16;
    plan.world = 4;
    edit_fsdp(plan) = {};
  });
  for (const auto& [name, plan] : plans) {
    CAPTURE(name);
    check_same_bytes(recording, plan);
  }
}

TEST_CASE("recording: bf16 weights run under autocast where autocast changes nothing") {
  const ParallelPlan plan = plan_of(Precision::kBf16AutocastBf16, 2, 512);
  CHECK(test::refused_by_lowering(recorded(), plan).empty());
  // A sum of 16 bits has an fp32 result under autocast; the code of one sequence is another.
  std::string summed = recording_text();
  for (int variant = 0; variant < 2; ++variant) {
    summed = edited(summed, R"(["op", "silu", [)", R"(["op", "sum", [)");
  }
  const ModelSpec widened = read_model(summed).value();
  CHECK(test::refused_by_lowering(widened, plan) == "precision");
  CHECK(test::refused_by_lowering(widened, plan_of(Precision::kBf16, 2, 512)) != "precision");
}

TEST_CASE("recording: bytes that were recorded in one type are scaled to the other") {
  using transformers::scaled_bytes;
  constexpr transformers::TypeChange kWiden{.from = DType::kBf16, .to = DType::kFp32};
  CHECK(scaled_bytes(24, kWiden) == 48);
  CHECK(scaled_bytes(3330, kWiden) == 6660);
  CHECK(scaled_bytes(3330, {.from = DType::kBf16, .to = DType::kFp16}) == 3330);
}

TEST_CASE("recording: softmax to fp32 takes fp16 as it is, where bf16 is cast first") {
  // The attention of DeBERTa is eager.
  const ModelSpec model =
      parse_hf_config(R"({"model_type": "deberta-v2", "hidden_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1000,
    "max_position_embeddings": 512, "relative_attention": true, "position_buckets": 256,
    "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
    "type_vocab_size": 0, "position_biased_input": false, "layer_norm_eps": 1e-7,
    "max_relative_positions": -1, "architectures": ["DebertaV2ForMaskedLM"]})",
                      "deberta")
          .value();
  ParallelPlan plan = plan_of(Precision::kAutocastBf16, 2, 512);
  const std::vector<test::RecordedPhase> wide = phases_of(model, plan);
  plan.precision = Precision::kAutocastFp16;
  const std::vector<test::RecordedPhase> narrow = phases_of(model, plan);
  REQUIRE(narrow.size() == wide.size());
  const auto backward = [](const std::vector<test::RecordedPhase>& phases) {
    return std::ranges::find(phases, std::string("step1.backward"), &test::RecordedPhase::name)
        ->peak_allocated;
  };
  CHECK(backward(narrow) < backward(wide));  // All other tensors are as large.
}

TEST_CASE("recording: a model that differs in fp16 is not read as fp16") {
  const std::string key = R"("differs_in_fp16": false,)";
  const ModelSpec model =
      read_model(edited(recording_text(), key, R"("differs_in_fp16": true,)")).value();
  CHECK(test::refused_by_lowering(model, plan_of(Precision::kFp16, 2, 512)) == "precision");
  for (const Precision precision : {Precision::kFp32, Precision::kAutocastFp16}) {
    CHECK(test::refused_by_lowering(model, plan_of(precision, 2, 512)).empty());
  }
  // An older recording does not say.
  const ModelSpec older = read_model(edited(recording_text(), key, "")).value();
  CHECK(test::refused_by_lowering(older, plan_of(Precision::kFp16, 2, 512)) == "precision");
  const Result<ModelSpec> wrong =
      read_model(edited(recording_text(), key, R"("differs_in_fp16": 1,)"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().pointer == "/differs_in_fp16");
}

TEST_CASE("recording: quantised layers give the bytes of the family that is written by hand") {
  const ModelSpec model =
      read_hf_config(kQuantised, {.as = std::nullopt, .name = "recorded"}).value();
  for (const auto& [bits, twice] : {std::pair{4, true}, {4, false}, {8, false}}) {
    for (const bool prepared : {true, false}) {
      for (const Precision precision :
           {Precision::kBf16, Precision::kFp16, Precision::kBf16AutocastBf16}) {
        for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
          for (const std::int64_t micro_batch : {1, 3}) {
            CAPTURE(bits);
            CAPTURE(twice);
            CAPTURE(prepared);
            CAPTURE(precision);
            CAPTURE(recompute);
            CAPTURE(micro_batch);
            ParallelPlan plan = plan_of(precision, micro_batch, 512);
            plan.recompute = recompute;
            plan.lora = test::all_linear(8);
            plan.quant = QuantPlan{.bits = bits, .double_quant = twice, .prepare_kbit = prepared};
            check_same_bytes(model, plan);
          }
        }
      }
    }
  }
}

TEST_CASE("recording: quantised layers whose code was not recorded are refused") {
  const ModelSpec model = recorded();
  ParallelPlan plan = plan_of(Precision::kBf16, 2, 512);
  plan.lora = test::all_linear(8);
  plan.quant = QuantPlan{.prepare_kbit = false};
  CHECK(test::refused_by_lowering(model, plan).empty());  // All types are bf16.
  plan.precision = Precision::kBf16AutocastBf16;
  CHECK(test::refused_by_lowering(model, plan) == "qlora");
  plan.precision = Precision::kBf16;
  plan.quant->prepare_kbit = true;
  CHECK(test::refused_by_lowering(model, plan) == "qlora");
  plan.quant->prepare_kbit = false;
  plan.runtime = "fsdp";
  plan.world = 2;
  edit_fsdp(plan) = {};
  CHECK(test::refused_by_lowering(model, plan) == "qlora");
  // Code that multiplies by the weight of a linear layer itself would find its codes there.
  const ModelSpec reads =
      read_model(edited(recording_text(), R"(["enter", "input_layernorm"])",
                        R"(["op", "t", ["p:mlp.gate_proj.weight"], [[998, "bf16", [256, 688],
                            "view of 0"]]], ["enter", "input_layernorm"])"))
          .value();
  plan = plan_of(Precision::kBf16, 2, 512);
  plan.lora = test::all_linear(8);
  CHECK(test::refused_by_lowering(reads, plan).empty());
  plan.quant = QuantPlan{.prepare_kbit = false};
  CHECK(test::refused_by_lowering(reads, plan) == "qlora");
}

TEST_CASE("recording: every stage of ZeRO gives the bytes of the family that is written by hand") {
  // In fp16, the code of a Llama is that in bf16.
  std::string halves = recording_text();
  for (std::size_t at = 0; (at = halves.find("\"bf16\"", at)) != std::string::npos;) {
    halves.replace(at, 6, "\"fp16\"");
  }
  for (const auto& [precision, model] :
       {std::pair{Precision::kBf16Master, recorded()},
        std::pair{Precision::kFp16Master, read_model(halves).value()}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kFull, Recompute::kFullReentrant}) {
        ParallelPlan plan = plan_of(precision, 2, 512);
        plan.runtime = "deepspeed";
        plan.world = 4;
        plan.recompute = recompute;
        edit_zero(plan).stage = stage;
        CAPTURE(precision);
        CAPTURE(stage);
        CAPTURE(recompute);
        check_same_bytes(model, plan);
      }
    }
  }
}

TEST_CASE("recording: stage 3 gathers, prefetches and releases as for the family by hand") {
  ParallelPlan usual = plan_of(Precision::kBf16Master, 2, 512);
  usual.runtime = "deepspeed";
  usual.world = 4;
  ZeroPlan& zero = edit_zero(usual);
  zero.stage = 3;
  zero.param_persistence_threshold = 1'000;
  zero.prefetch_bucket_size = 200'000;
  zero.max_live_parameters = 600'000;
  zero.max_reuse_distance = 300'000;
  zero.reduce_bucket_size = 500'000;
  std::vector<std::pair<std::string, ParallelPlan>> plans{{"small buckets", usual}};
  const auto changed = [&](std::string name, const std::function<void(ParallelPlan&)>& change) {
    plans.emplace_back(std::move(name), usual);
    change(plans.back().second);
  };
  changed("recomputed", [](ParallelPlan& plan) { plan.recompute = Recompute::kFull; });
  changed("adapters", [](ParallelPlan& plan) { plan.lora = test::all_linear(8); });
  changed("adapters, recomputed", [](ParallelPlan& plan) {
    plan.lora = test::all_linear(8);
    plan.recompute = Recompute::kFull;
  });
  changed("read as fp16", [](ParallelPlan& plan) { plan.precision = Precision::kFp16Master; });
  changed("read as fp32", [](ParallelPlan& plan) { plan.precision = Precision::kFp32; });
  changed("accumulation", [](ParallelPlan& plan) { plan.workload.accumulation = 3; });
  changed("offload", [](ParallelPlan& plan) {
    edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
    edit_zero(plan).offload_param = OffloadDevice::kCpu;
  });
  changed("secondary partitions",
          [](ParallelPlan& plan) { edit_zero(plan).hpz_partition_size = 2; });
  changed("PyTorch's linear layers",
          [](ParallelPlan& plan) { edit_zero(plan).memory_efficient_linear = false; });
  changed("one rank", [](ParallelPlan& plan) { plan.world = 1; });
  for (const auto& [name, plan] : plans) {
    CAPTURE(name);
    check_same_bytes(recorded(), plan);
  }
}

TEST_CASE("recording: FSDP casts a buffer that it stores in the type of the shards") {
  const auto with_scale = [](const std::string& type) {
    std::string text = edited(recording_text(), R"("buffers": [)",
                              R"("buffers": [["model.scale", [], ")" + type + R"("], )");
    text = edited(text, "\n ],\n \"variants\"", R"(, {"name": "MulBackward0", "edges": [0],
        "code": [["op", "mul", ["g0", "s0"], [[0, "bf16", ["B", "S", 256]]]]], "results": [0]}],
        "variants")");
    text = edited(text, R"("load": [)",
                  R"("load": [["op", "full", [], [["b:model.scale", ")" + type + R"(", []]]], )");
    text = edited(text, R"(["leave", "model.embed_tokens"])",
                  R"(["op", "mul", [1, "b:model.scale"], [[999, "bf16", ["B", "S", 256]]],
                      {"saves": ["in 1"], "gradient": 65}], ["leave", "model.embed_tokens"])");
    return read_model(text).value();
  };
  ParallelPlan plan = plan_of(Precision::kFp32, 2, 512);
  plan.runtime = "fsdp";
  plan.world = 4;
  edit_fsdp(plan) = {};
  const auto peak_of = [&](const std::string& type) {
    const std::vector<test::RecordedPhase> phases = phases_of(with_scale(type), plan);
    REQUIRE(phases.size() > 1);
    CHECK(phases[1].name == "step1.forward");
    return phases[1].peak_allocated;
  };
  CHECK(peak_of("bf16") == peak_of("fp32") + 512);  // The cast, which the product keeps.
}

/// Plans of several frameworks, precisions and sizes; each is changed by `change`.
std::vector<ParallelPlan> plans_with(const std::function<void(ParallelPlan&)>& change) {
  std::vector<ParallelPlan> plans{
      plan_of(Precision::kBf16, 2, 512), plan_of(Precision::kBf16, 5, 333),
      plan_of(Precision::kAutocastBf16, 3, 200), plan_of(Precision::kFp32, 1, 384)};
  plans.push_back(plans[0]);
  plans.back().recompute = Recompute::kFull;
  plans.push_back(plans[0]);
  plans.back().lora = test::all_linear(8);
  plans.push_back(plan_of(Precision::kFp32, 2, 512));
  plans.back().runtime = "fsdp";
  plans.back().world = 4;
  edit_fsdp(plans.back()) = {};
  for (const int stage : {2, 3}) {
    plans.push_back(plan_of(Precision::kBf16Master, 2, 512));
    plans.back().runtime = "deepspeed";
    plans.back().world = 4;
    edit_zero(plans.back()).stage = stage;
  }
  std::ranges::for_each(plans, change);
  return plans;
}

TEST_CASE("recording: the fused loss and Liger's kernels give the bytes of the family by hand") {
  const ModelSpec kernels =
      read_hf_config(kLiger, {.as = std::nullopt, .name = "recorded"}).value();
  for (const ModelSpec& model : {recorded(), kernels}) {
    for (const ParallelPlan& plan :
         plans_with([](ParallelPlan& one) { one.loss = LossKind::kFusedLinear; })) {
      CAPTURE(plan.runtime);
      CAPTURE(plan.precision);
      CAPTURE(plan.workload.sequence);
      check_same_bytes(model, plan);
    }
  }
  for (const LossKind loss : {LossKind::kHf, LossKind::kFusedLinear}) {
    for (const ParallelPlan& plan : plans_with([loss](ParallelPlan& one) {
           one.liger = true;
           one.loss = loss;
         })) {
      CAPTURE(loss);
      CAPTURE(plan.runtime);
      CAPTURE(plan.precision);
      check_same_bytes(kernels, plan);
    }
  }
}

TEST_CASE("recording: the fused loss takes the place of the usual one alone") {
  ParallelPlan plan = plan_of(Precision::kBf16, 2, 512);
  plan.loss = LossKind::kFusedLinear;
  CHECK(test::refused_by_lowering(recorded(), plan).empty());
  const ModelSpec scaled = read_model(edited(recording_text(), R"(["op", "constant_pad_nd")",
                                             R"(["op", "mul", [0], [[997, "int64", ["B", "S"]]]],
                           ["op", "constant_pad_nd")"))
                               .value();
  CHECK(test::refused_by_lowering(scaled, plan) == "loss");
  plan.loss = LossKind::kChunked;
  CHECK(test::refused_by_lowering(recorded(), plan) == "loss");
  plan.loss = LossKind::kHf;
  plan.liger = true;
  CHECK(test::refused_by_lowering(recorded(), plan) == "liger");
}

TEST_CASE("recording: without some of its layers it gives the bytes of the shorter family") {
  const ModelSpec deep = read_model(test::DeepRecording(recording_text(), 6).text()).value();
  const cost::LayerStretch stretch = cost::best_stretch(deep.layers, 1);
  CHECK(stretch.length == 6);
  CHECK(stretch.period == 1);
  const ModelSpec two = cost::without_layers(deep, stretch, 4);
  CHECK(two.layers.size() == 2);
  CHECK(count_parameters(two).total() == count_parameters(written()).total());
  ParallelPlan plan = plan_of(Precision::kBf16, 2, 512);
  check_same_bytes(two, plan);
  plan.recompute = Recompute::kFull;
  check_same_bytes(two, plan);
  plan.lora = test::all_linear(8);
  check_same_bytes(two, plan);
}

TEST_CASE("recording: layer_bound is never above the replayed peak, and near it") {
  const ModelSpec deep = read_model(test::DeepRecording(recording_text(), 9).text()).value();
  cost::DeviceSpec device;
  device.total = Bytes{kGiB * 1024};
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kFull, Recompute::kFullReentrant}) {
    for (const bool adapted : {false, true}) {
      ParallelPlan plan = plan_of(Precision::kBf16, 3, 256);
      plan.recompute = recompute;
      if (adapted) {
        plan.lora = test::all_linear(8);
      }
      CAPTURE(recompute);
      CAPTURE(adapted);
      const auto found = cost::estimate(deep, plan, device);
      const std::optional<Bytes> bound = cost::layer_bound(deep, plan, device);
      REQUIRE(found);
      REQUIRE(bound);
      CHECK(*bound <= found->peak_allocated);
      CHECK(bound->value() > found->peak_allocated.value() / 10 * 9);
    }
  }
}

TEST_CASE("recording: layers of other sizes or with other code are of another kind") {
  std::string text = test::DeepRecording(recording_text(), 6).text();
  for (const char* name : {"gate_proj", "up_proj"}) {
    text = edited(text, R"(["model.layers.2.mlp.)" + std::string(name) + R"(.weight", [688, 256]])",
                  R"(["model.layers.2.mlp.)" + std::string(name) + R"(.weight", [640, 256]])");
  }
  const ModelSpec model = read_model(text).value();
  const cost::LayerStretch stretch = cost::best_stretch(model.layers, 1);
  CHECK(stretch.begin == 3);
  CHECK(stretch.length == 3);
}

TEST_CASE("recording: padding is answered where all layers have fused attention without a mask") {
  ParallelPlan plan = plan_of(Precision::kBf16, 2, 512);
  plan.workload.padded_batch = true;
  for (const auto& [name, refused] : {std::pair{"smollm3", ""}, {"falcon_mamba", "padded"}}) {
    CAPTURE(name);
    const std::string path =
        HEADROOM_SOURCE_DIR "/tests/golden/recordings/" + std::string(name) + ".json";
    const ModelSpec model = read_hf_config(path, {.as = std::nullopt, .name = name}).value();
    CHECK(test::refused_by_lowering(model, plan) == refused);
  }
}

TEST_CASE("recording: what was not recorded is refused") {
  const ModelSpec model = recorded();
  ParallelPlan plan = plan_of(Precision::kBf16, 2, 512);
  plan.attention = AttentionKind::kEager;
  CHECK(test::refused_by_lowering(model, plan) == "attention");
  plan = plan_of(Precision::kBf16, 2, 512);
  plan.runtime = "torchtitan";
  CHECK(test::refused_by_check(model, plan) == "torchtitan with a model recording");
  // DeepSpeed gathers such blocks as one module.
  const ModelSpec experts =
      read_model(edited(recording_text(), R"("LlamaMLP"])", R"("Qwen3MoeSparseMoeBlock"])"))
          .value();
  plan = plan_of(Precision::kBf16Master, 2, 512);
  plan.runtime = "deepspeed";
  plan.world = 4;
  edit_zero(plan).stage = 3;
  CHECK(test::refused_by_lowering(experts, plan) == "zero");
  edit_zero(plan).stage = 2;
  CHECK(test::refused_by_lowering(experts, plan).empty());
}

TEST_CASE("recording: what is wrong in a file is named with its place") {
  const std::string text = recording_text();
  struct Fault {
    std::string_view from, to, pointer;
  };
  for (const Fault& fault : std::array<Fault, 9>{{
           {R"("headroom_recording": 1)", R"("headroom_recording": 2)", "/headroom_recording"},
           {R"(["model.embed_tokens.weight", [1000, 256]])",
            R"(["model.embed_tokens.weight", [1000, -256]])", "/parameters/0/1"},
           {R"(["model.layers.0.self_attn.q_proj.weight", [256, 256]])",
            R"(["model.layers.0.self_attn.q_proj.weight", [65536]])", "/modules"},
           {R"("B*S")", R"("B*Q")", "/"},
           {R"("edges": [0])", R"("edges": ["0"])", "/gradients/"},
           {R"(["op", "embedding", ["p:model.embed_tokens.weight", 0])",
            R"(["op", "embedding", ["p:model.embed_tokens.weight", 900])", "/variants/0/forward/"},
           {R"(["linear", "self_attn.q_proj")", R"(["linear", "self_attn.q_norm")",
            "/variants/0/layers/0"},
           {R"(["layer", 1,)", R"(["layer", 77,)", "/variants/0/forward/"},
           {R"("bf16", ["B", "S", 256]])", R"("bf17", ["B", "S", 256]])", "/"},
       }}) {
    CAPTURE(std::string(fault.from));
    const Result<ModelSpec> model = read_model(edited(text, fault.from, fault.to));
    REQUIRE_FALSE(model);
    CHECK(model.error().code == ErrorCode::kInvalidInput);
    CHECK(model.error().file == "llama.json");
    CHECK(model.error().pointer.starts_with(fault.pointer));
  }
}

}  // namespace headroom::ir
