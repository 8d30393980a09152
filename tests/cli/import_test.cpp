// `headroom import`, as far as it needs no PyTorch, and questions about a recording. The recorder
// itself is tested where PyTorch is installed (tests/real/unit).

#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "cli/exit_code.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

const std::string kRecording = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";

}  // namespace

TEST_CASE("import: what is typed is checked before Python is started") {
  const test::TemporaryFolder folder;
  const std::string config = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";
  for (const auto& [words, named] :
       {std::pair<std::string, std::string>{"import", "SOURCE"},
        {"import /no/such/config.json --output a.json", "/no/such/config.json"},
        {"import " + config, "--output"},
        {"import " + config + " --output a.txt", "a.txt"},
        {"import " + config + " --output /no/such/folder/a.json", "/no/such/folder/a.json"},
        {"import " + config + " --output a.json --precision fp8", "fp8"},
        {"import " + config + " --output a.json --family --precision bf16", "--family"},
        {"import " + config + " --output a.json --qlora --precision bf16", "--qlora"},
        {"import " + config + " --output a.json --images 2x1024", "COUNTxHEIGHTxWIDTH"},
        {"import " + config + " --output a.json --micro-batches 1,2", "with --images"},
        {"import " + config + " --output a.json --images 1x64x64 --micro-batches 1,,2", "1,,2"},
        {"import " + config + " --output a.json --images 1x64x64 --micro-batches 1,02", "1,02"},
        {"import " + config + " --output a.json --freeze=", "--freeze"},
        {"import " + config + " --output a.json --family --images 1x64x64", "--family"},
        {"import " + config + " --output a.json --task abacus", "token-classification"},
        {"import qwen3-8b --output a.json", "headroom fit qwen3-8b"},
        {"import " + config + " --output a.json --gpu abacus", "abacus"}}) {
    CAPTURE(words);
    const test::Answer answer = test::headroom(words);
    CHECK(answer.code != ExitCode::kYes);
    CHECK(answer.err.find("error: ") == 0);
    CHECK(answer.err.find(named) != std::string::npos);
  }
}

TEST_CASE("import: a recording takes the place of a model") {
  const test::Answer answer =
      test::headroom("fit " + kRecording + " --gpu h100-80gb --micro-batch 2 --seq 512");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.out.find("llama on 1 x h100-80gb") == 0);
  CHECK(answer.out.find("phase") != std::string::npos);
  const test::Answer refused =
      test::headroom("fit " + kRecording + " --gpu h100-80gb --gpus 8 --runtime megatron");
  CHECK(refused.code == ExitCode::kUsage);
  CHECK(refused.err.find("megatron with a model recording") != std::string::npos);
}

TEST_CASE("import: a recording of batches with images is asked with its images") {
  const std::string question = "fit " HEADROOM_SOURCE_DIR
                               "/tests/golden/recordings/qwen2_5_vl_images.json --gpu h100-80gb "
                               "--precision bf16 --seq 1024";
  const test::Answer answer = test::headroom(question + " --images 2x560x560");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.err.find("cuDNN's workspace") != std::string::npos);
  const test::Answer other = test::headroom(question + " --images 1x560x560");
  CHECK(other.code == ExitCode::kUsage);
  CHECK(other.err.find("headroom import FOLDER/config.json --images 1x560x560") !=
        std::string::npos);
  const test::Answer wrong = test::headroom(question + " --images two");
  CHECK(wrong.code == ExitCode::kUsage);
  CHECK(wrong.err.find("COUNTxHEIGHTxWIDTH") != std::string::npos);
  const test::Answer written = test::headroom("fit gpt2 --gpu t4 --images 2x560x560");
  CHECK(written.code == ExitCode::kUsage);
  CHECK(written.err.find("text alone") != std::string::npos);
}

TEST_CASE("import: the printed script makes a model with the class of its task") {
  for (const auto& [model, line] :
       {std::pair<std::string, std::string>{"gpt2", "AutoModelForCausalLM.from_pretrained"},
        {"t5-small", "AutoModelForSeq2SeqLM.from_pretrained"},
        {"bert-base-uncased", "AutoModelForMaskedLM.from_pretrained"},
        {"bert-base-uncased --task sequence-classification",
         "AutoModelForSequenceClassification.from_pretrained"},
        {"qwen3-vl-2b", "AutoModelForImageTextToText.from_pretrained"}}) {
    CAPTURE(model);
    CHECK(test::headroom("plan " + model + " --runtime transformers --gpu h100-80gb").says(line));
  }
  const test::TemporaryFolder folder;
  std::string text = read_file(kRecording).value();
  const std::string task = R"("task": "causal-lm")";
  REQUIRE(text.find(task) != std::string::npos);
  text.replace(text.find(task), task.size(), R"("task": "own")");
  const std::string path = folder.path("own.json");
  REQUIRE(write_file_atomically(path, text));
  const std::string own = "plan " + path + " --gpu h100-80gb --precision ";
  const test::Answer narrow = test::headroom(own + "bf16");
  CHECK(narrow.says("torch.set_default_dtype(torch.bfloat16)"));
  CHECK(narrow.says("model = llama()"));
  CHECK_FALSE(test::headroom(own + "autocast-bf16").says("set_default_dtype"));
}

TEST_CASE("import: the printed script has the labels, the adapters and the attention of a head") {
  const test::Answer adapted = test::headroom(
      "fit roberta-large --task sequence-classification --num-labels 3 --seq 256 --gpu l4 --lora "
      "r=8,targets=query+value --script");
  CHECK(adapted.code == ExitCode::kYes);
  CHECK(adapted.out.find("AutoModelForSequenceClassification") != std::string::npos);
  CHECK(adapted.out.find("num_labels=3") != std::string::npos);
  CHECK(adapted.out.find("task_type='SEQ_CLS'") != std::string::npos);
  const test::Answer eager = test::headroom("fit deberta-v3-base --seq 256 --gpu l4 --script");
  CHECK(eager.out.find("attn_implementation='eager'") != std::string::npos);
  CHECK(eager.out.find("num_labels") == std::string::npos);
}

TEST_CASE("import: searches, timelines and configurations take the images of a recording") {
  const std::string images = " --images 2x560x560 --seq 1024";
  const std::string model =
      " " HEADROOM_SOURCE_DIR "/tests/golden/recordings/qwen2_5_vl_images.json";
  const std::string question = model + " --gpu h100-80gb" + images;
  const test::Answer plan = test::headroom("plan" + question + " --global-batch 4 --json");
  REQUIRE(plan.code == ExitCode::kYes);
  const test::Document found(plan.out);
  CHECK(found.text("plan/images") == "2x560x560");
  CHECK(plan.says("--micro-batch is 4, expected one of 1, 2"));
  const test::Answer sweep = test::headroom("sweep" + question + " --global-batch 4");
  CHECK(sweep.code == ExitCode::kYes);
  const test::Answer spoken = test::headroom("plan" + question + " --global-batch 4");
  CHECK(spoken.says("AutoModelForImageTextToText.from_pretrained"));
  CHECK(spoken.says("with 2 images of 560 x 560 pixels in each"));
  CHECK(sweep.says("--images 2x560x560"));
  // Refusals are little work: both frameworks have a plan in the comparison.
  const test::Document eight = test::json_of("plan" + question + " --gpus 8");
  REQUIRE(eight.array("frameworks").size() == 2);
  for (const char* path : {"frameworks/0/plan", "frameworks/1/plan"}) {
    CHECK_FALSE(eight.at(path).is_null());
  }
  const std::string many = "plan" + question + " --gpus 1,2,4,8,16,32 --global-batch 256 ";
  CHECK(test::json_of(many + "--runtime fsdp --micro-batch 1,4,8,16 --work-limit 1000")
            .text("status") == "optimal");
  const test::Answer text = test::headroom("plan gpt2 --gpu h100-80gb" + images);
  CHECK(text.code == ExitCode::kUsage);
  CHECK(text.complains("--images: got 2x560x560, expected none"));
  const test::Answer without = test::headroom("plan" + model + " --gpu h100-80gb --seq 1024");
  CHECK(without.code == ExitCode::kUsage);
  CHECK(without.complains("add --images 2x560x560"));

  // The plan file of the search keeps the images for other verbs.
  const test::TemporaryFolder folder;
  const std::string filed = " --plan " + folder.write("plan.json", plan.out);
  const test::Answer fit = test::headroom("fit" + filed + " --json");
  REQUIRE(fit.code == ExitCode::kYes);
  const test::Document fitted(fit.out);
  CHECK(fitted.text("plan/images") == "2x560x560");
  CHECK(fitted.integer("peak/reserved_bytes") == found.integer("estimate/peak_reserved_bytes"));
  CHECK(test::headroom("plan" + filed).says("--images 2x560x560"));
  const std::string events = " --precision bf16 --micro-batch 1";
  const std::string one = test::headroom("timeline" + question + events).out;
  CHECK(one.find("convolution") != std::string::npos);
  const test::Answer emitted =
      test::headroom("emit deepspeed" + model + images + " --zero 3 --precision bf16-master");
  CHECK(emitted.code == ExitCode::kYes);
  const std::string compared = "compare" + question + " --precision bf16 --vary micro-batch=1,2";
  const test::Answer two = test::headroom(compared);
  CHECK(two.code == ExitCode::kYes);
  CHECK(two.says("micro-batch=2"));
}

TEST_CASE(
    "import: a question that a recording with quantised layers cannot answer says which it can") {
  const std::string question =
      "fit " HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama_quantised.json --gpu h100-80gb ";
  const test::Answer answer = test::headroom(question + "--qlora --precision fp32");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("got prepare=yes --precision fp32 --attention sdpa, expected"));
  CHECK(answer.complains("prepare=no --precision bf16-autocast --attention sdpa"));
  const test::Answer plain = test::headroom(question + "--precision bf16-autocast");
  CHECK_FALSE(plain.complains("expected"));  // The code in bf16 serves it.
  // Whatever is named is answered.
  for (const char* named : {"prepare=yes --precision bf16", "prepare=no --precision bf16",
                            "prepare=no --precision fp16", "prepare=yes --precision bf16-autocast",
                            "prepare=no --precision bf16-autocast"}) {
    CHECK(test::headroom(question + "--qlora " + named).code == ExitCode::kYes);
  }
}

TEST_CASE("import: an answer says how many parameters are trained") {
  const test::TemporaryFolder folder;
  std::string text = read_file(kRecording).value();
  const std::string_view norm = R"(["model.norm.weight", [256]])";
  const std::size_t at = text.find(norm);
  REQUIRE(at != std::string::npos);
  text.insert(at + norm.size() - 1, R"(, {"trainable": false})");
  const std::string frozen = folder.write("frozen.json", text);
  const std::string question = " --gpu h100-80gb --micro-batch 2 --seq 512";
  CHECK(test::headroom("fit " + frozen + question).out.find(" trained") != std::string::npos);
  CHECK(test::headroom("fit " + frozen + question).out.find("all trained") == std::string::npos);
  CHECK(test::headroom("fit " + kRecording + question).out.find("all trained") !=
        std::string::npos);
}

TEST_CASE("import: a config.json of a family that was recorded is answered without Python") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", R"({"model_type": "smollm3",
      "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 5,
      "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 130000})");
  const std::string question = " --gpu h100-80gb --micro-batch 2 --seq 512 --json";
  const test::Answer family = test::headroom("fit " + config + question);
  CHECK(family.code == ExitCode::kYes);
  const test::Answer own =
      test::headroom("fit " HEADROOM_SOURCE_DIR "/tests/golden/recordings/smollm3.json" + question);
  const auto phases_of = [](const std::string& text) {
    const Result<ir::JsonValue> answer = ir::parse_json(text, "answer");
    REQUIRE(answer);
    const ir::JsonValue* const phases = answer->find("phases");
    REQUIRE(phases != nullptr);
    return to_json(*phases);
  };
  CHECK(phases_of(family.out) == phases_of(own.out));
}

}  // namespace headroom::cli
