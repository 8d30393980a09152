#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/scalars.h"
#include "model_ir/base/units.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"
#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;

constexpr const char* kShared =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 298.00 MiB. GPU 0 has a total "
    "capacity of 44.39 GiB of which 12.06 MiB is free. Process 6324 has 8.06 GiB memory in use. "
    "Including non-PyTorch memory, this process has 36.30 GiB memory in use. Of the allocated "
    "memory "
    "36.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.\n";

std::string printed(std::int64_t bytes) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.2f MiB", static_cast<double>(bytes) / kMiB);
  return text.data();
}

/// The message that PyTorch would print where the prediction runs out of memory.
std::string predicted_message(const test::Document& fit) {
  const std::int64_t asked = fit.integer("out_of_memory/requested_bytes");
  const std::int64_t segment = align_up(asked, 2 * kMiB);
  const std::int64_t allocated = fit.integer("out_of_memory/allocated_bytes");
  const std::int64_t reserved = fit.integer("out_of_memory/reserved_bytes");
  return "CUDA out of memory. Tried to allocate " + printed(segment) +
         ". GPU 0 has a total capacity of " + printed(fit.integer("device_total_bytes")) +
         " of which " + printed(fit.integer("capacity_bytes") - reserved) +
         " is free. Including non-PyTorch memory, this process has " +
         printed(reserved + fit.integer("outside_bytes")) +
         " memory in use. Of the allocated memory " + printed(allocated) +
         " is allocated by PyTorch, and " + printed(reserved - allocated) +
         " is reserved by PyTorch but unallocated.";
}

}  // namespace

TEST_CASE("explain --oom: a message alone says who held the memory and what to do") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write("train.log", std::string("Traceback\n") + kShared);
  const Answer answer = test::headroom_with({"explain", "--oom", log});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("286 MiB was missing"));
  CHECK(answer.says("process 6324"));
  CHECK(answer.says("Other processes hold 8.06 GiB"));
  CHECK(answer.says("next: headroom explain --oom FILE MODEL"));
}

TEST_CASE("explain --oom: the request of the replay's own failure is found in the replay") {
  const test::TemporaryFolder folder;
  for (const std::string options :
       {"llama-3.1-8b --gpu a100-40gb --lora r=16 --micro-batch 8",
        "llama-3.2-1b --gpu t4 --micro-batch 4", "gpt2 --gpu t4 --micro-batch 32 --seq 1024"}) {
    CAPTURE(options);
    const test::Document fit = test::json_of("fit " + options);
    const std::string log = folder.write("train.log", predicted_message(fit));
    const test::Document answer = test::json_of("explain --oom " + log + " " + options);
    CHECK(answer.at("messages/0/match/same_size").as_bool() == true);
    CHECK(answer.at("messages/0/match/agrees").as_bool() == true);
    CHECK(answer.text("messages/0/match/phase") == fit.text("out_of_memory/phase"));
    CHECK(answer.integer("messages/0/match/requested_bytes") ==
          fit.integer("out_of_memory/requested_bytes"));
    CHECK(answer.text("next") == fit.text("next"));
    CHECK(answer.array("fit/remedies").size() == fit.array("remedies").size());
  }
}

TEST_CASE(
    "explain --oom: a message from a public report is found in AdamW, as its traceback says") {
  // https://github.com/hiyouga/LlamaFactory/issues/1221; the options are those of
  // tests/scenarios/questions.json.
  const test::TemporaryFolder folder;
  const std::string log = folder.write(
      "train.log",
      "denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)\n"
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.14 GiB (GPU 5; 31.75 "
      "GiB "
      "total capacity; 28.28 GiB already allocated; 1.95 GiB free; 28.28 GiB reserved in total by "
      "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
      "fragmentation.\n");
  const test::Document answer = test::json_of(
      "explain --oom " + log +
      " llama-7b --gpu v100-32gb --gpus 8 --zero 2 --precision fp16-master --optimizer adamw-loop "
      "--checkpointing full-reentrant --seq 1024");
  CHECK(answer.text("messages/0/match/operation") == "adamw.loop");
  CHECK(answer.at("messages/0/match/agrees").as_bool() == true);
  CHECK(std::abs(answer.integer("messages/0/match/off_bytes")) < 64 * kMiB);
  CHECK(answer.text("messages/0/causes/0/cause") == "not enough memory");
}

TEST_CASE("explain --oom: a GPU that is full to the brim is not blamed on fragmentation") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write(
      "train.log",
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.90 GiB "
      "of which 11.75 MiB is free. Including non-PyTorch memory, this process has 15.88 GiB memory "
      "in use. Of the allocated memory 14.90 GiB is allocated by PyTorch, and 307.00 MiB is "
      "reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
      "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
  const test::Document answer = test::json_of("explain --oom " + log);
  REQUIRE(answer.array("messages/0/causes").size() == 1);
  const std::string text = answer.text("messages/0/causes/0/text");
  CAPTURE(text);
  for (const char* const part :
       {"The GPU is too full for this request",
        "Only 307 MiB (2.0 % of what PyTorch reserved) is lost to fragmentation",
        "has to need less"}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("expandable_segments") == std::string::npos);
}

TEST_CASE("explain --oom: a difference is a share of the prediction") {
  const test::TemporaryFolder folder;
  const test::Document fit = test::json_of("fit gpt2 --gpu t4 --micro-batch 32 --seq 1024");
  std::string message = predicted_message(fit);
  const std::string predicted = printed(fit.integer("out_of_memory/allocated_bytes"));
  message.replace(message.find(predicted), predicted.size(), "1.00 MiB");
  const test::Document answer =
      test::json_of("explain --oom " + folder.write("train.log", message) +
                    " gpt2 --gpu t4 --micro-batch 32 --seq 1024");
  const auto off = static_cast<double>(answer.integer("messages/0/match/off_bytes"));
  const auto allocated = static_cast<double>(answer.integer("messages/0/match/allocated_bytes"));
  REQUIRE(off > 0.6 * allocated);  // More than the message itself says.
  CHECK(answer.text("messages/0/match/text")
            .find("than predicted (" + percent_text(off / allocated) + ")") != std::string::npos);
}

TEST_CASE("explain --oom: a run with other options is recognised as another run") {
  const test::TemporaryFolder folder;
  const test::Document fit = test::json_of("fit gpt2 --gpu t4 --micro-batch 32 --seq 1024");
  const std::string log = folder.write("train.log", predicted_message(fit));
  const Answer answer = test::headroom("explain --oom " + log + " gpt2 --gpu t4 --micro-batch 3");
  CHECK(answer.says("differ from those of the run"));
  CHECK(answer.says("all the same"));
}

TEST_CASE("explain --oom: with other processes, the run is judged by what they leave") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write("train.log", kShared);
  const test::Document answer =
      test::json_of("explain --oom " + log + " llama-3.1-8b --gpu a40 --lora r=16 --micro-batch 4");
  // 44.39 - 8.06 GiB, in whole MiB.
  CHECK(answer.integer("fit/device_total_bytes") == 37'201 * kMiB);
  CHECK(answer.text("next").find("--budget 37201MiB") != std::string::npos);
}

TEST_CASE("explain --oom: inside a container, the run itself is not one of the others") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write(
      "train.log",
      "CUDA out of memory. Tried to allocate 734.00 MiB. GPU 0 has a total capacity of 23.64 GiB "
      "of which 580.00 MiB is free. Process 1234 has 9.99 GiB memory in use. Process 99 has 13.07 "
      "GiB memory in use. Of the allocated memory 12.40 GiB is allocated by PyTorch, and 200.00 "
      "MiB is reserved by PyTorch but unallocated.");
  const Answer text = test::headroom("explain --oom " + log);
  CHECK(text.says("9.99 GiB  process 1234\n"));
  CHECK(text.says("process 99 is taken to be this one"));
  CHECK(text.says("Other processes hold 9.99 GiB"));
  CHECK_FALSE(text.says("do not add up"));
  const test::Document answer = test::json_of("explain --oom " + log + " gpt2 --gpu rtx-4090");
  // 23.64 - 9.99 GiB, in whole MiB.
  CHECK(answer.integer("fit/device_total_bytes") == 13'977 * kMiB);
}

TEST_CASE("explain --oom: a plan file names the run, and the answer is a plan file again") {
  const test::TemporaryFolder folder;
  const test::Document fit = test::json_of("fit gpt2 --gpu t4 --micro-batch 32 --seq 1024");
  const std::string plan = folder.write("fit.json", ir::to_json(fit.at("")));
  const std::string log = folder.write("train.log", predicted_message(fit));
  const test::Document answer = test::json_of("explain --oom " + log + " --plan " + plan);
  CHECK(ir::to_json(answer.at("plan_file")) == ir::to_json(fit.at("plan_file")));
  CHECK(answer.at("messages/0/match/agrees").as_bool() == true);
}

TEST_CASE("explain --oom: a log of several ranks shows each message once") {
  const test::TemporaryFolder folder;
  std::string log;
  for (const char* rank : {"[rank0]: ", "[rank3]: ", "[rank3]: "}) {
    log += rank + std::string(kShared);
  }
  const test::Document answer = test::json_of("explain --oom " + folder.write("train.log", log));
  REQUIRE(answer.array("messages").size() == 1);
  CHECK(answer.integer("messages/0/times") == 3);
  CHECK(answer.array("messages/0/ranks").size() == 2);
}

TEST_CASE("explain --oom: of very many ranks, the first are listed and the rest is counted") {
  const test::TemporaryFolder folder;
  std::string log;
  constexpr int kRanks = 20'000;
  for (int rank = 0; rank < kRanks; ++rank) {
    log += "[rank" + std::to_string(rank) + "]: CUDA out of memory. Tried to allocate 1.00 GiB.\n";
  }
  const std::string path = folder.write("train.log", log + "[rank0]: again\n" + log);
  const test::Document answer = test::json_of("explain --oom " + path);
  REQUIRE(answer.array("messages").size() == 1);
  CHECK(answer.integer("messages/0/times") == 2 * kRanks);
  CHECK(answer.array("messages/0/ranks").size() == 1'024);
  CHECK(answer.text("messages/0/ranks/1023") == "rank1023");
  CHECK(answer.integer("messages/0/more_ranks") == kRanks - 1'024);
  const Answer text = test::headroom("explain --oom " + path);
  CHECK(text.says("rank0, rank1"));
  CHECK(text.says(std::to_string(kRanks - 8) + " more"));
}

TEST_CASE("explain --oom: options of the run without MODEL are refused") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write("train.log", kShared);
  for (const auto& [options, named] : std::vector<std::pair<std::string, std::string>>{
           {"--gpu nosuch", "--gpu is given"},
           {"--micro-batch 4", "--micro-batch is given"},
           {"--batch-size 4", "--batch-size is given"},
           {"--tp 2", "--tp is given"},
           {"--budget 20GiB", "--budget is given"}}) {
    CAPTURE(options);
    const Answer answer = test::headroom("explain --oom " + log + " " + options);
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.complains("MODEL"));
    CHECK(answer.complains(named));
    CHECK(answer.complains("add MODEL or --plan"));
  }
  CHECK(test::headroom("explain --oom " + log + " --json --color never").code == ExitCode::kYes);
}

TEST_CASE(
    "explain --oom: of a log with very many messages, the first are read and the rest is said") {
  const test::TemporaryFolder folder;
  std::string log;
  for (int number = 1; number <= 100; ++number) {
    log += "step " + std::to_string(number) + "\nCUDA out of memory. Tried to allocate " +
           std::to_string(number) + ".00 GiB. GPU 0 has a total capacity of 200.00 GiB\n";
  }
  const std::string path = folder.write("train.log", log);
  CHECK(test::json_of("explain --oom " + path).array("messages").size() == 64);
  CHECK(test::headroom("explain --oom " + path).complains("36 messages after the first 64"));
}

TEST_CASE("explain --oom: a failure outside of PyTorch's allocator is told from other messages") {
  const test::TemporaryFolder folder;
  const Answer answer = test::headroom(
      "explain --oom " +
      folder.write("train.log", "RuntimeError: CUDA error: out of memory\nCUDA kernel errors"));
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.complains("train.log: \"CUDA error: out of memory\" means that an allocation"));
  CHECK(answer.complains("has no figures"));
  CHECK(answer.complains("nvidia-smi"));
  CHECK(answer.complains("headroom fit MODEL"));
  CHECK_FALSE(answer.complains("other programs are not read"));
}

TEST_CASE("explain --oom: what is no message is refused, and standard input is read once") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write("train.log", "Killed\n");
  CHECK(test::headroom("explain --oom " + log).code == ExitCode::kBadInput);
  CHECK(test::headroom("explain --oom - -").complains("one thing to read from standard input"));
  CHECK(test::headroom("explain --help").says("--oom FILE"));
  CHECK(test::headroom("explain --oom " + log + " --help").says("--oom FILE [MODEL]"));
}

TEST_CASE("schema: what explain --oom answers is what the schema says") {
  const ir::JsonValue schema = test::read_schema("oom.schema.json");
  const test::TemporaryFolder folder;
  const std::string log = folder.write("train.log", kShared);
  for (const char* more : {"", " gpt2 --gpu t4"}) {
    const test::Document answer = test::json_of("explain --oom " + log + more);
    for (const std::string& fault : test::SchemaCheck::faults(schema, answer.at(""))) {
      FAIL_CHECK(fault);
    }
  }
}

}  // namespace headroom::cli
