// Ten thousand broken files and command lines: whatever they say, the program answers or refuses
// them with a message. It never crashes, reports a bug of its own, prints a document that is no
// JSON, or takes much memory. A failure prints its seed and the input. With HEADROOM_FUZZ_SECONDS
// in the environment, every kind of file goes on with further seeds for so long.
#if defined(__linux__)
#include <malloc.h>
#endif
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/cli.h"
#include "tests/support/gguf_file.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Random;

/// Sanitizers make a case some twenty times as long. HEADROOM_FUZZ_SECONDS asks for more cases.
constexpr std::uint64_t count_of(std::uint64_t cases) {
  return test::kSanitized ? cases / 20 : cases / 4;
}

/// The most that this process has in memory at once. Linux can start to count afresh, so that one
/// case does not count for the next; elsewhere the process's own maximum is all there is.
class ResidentBytes {
 public:
  ResidentBytes() {
#if defined(__linux__)
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
#endif
    before_ = most();
  }
  /// How much the maximum has grown since this object exists.
  [[nodiscard]] std::int64_t growth() const {
    return most() - before_;
  }

 private:
  [[nodiscard]] static std::int64_t most() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) {
        return kib * 1'024;
      }
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::int64_t{usage.ru_maxrss} * 1'024;
  }

  std::int64_t before_ = 0;
};

std::string shown(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    line += " '" + argument.substr(0, 200) + "'";
  }
  return line;
}

/// Whether a command line asks for text about the program, which is the same with --json.
bool asks_for_help(const std::vector<std::string>& arguments) {
  static const std::set<std::string, std::less<>> kWords = {"--help", "-h", "--version"};
  return arguments[0] == "help" || std::ranges::any_of(arguments, [](const std::string& word) {
           return kWords.contains(word);
         });
}

/// With --json, standard output is one JSON document. That of a refusal holds the error.
void check_document(const Answer& answer) {
  CAPTURE(answer.out.substr(0, 2'000));
  CAPTURE(answer.err.substr(0, 2'000));
  // The parser refuses what stands behind the document, and bytes that are no UTF-8.
  const Result<ir::JsonValue> document = ir::parse_json(answer.out, "answer");
  if (!document) {
    FAIL_CHECK(to_text(document.error()));
    return;
  }
  const bool answered = answer.code == ExitCode::kYes || answer.code == ExitCode::kNo;
  const ir::JsonValue* const error = document->find("error");
  CHECK((error == nullptr) == answered);
  if (error != nullptr) {
    const ir::JsonValue* const message = error->find("message");
    CHECK(
        (message != nullptr && message->as_string() != nullptr && !message->as_string()->empty()));
    const ir::JsonValue* const code = error->find("exit_code");
    CHECK((code != nullptr && code->as_integer() == static_cast<int>(answer.code)));
  }
}

/// Runs a command line with --json, which must be answered or refused.
void check_answered(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  CAPTURE(shown(arguments));
  const ResidentBytes resident;
  Answer answer;
  try {
    answer = test::headroom_with(arguments);
  } catch (const std::exception& bug) {
    FAIL_CHECK(bug.what());
    return;
  }
  CHECK(answer.code != ExitCode::kBug);
  if (!asks_for_help(arguments)) {
    check_document(answer);
  }
  if (!test::kSanitized) {
    CHECK(resident.growth() < 600'000'000);
  }
}

/// A kind of file: examples of it, and the command line that reads one.
struct FileKind {
  std::string name;
  std::vector<std::string> examples;
  std::function<std::vector<std::string>(const std::string& path)> line;
  bool binary = false;
  std::string (*mutate)(std::string_view bytes, Random& random) = nullptr;  ///< If not the usual.
};

/// How long a kind of file is tried at least, beyond its number of cases.
std::chrono::seconds asked_time() {
  const char* const text = std::getenv("HEADROOM_FUZZ_SECONDS");
  return std::chrono::seconds(text == nullptr ? 0 : std::strtoll(text, nullptr, 10));
}

void check_broken_files(const FileKind& kind, std::uint64_t cases) {
  const test::TemporaryFolder folder;
  const auto usual = kind.binary ? &test::mutated_bytes : &test::mutated_json;
  const auto mutate = kind.mutate != nullptr ? kind.mutate : usual;
  const auto end = std::chrono::steady_clock::now() + asked_time();
  std::uint64_t number = 0;
  for (; number < count_of(cases) || std::chrono::steady_clock::now() < end; ++number) {
    Random random = test::seeded_random(number);
    const std::string& example = random.pick(kind.examples);
    const std::string text = mutate(example, random);
    CAPTURE(random.seed());
    CAPTURE(text.substr(0, 2'000));
    check_answered(kind.line(folder.write(kind.name, text)));
  }
  if (asked_time().count() > 0) {
    MESSAGE(kind.name << ": " << number << " cases");
  }
}

std::string file_text(const std::string& path) {
  return read_file(test::source_file(path)).value();
}

/// The configurations of every family that transformers' own classes checked.
std::vector<std::string> configurations() {
  const test::Document golden(file_text("tests/golden/configs/transformers-5.17.json"));
  std::vector<std::string> texts;
  for (const ir::JsonValue& entry : golden.array("cases")) {
    texts.push_back(ir::to_pretty_json(*entry.find("config")));
  }
  return texts;
}

std::string plan_text(std::string_view line) {
  return ir::to_pretty_json(test::json_of(line).at("plan"));
}

std::string safetensors_text() {
  const std::string header =
      R"({"__metadata__": {"format": "pt"}, "model.embed_tokens.weight": {"dtype": "BF16",)"
      R"( "shape": [128, 64], "data_offsets": [0, 16384]}, "lm_head.weight": {"dtype": "F32",)"
      R"( "shape": [128, 64], "data_offsets": [16384, 49152]}})";
  return test::GgufWriter().u64(header.size()).raw(header).raw(std::string(49'152, '\0')).bytes();
}

}  // namespace

TEST_CASE("broken input: configurations of models") {
  check_broken_files({.name = "config.json",
                      .examples = configurations(),
                      .line =
                          [](const std::string& path) {
                            return std::vector<std::string>{"fit",  path,    "--gpu",
                                                            "h100", "--seq", "128"};
                          }},
                     3'000);
}

TEST_CASE("broken input: quantised checkpoints") {
  constexpr const char* kStart =
      R"({"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 128,
          "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 16, "vocab_size": 256, "quantization_config": )";
  const auto config = [](const char* quantisation) {
    return kStart + std::string(quantisation) + "}";
  };
  check_broken_files(
      {.name = "config.json",
       .examples =
           {config(R"({"quant_method": "fp8", "activation_scheme": "static", "scale_fmt": "ue8m0",
             "weight_block_size": [128, 128], "modules_to_not_convert":
             ["lm_head", "model.layers.*.mlp.gate", "(a|b)*[c-d]?.+$"]})"),
            config(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true,
             "sym": false, "lm_head": true})"),
            config(R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
             "bnb_4bit_use_double_quant": true})"),
            config(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
             "ignore": ["re:.*gate$"], "config_groups": {"a": {"targets": ["Linear"],
             "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
             "actorder": "group", "symmetric": false, "block_structure": [16, 16]},
             "input_activations": {"dynamic": "local"}}}})")},
       .line =
           [](const std::string& path) {
             return std::vector<std::string>{"weights", path};
           }},
      400);
}

TEST_CASE("broken input: plans") {
  check_broken_files(
      {.name = "plan.json",
       .examples = {plan_text("fit gpt2 --gpu t4 --lora r=8"),
                    plan_text("fit gpt2 --gpu t4 --gpus 2 --zero 3 --offload optimizer=cpu"),
                    plan_text("fit gpt2 --gpu t4 --gpus 2 --fsdp reshard=no"),
                    plan_text("fit gpt2 --gpu h100 --gpus 4 --megatron tp=2,pp=2"),
                    plan_text("fit llama-3.1-8b --gpu h100 --gpus 4 --titan tp=2,reshard=default")},
       .line =
           [](const std::string& path) {
             return std::vector<std::string>{"fit",  "llama-3.1-8b", "--gpu",
                                             "h100", "--plan",       path};
           }},
      1'500);
}

TEST_CASE("broken input: DeepSpeed's configurations") {
  check_broken_files(
      {.name = "ds.json",
       .examples = {test::headroom("emit deepspeed gpt2 --gpus 2 --zero 3 --offload "
                                   "optimizer=cpu,param=cpu")
                        .out,
                    test::headroom("emit deepspeed gpt2 --gpus 2 --zero 1 --clip-norm 1").out,
                    R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
                        "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})"},
       .line =
           [](const std::string& path) {
             return std::vector<std::string>{"fit",    "gpt2", "--gpu",       "h100",
                                             "--gpus", "2",    "--deepspeed", path};
           }},
      1'000);
}

TEST_CASE("broken input: GPUs, nodes and runs of one's own") {
  check_broken_files({.name = "gpu.json",
                      .examples = {file_text("configs/hardware/rtx-4090.json"),
                                   file_text("configs/hardware/h100-80gb.json")},
                      .line =
                          [](const std::string& path) {
                            return std::vector<std::string>{"fit", "gpt2", "--gpu", path};
                          }},
                     700);
  check_broken_files(
      {.name = "runs.json",
       .examples =
           {R"({"runs": [{"model": "gpt2", "gpu": "h100-80gb", "plan": {"schema_version": 1},
                     "peak_reserved": 9000000000, "step_time_ms": 100.5}]})"},
       .line =
           [](const std::string& path) {
             return std::vector<std::string>{"fit", "gpt2", "--gpu", "h100", "--calibrate-from",
                                             path};
           }},
      400);
}

TEST_CASE("broken input: files of weights") {
  const auto fits = [](const std::string& path) {
    return std::vector<std::string>{"fit", path, "--gpu", "h100", "--seq", "128"};
  };
  check_broken_files({.name = "model.gguf",
                      .examples = {test::gguf(test::llama_parts())},
                      .line = fits,
                      .binary = true},
                     700);
  check_broken_files(
      {.name = "model.safetensors", .examples = {safetensors_text()}, .line = fits, .binary = true},
      400);
  check_broken_files({.name = "alone.safetensors",
                      .examples = {safetensors_text()},
                      .line =
                          [](const std::string& path) {
                            return std::vector<std::string>{"weights", path};
                          },
                      .binary = true},
                     300);
  check_broken_files(
      {.name = "model.safetensors.index.json",
       .examples = {R"({"metadata": {"total_size": 49152}, "weight_map": {"lm_head.weight":
                        "model-00001-of-00001.safetensors"}})"},
       .line = fits},
      300);
}

TEST_CASE("broken input: out-of-memory messages") {
  const auto explains = [](const std::string& path) {
    return std::vector<std::string>{"explain", "--oom", path};
  };
  const std::string old =
      "CUDA out of memory. Tried to allocate 12.55 GiB (GPU 1; 23.69 GiB total capacity; 12.58 GiB "
      "already allocated; 10.38 GiB free; 12.58 GiB reserved in total by PyTorch) If reserved";
  const std::string recent =
      "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has "
      "a total capacity of 23.69 GiB of which 7.11 GiB is free. Process 2006998 has 256.00 MiB "
      "memory in use. Including non-PyTorch memory, this process has 16.31 GiB memory in use. "
      "20.00 "
      "GiB allowed; Of the allocated memory 16.01 GiB is allocated by PyTorch, with 2.00 MiB "
      "allocated in private pools (e.g., CUDA Graphs), and 7.47 MiB is reserved by PyTorch but "
      "unallocated. If reserved but unallocated memory is large try setting expandable_segments\n";
  for (const bool binary : {true, false}) {
    check_broken_files({.name = "train.log",
                        .examples = {old, recent, "2024-01-31 12:00:01 " + recent + recent + old},
                        .line = explains,
                        .binary = binary},
                       500);
  }
  check_broken_files({.name = "train.log",
                      .examples = {old, recent},
                      .line =
                          [](const std::string& path) {
                            return std::vector<std::string>{"explain", "--oom", path,    "gpt2",
                                                            "--gpu",   "t4",    "--seq", "64"};
                          },
                      .binary = true},
                     200);
}

TEST_CASE("broken input: memory snapshots") {
  std::vector<std::string> examples;
  for (const char* const name : {"leak_1", "python_stacks", "out_of_memory", "expandable"}) {
    examples.push_back(file_text("tests/golden/snapshots/" + std::string(name) + ".pickle"));
  }
  check_broken_files({.name = "dump_snapshot.pickle",
                      .examples = examples,
                      .line =
                          [](const std::string& path) {
                            return std::vector<std::string>{"snapshot", path};
                          },
                      .binary = true,
                      .mutate = &test::mutated_pickle},
                     1'500);
  const auto reads = [](const std::string& path) {
    return std::vector<std::string>{"snapshot", path};
  };
  check_broken_files({.name = "memory_summary.txt",
                      .examples = {file_text("tests/golden/snapshots/memory_summary.txt")},
                      .line = reads,
                      .binary = true},
                     300);
  check_broken_files({.name = "memory_stats.json",
                      .examples = {file_text("tests/golden/snapshots/memory_stats.json")},
                      .line = reads},
                     300);
  const std::string other = test::source_file("tests/golden/snapshots/leak_3.pickle");
  check_broken_files({.name = "dump_snapshot.pickle",
                      .examples = examples,
                      .line =
                          [other](const std::string& path) {
                            return std::vector<std::string>{"snapshot", path, other};
                          },
                      .binary = true,
                      .mutate = &test::mutated_pickle},
                     500);
}

TEST_CASE("broken input: command lines") {
  const std::vector<std::string> lines = {
      "fit gpt2 --gpu t4 --lora r=8,targets=c_attn --checkpointing full",
      "fit llama-3.2-1b --gpu rtx-4090 --qlora r=16 --optimizer paged-adamw-8bit --seq 512",
      "fit gpt2 --gpu h100 --gpus 8 --zero 3 --offload optimizer=cpu --zeropp hpz=2 --price 2",
      "fit gpt2 --gpu h100 --gpus 8 --megatron tp=2,pp=2,sequence-parallel --accumulation 4",
      "fit gpt2 --gpu h100 --gpus 2 --fsdp reshard=no --alloc-conf expandable_segments:True",
      "fit gpt2 --gpu t4 --budget 4GiB --generate 32 --steps 2 --padded --faster",
      "plan gpt2 --gpu h100 --gpus 2 --global-batch 4 --work-limit 20",
      "explain gpt2 --gpu h100 --gpus 2 --runtime megatron --tp 1,2 --work-limit 20",
      "explain --oom README.md gpt2 --gpu t4",
      "emit deepspeed gpt2 --gpus 8 --zero 2",
      "timeline gpt2 --gpu t4 --seq 64 --format csv",
      "graph gpt2",
      "compare gpt2 --gpu t4 --vary seq=64,128 --vary batch-size=1,2 --budget 8GiB",
      "sweep gpt2 --gpu t4,h100 --gpus 1,2 --runtime transformers --micro-batch 1",
      "snapshot tests/golden/snapshots/leak_1.pickle --against README.md --gpu t4",
      "catalog models --filter llama",
      "catalog gpus"};
  std::vector<std::string> pool;
  for (const std::string& line : lines) {
    for (const std::string& word : test::words(line)) {
      pool.push_back(word);
    }
  }
  for (std::uint64_t number = 0; number < count_of(2'000); ++number) {
    Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    check_answered(test::mutated_words(test::words(random.pick(lines)), pool, random));
  }
}

}  // namespace headroom::cli
