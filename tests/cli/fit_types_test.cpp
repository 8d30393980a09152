// Types of arithmetic and of weights that `fit` assumes, warns of and proposes.
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

}  // namespace

TEST_CASE("fit: bf16 on a GPU that emulates it is said") {
  CHECK(test::headroom("fit gpt2 --gpu t4").complains("emulates bf16"));
  const Answer refused = test::headroom("fit gpt2 --gpu t4 --megatron tp=1");
  CHECK(refused.code == ExitCode::kUsage);
  CHECK(refused.complains("bf16 requires sm_80 or higher"));
}

TEST_CASE("fit: FSDP computes in the 16-bit type of --precision unless param says otherwise") {
  const std::string ask = "fit gpt2 --gpu v100-32gb --gpus 2 --fsdp";
  CHECK(test::headroom(ask).complains("add --fsdp param=fp16"));
  const Answer half = test::headroom(ask + " --precision autocast-fp16");
  CHECK(half.code == ExitCode::kYes);
  CHECK(half.says("param=fp16"));
  CHECK_FALSE(half.complains("emulates bf16"));
  CHECK(test::headroom(ask + " param=bf16 --precision fp16").says("param=bf16"));
  CHECK(test::headroom(ask + " param_dtype=bf16 --precision fp16").says("param=bf16"));
  CHECK(test::headroom(ask + " param=bf16 --precision fp16").complains("AdamW usually diverges"));
}

TEST_CASE("fit: a change of precision repeats the options that would follow it otherwise") {
  const Document document = test::json_of(
      "fit llama-3.2-1b --gpu a100-80gb --gpus 2 --fsdp --precision autocast-fp16 --seq 2048 "
      "--budget 14GiB");
  std::size_t changed = 0;
  for (const ir::JsonValue& remedy : document.array("remedies")) {
    const std::string options = *remedy.find("options")->as_string();
    if (options.find("--precision") != std::string::npos) {
      ++changed;
      CHECK(options.find("param=fp16") != std::string::npos);
    }
  }
  CHECK(changed > 0);
}

TEST_CASE("fit: where quantised experts cannot be sharded, adapters on 16-bit weights are tried") {
  if (test::kSanitized) {
    return;  // The search for remedies ends after some time, which is too short there.
  }
  const Document document = test::json_of("fit mixtral-8x7b --gpu a100-80gb --gpus 2 --qlora r=16");
  const std::string next = document.text("next");
  CHECK(next.find("--lora r=16") != std::string::npos);
  CHECK(next.find("--zero 3") != std::string::npos);
  const Answer followed = test::headroom(next.substr(std::string("headroom ").size()));
  CHECK(followed.code == ExitCode::kYes);
}

}  // namespace headroom::cli
