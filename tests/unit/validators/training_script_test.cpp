// Tests the document that the training script reads, and what the script cannot express.
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/plan_json.h"
#include "runtimes/torch/ddp_plan.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"
#include "validators/torch/assumed_versions.h"
#include "validators/torch/gpu_run.h"
#include "validators/torch/harness_files.h"
#include "validators/torch/known_options.h"
#include "validators/torch/training_case.h"

namespace headroom::check {
namespace {

constexpr std::string_view kTinyLlama =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 256, "torch_dtype": "bfloat16",
        "architectures": ["LlamaForCausalLM"]})";

ir::ParallelPlan plan_of(std::string_view json) {
  return ir::parse_plan(json, "plan.json").value();
}

ir::JsonValue case_of(const ir::ParallelPlan& plan) {
  const ir::ModelSpec spec = ir::parse_hf_config(kTinyLlama, "config.json").value();
  return training_case({.spec = spec,
                        .name = "tiny",
                        .config = ir::parse_json(kTinyLlama, "config.json").value()},
                       plan)
      .value();
}

void check_golden(std::string_view name, std::string_view plan) {
  // HEADROOM_UPDATE_GOLDEN=1 writes it anew.
  const std::string path = test::source_file("tests/golden/torch/" + std::string(name) + ".json");
  const std::string made = to_pretty_json(case_of(plan_of(plan))) + "\n";
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << made;
  }
  CHECK(read_file(path).value() == made);
}

/// The message that refuses a plan; empty if the script can express it.
std::string refusal_of(std::string_view plan) {
  const Status known = check_script_options(plan_of(plan), "plan.json");
  return known ? "" : to_text(known.error());
}

bool names(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("training case: one for each framework that has a script") {
  check_golden("ddp", R"({"schema_version": 1, "gpus": 8, "precision": "autocast-bf16",
      "lora": {"rank": 8}, "ddp": {"gradient_as_bucket_view": true}})");
  check_golden("fsdp", R"({"schema_version": 1, "runtime": "fsdp", "gpus": 16,
      "precision": "fp32", "checkpointing": "every-2", "fsdp": {"replicas": 2}})");
  check_golden("deepspeed", R"({"schema_version": 1, "runtime": "deepspeed", "gpus": 4,
      "precision": "bf16-master", "clip_norm": 1, "zero": {"stage": 3, "offload_param": "cpu"}})");
}

TEST_CASE("training case: the configuration of the checkpoint is no part of the model") {
  const ir::JsonValue made = case_of(plan_of(R"({"schema_version": 1})"));
  const ir::JsonValue* const config = made.find("model")->find("config");
  CHECK(config->find("hidden_size") != nullptr);
  CHECK(config->find("torch_dtype") == nullptr);
  CHECK(config->find("architectures") == nullptr);
}

TEST_CASE("training script: what it cannot express is refused by name, with what to do") {
  CHECK(refusal_of(R"({"schema_version": 1})").empty());
  CHECK(refusal_of(R"({"schema_version": 1, "loss": "fused-linear", "liger": true})").empty());
  for (
      const auto& [plan, place] : std::vector<std::pair<std::string, std::string>>{
          {R"("loss": "chunked")", "/plan/loss: got chunked, expected hf or fused-linear"},
          {R"("padded_batch": true)", "/plan/padded_batch"},
          {R"("resume": true)", "/plan/resume"},
          {R"("checkpoint_save": true)", "/plan/checkpoint_save"},
          {R"("generation": {"new_tokens": 5})", "/plan/generation"},
          {R"("optimizer": {"kind": "muon"})", "/plan/optimizer/kind: got muon"},
          {R"("runtime": "megatron", "megatron": {"tp": 2})", "/plan/runtime: got megatron"},
          {R"("runtime": "torchtitan")", "transformers, fsdp or deepspeed"},
          {R"("runtime": "fsdp", "fsdp": {}, "lora": {}, "quant": {})", "/plan/quant"},
          {R"("runtime": "deepspeed", "zero": {"stage": 3, "offload_param": "nvme"})",
           "/plan/zero/offload_param: got nvme, expected none or cpu"},
          {R"("optimizer": {"kind": "lion"})",
           "/plan/optimizer/form: got foreach, expected 8bit, paged-8bit or paged"},
          {R"("optimizer": {"kind": "sgd", "form": "8bit"})",
           "/plan/optimizer/form: got 8bit, expected foreach, fused or loop"},
          {R"("optimizer": {"kind": "adafactor-torch", "form": "fused"})", "/plan/optimizer/form"},
          {R"("runtime": "deepspeed", "gpus": 16, "zero": {"stage": 3, "quantized_gradients": true})",
           "/plan/zero/node_devices: got 8, expected 16 or more"}}) {
    CAPTURE(plan);
    const std::string refusal = refusal_of(R"({"schema_version": 1, )" + plan + "}");
    CHECK(names(refusal, "plan.json: " + (place[0] == '/' ? place : std::string("/plan/runtime"))));
    CHECK(names(refusal, place));
    CHECK(names(refusal, "headroom dryrun"));
  }
}

TEST_CASE("training script: a form of the optimizer that it makes, or leaves to DeepSpeed") {
  CHECK(refusal_of(R"({"schema_version": 1, "optimizer": {"kind": "lion", "form": "paged"}})") ==
        "");
  CHECK(refusal_of(R"({"schema_version": 1, "optimizer": {"kind": "adafactor", "form": "loop"}})")
            .empty());
  CHECK(refusal_of(R"({"schema_version": 1, "runtime": "deepspeed", "gpus": 16,
                       "optimizer": {"kind": "lion"}, "zero": {"stage": 3}})")
            .empty());
}

TEST_CASE("training script: a plan file that does not speak of DDP's start has it") {
  const ir::ParallelPlan plan =
      plan_of(R"({"schema_version": 1, "gpus": 2, "ddp": {"bucket_cap_bytes": 7}})");
  CHECK(ddp_of(plan).init_sync);
  CHECK_FALSE(ddp_of(plan_of(R"({"schema_version": 1, "gpus": 2, "ddp": {"init_sync": false}})"))
                  .init_sync);
}

TEST_CASE("training script: every option of the parts that it knows is in its table") {
  // With each option away from its default, only those that the test above names are refused.
  for (const char* plan :
       {R"({"schema_version": 1, "gpus": 2, "ddp": {"gradient_as_bucket_view": true,
            "bucket_cap_bytes": 7, "init_sync": false}, "lora": {"rank": 3, "dropout": 0.5,
            "dora": true,
            "rank_stabilised": true, "targets": ["q_proj"], "modules_to_save": ["lm_head"]},
            "quant": {"bits": 8, "double_quant": false, "prepare_kbit": false},
            "allocator": {"expandable_segments": true, "max_split_bytes": 41943040,
            "max_non_split_rounding_bytes": 41943040, "garbage_collection_threshold_ratio": 0.5,
            "roundup_power2_divisions": 4}, "attention": "eager", "keep_logits": true,
            "keep_batch": true, "evaluation": true, "steps": 5, "clip_norm": 2, "rank": 1,
            "runtime_version": "4.57", "optimizer": {"kind": "lion", "form": "8bit"}})",
        R"({"schema_version": 1, "runtime": "fsdp", "gpus": 8, "fsdp": {"version": 1,
            "reshard_after_forward": false, "reshard_ranks": 2, "cpu_offload": true,
            "shard_decoder": false, "shard_embeddings": true, "param_dtype": "fp16",
            "reduce_dtype": "bf16", "replicas": 2, "use_orig_params": false,
            "backward_prefetch": "post", "forward_prefetch": true}})",
        R"({"schema_version": 1, "runtime": "deepspeed", "gpus": 8, "zero": {"stage": 3,
            "reduce_bucket_elements": 1, "allgather_bucket_elements": 1, "overlap_comm": true,
            "contiguous_gradients": false, "round_robin_gradients": true, "sub_group_elements": 1,
            "prefetch_bucket_elements": 1, "param_persistence_threshold_elements": 1,
            "model_persistence_threshold_elements": 1, "max_live_parameters": 1,
            "max_reuse_distance_elements": 1, "offload_optimizer": "cpu", "offload_param": "cpu",
            "offload_ratio": 0.5, "decay_groups": true, "grad_accum_dtype": "fp32",
            "torch_adam": true, "hpz_partition_ranks": 2, "quantized_weights": true,
            "quantized_gradients": true, "node_devices": 8, "leaf": "experts",
            "reduce_scatter": false, "multi_rank_allreduce": false, "parameter_alignment": true,
            "compute_grad_norm": false, "memory_efficient_linear": false,
            "allgather_sequential": true, "all_reduce_fetch": true,
            "communication_dtype": "fp32"}})"}) {
    CAPTURE(plan);
    CHECK(refusal_of(plan) == "");
  }
}

TEST_CASE("training case: leaf modules that the model does not have are refused") {
  const Result<ir::JsonValue> made =
      training_case({.spec = ir::parse_hf_config(kTinyLlama, "config.json").value(),
                     .name = "tiny",
                     .config = ir::parse_json(kTinyLlama, "config.json").value()},
                    plan_of(R"({"schema_version": 1, "runtime": "deepspeed", "gpus": 2,
                  "zero": {"stage": 3, "leaf": "experts"}})"));
  REQUIRE_FALSE(made);
  CHECK(names(to_text(made.error()), "leaf=experts"));
}

TEST_CASE("training script: one file has every module and the case, and no import of the package") {
  const std::string folder = find_training_script(training_script_places()).value();
  const ir::JsonValue made = case_of(plan_of(R"({"schema_version": 1})"));
  const std::string script = whole_script(folder, made, "Title.").value();
  CHECK(script.starts_with("\"\"\"Title.\"\"\"\n"));
  CHECK_FALSE(names(script, "headroom_torch"));
  CHECK(names(script, to_pretty_json(made)));
  std::size_t at = 0;
  for (const char* part :
       {"class Case", "set_allocator(CASE)", "import torch\n", "def build_model", "def distribute",
        "def make_optimizer", "class Phases", "def main", "    main(CASE)\n"}) {
    CAPTURE(part);
    at = script.find(part, at);
    CHECK(at != std::string::npos);
  }
  CHECK(whole_script(folder, made, R"(a\User """b"")")
            .value()
            .starts_with(R"("""a\\User \"\"\"b\"\"""")"
                         "\n"));
  const test::TemporaryFolder empty;
  const auto missing = find_training_script({empty.path("")});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kEnvironment);
}

TEST_CASE("versions: a release is compared by its whole numbers") {
  const std::vector<PackageVersion> versions = compared_versions(
      plan_of(R"({"schema_version": 1, "runtime_version": "4.5"})"),
      {{"python", "3.11.2"}, {"torch", "2.11.0+cu130"}, {"transformers", "4.57.1"}});
  REQUIRE(versions.size() == 3);
  CHECK(versions[0].assumed.empty());
  CHECK(versions[0].agrees());
  CHECK(versions[1].agrees());
  CHECK(versions[2].assumed == "4.5");
  CHECK_FALSE(versions[2].agrees());
  CHECK_FALSE(PackageVersion{.package = "torch", .used = "2.8.0", .assumed = "2.11"}.agrees());
}

TEST_CASE("training on GPUs: what this machine lacks is one sentence") {
  const auto words = [](const GpuProbe& probe, std::int64_t world) {
    const Status able = check_gpus(probe, "python3", world);
    return able ? std::string() : to_text(able.error());
  };
  CHECK(words({.answered = true, .trouble = "", .gpus = 8, .name = "H100"}, 8).empty());
  CHECK(names(words({}, 1), "python3: does not run"));
  CHECK(names(words({.answered = true, .trouble = "no driver", .gpus = 0, .name = ""}, 1),
              "no driver"));
  CHECK(names(words({.answered = true, .trouble = "", .gpus = 2, .name = "H100"}, 8),
              "finds 2 GPUs, and the plan has 8"));
}

}  // namespace headroom::check
