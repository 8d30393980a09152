#include "cli/commands/verbs.h"

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/base/units.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// A Llama of 1.1 million parameters.
constexpr const char* kTinyConfig = R"({
  "model_type": "llama", "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
  "max_position_embeddings": 512, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})";

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("fit: the verdict comes first, with model, GPU, its bytes and the margin") {
  const Answer answer = test::headroom("fit gpt2 --gpu h100-80gb");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.err.empty());
  CHECK(first_line(answer.out).find("gpt2 on 1 x h100-80gb (79.2 GiB usable): fits, ") == 0);
  CHECK(first_line(answer.out).find("GiB to spare") != std::string::npos);
}

TEST_CASE("fit: what does not fit is exit code 1, with what is missing and what to change") {
  const Answer answer = test::headroom("fit llama-3.1-8b --gpu rtx-4090");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(first_line(answer.out).find("does not fit, ") != std::string::npos);
  CHECK(first_line(answer.out).find(" short") != std::string::npos);
  CHECK(answer.says("out of memory in "));
  CHECK(answer.says("\nwith unlimited memory the run would peak at "));
  CHECK(answer.says("\na step would take "));
  CHECK_FALSE(answer.says("a step takes "));
  CHECK(answer.says("\nchanges that make it fit (first those that train the same parameters)\n"));
  CHECK(answer.says("costs: "));
  CHECK(answer.says("\nnext: headroom fit llama-3.1-8b --gpu rtx-4090 "));
}

TEST_CASE("fit: the screen shows peak, bars, device, phases, blocks and the next command") {
  const Answer answer = test::headroom("fit llama-3.2-1b --gpu a100-80gb");
  for (const char* part :
       {"\npeak ", "█", "optimizer states", "\nagainst the device", "reserved", "fragmentation",
        "CUDA context", "to spare", "\nphase", "  peak allocated",
        "  peak reserved  allocated at end\n", "step2.backward", "\nlargest at the peak",
        "\nnext: headroom timeline llama-3.2-1b"}) {
    CAPTURE(part);
    CHECK(answer.says(part));
  }
}

TEST_CASE("fit: names of what lies outside the allocator leave their column to the figures") {
  const std::string out =
      test::headroom(
          "fit llama-3.2-1b --gpu h100 --gpus 4 --precision bf16-master --megatron "
          "tp=2,sequence-parallel,tp-comm-overlap")
          .out;
  const std::size_t begin = out.find("  tensor-parallel userbuffers");
  REQUIRE(begin != std::string::npos);
  CHECK(out.find("tensor-parallel userbuffers ", begin) == begin + 2);
  CHECK(out.find("iB", begin) - begin ==
        out.find("iB", out.find("  CUDA context")) - out.find("  CUDA context"));
}

TEST_CASE("fit: the line of the plan leaves out nothing that was asked") {
  const auto plan_line = [](const std::string& question) {
    const std::string out = test::headroom(question).out;
    const std::size_t begin = out.find('\n') + 1;
    std::string line = out.substr(begin, out.find("\n\n") - begin);
    for (std::size_t at = line.find("\n  "); at != std::string::npos; at = line.find("\n  ")) {
      line.replace(at, 3, " ");
    }
    return line;
  };
  const std::string eager =
      plan_line("fit llama-3.2-1b --gpu h100 --precision bf16 --liger --clip-norm 1");
  for (const char* part : {"transformers, bf16, adamw", ", --liger", ", --clip-norm 1"}) {
    CAPTURE(part);
    CHECK(eager.find(part) != std::string::npos);
  }
  const std::string sharded =
      plan_line("fit gpt2 --gpu h100 --gpus 2 --runtime fsdp --fsdp reshard=no --lora r=4");
  CHECK(sharded.find("fsdp reshard=no,") == 0);
  CHECK(sharded.find(", LoRA r=4") != std::string::npos);
  CHECK(sharded.find("--") == std::string::npos);
  const std::string megatron = plan_line(
      "fit llama-3.2-1b --gpu h100 --gpus 4 --precision bf16-master --megatron "
      "tp=2,sequence-parallel,tp-comm-overlap,recompute=uniform,recompute-layers=2");
  CHECK(megatron.find("megatron TP 2 x DP 2") == 0);
  CHECK(megatron.find(", --megatron recompute-layers=2,tp-comm-overlap") != std::string::npos);
}

TEST_CASE("fit: Liger's fused loss is refused where the model scales its logits") {
  const Answer answer = test::headroom("fit granite-3.0-2b --gpu h100 --loss fused-linear --liger");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("fused-linear with --liger for a model that scales its logits"));
  CHECK(test::headroom("fit granite-3.0-2b --gpu h100 --liger").code == ExitCode::kYes);
}

TEST_CASE("fit: activations that Megatron sends to the host are host memory and copies") {
  const std::string question =
      "fit llama-3.2-1b --gpu h100 --gpus 2 --precision bf16-master --seq 4096 --megatron "
      "tp=2,sequence-parallel";
  const std::string modules = ",offload-modules=core_attn+attn_proj";
  const Answer answer = test::headroom(question + modules);
  CHECK(answer.out.find("--megatron offload-modules=core_attn+attn_proj") != std::string::npos);
  CHECK(answer.out.find("host memory") != std::string::npos);
  const Document with = test::json_of(question + modules);
  const Document without = test::json_of(question);
  CHECK(with.integer("host_bytes") > 0);
  CHECK(without.integer("host_bytes") == 0);
  CHECK(with.integer("peak/allocated_bytes") < without.integer("peak/allocated_bytes"));
  const Answer large = test::headroom(question + modules + ",min-offloaded-tensor-size=100000000");
  CHECK(large.out.find("host memory") == std::string::npos);
  CHECK(test::headroom(question + ",offload-modules=core_atn").complains("core_attn"));
  CHECK(test::headroom(question + ",offload-modules=attn_proj").complains("add +core_attn"));
}

TEST_CASE("fit: layers that Megatron sends to the host are host memory and copies") {
  const std::string question =
      "fit llama-3.2-1b --gpu h100 --gpus 2 --precision bf16-master --seq 4096 --megatron "
      "tp=2,sequence-parallel";
  const Answer answer = test::headroom(question + ",cpu-offloading-num-layers=4");
  CHECK(answer.says("--megatron cpu-offloading-num-layers=4"));
  CHECK(answer.says("host memory"));
  const Document four = test::json_of(question + ",cpu-offloading-num-layers=4");
  const Document eight = test::json_of(question + ",cpu-offloading-num-layers=8");
  CHECK(four.integer("plan/megatron/cpu_offloading_num_layers") == 4);
  CHECK(eight.integer("host_bytes") == 2 * four.integer("host_bytes"));
  CHECK(eight.integer("peak/allocated_bytes") < four.integer("peak/allocated_bytes"));
  CHECK(eight.number("time/parts_seconds/offload") > four.number("time/parts_seconds/offload"));
  CHECK(test::headroom(question + ",cpu-offloading-num-layers=16").complains("the model's 16"));
  CHECK(test::headroom(question + ",cpu-offloading-num-layers=all")
            .complains("a whole number from 0 to 1048576"));
}

TEST_CASE("fit: the JSON document is exact and adds up") {
  const Document document = test::json_of("fit llama-3.2-1b --gpu a100-80gb");
  CHECK(document.integer("schema_version") == 1);
  CHECK(document.text("verdict") == "fits");
  CHECK(document.integer("model/parameters") == 1'235'814'400);
  CHECK(document.integer("capacity_bytes") ==
        document.integer("device_total_bytes") - document.integer("outside_bytes"));
  CHECK(document.integer("margin_bytes") ==
        document.integer("capacity_bytes") - document.integer("peak/reserved_bytes"));
  std::int64_t outside = 0;
  for (std::size_t index = 0; index < document.array("outside").size(); ++index) {
    outside += document.integer("outside/" + std::to_string(index) + "/bytes");
  }
  CHECK(outside == document.integer("outside_bytes"));
  std::int64_t by_role = 0;
  for (const ir::JsonMember& role : *document.at("peak/by_role").as_object()) {
    by_role += role.value.as_integer().value();
  }
  CHECK(by_role == document.integer("peak/allocated_bytes"));
  CHECK(document.text("plan/precision") == "bf16");
}

TEST_CASE("fit: the peak of the phases is the peak") {
  const Document document = test::json_of("fit llama-3.2-1b --gpu a100-80gb");
  std::int64_t greatest = 0;
  for (std::size_t index = 0; index < document.array("phases").size(); ++index) {
    greatest = std::max(
        greatest, document.integer("phases/" + std::to_string(index) + "/peak_allocated_bytes"));
  }
  CHECK(greatest == document.integer("peak/allocated_bytes"));
}

TEST_CASE("fit: a budget takes the place of the device") {
  const Document document = test::json_of("fit gpt2 --gpu h100 --budget 2GiB");
  CHECK(document.integer("device_total_bytes") == 2 * kGiB);
  CHECK(test::headroom("fit gpt2 --gpu h100 --budget 2GB").says("(1.86 GiB budget)"));
  CHECK(test::headroom("fit gpt2 --gpu h100 --budget lots").code == ExitCode::kUsage);
}

TEST_CASE("fit: a config.json, its folder and the catalogue give the same answer") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("tiny/config.json", kTinyConfig);
  const Answer file = test::headroom_with({"fit", config, "--gpu", "h100"});
  CHECK(file.code == ExitCode::kYes);
  CHECK(first_line(file.out).find("tiny on 1 x h100-80gb") == 0);
  const Answer whole = test::headroom_with({"fit", folder.path("tiny"), "--gpu", "h100"});
  CHECK(first_line(whole.out) == first_line(file.out));
}

TEST_CASE("fit: --as reads a configuration as another family") {
  const test::TemporaryFolder folder;
  std::string text = kTinyConfig;
  text.replace(text.find("\"llama\""), 7, "\"llamb\"");
  const std::string config = folder.write("config.json", text);
  const Answer unknown = test::headroom_with({"fit", config, "--gpu", "h100"});
  CHECK(unknown.code == ExitCode::kBadInput);
  CHECK(unknown.complains("llama"));
  CHECK(test::headroom_with({"fit", config, "--gpu", "h100", "--as", "llama"}).code ==
        ExitCode::kYes);
  CHECK(test::headroom_with({"fit", config, "--gpu", "h100", "--as", "lama"}).complains("llama"));
  CHECK(test::headroom("fit gpt2 --gpu h100 --as llama").code == ExitCode::kUsage);
}

TEST_CASE("fit: keys without influence are told on request") {
  const test::TemporaryFolder folder;
  std::string text = kTinyConfig;
  text.insert(1, "\"use_cache\": true, ");
  const std::string config = folder.write("config.json", text);
  CHECK(test::headroom_with({"fit", config, "--gpu", "h100-80gb"}).err.empty());
  CHECK(test::headroom_with({"fit", config, "--gpu", "h100", "--ignored-keys"})
            .complains("without influence: /use_cache"));
}

TEST_CASE("fit: weights beside the configuration are checked against it") {
  const test::TemporaryFolder folder;
  folder.write("config.json", kTinyConfig);
  const std::string header =
      R"({"model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string(128, '\0');
  folder.write("model.safetensors", file);
  const Answer answer = test::headroom_with({"fit", folder.path(), "--gpu", "h100"});
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.complains("/model.norm.weight"));
  CHECK(answer.complains("[64]"));
  CHECK(answer.complains("[128]"));
}

TEST_CASE("fit: weights without a configuration beside them are the environment's fault") {
  const test::TemporaryFolder folder;
  const std::string index =
      folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "b.safetensors"}})");
  const Answer answer = test::headroom_with({"fit", index, "--gpu", "h100"});
  CHECK(answer.code == ExitCode::kEnvironment);
  CHECK(answer.complains("config.json"));
}

TEST_CASE("fit: a mixture with fewer routed tokens than experts has an answer") {
  const Answer answer = test::headroom("fit qwen3-30b-a3b --gpu h100-80gb --seq 8");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("does not fit"));
  CHECK(answer.err.empty());
}

TEST_CASE("fit: a remedy's options make the run fit when they are typed") {
  const Document document = test::json_of("fit llama-3.1-8b --gpu a100-40gb");
  REQUIRE_FALSE(document.array("remedies").empty());
  for (std::size_t index = 0; index < document.array("remedies").size(); ++index) {
    const std::string path = "remedies/" + std::to_string(index) + "/";
    const Document again =
        test::json_of("fit llama-3.1-8b --gpu a100-40gb " + document.text(path + "options"));
    CAPTURE(document.text(path + "options"));
    CHECK(again.text("verdict") == document.text(path + "verdict"));
    CHECK(again.integer("peak/reserved_bytes") == document.integer(path + "peak_reserved_bytes"));
  }
}

TEST_CASE("fit: combinations that fit are found where single changes do not suffice") {
  for (const char* question :
       {"qwen3-32b --gpu rtx-4090 --qlora r=16", "qwen2.5-7b --gpu rtx-4090 --precision fp32",
        "llama-3.2-3b --gpu l4",
        "llama-3.1-8b --gpu rtx-4090 --qlora r=16 --seq 4096 --micro-batch 4",
        "llama-3.1-8b --gpu rtx-4090 --gpus 4 --zero 3",
        "llama-3.1-405b --gpu a100-80gb --gpus 8 --megatron tp=8"}) {
    if (test::kSanitized && std::string_view(question).find("--gpus 4") == std::string_view::npos) {
      continue;  // One question is enough for sanitizers.
    }
    CAPTURE(question);
    const Document document = test::json_of("fit " + std::string(question));
    REQUIRE(document.text("verdict") == "does not fit");
    const std::string next = document.text("next");
    CAPTURE(next);
    REQUIRE(next.find("headroom fit ") == 0);
    const Document mended = test::json_of(next.substr(std::string("headroom ").size()));
    CHECK(mended.text("verdict") != "does not fit");
  }
}

TEST_CASE("fit: layers are sharded where one layer's gather alone does not fit") {
  const Document document =
      test::json_of("fit llama-3.1-405b --gpu rtx-4090 --gpus 8 --fsdp reshard=yes");
  CHECK(document.text("more_gpus/options").find("tp=8") != std::string::npos);
  CHECK(document.text("more_gpus/verdict") == "fits");
}

TEST_CASE("fit: what is short is said where nothing fits, without absurd numbers of GPUs") {
  const Document document = test::json_of("fit gpt-oss-120b --gpu rtx-3060-12gb --qlora r=16");
  CHECK(document.text("next").find("GPU memory is short by ") != std::string::npos);
  CHECK(document.integer("short_of/gpus") <= 8);
  CHECK(document.integer("short_of/bytes") > 0);
}

TEST_CASE("fit: what PEFT does unasked, and what it leaves in 16 bits, is said") {
  const Answer answer = test::headroom("fit gpt-oss-20b --gpu h100 --qlora r=16");
  CHECK(answer.complains("prepare_model_for_kbit_training switches gradient checkpointing on"));
  CHECK(answer.complains("experts are not quantised (35.6 GiB in 16 bits, 71.2 GiB once"));
  CHECK(test::headroom("fit gpt-oss-20b --gpu h100 --qlora r=16,prepare=no")
            .complains("experts are not quantised (35.6 GiB in 16 bits): "));
}

TEST_CASE("fit: the next command keeps what was asked and changes what must change") {
  const Document document =
      test::json_of("fit llama-3.1-8b --gpu a100-40gb --seq 1024 --optimizer adamw");
  const std::string next = document.text("next");
  CHECK(next.find("headroom fit llama-3.1-8b --gpu a100-40gb ") == 0);
  CHECK(next.find("--seq 1024") != std::string::npos);
  const std::string options = document.text("remedies/0/options");
  const std::string first = options.substr(0, options.find(' ', options.find(' ') + 1));
  CHECK(next.find(first) != std::string::npos);
}

TEST_CASE("fit: a plan file and a DeepSpeed file are read") {
  const test::TemporaryFolder folder;
  const std::string plan =
      folder.write("plan.json", R"({"schema_version": 1, "sequence": 256, "precision": "fp32"})");
  std::vector<std::string> line = {"fit", "gpt2", "--gpu", "h100", "--json", "--plan", plan};
  CHECK(Document(test::headroom_with(line).out).integer("plan/sequence") == 256);
  const std::string config =
      folder.write("ds.json",
                   R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "odd": 1,
          "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})");
  line = {"fit", "gpt2", "--gpu", "h100", "--gpus", "2", "--json", "--deepspeed", config};
  const Answer answer = test::headroom_with(line);
  const Document document(answer.out);
  CHECK(document.integer("plan/zero/stage") == 2);
  CHECK(document.integer("plan/zero/reduce_bucket_elements") == 768 * 768);
  CHECK(document.integer("plan/micro_batch") == 2);
  CHECK(answer.complains("note: /odd"));
}

TEST_CASE("fit: the same question has the same answer, to the byte") {
  const Answer once = test::headroom("fit llama-3.1-8b --gpu a100-40gb --json");
  CHECK(once.out == test::headroom("fit llama-3.1-8b --gpu a100-40gb --json").out);
}

TEST_CASE("fit: hostile sizes are refused, not replayed") {
  for (const char* options : {"--seq 99999999999999999999", "--micro-batch 1048577",
                              "--micro-batch 1048576 --seq 1024", "--gpus 0", "--steps 1000"}) {
    CAPTURE(options);
    const Answer answer = test::headroom("fit gpt2 --gpu h100 " + std::string(options));
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.out.empty());
  }
}

TEST_CASE("fit: hybrid sharding that does not fit is an answer") {
  const Answer ran = test::headroom("fit llama-3.1-70b --gpu h100 --gpus 8 --fsdp replicas=2");
  CHECK(ran.code == ExitCode::kNo);
  CHECK(ran.says("does not fit"));
}

TEST_CASE("fit: adapters that no layer is named after are refused with the names there are") {
  for (const char* runtime : {"", " --gpus 2", " --gpus 2 --zero 2"}) {
    CAPTURE(runtime);
    const Answer ran = test::headroom("fit llama-3.2-1b --gpu h100 --lora r=8,targets=q_prj" +
                                      std::string(runtime));
    CHECK(ran.code == ExitCode::kUsage);
    CHECK(ran.complains("use 'q_proj'"));
  }
}

TEST_CASE("fit: options of one runtime are not dropped silently under another") {
  CHECK(test::headroom("fit gpt2 --gpu h100 --gpus 8 --zero 2 --ddp bucket=1GiB").code ==
        ExitCode::kUsage);
  CHECK(test::headroom("fit gpt2 --gpu h100 --runtime-version 3").code == ExitCode::kUsage);
}

TEST_CASE("fit: states under ZeRO are those of the optimizer") {
  const auto states = [](const std::string& optimizer) {
    return test::json_of("fit llama-3.2-1b --gpu h100 --gpus 8 --zero 2 --optimizer " + optimizer)
        .integer("peak/by_role/optimizer_states");
  };
  CHECK(states("sgd") < states("lion"));
  CHECK(states("lion") < states("adamw"));
}

TEST_CASE("fit: says between what the reserved peak lies and how likely it fits") {
  const Answer answer = test::headroom("fit llama-3.2-1b --gpu a100-80gb");
  CHECK(answer.says("reserved, 95 % interval"));
  CHECK(answer.says("chance to fit"));
  const Document document = test::json_of("fit llama-3.2-1b --gpu a100-80gb");
  CHECK(document.integer("confidence/peak_reserved/low_bytes") <=
        document.integer("peak/reserved_bytes"));
  CHECK(document.integer("confidence/peak_reserved/high_bytes") >=
        document.integer("peak/reserved_bytes"));
  CHECK(document.integer("confidence/runs_on_gpus") > 0);
  CHECK(document.at("confidence/fits_probability").as_number() == 1);
}

TEST_CASE("fit: what comes after the training steps is no part of a step's time") {
  const auto seconds = [](const std::string& options) {
    return test::json_of("fit llama-3.2-1b --gpu h100" + options)
        .at("time/step_seconds")
        .as_number();
  };
  CHECK(seconds(" --evaluation") == seconds(""));
  CHECK(seconds(" --generate 8") == seconds(""));
}

TEST_CASE("fit: float8 needs a GPU that has it") {
  const Answer answer =
      test::headroom("fit llama-3.1-8b --gpu a100-80gb --gpus 8 --titan compiled,float8=rowwise");
  CHECK(answer.code == cli::ExitCode::kUsage);
  CHECK(answer.complains("compute capability 8.9"));
}

TEST_CASE("fit: a run of one's own narrows the interval and moves it") {
  const test::TemporaryFolder folder;
  const Document plain = test::json_of("fit llama-3.2-1b --gpu a100-80gb");
  const auto measured =
      static_cast<std::int64_t>(static_cast<double>(plain.integer("peak/reserved_bytes")) * 1.02);
  const std::string runs =
      folder.write("runs.json", R"({"runs": [{"model": "llama-3.2-1b", "gpu": "a100-80gb",)"
                                R"( "plan": {"schema_version": 1}, "peak_reserved": )" +
                                    std::to_string(measured) + "}]}");
  const Document own = test::json_of("fit llama-3.2-1b --gpu a100-80gb --calibrate-from " + runs);
  CHECK(own.integer("confidence/own_runs") == 1);
  const std::int64_t low = own.integer("confidence/peak_reserved/low_bytes");
  const std::int64_t high = own.integer("confidence/peak_reserved/high_bytes");
  CHECK(low <= measured);
  CHECK(measured <= high);
  CHECK(low + high > plain.integer("confidence/peak_reserved/low_bytes") +
                         plain.integer("confidence/peak_reserved/high_bytes"));
}

TEST_CASE("fit: runs of one's own that say nothing are refused by place") {
  const test::TemporaryFolder folder;
  const std::string empty = folder.write(
      "runs.json",
      R"({"runs": [{"model": "gpt2", "gpu": "h100", "plan": {"schema_version": 1}}]})");
  const Answer nothing = test::headroom("fit gpt2 --gpu h100 --calibrate-from " + empty);
  CHECK(nothing.code == ExitCode::kBadInput);
  CHECK(nothing.err.find("/runs/0: got none of peak_allocated, peak_reserved and step_time_ms") !=
        std::string::npos);
  const std::string other = folder.write(
      "other.json",
      R"({"runs": [{"model": "gpt2", "gpu": "h100", "plan": {"schema_version": 1, "runtime": "fsdp"},)"
      R"( "peak_reserved": 5}]})");
  const Answer foreign = test::headroom("fit gpt2 --gpu h100 --calibrate-from " + other);
  CHECK(foreign.code == ExitCode::kBadInput);
  CHECK(foreign.err.find("no run with the framework transformers") != std::string::npos);
}

TEST_CASE("fit: the parts of a step add up to it, and rates follow from its tokens") {
  const Document answer = test::json_of(
      "fit llama-3.2-1b --gpu h100 --gpus 8 --zero 3 --seq 512 --accumulation 6 --price 3 --tokens "
      "1e12");
  double parts = 0;
  for (const ir::JsonMember& part : *answer.at("time/parts_seconds").as_object()) {
    CHECK(*part.value.as_number() >= 0);
    parts += *part.value.as_number();
  }
  const double step = *answer.at("time/step_seconds").as_number();
  CHECK(step > 0);
  CHECK(parts == doctest::Approx(step));
  const double rate = *answer.at("time/tokens_per_second_per_gpu").as_number();
  CHECK(*answer.at("time/tokens_per_step").as_number() == 512 * 6 * 8);
  CHECK(rate == doctest::Approx(512 * 6 / step));
  CHECK(*answer.at("time/tokens_per_dollar").as_number() == doctest::Approx(rate * 3600 / 3));
  CHECK(*answer.at("time/days").as_number() == doctest::Approx(1e12 / (rate * 8) / 86400));
  CHECK(answer.at("time/tokens_per_joule").is_null());
}

TEST_CASE("fit: a price or a number of tokens that is none is refused, and a node of other GPUs") {
  CHECK(test::headroom("fit gpt2 --gpu h100 --price 0").code == ExitCode::kUsage);
  CHECK(test::headroom("fit gpt2 --gpu h100 --tokens many").code == ExitCode::kUsage);
  CHECK(test::headroom("fit gpt2 --gpu h100 --node dgx-a100").code == ExitCode::kUsage);
}

TEST_CASE("fit: a network is a rate in one direction, with bits and bytes apart") {
  const std::string question = "fit gpt2 --gpu a100-80gb --gpus 16 --fsdp reshard=yes --json";
  const auto seconds = [&](const std::string& rate) {
    const std::string option = rate.empty() ? "" : " --network " + rate;
    return *Document(test::headroom(question + option).out).at("time/step_seconds").as_number();
  };
  CHECK(seconds("400Gbit/s") == seconds("50GB/s"));
  CHECK(seconds("1Gbit/s") > 10 * seconds("400Gbit/s"));
  CHECK(seconds("200Gbit/s") == seconds(""));  // A DGX A100 has an adapter of that for each GPU.
  CHECK(test::headroom("fit gpt2 --gpu h100 --network 50GB/s").says("--network 50GB/s"));
  const Answer vague = test::headroom("fit gpt2 --gpu h100 --network 400Gb/s");
  CHECK(vague.code == ExitCode::kUsage);
  CHECK(vague.err.find("400Gbit/s") != std::string::npos);
}

TEST_CASE("fit: a performance file of one's own sets the pace, one of another GPU is refused") {
  const std::string shipped =
      std::string(HEADROOM_SOURCE_DIR) + "/configs/performance/h100-80gb.json";
  std::string slow = read_file(shipped).value();
  const std::size_t begin = slow.find("\"half_share\": ") + 14;
  slow.replace(begin, slow.find(',', begin) - begin, "0.05");
  const test::TemporaryFolder folder;
  const std::string own = folder.write("mine.json", slow);
  const std::string question = "fit gpt2 --gpu h100 --json";
  const auto seconds = [&](const std::string& option) {
    return *Document(test::headroom(question + option).out).at("time/step_seconds").as_number();
  };
  CHECK(seconds(" --performance " + shipped) == seconds(""));
  CHECK(seconds(" --performance " + own) > 2 * seconds(""));
  const Answer other = test::headroom("fit gpt2 --gpu a100-80gb --performance " + own);
  CHECK(other.code == ExitCode::kUsage);
  CHECK(other.err.find("mine.json") != std::string::npos);
  CHECK(test::headroom("fit gpt2 --gpu h100 --performance no-such.json").code ==
        ExitCode::kEnvironment);
}

TEST_CASE("fit: a change that takes an option away says so") {
  const Answer offload = test::headroom(
      "fit llama-3.2-1b --gpu h100 --gpus 2 --zero 2 --offload optimizer=cpu --faster");
  CHECK(offload.says("without --offload"));
}

TEST_CASE("fit: a change against the bubble is faster when it is typed") {
  const Document asked = test::json_of(
      "fit llama-3.1-8b --gpu h100 --gpus 8 --accumulation 8 --seq 2048 --megatron "
      "pp=8,distributed-optimizer --faster");
  const ir::JsonValue::Array& faster = asked.array("faster");
  REQUIRE_FALSE(faster.empty());
  const ir::JsonValue& change = faster.front();
  CHECK(change.find("bottleneck")->as_string()->find("bubble") != std::string::npos);
  const std::string command = *change.find("command")->as_string();
  REQUIRE(command.starts_with("headroom "));
  const Document typed = test::json_of(command.substr(std::string("headroom ").size()));
  const double gain = *typed.at("time/tokens_per_second_per_gpu").as_number() /
                          *asked.at("time/tokens_per_second_per_gpu").as_number() -
                      1;
  CHECK(gain == doctest::Approx(*change.find("gain")->as_number()));
}

TEST_CASE("fit: options of two frameworks, or two of adapters, are refused together") {
  for (const char* pair : {"--zero 3 --fsdp reshard=yes", "--lora r=8 --qlora r=8"}) {
    const Answer answer =
        test::headroom("fit llama-3.1-8b --gpu h100-80gb --gpus 8 " + std::string(pair));
    CAPTURE(pair);
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.err.find("leave out --") != std::string::npos);
  }
}

TEST_CASE("fit: another vendor's GPU and quantised weights are answered with a note") {
  const Answer other = test::headroom("fit llama-3.2-1b --gpu mi300x");
  CHECK(other.err.find("nothing was measured on GPUs of amd") != std::string::npos);
  CHECK(test::headroom("fit llama-3.2-1b --gpu h100-80gb").err.empty());
}

TEST_CASE("fit: a fault of one value of an option shows its key") {
  const std::string fit = "fit llama-3.1-8b --gpu h100-80gb --gpus 8 ";
  for (const char* given : {"dropout=2", "r=0"}) {
    const Answer answer = test::headroom(fit + "--lora " + given);
    CHECK(answer.err.find("got " + std::string(given) + ",") != std::string::npos);
  }
  for (const char* given : {"version=3", "replicas=0", "reshard=3"}) {
    const Answer answer = test::headroom(fit + "--fsdp " + given);
    CHECK(answer.err.find("--fsdp: got " + std::string(given) + ",") != std::string::npos);
  }
  const Answer budget = test::headroom(fit + "--titan compiled,memory-budget=2");
  CHECK(budget.err.find("--titan: got memory-budget=2,") != std::string::npos);
}

TEST_CASE("fit: faster kernels are tried together, and with larger micro-batches") {
  const std::string question =
      "fit llama-3.2-1b --gpu h100-80gb --qlora r=16 --micro-batch 4 --checkpointing none";
  const Document asked = test::json_of(question + " --faster");
  const Document all = test::json_of(question + " --precision bf16-autocast --liger");
  const double before = asked.number("time/tokens_per_second_per_gpu");
  const double after = all.number("time/tokens_per_second_per_gpu");
  REQUIRE(asked.array("faster").size() >= 2);
  CHECK(asked.number("faster/0/gain") == doctest::Approx(after / before - 1));
  CHECK(asked.number("faster/1/gain") > asked.number("faster/0/gain"));
  CHECK(asked.text("faster/1/command").find("--micro-batch") != std::string::npos);
}

}  // namespace headroom::cli
