// Command lines as people type them, who know other programs, and answers that programs can read.
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "model_ir/base/error.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

constexpr const char* kTiny = R"({"model_type": "llama", "hidden_size": 128, "vocab_size": 1000,
  "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 512})";

Answer fit(std::string_view options) {
  return test::headroom("fit gpt2 --gpu h100 " + std::string(options));
}

/// An answer without the command lines in it, which repeat what was typed.
std::string without_commands(const std::string& answer) {
  return answer.substr(0, answer.find("\nnext: "));
}

/// Two ways to ask the same.
struct Pair {
  std::string_view said;
  std::string_view means;
};

void check_same(std::initializer_list<Pair> pairs) {
  for (const Pair& pair : pairs) {
    CAPTURE(pair.said);
    const Answer own = fit(pair.means);
    const Answer said = fit(pair.said);
    CAPTURE(said.err);
    CHECK(said.code == own.code);
    CHECK(without_commands(said.out) == without_commands(own.out));
    CHECK(own.code != ExitCode::kUsage);
  }
}

}  // namespace

TEST_CASE("spoken: adapters are asked for as PEFT names them") {
  check_same({{"--lora 16", "--lora r=16"},
              {"--lora", "--lora r=16"},
              {"--qlora", "--qlora r=16"},
              {"--lora r=8,alpha=32", "--lora r=8"},
              {"--lora r=8,lora_alpha=32", "--lora r=8"},
              {"--lora target_modules=all-linear", "--lora r=16"},
              {"--qlora 8", "--qlora r=8"}});
}

TEST_CASE("spoken: a framework's option may stand alone") {
  check_same({{"--gpus 2 --fsdp", "--gpus 2 --fsdp reshard=yes"},
              {"--megatron --gpus 2", "--gpus 2 --megatron tp=1"}});
  const Answer both = fit("--gpus 2 --fsdp --zero 3");
  CHECK(both.complains("--zero and --fsdp belong to different frameworks"));
}

TEST_CASE("spoken: Trainer's names of options and values are taken") {
  check_same({{"--batch-size 4", "--micro-batch 4"},
              {"--batch 4", "--micro-batch 4"},
              {"--grad-accum 2", "--accumulation 2"},
              {"--max-seq-len 512", "--seq 512"},
              {"--lora-rank 8", "--lora r=8"},
              {"--qlora --lora-r 8", "--qlora r=8"},
              {"--lora targets=c_attn --lora-rank 8", "--lora r=8,targets=c_attn"},
              {"--per-device-train-batch-size 4", "--micro-batch 4"},
              {"--gradient-accumulation-steps 2", "--accumulation 2"},
              {"--gradient-checkpointing", "--checkpointing full"},
              {"--bf16", "--precision bf16"},
              {"--fp16", "--precision fp16"},
              {"--max-seq-length 512", "--seq 512"},
              {"--attention flash_attention_2", "--attention flash"},
              {"--precision float16", "--precision fp16"},
              {"--precision bfloat16", "--precision bf16"},
              {"--optimizer adamw_torch", "--optimizer adamw"},
              {"--optimizer adamw_torch_fused", "--optimizer adamw-fused"},
              {"--optim adamw_bnb_8bit", "--optimizer adamw-8bit"},
              {"--optimizer adamw_8bit", "--optimizer adamw-8bit"},
              {"--optimizer paged_adamw_8bit", "--optimizer paged-adamw-8bit"},
              {"--optimizer paged_adamw_32bit", "--optimizer paged-adamw-32bit"},
              {"--optimizer lion_8bit", "--optimizer lion-8bit"},
              {"--max-grad-norm 1", "--clip-norm 1"}});
  CHECK(test::headroom("plan gpt2 --gpu t4 --runtime transformers --optimizer adamw_torch_fused "
                       "--precision float16 --batch-size 2")
            .code == ExitCode::kYes);
}

TEST_CASE("spoken: what plan has as options, fit takes as well") {
  check_same({{"--gpus 4 --tp 4", "--gpus 4 --megatron tp=4"},
              {"--gpus 4 --tensor-model-parallel-size 4", "--gpus 4 --megatron tp=4"},
              {"--gpus 4 --tp 2 --pp 2", "--gpus 4 --megatron tp=2,pp=2"},
              {"--gpus 4 --tensor-parallel-size 2 --pp-size 2", "--gpus 4 --megatron tp=2,pp=2"},
              {"--gpus 2 --fsdp --replicas 2", "--gpus 2 --fsdp replicas=2"}});
  const std::string eight = "fit llama-3.1-8b --gpu h100 --gpus 8 --fsdp ";
  CHECK(without_commands(test::headroom(eight + "--tp 2").out) ==
        without_commands(test::headroom(eight + "--titan tp=2").out));
}

TEST_CASE("spoken: errors about frameworks' own arguments name what was typed") {
  CHECK(
      fit("--batch-size 2 --micro-batch-size 2").complains("--micro-batch-size and --batch-size"));
  CHECK(fit("--gpus 2 --zero_optimization.stage 7").complains("--zero_optimization.stage: got 7"));
  CHECK(fit("--gpus 2 --zero 2 --zero_optimization.stage 2")
            .complains("--zero_optimization.stage and --zero set the same option"));
}

TEST_CASE("spoken: options are named as they were typed") {
  CHECK(fit("--per-device-train-batch-size 0").complains("--per-device-train-batch-size: got 0"));
  CHECK(fit("--batch-size 2 --micro-batch 2").complains("--batch-size and --micro-batch"));
  CHECK(fit("--tensor-model-parallel-size none").complains("--tensor-model-parallel-size"));
}

TEST_CASE("spoken: numbers have suffixes, and sizes have units") {
  CHECK(fit("--tokens 15T").out == fit("--tokens 15e12").out);
  CHECK(fit("--tokens 2B").out == fit("--tokens 2e9").out);
  CHECK(fit("--budget 24GB").code == ExitCode::kYes);
  const Answer bare = fit("--budget 24");
  CHECK(bare.code == ExitCode::kUsage);
  CHECK(bare.complains("without a unit"));
  CHECK(bare.complains("--budget 24GiB"));
}

TEST_CASE("spoken: models resolve by old ids and in any letter case, machines by their titles") {
  for (const char* model : {"META-LLAMA/LLAMA-2-7B-HF", "meta-llama/Llama-2-7b", "LLAMA-2-7B",
                            "decapoda-research/llama-7b-hf", "bert-base-uncased"}) {
    CAPTURE(model);
    CHECK(test::headroom("fit " + std::string(model) + " --gpu h200").code != ExitCode::kUsage);
  }
  const Document gpus = test::json_of("catalog gpus");
  for (const ir::JsonValue& gpu : gpus.array("gpus")) {
    const std::string product = *gpu.find("product")->as_string();
    CAPTURE(product);
    CHECK(test::headroom_with({"fit", "gpt2", "--gpu", product, "--seq", "8"}).code !=
          ExitCode::kUsage);
  }
  const Document nodes = test::json_of("catalog nodes");
  for (const ir::JsonValue& node : nodes.array("nodes")) {
    const std::string title = *node.find("title")->as_string();
    CAPTURE(title);
    CHECK_FALSE(test::headroom_with({"fit", "gpt2", "--seq", "8", "--gpu",
                                     *node.find("gpu")->as_string(), "--node", title})
                    .complains("--node"));
  }
}

TEST_CASE("spoken: --as says which keys it ignores, and that experts are left out") {
  const test::TemporaryFolder folder;
  std::string text = kTiny;
  text.replace(text.find("{"), 1, "{\"num_local_experts\": 8, \"num_experts_per_tok\": 2, ");
  const Answer answer = test::headroom_with(
      {"fit", folder.write("config.json", text), "--gpu", "h100", "--as", "llama"});
  CHECK(answer.complains("without influence: /num_local_experts, /num_experts_per_tok"));
  CHECK(answer.complains("the experts of this model"));
}

TEST_CASE("spoken: --as says so if experts are described in a part that it does not read") {
  const test::TemporaryFolder folder;
  std::string nested = kTiny;
  nested.replace(nested.find("{"), 1, "{\"ffn_config\": {\"moe_num_experts\": 16}, ");
  const Answer dense = test::headroom_with(
      {"fit", folder.write("config.json", nested), "--gpu", "h100", "--as", "llama"});
  CHECK(dense.complains("the experts of this model (/ffn_config/moe_num_experts) are left out"));
  // Another family's keys: the experts are those of Mixtral's defaults, not those of the file.
  std::string other = kTiny;
  other.replace(other.find("{"), 1, "{\"n_routed_experts\": 64, ");
  const Answer sparse = test::headroom_with(
      {"fit", folder.write("other.json", other), "--gpu", "h100", "--as", "mixtral"});
  CHECK(sparse.complains("/n_routed_experts of this model count nowhere"));
}

TEST_CASE(
    "spoken: what trainers would set is said where a question about adapters leaves it open") {
  const Answer open = fit("--lora r=8");
  CHECK(
      open.complains("unless told otherwise, TRL's SFTTrainer uses --micro-batch 8 "
                     "--checkpointing full --clip-norm 1"));
  CHECK(open.complains("and transformers' Trainer uses --micro-batch 8 --clip-norm 1"));
  const Answer typed =
      fit("--lora r=8 --micro-batch 2 --checkpointing none --clip-norm 1 --seq 64");
  CHECK_FALSE(typed.complains("unless told otherwise"));
  CHECK_FALSE(fit("--micro-batch 2").complains("unless told otherwise"));
  // PEFT's preparation has switched recomputation on, which its own note says.
  const Answer prepared = fit("--qlora r=8 --micro-batch 8 --seq 64");
  CHECK(prepared.complains("prepare_model_for_kbit_training"));
  CHECK_FALSE(prepared.complains("SFTTrainer uses --checkpointing"));
  const Answer unprepared = fit("--qlora r=8,prepare=no --micro-batch 8 --seq 64 --clip-norm 1");
  CHECK(unprepared.complains("TRL's SFTTrainer uses --checkpointing full"));
}

TEST_CASE("spoken: a null of a config.json that stands for a default is said") {
  const test::TemporaryFolder folder;
  std::string text = kTiny;
  text.replace(text.find("\"intermediate_size\": 512"), 24,
               "\"rms_norm_eps\": null,"
               " \"intermediate_size\": 512, \"hidden_act\": null");
  const Answer answer =
      test::headroom_with({"fit", folder.write("config.json", text), "--gpu", "h100"});
  CHECK(answer.complains("null is read as the default of the family: "));
  CHECK(answer.complains("hidden_act"));
}

TEST_CASE("answers: parameters, what is trained and what was assumed stand in the text") {
  const Answer lora = test::headroom("fit llama-3.1-8b --gpu h100 --lora r=16 --micro-batch 2");
  CHECK(lora.says("8.03 billion parameters, 41.9 million trained (LoRA on all linear layers)"));
  CHECK(lora.says("assumed: precision bf16, seq 2048, optimizer adamw"));
  CHECK(fit("").says("124 million parameters, all trained"));
  CHECK(test::headroom("fit mixtral-8x7b --gpu h200 --gpus 8 --zero 3").says(" per token)"));
  CHECK_FALSE(fit("--precision bf16 --seq 64 --micro-batch 1 --optimizer adamw").says("assumed"));
}

TEST_CASE("answers: model FLOPs of LoRA leave out gradients of frozen weights") {
  const auto per_token = [](const std::string& options) {
    const Document answer = test::json_of("fit llama-3.2-1b --gpu h100 " + options);
    return answer.number("time/model_flops_per_second_per_gpu") *
           answer.number("time/step_seconds") / answer.number("time/tokens_per_step");
  };
  const double parameters =  // Its embedding is tied, so that every parameter multiplies a token.
      test::json_of("fit llama-3.2-1b --gpu h100").number("model/parameters");
  const double saved = per_token("--precision bf16") - per_token("--lora r=16");
  CHECK(saved / (2 * parameters) == doctest::Approx(1));
}

TEST_CASE("documents: notes are in the JSON of fit, plan and errors") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kTiny);
  for (const char* verb : {"fit", "plan"}) {
    CAPTURE(verb);
    const Answer answer =
        test::headroom_with({verb, config, "--gpu", "h100", "--ignored-keys", "--json"});
    const Document document(answer.out);
    REQUIRE(!document.array("notes").empty());
    CHECK(document.text("notes/0").find("without influence") != std::string::npos);
  }
  const Answer refused = test::headroom_with(
      {"fit", config, "--gpu", "h100", "--ignored-keys", "--rank", "4", "--json"});
  const Document document(refused.out);
  CHECK(document.text("notes/0").find("without influence") != std::string::npos);
  CHECK(document.text("error/message").starts_with("--rank"));
  const Document foreign = test::json_of("plan gpt2 --gpu l4 --runtime transformers");
  bool said = false;
  for (const ir::JsonValue& note : foreign.array("notes")) {
    said = said || note.as_string()->find("no measurements of l4") != std::string::npos;
  }
  CHECK(said);
}

TEST_CASE("documents: control characters and broken UTF-8 of names are escaped") {
  CHECK(printable("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(printable("caf\xc3\xa9 \xff") == "caf\xc3\xa9 \xef\xbf\xbd");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\x9b2J");
  CHECK(printable("\xe0\x80\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  const test::TemporaryFolder folder;
  const std::string config = folder.write("a\x1b[31m\xff.json", kTiny);
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"fit", config, "--gpu", "h100"},
        std::vector<std::string>{"fit", config, "--gpu", "h100", "--json"},
        std::vector<std::string>{"fit", config + "x\x1b.json", "--gpu", "h100"},
        std::vector<std::string>{"fit", config + "x\x1b.json", "--gpu", "h100", "--json"}}) {
    const Answer answer = test::headroom_with(line);
    CHECK(answer.out.find('\x1b') == std::string::npos);
    CHECK(answer.err.find('\x1b') == std::string::npos);
    CHECK(answer.out.find('\xff') == std::string::npos);
    CHECK(answer.err.find('\xff') == std::string::npos);
  }
}

TEST_CASE("documents: --output never replaces a file that is read") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kTiny);
  for (const std::string& output : {config, folder.path() + "/./config.json"}) {
    const Answer answer =
        test::headroom_with({"timeline", config, "--gpu", "h100", "--output", output});
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.complains("is the input"));
  }
  const Answer through =
      test::headroom_with({"timeline", folder.path(), "--gpu", "h100", "--output", config});
  CHECK(through.code == ExitCode::kUsage);
  CHECK(test::headroom_with({"fit", config, "--gpu", "h100"}).code == ExitCode::kYes);
}

TEST_CASE("documents: a named pipe that nobody writes to is refused at once") {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe.json");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const Answer answer = test::headroom_with({"fit", pipe, "--gpu", "h100"});
  CHECK(answer.code == ExitCode::kEnvironment);
  CHECK(answer.complains("a pipe that nobody writes to"));
}

TEST_CASE("documents: the message of a bug names a file of the repository, not of the build") {
  try {
    HEADROOM_ASSERT(false);
    CHECK(false);
  } catch (const InternalError& bug) {
    CHECK(std::string(bug.what()).starts_with("tests/cli/spoken_test.cpp:"));
  }
}

}  // namespace headroom::cli
