// What people read: units and digits, plurals, and messages that say what to type.
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/scalars.h"
#include "model_ir/base/counted.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// The lines of `text` from the one that begins with `head` up to the next empty line.
std::string table_after(const std::string& text, const std::string& head) {
  const std::size_t begin = text.find("\n" + head);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n\n", begin) - begin);
}

}  // namespace

TEST_CASE("counted: one is singular, other counts are plural") {
  CHECK(counted(1, "layer") == "1 layer");
  CHECK(counted(0, "layer") == "0 layers");
  CHECK(counted(1536, "sequence") == "1,536 sequences");
  CHECK(counted(2, "pass", "passes") == "2 passes");
  CHECK(counted(1, "pass", "passes") == "1 pass");
}

TEST_CASE("figures: three significant digits, one unit for a table, never an exponent") {
  CHECK(three_digits(2751) == "2,750");
  CHECK(three_digits(999.7) == "1,000");
  CHECK(three_digits(0.71234) == "0.712");
  CHECK(three_digits(9.996) == "10.0");
  CHECK(three_digits(0) == "0");
  CHECK(duration_text(0.9996) == "1.00 s");
  CHECK(duration_text(1234) == "1,230 s");
  const TableUnit unit = unit_of_bytes(80.0 * kGiB);
  CHECK(table_figure(Bytes{402 * kMiB}, unit) == "0.393 GiB");
  CHECK(table_figure(Bytes{1024}, unit) == "<0.001 GiB");
  CHECK(table_figure(Bytes{0}, unit) == "0 GiB");
  CHECK(table_figure(Seconds{0.0335}, unit_of_seconds(3.69)) == "0.034 s");
  CHECK(table_figure(Seconds{0.0335}, unit_of_seconds(0.745)) == "33.5 ms");
  CHECK(exact_size(Bytes{25 * kMiB}) == "25MiB");
  CHECK(exact_size(Bytes{25 * kMiB + 1}) == "26214401B");
}

TEST_CASE("fit: every table has one unit in its columns") {
  const Answer fit = test::headroom("fit llama-3.1-8b --gpu a100-80gb");
  REQUIRE(fit.code == ExitCode::kYes);
  for (const char* head : {"peak ", "against the device", "phase ", "largest at the peak"}) {
    CAPTURE(head);
    CHECK(table_after(fit.out, head).find("KiB") == std::string::npos);
  }
  CHECK(table_after(fit.out, "against the device").find("MiB") == std::string::npos);
  CHECK_FALSE(std::regex_search(table_after(fit.out, "a step takes"), std::regex("[0-9]{4}")));
  CHECK_FALSE(std::regex_search(fit.out, std::regex("[0-9]{3}\\.[0-9]+ ([KMGT]iB|ms|s)\\b")));
}

TEST_CASE("fit: a chance below one half reads as a no, in the verdict as in the exit code") {
  const Answer answer = test::headroom("fit llama-3.1-8b --gpu h100-80gb --budget 78GiB");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("probably does not fit: "));
  CHECK_FALSE(answer.says("  tight, "));
  CHECK(test::json_of("fit llama-3.1-8b --gpu h100-80gb --budget 78GiB").text("verdict") ==
        "tight");
}

TEST_CASE("answers: a chance below one half reads as a no in every text that has a verdict") {
  const std::string question = "llama-3.1-8b --gpu h100-80gb --budget 78GiB";
  REQUIRE(test::json_of("fit " + question).text("verdict") == "tight");
  const Answer compared = test::headroom("compare " + question + " --vary clip-norm=none,1");
  CHECK(compared.says("  probably does not fit"));
  CHECK(compared.out.find("tight") == std::string::npos);
  const test::TemporaryFolder folder;
  const std::string log = folder.write(
      "log.txt",
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total "
      "capacity of 79.18 GiB of which 20.00 MiB is free. Including non-PyTorch memory, this "
      "process has 79.16 GiB memory in use. Of the allocated memory 77.00 GiB is allocated by "
      "PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n");
  CHECK(test::headroom("explain --oom " + log + " " + question)
            .says("the prediction for this run probably does not fit: "));
}

TEST_CASE("plan: a chance below one half reads as a no where nothing fits" *
          doctest::skip(test::kSanitized)) {
  // With --confidence 6, changes suffice that fit with such a chance.
  const Answer searched = test::headroom(
      "plan llama-3.1-8b --gpu h100-80gb --budget 60GiB --runtime transformers --micro-batch 1 "
      "--checkpointing none --optimizer adamw --precision bf16 --seq 2048 --confidence 6");
  CHECK(searched.code == ExitCode::kNo);
  CHECK(searched.says(" of GPU memory (replayed: probably does not fit)"));
  CHECK(searched.out.find("(replayed: tight)") == std::string::npos);
}

TEST_CASE("fit: a figure halfway between two is rounded alike in the first line and in the table") {
  // 191.984375 - 0.92 - 14.56 GiB: 176.5 GiB exactly.
  const Answer answer = test::headroom("fit llama-3.2-1b --gpu mi300x");
  CHECK(answer.says(" fits, 176 GiB to spare\n"));
  CHECK(answer.says("  to spare                       176 GiB\n"));
  CHECK(three_digits(176.5) == "176");
  CHECK(three_digits(177.5) == "178");
  CHECK(to_text(Bytes{177 * kGiB + kGiB / 2}) == "178 GiB");
}

TEST_CASE("fit: intervals are left out where nothing was measured on such GPUs") {
  const Answer answer = test::headroom("fit llama-3.2-1b --gpu mi300x");
  CHECK(answer.says("not known: nothing was measured on such GPUs\n"));
  CHECK_FALSE(answer.says("95 % interval"));
  CHECK_FALSE(answer.says(" on real GPUs"));
}

TEST_CASE("fit: communication has a heading of its own") {
  const Answer answer = test::headroom("fit llama-3.2-1b --gpu h100-80gb --gpus 2 --zero 3");
  CHECK(answer.says("\ncommunication of one step, each rank\n  all_gather  "));
  CHECK_FALSE(answer.says("as replayed"));
}

TEST_CASE("fit: notes say which GPU a short name means, and that a budget is more than it has") {
  const Answer shorter = test::headroom("fit gpt2 --gpu A100");
  CHECK(shorter.complains("a100 is a100-80gb; also: a100-40gb, "));
  CHECK(test::headroom("fit gpt2 --gpu a100-80gb").err.empty());
  CHECK(test::headroom("fit gpt2 --gpu t4").err.find(" is ") == std::string::npos);
  const Answer more = test::headroom("fit gpt2 --gpu h100-80gb --budget 200GiB");
  CHECK(more.complains("the budget of 200 GiB is more than the 79.2 GiB that h100-80gb has"));
  CHECK(test::headroom("plan gpt2 --gpu h100 --budget 200GiB --runtime transformers")
            .complains("the budget of 200 GiB is more than"));
}

TEST_CASE("fit: --faster says that no change makes a step faster where none does") {
  const std::string question =
      "fit gpt2 --gpu h100-80gb --micro-batch 32 --optimizer adamw-fused --precision bf16";
  REQUIRE(test::json_of(question + " --faster").array("faster").empty());
  CHECK(test::headroom(question + " --faster").says("no change that fits makes a step faster"));
  CHECK_FALSE(test::headroom(question).says("no change that fits makes"));
}

TEST_CASE("answers: plurals are right") {
  const std::regex wrong("[^0-9.,]1 (layers|calls|phases|passes|plans|GPUs|micro-batches|runs)\\b");
  for (const char* line :
       {"plan llama-3.1-8b --gpu a100-80gb --gpus 8 --runtime megatron --tp 1 --pp 1 --cp 1",
        "explain gpt2 --gpu a100-80gb --gpus 2 --tp 2 --runtime megatron",
        "fit gpt2 --gpu h100 --gpus 2 --zero 1 --accumulation 2 --evaluation",
        "fit gpt2 --gpu h100 --checkpointing first-1"}) {
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    std::smatch found;
    const bool is_wrong = std::regex_search(answer.out, found, wrong);
    CHECK_MESSAGE(!is_wrong, found.str());
  }
}

TEST_CASE("fit: where a process alone takes more than the budget, no change is proposed") {
  const Answer answer = test::headroom("fit gpt2 --gpu a100-80gb --budget 100MB");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(
      answer.says("\nno change makes it fit: without a single tensor the process takes 942 MiB\n"));
  CHECK(answer.says("\nnext: more than 942 MiB of GPU memory leave something to PyTorch\n"));
}

TEST_CASE("fit: a memory budget that weighs attention of shared keys is answered with a note") {
  const std::string fit =
      "fit llama-3.1-8b --gpu h100-80gb --gpus 8 --titan compiled,memory-budget=";
  CHECK(test::headroom(fit + "0.3").err.find("later versions choose") != std::string::npos);
  CHECK(test::headroom(fit + "0.9").err.empty());  // Nothing has to be weighed.
}

TEST_CASE("messages: they say what to type") {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"fit llama-3.1-8b --gpu h100 --lora r16", "fix: type --lora r=16"},
      {"fit gpt2 --gpu h100 --precision fp8", "--megatron fp8-recipe=delayed"},
      {"plan gpt2 --gpu h100 --precision fp8", "fix: use fp8-delayed, fp8-tensorwise"},
      {"plan gpt2 --gpu h100 --optimizer adam", "fix: use adamw, adamw-fused"},
      {"fit gpt2 --gpu h100 --gpus 8 --offload optimizer=cpu",
       "error: --offload needs ZeRO: stage 1, 2 or 3\n  fix: add --zero 2"},
      {"fit llama-3.1-8b --gpu h100 --gpus 8 --tp 3",
       "fix: use --gpus 9, or degrees whose product is 1, 2, 4 or 8"},
      {"fit llama-3.1-8b --gpu h100 --gpus 8 --fsdp replicas=3", "fix: use 1, 2, 4 or 8"},
      {"plan llama-3.1-8b --gpu h100 --gpus 8 --tp 3",
       "error: --tp: got 3, expected a number that divides 32 (heads), "},
      {"fit gpt2 --gpu a1000", "fix: the closest are a100-40gb, a100-80gb, "},
      {"fit gpt2 --gpu h100 --gpus 2 --ddp bucket=25",
       "got bucket=25, expected a size with its unit, such as 25MiB\n"
       "  fix: use --ddp bucket=25MiB, or bucket=25B for bytes"},
      {"plan gpt2 --gpu h100 --generate 16", "fix: headroom fit has it; "},
      {"fit gpt2 --gpu h100 --global-batch 8", "fix: headroom plan has it; "},
      {"plan gpt2 --gpu h100 --why tp", "fix: use --why tp=VALUE"},
      {"fit gpt2 --gpu h100 --seq 8k", "fix: write 8192 or 8000 for 8k"},
      {"fit gpt2 --gpu h100 --lora r=1k", "fix: write 1024 or 1000 for 1k"},
      {"plan gpt2 --gpu h100 --gpus 1,2k", "fix: write 2048 or 2000 for 2k"},
      {"plan gpt2 --gpu h100 --seq 8k", "fix: write 8192 or 8000 for 8k"},
      {"fit gpt2 --gpu h100 --budget 70G", "fix: write 70GiB, or 70GB for powers of ten"},
      {"fit gpt2 --gpu h100 --gpus", "error: --gpus needs a value\n  fix: type --gpus N; "},
      {"fit nowhere.json --gpu h100", "error: nowhere.json: no such file\n  fix: check the path"}};
  for (const auto& [line, said] : lines) {
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    CAPTURE(answer.err);
    CHECK(answer.complains(said));
  }
}

TEST_CASE("sizes: PyTorch's own argument counts MiB, ours has a unit") {
  const std::string line = "fit gpt2 --gpu h100 --gpus 2 --ddp ";
  for (const auto& [key, bytes] : std::vector<std::pair<std::string, std::int64_t>>{
           {"bucket_cap_mb=30", 30 * kMiB}, {"bucket=30MiB", 30 * kMiB}, {"bucket=7B", 7}}) {
    CAPTURE(key);
    const Document answer = test::json_of(line + key);
    CHECK(answer.integer("plan/ddp/bucket_cap_bytes") == bytes);
  }
}

TEST_CASE("plan: --checkpointing is --recompute, and 16 bits are named as fit names them") {
  const std::string line = "plan gpt2 --gpu a100-80gb --runtime fsdp --json";
  const Document typed(test::headroom(line + " --recompute full").out);
  const Document other(test::headroom(line + " --checkpointing full").out);
  CHECK(typed.text("summary") == other.text("summary"));
  CHECK(typed.number("space") == other.number("space"));
  const Document usual(test::headroom(line).out);
  const Document masters(test::headroom(line + " --precision bf16-master").out);
  CHECK(masters.text("summary") == usual.text("summary"));
  CHECK(masters.number("estimate/time/step_seconds") == usual.number("estimate/time/step_seconds"));
  CHECK(masters.text("plan/precision") == "fp32");  // The type of the shards.
  const Document plain(test::headroom(line + " --precision bf16").out);
  CHECK(plain.text("plan/precision") == "bf16");
  CHECK(test::headroom("plan --help").says("bf16-master or fp16-master"));
}

TEST_CASE("compare: the phase of each peak has a row") {
  const Answer answer =
      test::headroom("compare gpt2 --gpu h100 --vary checkpointing=none,full --vary micro-batch=8");
  CHECK(answer.says("\n    peak in "));
}

TEST_CASE("help: options that people vary or offload with are shown, and what is off says so") {
  CHECK(test::headroom("compare --help").says("\n  --vary "));
  CHECK(test::headroom("fit --help").says("\n  --offload "));
  const std::string help = test::headroom("fit --help").out;
  CHECK(help.find(" alone means ") != std::string::npos);
  CHECK(help.find("[default:\n                          reshard") == std::string::npos);
}

TEST_CASE("explain: why a row of its table may be faster than the plan") {
  const Answer answer = test::headroom(
      "explain llama-3.1-8b --gpu a100-80gb --gpus 8 --runtime megatron --tp 1 --pp 1 --cp 1");
  REQUIRE(answer.code == ExitCode::kYes);
  CHECK(answer.says("\n    not taken: replayed with what PyTorch reserves, it fits with a chance"));
  CHECK(answer.says("note: the rows count allocated bytes only"));
  CHECK(answer.says("of the 79.1 GiB usable"));
}

TEST_CASE("fit: what the replay leaves free and a run hardly does is too little") {
  // 50 MiB are left, of which NCCL and kernels of a real GPU take more.
  const test::Answer run = test::headroom(
      "fit qwen3-vl-32b --gpu h100-80gb --gpus 8 --fsdp reshard=yes --checkpointing full");
  CHECK(run.says("does not fit: only "));
  CHECK(run.says("to spare, chance to fit"));
}

TEST_CASE("fit: --faster tries to recompute less") {
  const std::string question =
      "fit llama-3.1-8b --gpu h100-80gb --checkpointing full --lora r=16 --faster";
  CHECK(test::headroom(question).says("--checkpointing none: "));
  CHECK(test::headroom(question).says("(recomputation: "));
  const test::Answer tight = test::headroom(question + " --budget 22GiB");
  CHECK_FALSE(tight.says("--checkpointing none"));
}

TEST_CASE("fit: a recording without PEFT's preparation says how to leave it out") {
  const test::Answer run =
      test::headroom("fit minimax-m2.5 --gpu h200 --qlora r=16 --checkpointing full");
  CHECK(run.complains("add prepare=no to --qlora"));
  CHECK(test::headroom("fit minimax-m2.5 --gpu h200 --qlora r=16,prepare=no")
            .complains("experts are not quantised"));
}

TEST_CASE("fit: adapters that PEFT refuses are refused, with the layers that are left") {
  const test::Answer mamba =
      test::headroom("fit nemotron-3-nano-30b-a3b --gpu h200 --lora r=16 --precision bf16");
  CHECK(mamba.code == ExitCode::kUsage);
  CHECK(mamba.complains("PEFT refuses out_proj"));
  CHECK(mamba.complains("targets=down_proj+in_proj+"));
  const test::Answer router =
      test::headroom("fit llama-4-scout-17b-16e --gpu h200 --lora r=16 --precision bf16");
  CHECK(router.complains("the router returns two tensors"));
  const test::Answer named = test::headroom(
      "fit llama-4-scout-17b-16e --gpu b200 --lora r=16,targets=q_proj+v_proj --precision bf16");
  CHECK(named.code != ExitCode::kUsage);
}

TEST_CASE("plan: a number of GPUs that cannot share a step says which batch they can share") {
  const test::Answer run = test::headroom(
      "plan llama-3.2-1b --gpu rtx-5090 --gpus 4,6,8 --runtime deepspeed --lora r=16");
  CHECK(run.says("no plan: 64 sequences of a step cannot be divided evenly"));
  CHECK(run.says("--global-batch 72"));
  CHECK(test::headroom("plan llama-3.2-1b --gpu rtx-5090 --gpus 6 --runtime deepspeed --lora r=16 "
                       "--global-batch 72")
            .code == ExitCode::kYes);
}

}  // namespace headroom::cli
