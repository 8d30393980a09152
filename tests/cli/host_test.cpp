#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/units.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"

namespace headroom {
namespace {

using cli::ExitCode;
using test::Answer;
using test::Document;

const std::string kLarge =
    "fit llama-3.1-405b --gpu a100-80gb --gpus 8 --zero 3 --offload optimizer=cpu,param=cpu "
    "--checkpointing full";

}  // namespace

TEST_CASE("fit and plan: a host that is assumed is said, in notes and in JSON") {
  const std::string line = "fit llama-3.1-8b --gpu rtx-4090 --zero 3 --offload optimizer=cpu";
  CHECK(test::headroom(line).complains("no host memory is known of a node with rtx-4090"));
  const Document assumed = test::json_of(line);
  CHECK(assumed.text("host/assumed").find("are assumed (--host-memory)") != std::string::npos);
  CHECK(assumed.text("notes/0").find("no host memory is known") != std::string::npos);
  // Nothing is assumed of a node that is known, or whose memory was typed.
  CHECK(test::json_of("fit gpt2 --gpu h100").at("host/assumed").is_null());
  const Answer typed = test::headroom(line + " --host-memory 256GiB");
  CHECK_FALSE(typed.complains("no host memory is known"));
  // A run that takes next to nothing of the host is not told about it.
  CHECK_FALSE(test::headroom("fit gpt2 --gpu rtx-4090").complains("no host memory is known"));
}

TEST_CASE("plan: another GPU is tried with what was typed of the host, and without the node") {
  const Document answer = test::json_of(
      "plan llama-3.1-8b --gpu a100-40gb --node dgx-a100-320gb --host-memory 300GiB --runtime "
      "transformers --micro-batch 1 --seq 2048 --global-batch 1 --recompute none");
  bool found = false;
  for (const ir::JsonValue& mend : answer.array("would_fit")) {
    const std::string command = *mend.find("command")->as_string();
    if (mend.find("change")->as_string()->starts_with("--gpu ")) {
      found = true;
      CAPTURE(command);
      CHECK(command.find("--node") == std::string::npos);
      CHECK(command.find("--host-memory 300GiB") != std::string::npos);
      CHECK(test::headroom(command.substr(std::string("headroom ").size())).code == ExitCode::kYes);
    }
  }
  CHECK(found);
}

TEST_CASE("fit: a run whose host has too little memory does not fit") {
  const Answer answer = test::headroom(kLarge);
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("does not fit: the host needs"));
  CHECK(answer.says("the node has 2.00 TiB"));
  CHECK(answer.says("against the host"));
  const Document document = test::json_of(kLarge);
  CHECK(document.text("verdict") == "does not fit");
  CHECK(document.text("host/verdict") == "does not fit");
  CHECK(document.integer("host/ranks") == 8);
  CHECK(document.integer("host/bytes") > document.integer("host/capacity_bytes"));
  CHECK(document.integer("host/bytes") == 8 * document.integer("host/rank_bytes"));
}

TEST_CASE("fit: what the user says of the host counts") {
  const std::string question =
      "fit llama-3.2-1b --gpu rtx-4090 --zero 2 --offload optimizer=cpu --checkpointing full";
  CHECK(test::json_of(question).integer("host/capacity_bytes") == 64 * kGiB);
  const Answer little = test::headroom(question + " --host-memory 8GiB");
  CHECK(little.code == ExitCode::kNo);
  CHECK(little.says("the node has 8.00 GiB"));
  CHECK(test::headroom(question + " --host-memory much").complains("a size with its unit"));
  CHECK(test::headroom(question + " --host-memory 24").complains("use --host-memory 24GiB"));
  CHECK(test::headroom(question + " --nvme 24").complains("use --nvme 24GiB"));
  const std::string drive = " --zero 3 --offload optimizer=nvme,path=/nvme --checkpointing full";
  const std::string swapped = "fit llama-3.2-1b --gpu rtx-4090" + drive;
  CHECK(test::headroom(swapped + " --nvme 1GB").code == ExitCode::kNo);
  CHECK(test::headroom(swapped + " --nvme 1GB").says("the NVMe drives need"));
  CHECK(test::headroom(swapped + " --nvme 1TB").code == ExitCode::kYes);
  CHECK(test::headroom(swapped + " --nvme-rate 3").complains("a rate above zero"));
}

TEST_CASE("fit: a step takes longer from a drive than from memory, and with more ranks on a host") {
  const std::string question = "fit llama-3.2-1b --gpu a100-80gb --zero 3 --checkpointing full";
  const double memory =
      test::json_of(question + " --offload optimizer=cpu").number("time/step_seconds");
  const std::string drive = question + " --offload optimizer=nvme,path=/nvme";
  const double fast = test::json_of(drive + " --nvme-rate 20GB/s").number("time/step_seconds");
  const double slow = test::json_of(drive + " --nvme-rate 5GB/s").number("time/step_seconds");
  CHECK(fast > memory);
  CHECK(slow > 2 * fast);
  // Each of eight ranks steps an eighth of the parameters with an eighth of the memory's rate.
  const double one =
      test::json_of(question + " --offload optimizer=cpu").number("time/parts_seconds/offload");
  const double eight = test::json_of(question + " --gpus 8 --offload optimizer=cpu")
                           .number("time/parts_seconds/offload");
  CHECK(eight > 0.5 * one);
}

TEST_CASE("plan: no plan needs more host memory than there is") {
  const std::string question =
      "plan llama-3.2-1b --gpu rtx-4090 --budget 8GiB --runtime deepspeed "
      "--offload any --micro-batch 1 --seq 512 --global-batch 4 " +
      std::string(test::kSanitized ? "--zero 2 --checkpointing full" : "--zero 2,3");
  const Document found = test::json_of(question + " --host-memory 64GiB");
  REQUIRE(found.text("status") == "optimal");
  CHECK(found.integer("estimate/host/bytes") <= 64 * kGiB);
  if (test::kSanitized) {
    return;  // What an infeasible question lacks takes a minute there, and has tests of its own.
  }
  const Answer none = test::headroom(question + " --host-memory 8GiB");
  CHECK(none.code == ExitCode::kNo);
  CHECK(none.says("plans that may fit the GPU need at least "));
  CHECK(none.says("8.00 GiB\n"));
  const Document parsed = test::json_of(question + " --host-memory 8GiB");
  CHECK(parsed.integer("least_host/capacity_bytes") == 8 * kGiB);
  CHECK(parsed.integer("least_host/bytes") > 8 * kGiB);
  const Answer loads = test::headroom(
      "plan llama-3.2-1b --gpu h100-80gb --runtime transformers --micro-batch 1 --seq 512 "
      "--precision fp32 --host-memory 3GiB");
  CHECK(loads.code == ExitCode::kNo);
  CHECK(loads.says("whatever the GPU has, the host would need at least "));
  CHECK(loads.says("; the node has 3.00"));
  const Answer text = test::headroom(question + " --host-memory 64GiB");
  CHECK(text.says("host memory of one node (1 rank): "));
}

TEST_CASE("fit: verdict, chance to fit and exit code agree") {
  int tight = 0;
  for (int gib = 13; gib <= 18; ++gib) {
    CAPTURE(gib);
    const std::string question =
        "fit llama-3.2-1b --gpu a100-80gb --budget " + std::to_string(gib) + "GiB";
    const Document document = test::json_of(question);
    const double chance = document.number("confidence/fits_probability");
    const std::string verdict(document.text("verdict"));
    CAPTURE(chance);
    CAPTURE(verdict);
    CHECK((chance < 0.05) == (verdict == "does not fit"));
    CHECK((chance >= 0.95 || verdict != "fits"));
    tight += verdict == "tight" ? 1 : 0;
    CHECK(test::headroom(question).code == (chance < 0.5 ? ExitCode::kNo : ExitCode::kYes));
  }
  CHECK(tight > 0);
}

TEST_CASE("fit: where the host is short, remedies are about the host") {
  const std::string question = "fit llama-3.2-1b --gpu a100-80gb --zero 3 --offload optimizer=cpu";
  const Document none = test::json_of(question + " --host-memory 1GiB");
  CHECK(none.text("short_of/resource") == "host memory");
  CHECK(none.integer("short_of/bytes") > 0);
  CHECK(none.text("next").find("the host needs ") != std::string::npos);
  CHECK(none.text("next").find("short by -") == std::string::npos);
  for (std::size_t i = 0; i < none.array("remedies").size(); ++i) {
    CHECK(none.integer("remedies/" + std::to_string(i) + "/host_bytes") <
          none.integer("host/bytes"));
  }
  // More nodes have more host memory, and train the same.
  const Document large = test::json_of(kLarge);
  CHECK(large.integer("more_gpus/host_bytes") <= large.integer("host/capacity_bytes"));
  CHECK(large.text("next").find("--gpus ") != std::string::npos);
  CHECK(large.text("next").find("--lora") == std::string::npos);
  const Answer text = test::headroom(kLarge);
  CHECK(text.says("of host memory"));
  CHECK(text.says("chance to fit the GPU"));
}

TEST_CASE("plan: the plan has the chance to fit that was asked for") {
  const std::string question =
      "plan llama-3.2-1b --gpu a100-80gb --budget 48GiB --runtime transformers --global-batch 8";
  const Document usual = test::json_of(question);
  CHECK(usual.number("confidence") == 0.9);
  CHECK(usual.number("estimate/fits_probability") >= 0.9);
  const Document sure = test::json_of(question + " --confidence 99%");
  CHECK(sure.number("confidence") == 0.99);
  CHECK(sure.number("estimate/fits_probability") >= 0.99);
  CHECK(sure.integer("estimate/peak_reserved_bytes") <=
        usual.integer("estimate/peak_reserved_bytes"));
  CHECK(test::headroom(question).says("at least 90.0 % asked for"));
  CHECK(test::headroom(question + " --confidence 100").code == ExitCode::kUsage);
}

}  // namespace headroom
