#include <csignal>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// Takes what is written to it, and interrupts the program when `word` has been.
class InterruptingBuffer : public std::stringbuf {
 public:
  explicit InterruptingBuffer(std::string word) : word_(std::move(word)) {}

 protected:
  int sync() override {
    if (!done_ && str().find(word_) != std::string::npos) {
      done_ = true;
      static_cast<void>(std::raise(SIGINT));
    }
    return std::stringbuf::sync();
  }

 private:
  std::string word_;
  bool done_ = false;
};

/// The answer when Ctrl-C is pressed as soon as progress shows `word`.
Answer interrupted(const std::string& line, const std::string& word) {
  std::ostringstream out;
  InterruptingBuffer buffer(word);
  std::ostream err(&buffer);
  std::vector<std::string> arguments = test::words(line);
  arguments.insert(arguments.end(), {"--color", "always"});
  const ExitCode code = run(arguments, out, err);
  return {code, out.str(), buffer.str()};
}

/// The text with its lines joined, as it was before it was wrapped.
std::string unwrapped(const std::string& text) {
  std::istringstream stream(text);
  std::string joined;
  for (std::string word; stream >> word;) {
    joined += (joined.empty() ? "" : " ") + word;
  }
  return joined;
}

}  // namespace

TEST_CASE("plan: --json has every key in every status, as the schema says") {
  const ir::JsonValue schema = test::read_schema("plan_answer.schema.json");
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"plan gpt2 --gpu a10g --runtime megatron", "optimal"},
      {"plan gpt2 --gpu a10g --runtime megatron --front --replay 2", "optimal"},
      {"plan gpt2 --gpu a10g --gpus 2 --runtime megatron --work-limit 1", "feasible"},
      {"plan gpt2 --gpu a10g --runtime megatron --micro-batch 8 --budget 2GiB", "infeasible"},
      {"plan gpt2 --gpu a10g --runtime megatron --budget 4GiB --work-limit 1", "unknown"}};
  for (const auto& [line, status] : lines) {
    CAPTURE(line);
    const Answer answer = test::headroom(line + " --json");
    const Document document(answer.out);
    CHECK(document.text("status") == status);
    const ir::JsonValue value = ir::parse_json(answer.out, "answer").value();
    for (const std::string& fault : test::SchemaCheck::faults(schema, value)) {
      FAIL_CHECK(fault);
    }
    for (const char* key :
         {"space", "evaluated", "bound", "gap", "seconds", "plan", "estimate", "front"}) {
      CAPTURE(key);
      CHECK(document.find(key) != nullptr);
    }
  }
}

TEST_CASE("plan: the front is listed, the chosen sequence named") {
  const Answer front = test::headroom("plan gpt2 --gpu a10g --runtime megatron --front");
  CHECK(front.code == ExitCode::kYes);
  CHECK(front.says("not beaten in time, memory and GPUs at once\n"));
  const Answer longest =
      test::headroom("plan gpt2 --gpu a10g --runtime megatron --objective sequence");
  CHECK(longest.says("sequences of 1,024 tokens"));
}

TEST_CASE("plan: words of a plan name each value, the counts say what the search did") {
  const Answer answer =
      test::headroom("plan gpt2 --gpu a10g --gpus 2 --runtime deepspeed --zero 2");
  REQUIRE(answer.code == ExitCode::kYes);
  CHECK(answer.says("\ndeepspeed zero=2, "));
  CHECK(answer.says(", dp=2, micro-batch "));
  CHECK(answer.says(" per step, "));
  CHECK(answer.says(" (full replay)\neach GPU: "));
  CHECK(answer.says(" tokens/s, MFU "));
  CHECK(answer.says("\nthe search estimated "));
  CHECK(answer.says(", made up of:\n"));
  CHECK(answer.says("PyTorch reserves "));
  CHECK(answer.says(" computed in full, the others ruled out by"));
}

TEST_CASE("plan: a request that nothing fits names the smallest peak and what would do") {
  const Answer answer =
      test::headroom("plan gpt2 --gpu a10g --runtime megatron --micro-batch 8 --budget 4GiB");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("the smallest possible peak is "));
  CHECK(answer.says(" can be allocated (4.00 GiB"));
  CHECK(answer.says(" of GPU memory (replayed: "));
  CHECK(answer.says(" GPUs (replayed: "));
  CHECK(answer.says("would fit with --micro-batch "));
}

TEST_CASE("plan: attention without cuDNN is a value of its axis, slower on Hopper") {
  const std::string line = "plan gpt2 --gpu h100 --runtime transformers --json --attention ";
  const Answer answer = test::headroom(line + "sdpa-no-cudnn");
  REQUIRE(answer.code == ExitCode::kYes);
  const Document without(answer.out);
  CHECK(without.text("plan/attention") == "sdpa-no-cudnn");
  const Document with(test::headroom(line + "sdpa").out);
  CHECK(with.text("plan/attention") == "sdpa");
  CHECK(without.number("bound") > with.number("bound"));
}

TEST_CASE("plan: HybridEP is in the space where it is asked for, and faster over two nodes" *
          doctest::skip(test::kSanitized)) {
  const std::string line =
      "plan qwen3-30b-a3b --gpu h100 --gpus 16 --runtime megatron --tp 1 --pp 1 --cp 1 --ep 16 "
      "--etp 1 --micro-batch 1 --seq 4096 --recompute selective --json";
  const Document usual(test::headroom(line).out);
  CHECK(usual.text("plan/megatron/dispatcher") == "alltoall");
  const Document any(test::headroom(line + " --dispatcher any").out);
  CHECK(any.text("plan/megatron/dispatcher") == "hybridep");
  CHECK(any.number("space") == 2 * usual.number("space"));
  CHECK(any.number("bound") < usual.number("bound"));
  const Answer dense =
      test::headroom("plan gpt2 --gpu a10g --runtime megatron --why dispatcher=hybridep");
  CHECK(unwrapped(dense.out).find("with experts on several ranks and etp 1") != std::string::npos);
}

TEST_CASE("plan: recipes in 8 bits are in the space where they are asked for, and faster" *
          doctest::skip(test::kSanitized)) {
  const std::string line =
      "plan llama-3.1-8b --gpu h100 --gpus 8 --runtime megatron --tp 1 --pp 1 --cp 1 --json";
  const Document usual(test::headroom(line).out);
  CHECK(usual.text("plan/megatron/fp8_recipe") == "none");
  const Document two(test::headroom(line + " --precision bf16,fp8-tensorwise").out);
  CHECK(two.text("plan/megatron/fp8_recipe") == "tensorwise");
  CHECK(two.text("plan/precision") == "bf16-master");
  CHECK(two.number("space") == 2 * usual.number("space"));
  CHECK(two.number("bound") < usual.number("bound"));
  const Answer words = test::headroom(
      "plan llama-3.1-8b --gpu h100 --gpus 8 --precision fp8-delayed --why "
      "precision=fp8-blockwise");
  CHECK(unwrapped(words.out).find("distributed-optimizer, fp8-delayed,") != std::string::npos);
  CHECK(words.says("precision fp8-blockwise: "));
  const Document held(
      test::headroom(line + " --precision fp8-tensorwise --fp8-param-gather any").out);
  CHECK(held.at("plan/megatron/fp8_param_gather").as_bool() == true);
  CHECK(held.number("bound") < two.number("bound"));
  CHECK(held.text("summary").find(" fp8-tensorwise, fp8-param-gather,") != std::string::npos);
  const Answer wide = test::headroom("plan gpt2 --gpu h100 --fp8-param-gather yes");
  CHECK(wide.code == ExitCode::kUsage);
  CHECK(wide.complains("yes with an 8-bit precision"));
  const Answer old = test::headroom("plan gpt2 --gpu a100-80gb --precision fp8-tensorwise");
  CHECK(old.code == ExitCode::kUsage);
  CHECK(old.complains("on a GPU of compute capability 8.9 or later"));
  const Answer again = test::headroom(
      "plan gpt2 --gpu h100 --runtime megatron --precision fp8-delayed --recompute block");
  CHECK(again.complains("--precision fp8-delayed with --recompute block"));
}

TEST_CASE("plan: context-parallel ranks exchange heads where that is asked for") {
  const std::string line =
      "plan llama-3.1-8b --gpu h100 --gpus 8 --runtime megatron --tp 1 --pp 1 --cp 4 --seq 16384 "
      "--micro-batch 1 --global-batch 16 --confidence 0 --json";
  const Document usual(test::headroom(line).out);
  CHECK(usual.text("plan/megatron/cp_comm_type") == "p2p");
  const Document any(test::headroom(line + " --cp-comm any").out);
  CHECK(any.text("plan/megatron/cp_comm_type") == "a2a");
  CHECK(any.number("space") == 2 * usual.number("space"));
  CHECK(any.number("bound") < usual.number("bound"));
  CHECK(any.text("summary").find(" cp=4, cp-comm=a2a, dp=2") != std::string::npos);
  const Answer heads = test::headroom("plan gpt2 --gpu a10g --gpus 8 --cp 8 --cp-comm a2a");
  CHECK(heads.complains("--cp 8 with --cp-comm a2a"));
  CHECK(heads.complains("if tp x cp divides the heads (12)"));
  CHECK(test::headroom("plan gpt2 --gpu a10g --cp-comm a2a+p2p").code == ExitCode::kUsage);
}

TEST_CASE("plan: activations go to the host where that is asked for") {
  // Long sequences on a device with little room: copies hide where a recomputation does not.
  const std::string line =
      "plan llama-3.1-8b --gpu h100 --gpus 8 --runtime megatron --tp 1 --pp 2 --cp 1 --seq 8192 "
      "--layers-per-virtual-stage 0 --micro-batch 1 --budget 70GiB --json";
  const Document usual(test::headroom(line).out);
  CHECK(usual.array("plan/megatron/offload_modules").empty());
  const Document any(test::headroom(line + " --offload-modules any").out);
  CHECK_FALSE(any.array("plan/megatron/offload_modules").empty());
  CHECK(any.number("bound") < usual.number("bound"));
  CHECK(any.text("summary").find(", offloads ") != std::string::npos);
  const Answer whole = test::headroom(
      "plan gpt2 --gpu a10g --runtime megatron --recompute uniform --offload-modules core_attn");
  CHECK(whole.complains("--recompute uniform with --offload-modules core_attn"));
  const Answer word = test::headroom("plan gpt2 --gpu a10g --offload-modules mlp");
  CHECK(word.code == ExitCode::kUsage);
  CHECK(word.complains("modules joined by + out of attn_norm, qkv_linear, core_attn"));
  const Answer why =
      test::headroom("plan gpt2 --gpu a10g --runtime megatron --why offload-modules=core_attn");
  CHECK(why.says("offload-modules core_attn: "));
}

TEST_CASE("plan: FSDP in fp16 is left out of a space that has fp16") {
  const Document both(
      test::headroom("plan gpt2 --gpu a10g --gpus 2 --precision fp16,fp32 --json").out);
  CHECK(both.text("status") == "optimal");
  CHECK(test::headroom("plan gpt2 --gpu a10g --gpus 2 --runtime fsdp --precision fp16")
            .complains("--runtime fsdp with --precision fp16"));
}

TEST_CASE("plan: the best plan of each framework, what was left out, and what was held") {
  const Answer answer = test::headroom(
      "plan gpt2 --gpu a100-80gb --gpus 2 --optimizer "
      "adamw,adamw-8bit --micro-batch 8 --recompute none");
  REQUIRE(answer.code == ExitCode::kYes);
  const std::string text = unwrapped(answer.out);
  CHECK(text.find("the best plan of each framework: step, reserved, chance to fit") !=
        std::string::npos);
  CHECK(text.find("left out: megatron with --optimizer adamw-8bit") != std::string::npos);
  CHECK(text.find("torchtune, litgpt: they keep no fp32 master weights") != std::string::npos);
  CHECK(text.find("held unless you name them:") != std::string::npos);
  CHECK(text.find("--precision bf16-master") != std::string::npos);
  CHECK(text.find(", of the step: ") != std::string::npos);
}

TEST_CASE("plan: what is held and noted is what differs for the question") {
  const std::string tail = " --gpu rtx-4090 --micro-batch 8 --recompute none --gpus ";
  const Answer one = test::headroom("plan gpt2" + tail + "1");
  const Answer two = test::headroom("plan gpt2" + tail + "2");
  REQUIRE(one.code == ExitCode::kYes);
  REQUIRE(two.code == ExitCode::kYes);
  const auto has = [](const std::string& text, const char* words) {
    return unwrapped(text).find(words) != std::string::npos;
  };
  for (const char* const option : {"--dispatcher", "--shared-expert-overlap"}) {
    CHECK_FALSE(has(one.out, option));
    CHECK_FALSE(has(two.out, option));
  }
  for (const char* const option : {"--mesh-order", "--cp-comm", "--tp-comm-overlap"}) {
    CHECK_FALSE(has(one.out, option));
    CHECK(has(two.out, option));
  }
  CHECK(has(one.out, "--offload-modules none"));
  CHECK_FALSE(has(one.err, "no measurements over"));
  CHECK(has(two.err, "no measurements over"));
  CHECK(has(one.err, "no measurements of rtx-4090"));
  const Answer none = test::headroom("plan gpt2-xl" + tail + "2 --budget 4GiB --offload none");
  CHECK(none.code == ExitCode::kNo);
  CHECK(has(none.err, "no measurements over"));
}

TEST_CASE("plan: adapters are searched in every framework that has them") {
  const std::string line =
      "plan gpt2 --gpu rtx-4090 --lora r=8 --seq 512 --micro-batch 8 --recompute none --json";
  const Document answer = test::json_of(line);
  CHECK(answer.text("status") == "optimal");
  CHECK(answer.number("plan/lora/rank") == 8);
  CHECK(answer.find("plan/quant")->is_null());
  CHECK(answer.array("frameworks").size() >= 3);  // torchtune does not build GPT-2.
  // The answer of fit for the same plan is that of the search.
  const Document four = test::json_of(line + " --frozen-weights 4-bit");
  CHECK(four.number("plan/quant/bits") == 4);
  const Answer both = test::headroom("plan gpt2 --gpu rtx-4090 --lora r=8 --qlora r=8");
  CHECK(both.code == ExitCode::kUsage);
  CHECK(both.complains("exclude each other"));
}

TEST_CASE("plan: where fp32 master weights fit nowhere, it goes on without and says so") {
  const std::string line =
      "plan llama-3.2-1b --gpu rtx-4090 --runtime transformers --micro-batch 1 --attention sdpa";
  const Answer answer = test::headroom(line);
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.complains("no plan fits with fp32 master weights"));
  CHECK(unwrapped(answer.out).find("transformers dp=1, bf16") != std::string::npos);
  CHECK_FALSE(answer.says("--precision bf16-master"));
}

TEST_CASE("plan: --why gives the rule that a value breaks") {
  const Answer answer = test::headroom("plan gpt2 --gpu a10g --runtime megatron --why pp=5");
  CHECK(answer.says("pp 5: no plan of the space has it"));
  CHECK(answer.says("a divisor of the GPUs (1)"));
}

TEST_CASE("plan: progress has the best, its bound and the gap, and Ctrl-C prints the best found") {
  const Answer answer =
      interrupted("plan gpt2 --gpu a10g --gpus 2 --runtime megatron --front", "front of");
  CHECK(answer.code == ExitCode::kInterrupted);
  CHECK(answer.complains("groups"));
  CHECK(answer.complains("plans/s"));
  CHECK(answer.complains("front of"));
  CHECK(answer.says("\nstep "));
  CHECK(answer.says("peak "));
  CHECK(answer.says("not beaten in time"));
  const Answer first = interrupted("plan gpt3-175b --gpu a100-80gb --gpus 1024", ", bound ");
  CHECK(first.code == ExitCode::kInterrupted);
  CHECK(first.complains(", bound "));
  CHECK(first.says(" computed in full, the others"));
}

TEST_CASE("plan: when its time is over, the search answers with what it has") {
  // The space is not even listed in a microsecond.
  const std::string line = "plan gpt3-175b --gpu a100-80gb --gpus 1024 --runtime megatron ";
  const Answer none = test::headroom(line + "--time-limit 0.000001s --json");
  CHECK(none.code == ExitCode::kNo);
  const Document document(none.out);
  CHECK(document.text("status") == "unknown");
  const ir::JsonValue value = ir::parse_json(none.out, "answer").value();
  CHECK(value.find("bound")->is_null());
  CHECK(value.find("plan")->is_null());
  const Answer text = test::headroom(line + "--time-limit 0.000001s");
  CHECK(text.says("stopped before a plan that fits was found"));
  CHECK(text.says("before it had listed all plans"));
  CHECK(interrupted(line + "--time-limit 5min", ", bound ").complains(" s left"));
  // Ctrl-C while the space is listed.
  const Answer listing = interrupted(line, "listing");
  CHECK(listing.code == ExitCode::kInterrupted);
  // With enough time and little memory, the answer is that of any other search.
  // Every row of a table has its share of the time, or the plan that was found before.
  const Answer rows = test::headroom(
      "plan gpt2 --gpu a10g,l40s --gpus 2,4 --runtime megatron --time-limit 1h --json");
  CHECK(rows.code == ExitCode::kYes);
  CHECK(Document(rows.out).text("status") == "optimal");
  const std::string small = "plan gpt2 --gpu a10g --gpus 2 --runtime megatron ";
  const Answer usual = test::headroom(small + "--output -");
  CHECK(test::headroom(small + "--time-limit 1h --search-memory 1MiB --output -").out == usual.out);
  CHECK(test::headroom(small + "--time-limit 10").complains("--time-limit 30s"));
  for (const char* const wrong : {"--time-limit soon", "--search-memory none"}) {
    CAPTURE(wrong);
    const Answer refused = test::headroom(small + wrong);
    CHECK(refused.code == ExitCode::kUsage);
    CHECK(refused.complains(std::string(wrong).substr(2, 10)));
  }
}

TEST_CASE("plan: flash-attn and Liger's loss are in the space where they are asked for") {
  const Answer flash = test::headroom(
      "plan qwen2.5-0.5b --gpu h100-80gb --runtime fsdp,transformers --attention flash "
      "--loss fused-linear");
  CHECK(flash.code == ExitCode::kYes);
  CHECK(flash.out.find("attention=flash, loss=fused-linear") != std::string::npos);
  // Which flash-attn refuses before compute capability 8.0.
  const Answer old =
      test::headroom("plan qwen2.5-0.5b --gpu t4 --runtime transformers --attention flash");
  CHECK(old.code == ExitCode::kUsage);
  CHECK(old.err.find("--attention") != std::string::npos);
}

TEST_CASE("plan: torchtitan's code is searched where it is named, and says which models it has") {
  const std::string asked =
      "plan llama-3.2-3b --gpu h100-80gb --gpus 4 --seq 512 --global-batch 8 ";
  const Answer answer = test::headroom(asked + "--runtime torchtitan --tp 2 --cp 1");
  CHECK(answer.code == ExitCode::kUsage);  // Tied embeddings.
  CHECK(answer.complains("Llama 3 or Qwen3"));
  const std::string known =
      "plan tinyllama-1.1b --gpu h100-80gb --gpus 4 --seq 512 "
      "--global-batch 8 --runtime torchtitan ";
  const Document best(test::headroom(known + "--pp 2 --schedule zb-v --json").out);
  CHECK(best.text("status") == "optimal");
  CHECK(best.text("summary").starts_with("torchtitan tp="));
  CHECK(best.text("summary").find("schedule=zb-v") != std::string::npos);
  CHECK(best.text("plan/titan/schedule") == "zb-v");
  CHECK(best.text("plan/runtime") == "torchtitan");
  const Answer why = test::headroom(known + "--pp 1 --tp 1 --cp 1 --why compile=no");
  CHECK(why.says("compile no: "));
  const Answer elsewhere = test::headroom(asked + "--schedule dualpipev");
  CHECK(elsewhere.complains("with torchtitan 1f1b, or with several stages gpipe"));
}

TEST_CASE("plan: only what a GPU runs is proposed") {
  for (const char* gpu : {"t4", "v100-16gb"}) {
    CAPTURE(gpu);
    const Document answer = test::json_of("plan gpt2 --gpu " + std::string(gpu));
    CHECK(answer.text("status") == "optimal");
    CHECK(answer.text("plan/precision").find("bf16") == std::string::npos);
    CHECK(answer.text("summary").find("fused attention") == std::string::npos);
  }
}

TEST_CASE("plan: a flag stays a flag in the commands of an infeasible answer") {
  const Answer answer = test::headroom(
      "plan gpt2 --gpu a10g --budget 2GiB --runtime transformers --front --work-limit 50");
  REQUIRE(answer.code == ExitCode::kNo);
  CHECK(answer.says("--front"));
  CHECK_FALSE(answer.says("''"));
}

TEST_CASE("plan: the commands of an infeasible answer are feasible when they are typed") {
  const std::string question =
      test::kSanitized ? "plan gpt2 --gpu a10g --runtime megatron --micro-batch 8 --budget 2GiB"
                       : "plan llama-3.1-8b --gpu rtx-4090 --runtime megatron --gpus 1";
  const Document document = test::json_of(question);
  REQUIRE(document.text("status") == "infeasible");
  REQUIRE_FALSE(document.array("would_fit").empty());
  for (std::size_t index = 0; index < document.array("would_fit").size(); ++index) {
    const std::string command = document.text("would_fit/" + std::to_string(index) + "/command");
    CAPTURE(command);
    CHECK(test::headroom(command.substr(std::string("headroom ").size())).code == ExitCode::kYes);
  }
}

TEST_CASE("plan: where nothing fits, options that the search holds are tried") {
  if (test::kSanitized) {
    return;  // The time limit of the attempt may end it there.
  }
  const Document document =
      test::json_of("plan gpt2 --gpu a10g --budget 2GiB --runtime transformers");
  REQUIRE(document.text("status") == "infeasible");
  const std::string command = document.text("would_fit/0/command");
  REQUIRE(command.starts_with("headroom fit gpt2 "));
  CHECK(test::headroom(command.substr(std::string("headroom ").size())).code == ExitCode::kYes);
}

TEST_CASE("plan: quantised weights whose attention would be fp32 are trained with autocast") {
  const std::string question = "plan llama-3.2-1b --gpu rtx-4090 --qlora r=16 ";
  const Document usual = test::json_of(question + "--runtime transformers");
  const Document named = test::json_of(question + "--runtime transformers --precision bf16");
  REQUIRE(usual.text("status") == "optimal");
  REQUIRE(named.text("status") == "optimal");
  CHECK(usual.text("commands/fit").find("--precision bf16-autocast") != std::string::npos);
  CHECK(named.text("commands/fit").find("autocast") == std::string::npos);
  CHECK(usual.number("estimate/replayed_step_seconds") <
        named.number("estimate/replayed_step_seconds"));
  // torchtune does not prepare its 4-bit weights, and has no fp32 activations.
  const Document tune = test::json_of(question + "--runtime torchtune");
  CHECK(tune.text("commands/fit").find("prepare=no") != std::string::npos);
  CHECK(tune.number("estimate/replayed_step_seconds") <
        usual.number("estimate/replayed_step_seconds"));
}

TEST_CASE("plan: Liger's kernels are offered with their gain") {
  const std::string question = "plan llama-3.2-1b --gpu a100-80gb --gpus 2 --runtime fsdp";
  const Document document = test::json_of(question);
  REQUIRE(document.text("offers/0/option") == "liger");
  CHECK(document.at("offers/0/changes_training").as_bool() == false);
  const Document with = test::json_of(question + " --liger yes");
  CHECK(with.number("estimate/replayed_step_seconds") <=
        document.number("offers/0/step_seconds") * (1 + 1e-9));
}

TEST_CASE("plan: a plan that fits at once comes before one that needs an emptied cache") {
  const std::string question = "plan qwen2.5-7b --gpu a10g --gpus 4 --runtime deepspeed";
  const Answer text = test::headroom(question);
  REQUIRE(text.says("was passed over"));
  CHECK_FALSE(text.says("PyTorch empties its cache"));
  const Document document = test::json_of(question);
  CHECK(document.number("estimate/fits_at_once_probability") >= 0.9);
  CHECK(document.number("passed_over") > 0.01);
  // Steps of unlike lengths are compared by their tokens, and rows of a table follow the same rule.
  const Document lengths =
      test::json_of("plan llama-3.2-3b --gpu rtx-4090 --gpus 2 --runtime deepspeed --seq 512,8192");
  CHECK(lengths.integer("plan/sequence") == 8192);
  const Document rows =
      test::json_of("plan qwen2.5-7b --gpu a10g --gpus 4,8 --global-batch 64 --runtime deepspeed");
  for (const std::string index : {"0", "1"}) {
    const std::string gpus = std::to_string(rows.integer("choices/" + index + "/gpus"));
    const Document alone = test::json_of(
        "plan qwen2.5-7b --gpu a10g --global-batch 64 --runtime "
        "deepspeed --gpus " +
        gpus);
    CHECK(rows.number("choices/" + index + "/step_seconds") ==
          doctest::Approx(alone.number("estimate/replayed_step_seconds")));
  }
}

TEST_CASE("plan: the longest sequence is not only a power of two") {
  const Document document = test::json_of(
      "plan llama-3.1-8b --gpu h100-80gb --lora r=16 --objective sequence --global-batch 1 "
      "--runtime fsdp");
  const std::int64_t longest = document.integer("plan/sequence");
  CHECK(longest == 40960);
  // Without masters, too; and the shorter lengths stay in the space of the tables.
  const std::string large = "plan llama-3.1-8b --gpu h100-80gb --objective sequence ";
  const Document dropped =
      test::json_of(large + "--gpus 1 --global-batch 1 --runtime transformers");
  CHECK(dropped.integer("plan/sequence") == 18432);
  const Document counts = test::json_of(large + "--gpus 2,4 --global-batch 8 --runtime torchtitan");
  CHECK(counts.text("choices/0/status") != "infeasible");
}

TEST_CASE("plan: every framework that trains the model has a plan in the table" *
          doctest::skip(test::kSanitized)) {
  const Document document = test::json_of(
      "plan llama-3.1-8b --gpu h100-80gb --gpus 128 --runtime fsdp,torchtitan --work-limit 2000");
  for (const std::string index : {"0", "1"}) {
    CHECK(document.number("frameworks/" + index + "/step_seconds") > 0);
  }
}

TEST_CASE("plan: host memory that would suffice is a remedy, and does") {
  const std::string question = "plan llama-3.1-8b --gpu rtx-4090 --gpus 1 --runtime fsdp";
  const Document document = test::json_of(question);
  REQUIRE(document.text("status") == "infeasible");
  std::string command;
  for (std::size_t i = 0; i < document.array("would_fit").size(); ++i) {
    const std::string path = "would_fit/" + std::to_string(i);
    if (document.text(path + "/change").find("of host memory") != std::string::npos) {
      command = document.text(path + "/command");
    }
  }
  REQUIRE(command.find(" --host-memory 128GiB") != std::string::npos);
  CHECK(test::json_of(command.substr(std::string("headroom ").size())).text("status") == "optimal");
}

TEST_CASE("plan: 16-bit weights in place of quantised ones are LoRA in the command" *
          doctest::skip(test::kSanitized)) {
  const Answer answer = test::headroom(
      "plan qwen1.5-moe-a2.7b --gpu a10g --gpus 2 --qlora r=8,prepare=no --runtime deepspeed");
  REQUIRE(answer.says("would fit with LoRA on 16-bit weights in place of QLoRA"));
  CHECK(answer.says("--lora r=8\n"));
  CHECK(answer.complains("experts are not quantised"));
}

TEST_CASE("plan: where no full fine-tuning fits, adapters are proposed, on other GPUs if need be" *
          doctest::skip(test::kSanitized)) {
  const std::string runtime = " --gpu rtx-4090 --runtime transformers";
  const Document small = test::json_of("plan llama-3.1-8b" + runtime);
  CHECK(small.text("status") == "infeasible");
  CHECK(small.text("would_fit/0/change") == "--lora r=16");
  const std::string command = small.text("would_fit/0/command");
  CHECK(command == "headroom plan llama-3.1-8b" + runtime + " --lora r=16");
  CHECK(test::headroom(command.substr(std::string("headroom ").size())).code == ExitCode::kYes);
  const Answer large = test::headroom("plan llama-3.1-70b" + runtime);
  CHECK(large.says("would fit with --qlora r=16,prepare=no and --gpu "));
  CHECK(large.says("adapters only (replayed: "));
  // No GPU has what the leanest plan of all parameters needs.
  CHECK_FALSE(large.says(" of GPU memory (replayed: "));
  // Whoever asked for adapters keeps their keys.
  const Answer quantised = test::headroom("plan llama-3.1-8b --lora r=8 --budget 12GiB" + runtime);
  CHECK(quantised.says("would fit with --qlora r=8,prepare=no (replayed: "));
  CHECK(quantised.says(" --qlora r=8,prepare=no\n"));
  // Two GPUs suffice for QLoRA as it was asked for.
  const Answer two =
      test::headroom("plan qwen3-32b --gpu rtx-4090 --qlora r=16 --runtime torchtune");
  CHECK(two.says("would fit with 2 GPUs (replayed: "));
  CHECK_FALSE(two.says("prepare=no and 2 GPUs"));
}

TEST_CASE("plan: another framework is proposed as any of them, with an example" *
          doctest::skip(test::kSanitized)) {
  const Answer answer = test::headroom(
      "plan llama-3.1-8b --gpu h100 --gpus 1 --precision bf16-master --runtime transformers");
  CHECK(answer.says("would fit with --runtime any (replayed: "));
  CHECK(answer.says("), for example "));
}

TEST_CASE("plan: the largest micro-batch says when the batch is what limits it") {
  const std::string line =
      "plan gpt2 --gpu a100-80gb --runtime transformers --objective micro-batch";
  const Answer whole = test::headroom(line);
  CHECK(whole.complains("larger ones may fit with a larger --global-batch"));
  const Answer part = test::headroom(line + " --global-batch 4096");
  CHECK(part.code == ExitCode::kYes);
  CHECK_FALSE(part.complains("larger ones may fit"));
}

}  // namespace headroom::cli
