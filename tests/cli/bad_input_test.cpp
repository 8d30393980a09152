// What hostile or broken files come to on the command line: one error, the right exit code, no
// answer on stdout and no file left behind.
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 128, "vocab_size": 1000,
  "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 512})";

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// `kConfig` with another hidden_size.
std::string with_hidden(const std::string& value) {
  std::string text = kConfig;
  return text.replace(text.find("128"), 3, value);
}

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) {
    bytes += static_cast<char>(value >> (8 * byte) & 0xff);
  }
  return bytes;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) {
    all += part;
  }
  return all;
}

void check_refused(const std::vector<std::string>& arguments, ExitCode wanted) {
  const Answer answer = test::headroom_with(arguments);
  CHECK(answer.code == wanted);
  CHECK(answer.out.empty());
  CHECK(answer.err.substr(0, 7) == "error: ");
  CHECK(answer.err.size() < 2'000);
  std::vector<std::string> json = arguments;
  json.emplace_back("--json");
  const Answer object = test::headroom_with(json);
  CHECK(object.code == wanted);
  CHECK(object.err == answer.err);
  CHECK_FALSE(test::Document(object.out).text("error/got").empty());
}

}  // namespace

TEST_CASE("bad input: a config.json that is none is refused with exit code 3") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> texts = {
      "",
      "null",
      "[]",
      "\"llama\"",
      repeated("[", 200'000),
      repeated("{\"a\":", 200'000),
      std::string("\0\1\2\xff", 4),
      kConfig + std::string(1, '\0'),
      std::string(kConfig) + "}",
      R"({"model_type": ")" + std::string(5'000'000, 'a') + "\"}",
      R"({"model_type": "lama"})",
      R"({"model_type": 5})",
      with_hidden("NaN"),
      with_hidden("-1"),
      with_hidden("0"),
      with_hidden("1.5"),
      with_hidden("\"128\""),
      with_hidden("null"),
      with_hidden("130"),
      with_hidden("9223372036854775808"),
      with_hidden("1e999"),
      with_hidden(std::string(400, '9')),
  };
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 60));
    check_refused({"fit", folder.write("config.json", text), "--gpu", "h100"}, ExitCode::kBadInput);
  }
}

TEST_CASE("bad input: hostile headers of weights are refused with exit code 3") {
  const test::TemporaryFolder folder;
  folder.write("config.json", kConfig);
  const auto header = [](const std::string& json) { return little_endian(json.size()) + json; };
  for (const std::string& bytes :
       {std::string(), std::string("\1"), little_endian(std::uint64_t{1} << 63),
        little_endian(~std::uint64_t{0}), little_endian(100) + "{}",
        header(repeated("{\"a\":", 300'000)),
        header(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4],
                         "data_offsets": [0, 16]}})"),
        header(R"({"a": {"dtype": "F32", "shape": [2],
                         "data_offsets": [0, 9223372036854775808]}})")}) {
    CAPTURE(bytes.size());
    check_refused({"fit", folder.write("model.safetensors", bytes), "--gpu", "h100"},
                  ExitCode::kBadInput);
  }
  const std::string magic("GGUF\3\0\0\0", 8);
  const std::string many = little_endian(std::uint64_t{1} << 63);
  const std::string none = little_endian(0);
  for (const std::string& bytes :
       {std::string("GGUF"), joined({magic, many, none}), joined({magic, none, many}),
        joined({magic, none, little_endian(1), many, "key"})}) {
    CAPTURE(bytes.size());
    check_refused({"fit", folder.write("model.gguf", bytes), "--gpu", "h100"}, ExitCode::kBadInput);
  }
}

TEST_CASE("bad input: folders and missing files are the environment's fault, exit code 4") {
  const test::TemporaryFolder folder;
  for (const char* name : {"x.json", "x.gguf", "x.safetensors", "d/config.json"}) {
    CAPTURE(name);
    std::filesystem::create_directories(folder.path(name));
    check_refused({"fit", folder.path(name), "--gpu", "h100"}, ExitCode::kEnvironment);
  }
  check_refused({"fit", folder.path("d"), "--gpu", "h100"}, ExitCode::kEnvironment);
  check_refused({"fit", folder.path("missing.json"), "--gpu", "h100"}, ExitCode::kEnvironment);
  check_refused({"fit", "gpt2", "--gpu", folder.path("x.json")}, ExitCode::kEnvironment);
  check_refused({"fit", "gpt2", "--gpu", "h100", "--config-dir", folder.path("nowhere")},
                ExitCode::kEnvironment);
}

TEST_CASE("bad input: names, numbers and words that make no sense are wrong use, exit code 2") {
  for (const char* options :
       {"--gpu h1000", "--gpu h100 --micro-batch 0", "--gpu h100 --micro-batch -1",
        "--gpu h100 --micro-batch 9223372036854775808", "--gpu h100 --seq nan",
        "--gpu h100 --gpus 99999999999999999999", "--gpu h100 --lora r=0",
        "--gpu h100 --lora r=9223372036854775807", "--gpu h100 --budget -1GiB",
        "--gpu h100 --budget nan", "--gpu h100 --budget 1e400GiB", "--gpu h100 --zero 9",
        "--gpu h100 --alloc-conf max_split_size_mb:99999999999999999999",
        "--gpu h100 --offload optimizer=mars", "--gpu h100 --steps 9999999999"}) {
    CAPTURE(options);
    std::vector<std::string> arguments = test::words("fit gpt2 " + std::string(options));
    check_refused(arguments, ExitCode::kUsage);
  }
}

TEST_CASE("bad input: what cannot be written leaves no partial file") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kConfig);
  for (const char* name : {"nowhere/out.csv", "taken"}) {
    CAPTURE(name);
    std::filesystem::create_directories(folder.path("taken"));
    check_refused({"timeline", config, "--gpu", "h100-80gb", "--format", "csv", "--output",
                   folder.path(name)},
                  ExitCode::kEnvironment);
  }
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++entries;
  }
  CHECK(entries == 2);  // The configuration and the folder.
}

}  // namespace headroom::cli
