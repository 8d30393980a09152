// Messages name what was typed and what conflicts with it, and help texts are read only once.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;

using Lines = std::vector<std::pair<std::string, std::string>>;

/// Every line is refused with this text.
void check_refusals(const Lines& lines) {
  for (const auto& [line, said] : lines) {
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    CAPTURE(answer.err);
    CHECK(answer.code != ExitCode::kYes);
    CHECK(answer.complains(said));
  }
}

/// `text` with a single space for every line break and its indentation.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const char plain = c == '\n' ? ' ' : c;
    if (plain != ' ' || (!line.empty() && line.back() != ' ')) {
      line += plain;
    }
  }
  return line;
}

/// The help that `line` prints has each of these texts.
void check_help(const std::string& line, const std::vector<std::string>& texts) {
  const std::string help = on_one_line(test::headroom(line).out);
  for (const std::string& text : texts) {
    CAPTURE(line);
    CAPTURE(text);
    CHECK(help.find(text) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("messages: degrees are named as they were typed") {
  check_refusals(
      {{"fit llama-3.1-8b --gpu h100 --tp 2",
        "error: --tp 2: tp x pp x cp is 2, which does not divide --gpus 1\n"
        "  fix: use --gpus 2, or degrees whose product is 1"},
       {"fit llama-3.1-8b --gpu h100 --gpus 2 --tp 2 --pp 2", "error: --tp 2 --pp 2: tp x pp x cp"},
       {"fit llama-3.1-8b --gpu h100 --gpus 2 --megatron tp=2,pp=2",
        "error: --megatron tp=2,pp=2: tp x pp x cp is 4"},
       {"fit llama-3.1-8b --gpu h100 --gpus 2 --megatron tp=2,sequence-parallel --seq 2047",
        "got sequence-parallel with tp=2 and 2047 tokens of a sequence on each rank, expected a "
        "number of tokens that tp divides\n"
        "  fix: use --seq 2048, or leave out sequence-parallel"}});
}

TEST_CASE("messages: an option that stands where a value is expected is no value") {
  check_refusals({{"fit llama-3.1-8b --gpus --gpu h100", "error: --gpus needs a value\n"},
                  {"compare gpt2 --gpu h100 --vary --gpus 2", "error: --vary needs a value\n"},
                  {"fit gpt2 --gpu h100 --lora r", "error: --lora r needs a value, such as r=16\n"},
                  {"fit gpt2 --gpu h100 --gpus 2 --ddp bucket=", "bucket needs a value, such as "},
                  {"fit gpt2 --gpu h100 --budget 0GiB", "got 0GiB, expected a size above 0"},
                  {"fit gpt2 --gpu h100 --gpus 2 --ddp bucket=0MiB", "expected a size above 0"}});
  const Answer zero = test::headroom("fit gpt2 --gpu h100 --gpus 2 --ddp bucket=0");
  CHECK(zero.complains("got bucket=0, expected a size above 0"));
  CHECK_FALSE(zero.complains("bucket=0MiB"));
}

TEST_CASE("messages: options before the verb and unknown options of --vary say what to type") {
  check_refusals(
      {{"--config-dir DIR fit gpt2 --gpu h100",
        "fix: put options after the verb: headroom fit gpt2 --gpu h100 --config-dir DIR"},
       {"compare gpt2 --gpu h100 --vary foo=1,2",
        "error: --vary foo=1,2: foo is not an option of headroom fit\n"},
       {"compare gpt2 --gpu h100 --vary nothing-like-it=1,2",
        "fix: headroom fit --help all lists the options"},
       {"compare gpt2 --gpu h100 --vary attenton=sdpa,eager",
        "fix: use --vary attention=sdpa,eager"}});
}

TEST_CASE("messages: a search names the framework that lacks an option, or two that exclude it") {
  const std::string plan = "plan llama-3.1-8b --gpu h100 ";
  check_refusals({{plan + "--gpus 2 --runtime litgpt --tp 2",
                   "error: --runtime litgpt cannot have --tp 2\n  fix: "},
                  {plan + "--gpus 8 --zero 2 --tp 2",
                   "error: --tp 2 and --zero 2: no framework has both (tp: megatron, torchtitan; "
                   "zero: deepspeed)\n  fix: leave out --tp or --zero"},
                  {plan + "--gpus 8 --tp 16",
                   "error: --tp: got 16, expected a number that divides 32 (heads), 8 (KV heads) "
                   "and 8 (GPUs)\n  fix: use --tp 1,2,4,8"},
                  {"plan gpt2 --gpu h100 --gpus 2 --runtime torchtitan",
                   "error: --runtime: got torchtitan with gpt2, expected Llama 3 or Qwen3"}});
}

TEST_CASE("explain: frameworks that lack an option share a line") {
  const Answer answer = test::headroom("explain gpt2 --gpu a100-80gb --gpus 2 --tp 2");
  CHECK(answer.says("\nruntime transformers, deepspeed, fsdp: cannot have --tp 2\n"));
}

TEST_CASE("messages: a framework without a model says why, and does not name a wrong option") {
  check_refusals({{"fit llama-3.2-1b --gpu h100 --gpus 2 --titan",
                   "error: MODEL: got llama-3.2-1b, whose output layer shares the embedding's "
                   "weights, expected Llama 3 or Qwen3"},
                  {"fit llama-3.2-1b --gpu h100 --gpus 2 --titan", "fix: use another framework"},
                  {"fit bert-base-uncased --gpu h100 --runtime litgpt",
                   "fix: use another framework, such as --runtime transformers"},
                  {"emit deepspeed gpt2 --gpus 8",
                   "error: FRAMEWORK deepspeed is asked for, but no option of deepspeed is given\n"
                   "  fix: add --zero 2"}});
}

TEST_CASE("messages: the note about bf16 is left out where the plan is refused") {
  const Answer refused = test::headroom("fit gpt2 --gpu t4 --attention flash");
  CHECK(refused.complains("flash-attn 2 requires"));
  CHECK_FALSE(refused.complains("emulates bf16"));
  CHECK(test::headroom("fit gpt2 --gpu t4").complains("Tensor cores take fp16"));
}

TEST_CASE("messages: files that are something else are named so") {
  const test::TemporaryFolder folder;
  const auto fit = [&folder](const std::string& name, const std::string& text) {
    return test::headroom("fit " + folder.write(name, text) + " --gpu h100");
  };
  CHECK(
      fit("broken.json", "{\n")
          .complains(
              "line 2, column 1: got the end of the text inside an object, expected valid JSON\n"));
  CHECK(fit("list.json", "{\"a\": [1,")
            .complains("got the end of the text inside an array, expected"));
  CHECK(
      fit("other.json", "{\"a\": 1}")
          .complains("got nothing, expected a model_type: is this a config.json of Hugging Face?"));
  const Answer unknown = fit("rwkv.json", R"({"model_type": "rwkv", "hidden_size": 64})");
  CHECK(unknown.complains("only if its layers are those of a known family: --as FAMILY"));
  CHECK_FALSE(unknown.complains("gemma2"));
  const Answer negative = fit("negative.json", R"({"model_type": "llama", "hidden_size": -64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
      "intermediate_size": 64})");
  CHECK(negative.complains("/hidden_size: got -64"));
  CHECK_FALSE(negative.complains("num_attention_heads"));
  CHECK(
      fit("short.gguf", std::string("GGUF\3\0", 6))
          .complains("byte 4: got the end of the file inside its header, expected the version\n"));
  const std::string runs = folder.write("runs.json", "{\"foo\": []}");
  CHECK(test::headroom("fit gpt2 --gpu h100 --calibrate-from " + runs)
            .complains("not a file of measured runs: it has no list \"runs\"\n"
                       "  fix: configs/schema/runs.schema.json"));
  const std::string config = folder.write("ds.json", "{\"a\": 1}");
  CHECK_FALSE(test::headroom("fit gpt2 --gpu h100 --deepspeed " + config).complains("'aio'"));
}

TEST_CASE("compare: none is a value of --optimizer, and of other options means without them") {
  const Answer answer = test::headroom("compare gpt2 --gpu h100 --vary optimizer=none,adamw");
  CHECK(answer.says("what differs\n  optimizer "));
}

TEST_CASE("help: defaults say what happens without an option") {
  check_help("fit --help",
             {"[default: no DeepSpeed]",
              "[default: depends on the framework: bf16, with --zero and --megatron "
              "bf16-master, with --fsdp and --titan fp32]",
              "one of adamw (PyTorch's foreach AdamW), adamw-fused, ",
              "[--megatron alone means tp=1]", "Combine with --fsdp to set how it shards;"});
  check_help("plan --help",
             {"bf16: what headroom fit calls bf16", "the options searched for transformers",
              "options that you type override it"});
  check_help("plan --help search", {"A group is the plans of one framework"});
  check_help("compare --help", {"--vary 'lora=r=8,dora;none'", "as in checkpointing=none"});
}

TEST_CASE("help: pages explain keys in full and point to the pages beside them") {
  check_help("fit --help lora", {"alpha / sqrt(rank) instead of alpha / rank",
                                 "In parentheses: the framework's own name of a key."});
  check_help("fit --help parallelism",
             {"Tensor, pipeline, context and expert parallelism: --help megatron, --help titan. "
              "Shards: --help zero, --help fsdp."});
  check_help("fit --help megatron", {"1: p2p only", "every plan with it is refused"});
}

}  // namespace headroom::cli
