// One file through all verbs.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/plan_schema.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// What `plan` and `fit` say of one plan, in figures that must agree to the last digit.
struct Figures {
  std::string verdict;
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t margin = 0;
  double seconds = 0;
  std::string plan;
  friend bool operator==(const Figures&, const Figures&) = default;
};

Figures figures_of_plan(const Document& answer) {
  return {.verdict = answer.text("estimate/verdict"),
          .allocated = answer.integer("estimate/peak_allocated_bytes"),
          .reserved = answer.integer("estimate/peak_reserved_bytes"),
          .margin = answer.integer("estimate/margin_bytes"),
          .seconds = answer.number("estimate/replayed_step_seconds"),
          .plan = ir::to_json(answer.at("plan"))};
}

Figures figures_of_fit(const std::string& line) {
  const Answer answer = test::headroom(line + " --json");
  CAPTURE(line);
  CAPTURE(answer.err);
  REQUIRE((answer.code == ExitCode::kYes || answer.code == ExitCode::kNo));
  const Document document(answer.out);
  return {.verdict = document.text("verdict"),
          .allocated = document.integer("peak/allocated_bytes"),
          .reserved = document.integer("peak/reserved_bytes"),
          .margin = document.integer("margin_bytes"),
          .seconds = document.number("time/step_seconds"),
          .plan = ir::to_json(document.at("plan"))};
}

/// "fit gpt2 ..." of "headroom fit gpt2 ...".
std::string without_program(const std::string& command) {
  constexpr std::string_view kProgram = "headroom ";
  REQUIRE(command.starts_with(kProgram));
  return command.substr(kProgram.size());
}

/// The error of a fit on a plan file with this content.
std::string complaint(const test::TemporaryFolder& folder, std::string_view content) {
  const std::string path = folder.write("wrong.json", content);
  const Answer answer = test::headroom("fit gpt2 --gpu h100 --plan " + path);
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.out.empty());
  return answer.err.substr(answer.err.find(path) + path.size());
}

}  // namespace

TEST_CASE(
    "property: fit of plan's answer has its verdict, peak and time, typed and from the file") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  std::vector<std::string> lines = {
      "qwen3-30b-a3b --gpu h100 --gpus 16 --runtime megatron --work-limit 4",
      "llama-3.1-8b --gpu h100 --gpus 16 --runtime torchtitan --tp 2 --pp 1 --micro-batch 1",
      "gpt2 --gpu h100 --runtime litgpt"};
  for (const char* runtime : {"transformers", "deepspeed", "fsdp", "megatron", "torchtune"}) {
    for (const char* question : {"gpt2 --gpu a100-80gb", "gpt2 --gpu t4 --gpus 2 --micro-batch 1",
                                 "llama-3.2-1b --gpu h100 --gpus 16"}) {
      if (test::kSanitized && std::string_view(question) != "gpt2 --gpu a100-80gb") {
        continue;
      }
      lines.push_back(question + std::string(" --runtime ") + runtime);
    }
  }
  int compared = 0;
  for (const std::string& question : lines) {
    const std::string line = "plan " + question + " --seq 512 --output " + path;
    CAPTURE(line);
    const Answer answer = test::headroom(line + " --json");
    CAPTURE(answer.err);
    if (answer.code != ExitCode::kYes) {
      continue;  // The framework does not run the model there, or nothing fits.
    }
    const Document document(answer.out);
    const Figures own = figures_of_plan(document);
    for (const std::string& fit :
         {without_program(document.text("commands/fit")), "fit --plan " + path}) {
      const Figures again = figures_of_fit(fit);
      CHECK(again.plan == own.plan);
      CHECK(again == own);
    }
    ++compared;
  }
  CHECK(compared >= (test::kSanitized ? 5 : 13));
}

TEST_CASE(
    "plan file: every verb takes the document of every verb, and says what was typed instead") {
  const test::TemporaryFolder folder;
  const Answer planned = test::headroom(
      "plan gpt2 --gpu h100 --gpus 4 --runtime deepspeed --node dgx-h100 --budget 60GiB --json");
  REQUIRE(planned.code == ExitCode::kYes);
  const std::string plan = folder.write("plan.json", planned.out);
  const Answer fitted = test::headroom("fit --json --plan " + plan);
  REQUIRE(fitted.code == ExitCode::kYes);
  const std::string fit = folder.write("fit.json", fitted.out);
  for (const std::string& file : {plan, fit}) {
    CAPTURE(file);
    for (const char* verb : {"fit", "timeline", "emit deepspeed", "graph", "explain --seq 128",
                             "sweep", "compare --vary zero=1,2"}) {
      CAPTURE(verb);
      const Answer answer = test::headroom(verb + (" --plan " + file));
      CAPTURE(answer.err);
      CHECK(answer.code == ExitCode::kYes);
      CHECK_FALSE(answer.out.empty());
    }
    const Document again(test::headroom("fit --json --plan " + file).out);
    CHECK(again.integer("device_total_bytes") == 60 * kGiB);  // The assumption came along.
    CHECK(again.text("plan_file/node") == "dgx-h100");
    CHECK(again.text("plan_file/model") == "gpt2");
  }
  const Answer changed =
      test::headroom("fit llama-3.2-1b --gpu a100-80gb --gpus 2 --budget 50GiB --plan " + plan);
  CHECK(changed.says("llama-3.2-1b on 2 x a100-80gb (50.0 GiB budget)"));
  for (const char* note : {" has MODEL gpt2, the command line MODEL llama-3.2-1b, which is used",
                           " has --gpu h100-80gb, the command line --gpu a100-80gb, which is used",
                           " has --budget 60GiB, the command line --budget 50GiB, which is used",
                           " has --gpus 4, the command line --gpus 2, which is used"}) {
    CAPTURE(note);
    CHECK(changed.complains(note));
  }
}

TEST_CASE("plan file: explain asks again what the file's plan was the answer to") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  const std::string asked =
      " gpt2 --gpu a100-80gb --gpus 2 --runtime megatron --tp 2 --global-batch 8";
  REQUIRE(test::headroom("plan" + asked + " -o " + path).code == ExitCode::kYes);
  const Document typed(test::headroom("explain" + asked + " --json").out);
  const Document filed(test::headroom("explain --json --plan " + path).out);
  for (const char* key : {"plan", "why", "space", "estimate/peak_allocated_bytes"}) {
    CAPTURE(key);
    CHECK(ir::to_json(typed.at(key)) == ir::to_json(filed.at(key)));
  }
}

TEST_CASE("plan file: explain says what speaks against a plan that is not the best") {
  const test::TemporaryFolder folder;
  const Answer fitted =
      test::headroom("fit gpt2 --gpu a100-80gb --gpus 2 --megatron tp=2 --micro-batch 4 --json");
  const std::string path = folder.write("fit.json", fitted.out);
  const Answer answer = test::headroom("explain --plan " + path);
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("batch of 4 sequences"));
  CHECK(answer.says("\ntp 2: "));
}

TEST_CASE("plan file: a wrong file gives one error with the key, the value and what to do") {
  const test::TemporaryFolder folder;
  const auto begins = [&folder](std::string_view content, std::string_view text) {
    const std::string said = complaint(folder, content);
    CAPTURE(said);
    CHECK(said.starts_with(text));
    CHECK(said.find("also") == std::string::npos);
  };
  begins(R"({"a": 1})", ": got an object with the keys a, expected a plan file, ");
  begins(R"({"model_type": "gpt2", "n_layer": 12})",
         ": /model_type: got the configuration of a model, expected a plan file");
  begins(R"({"schema_version": 1, "error": {"code": "environment"}})",
         ": /error: got the message of a command that failed, expected a plan file");
  begins(R"({"schema_version": 1, "plan_file": null})", ": /plan_file: got null, expected");
  begins(R"({"schema_version": 1, "plan": {"schema_version": 1, "gpus": "x"}})",
         ": /plan/gpus: got \"x\", expected an integer from 1 to ");
  begins(R"({"schema_version": 1, "model": "gpt2"})", ": /plan: ");
  begins(R"({"schema_version": 1, "modle": "gpt2", "plan": {"schema_version": 1}})", ": /modle: ");
  begins(R"({"schema_version": 1, "assumptions": {"bugdet": "1"}, "plan": {"schema_version": 1}})",
         ": /assumptions/bugdet: got an option of that name, expected one of ");
  CHECK(test::headroom("fit - --gpu h100 --plan -").code == ExitCode::kUsage);
  CHECK(test::headroom("fit --plan " + folder.path("none.json")).code == ExitCode::kEnvironment);
}

TEST_CASE("plan file: plan writes it only if it found a plan") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  const Answer answer = test::headroom(
      "plan gpt2 --gpu t4 --runtime megatron --micro-batch 8 --budget 2GiB --output " + path);
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.complains("no plan was found"));
  CHECK_FALSE(read_file(path));
  const Answer none = test::headroom(
      "plan gpt2 --gpu t4 --runtime megatron --micro-batch 8 --budget 2GiB --output - --json");
  CHECK(Document(none.out).text("status") == "infeasible");
  CHECK(none.complains("no plan was found, so standard output has no plan file"));
  const Answer file = test::headroom("plan gpt2 --gpu t4 --runtime megatron --output -");
  const ir::JsonValue schema = test::read_schema("plan_file.schema.json");
  for (const std::string& fault :
       test::SchemaCheck::faults(schema, ir::parse_json(file.out, "plan").value())) {
    FAIL_CHECK(fault);
  }
}

TEST_CASE("launch: every framework says how it is started with the plan") {
  struct Case {
    std::string options;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases = {
      {"--runtime transformers --gpus 2",
       {"torchrun --standalone --nproc-per-node 2 train.py", "--bf16 True"}},
      {"--runtime deepspeed --gpus 16",
       {"deepspeed --hostfile hostfile --num_nodes 2 --num_gpus 8 train.py",
        "--deepspeed ds_config.json"}},
      {"--runtime fsdp --gpus 2 --reshard no",
       {"accelerate launch --num_processes 2 --num_machines 1 --mixed_precision bf16 --use_fsdp",
        "--fsdp_version 2", "--fsdp_reshard_after_forward false"}},
      {"--runtime megatron --gpus 4 --tp 2 --pp 2",
       {"pretrain_gpt.py --num-layers 16 --hidden-size 2048",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", "--swiglu",
        "--global-batch-size 16", "--bf16",
        "--rotary-base 500000 --use-rope-scaling --rope-scaling-factor 32",
        "--norm-epsilon 1e-05"}},
      {"--runtime torchtune --gpus 2",
       {"tune run", "full_finetune_distributed --config llama3_2/1B_full", "dtype=bf16"}},
      {"--runtime torchtune --lora",
       {"lora_finetune_single_device --config llama3_2/1B_lora_single_device",
        "model.apply_lora_to_mlp=True", "model.lora_rank=16 model.lora_alpha=32"}},
      {"--runtime litgpt", {"litgpt finetune_full llama-3.2-1b", "--precision bf16-true"}}};
  for (const Case& one : cases) {
    CAPTURE(one.options);
    const Document answer(test::headroom("plan llama-3.2-1b --gpu a100-80gb --seq 512 "
                                         "--global-batch 16 --json " +
                                         one.options)
                              .out);
    const std::string launch = answer.text("commands/launch");
    for (const std::string& text : one.says) {
      CAPTURE(launch);
      CAPTURE(text);
      CHECK(launch.find(text) != std::string::npos);
    }
  }
}

TEST_CASE("launch: the command builds the model of the configuration") {
  const auto script = [](const std::string& question) {
    return test::headroom("fit " + question + " --script").out;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string titan =
      script("llama-3.1-8b --gpu h100-80gb --gpus 8 --precision bf16 --fsdp --titan tp=2");
  CHECK(has(titan, "torchtitan/models/llama3/train_configs/llama3_8b.toml"));
  CHECK(has(titan, "--model.flavor=8B"));
  CHECK(has(titan, "--profiling.no_enable_profiling"));
  const std::string other =
      script("qwen3-30b-a3b-2507 --gpu h200 --gpus 8 --precision bf16 --fsdp --titan tp=1");
  CHECK(has(other, "--model.flavor=30B-A3B"));
  CHECK(has(other, "another rope_theta"));
  const std::string latent = script("deepseek-v2-lite --gpu h200 --gpus 8 --megatron ep=8");
  CHECK(has(latent, "--rotary-base 10000"));
  CHECK(has(latent, "--rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707"));
  CHECK(has(latent, "--moe-router-pre-softmax"));
  CHECK_FALSE(has(latent, "--moe-router-topk-scaling-factor"));
  CHECK(has(latent, "--qk-layernorm"));
  const std::string clamped = script("gpt-oss-20b --gpu h200 --gpus 8 --megatron ep=8");
  for (const char* const part :
       {"--quick-geglu", "--activation-func-clamp-value 7.0", "--softmax-type learnable",
        "--window-size 128,0", "--rotary-base 150000", "no argument of Megatron"}) {
    CAPTURE(part);
    CHECK(has(clamped, part));
  }
  CHECK_FALSE(has(clamped, "--swiglu"));
  CHECK_FALSE(has(clamped, "--moe-router-pre-softmax"));
  const std::string dense = script("qwen3-8b --gpu h200 --gpus 8 --megatron tp=2");
  CHECK(has(dense, "--norm-epsilon 1e-06"));
  CHECK_FALSE(has(dense, "--use-rope-scaling"));
  CHECK_FALSE(has(dense, "--moe-router"));
  const std::string own = script("kimi-k2 --gpu b200 --gpus 488 --megatron ep=8,pp=61");
  CHECK(has(own, "no argument of Megatron"));  // beta_fast is 1 there.
  CHECK_FALSE(has(own, "--mscale"));
}

TEST_CASE("launch: torchtune's configurations and their keys") {
  struct Case {
    std::string question;
    std::vector<std::string> says;
    std::string not_said;
  };
  const std::array<Case, 8> cases = {
      {{"llama-3.3-70b --gpus 8 --fsdp", {"llama3_3/70B_full", "custom_sharded_layers=[]"}, "~"},
       {"llama-3.1-8b --qlora r=8,prepare=no",
        {"llama3_1/8B_qlora_single_device", "optimizer.fused=False", "optimizer.foreach=True"},
        "optimizer_in_bwd"},
       {"llama-3.1-8b --lora r=8 --optimizer adamw-8bit",
        {"optimizer=bitsandbytes.optim.AdamW8bit", "~optimizer.fused"},
        "optimizer.foreach"},
       {"qwen2.5-3b", {"qwen2_5/3B_full_single_device", "optimizer_in_bwd=False"}, "~"},
       {"qwen2-7b --lora r=8", {"qwen2/7B_lora_single_device", "model.lora_dropout=0"}, "output=F"},
       {"qwen1.5-32b --lora r=8", {"config.yaml", "tune cp"}, "qwen2_5"},
       {"llama-3.1-8b --gpus 8 --fsdp --checkpointing every-2",
        {"enable_activation_checkpointing=False", "ac_mode=selective", "ac_option=2"},
        "of your own"},
       {"llama-3.3-70b --gpus 16 --fsdp --checkpointing full",
        {"--rdzv_endpoint", "enable_activation_checkpointing=True"},
        "ac_mode"}}};
  for (const Case& one : cases) {
    CAPTURE(one.question);
    const std::string text =
        test::headroom("fit " + one.question + " --gpu h200 --precision bf16 --tune compiled=no " +
                       "--script")
            .out;
    for (const std::string& part : one.says) {
      CAPTURE(part);
      CHECK(text.find(part) != std::string::npos);
    }
    CHECK(text.find(one.not_said) == std::string::npos);
  }
}

TEST_CASE("launch: Accelerate may make fp32 weights only of plans that have them") {
  const std::string question =
      "fit llama-3.2-1b --gpu a100-80gb --gpus 2 --fsdp reshard=yes --script ";
  const auto answer = [&](const std::string& options) {
    return test::headroom(question + options).out;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(answer("--precision bf16"), "--mixed_precision no"));
  CHECK(has(answer("--precision bf16"), "reduce_dtype=torch.float32"));
  CHECK(has(answer("--precision bf16 --lora r=8"), "--mixed_precision bf16"));
  CHECK(has(answer("--precision bf16 --lora r=8"), "Accelerate 1.13 or later"));
  CHECK(has(answer("--precision fp32"), "--mixed_precision bf16"));
  CHECK_FALSE(has(answer("--precision fp32"), "# Accelerate"));
  CHECK(has(answer("--precision bf16 --qlora r=8"), "bnb_4bit_quant_storage=torch.bfloat16)"));
}

TEST_CASE("plan file: what is typed otherwise is among the notes of plan, before its own") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  REQUIRE(test::headroom("plan gpt2 --gpu a100-80gb --gpus 2 --runtime fsdp -o " + path).code ==
          ExitCode::kYes);
  const Answer answer = test::headroom("plan --plan " + path + " --gpus 4 --json");
  const std::string note = path + " has --gpus 2, the command line --gpus 4, which is used";
  CHECK(Document(answer.out).text("notes/0") == note);
  CHECK(answer.complains("note: " + note + "\n"));
  const Answer sweep = test::headroom("sweep --plan " + path + " --gpus 1,4");
  CHECK(sweep.complains("note: " + path + " has --gpus 2, the command line --gpus 1,4"));
}

TEST_CASE("plan file: plan has the notes of fit, and of its machine") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  const Document plan =
      test::json_of("plan gpt2 --gpu t4 --runtime transformers --precision bf16 -o " + path);
  const Document fit = test::json_of("fit --plan " + path);
  REQUIRE_FALSE(fit.array("notes").empty());
  std::string notes;
  for (const ir::JsonValue& note : plan.array("notes")) {
    notes += *note.as_string() + "\n";
  }
  for (const ir::JsonValue& note : fit.array("notes")) {
    CHECK(notes.find(*note.as_string() + "\n") != std::string::npos);
  }
}

TEST_CASE("plan file: it keeps what was said of the host") {
  const test::TemporaryFolder folder;
  const std::string question =
      "fit llama-3.2-1b --gpu rtx-4090 --zero 2 --offload optimizer=cpu --checkpointing full";
  const std::string path =
      folder.write("fit.json", test::headroom(question + " --host-memory 8GiB --json").out);
  const Answer answer = test::headroom("fit --plan " + path);
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("the node has 8.00 GiB"));
}

}  // namespace headroom::cli
