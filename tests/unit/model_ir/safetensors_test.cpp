#include "model_ir/spec/weights/safetensors.h"
#include "model_ir/spec/weights/read_weights.h"

#include <cstdint>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/spec/weights/check.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {
namespace {

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
  }
  return bytes;
}

std::string safetensors(const std::string& header, std::size_t data_bytes) {
  return little_endian(header.size()) + header + std::string(data_bytes, '\7');
}

/// 2 x 3 bf16 (12 bytes), then 4 fp8 (4 bytes), then a scalar fp32 (4 bytes).
constexpr const char* kHeader =
    R"({"__metadata__": {"format": "pt"},)"
    R"( "b.weight": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [12, 16]},)"
    R"( "a.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},)"
    R"( "scale": {"dtype": "F32", "shape": [], "data_offsets": [16, 20]}})";

Result<TensorList> read_header(const std::string& header, std::size_t data_bytes) {
  const test::TemporaryFolder folder;
  return read_safetensors(folder.write("model.safetensors", safetensors(header, data_bytes)));
}

}  // namespace

TEST_CASE("safetensors: names, types, shapes and bytes in the order of the data") {
  const auto list = read_header(kHeader, 20);
  REQUIRE(list);
  REQUIRE(list->tensors.size() == 3);
  CHECK(list->tensors[0] == TensorEntry{.name = "a.weight",
                                        .type = "BF16",
                                        .shape = {2, 3},
                                        .elements = 6,
                                        .bytes = Bytes{12},
                                        .file = "model.safetensors"});
  CHECK(list->tensors[1].name == "b.weight");
  CHECK(list->tensors[2].elements == 1);
  CHECK(total_elements(list.value()) == 11);
  CHECK(total_bytes(list.value()) == Bytes{20});
  const auto totals = totals_by_type(list.value());
  REQUIRE(totals.size() == 3);
  CHECK(totals[0] == TypeTotal{.type = "BF16", .tensors = 1, .elements = 6, .bytes = Bytes{12}});
  CHECK(totals[1].type == "F32");  // 4 bytes as F8_E4M3 has; ties by name.
}

TEST_CASE("safetensors: every broken header is refused with the tensor or the byte") {
  struct Broken {
    const char* header;
    std::size_t data_bytes;
    const char* pointer;
  };
  const Broken cases[] = {
      {R"({"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}})", 4, "/a/dtype"},
      {R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", 4, "/a/dtype"},
      {R"({"a/b": {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}})", 4, "/a~1b/shape"},
      {R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4, "/a/shape"},
      {R"({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})", 0, "/a/shape"},
      {R"({"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", 4, "/a/shape"},
      {R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]}})", 4,
       "/a/shape"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 4]}})", 4,
       "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 5]}})", 4, "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", 4, "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", 4, "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4, "/a/data_offsets"},
      {R"({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}})", 1, "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [9223372036854775808, 4]}})", 4,
       "/a/data_offsets"},
      // A hole, an overlap, bytes of no tensor.
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", 8, "/a/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},)"
       R"( "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})",
       6, "/b/data_offsets"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 5, "byte 4"},
      {R"([1])", 0, "byte 8"},
      {R"({"a": )", 0, "byte 7"},
  };
  for (const Broken& one : cases) {
    CAPTURE(one.header);
    const auto list = read_header(one.header, one.data_bytes);
    REQUIRE_FALSE(list);
    CHECK(list.error().code == ErrorCode::kInvalidInput);
    CHECK(list.error().file.ends_with("model.safetensors"));
    CHECK(list.error().pointer == one.pointer);
    CHECK_FALSE(list.error().wanted.empty());
  }
}

TEST_CASE("safetensors: a tensor named twice and deep JSON are refused") {
  const auto twice = read_header(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},)"
                                 R"( "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                                 2);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().got == "key 'a' twice in one object");
  CHECK_FALSE(read_header(R"({"a": )" + std::string(100'000, '['), 0));
}

TEST_CASE("safetensors: a length beyond the file costs nothing and is refused at byte 0") {
  const test::TemporaryFolder folder;
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63U, UINT64_MAX, std::uint64_t{1} << 40U, std::uint64_t{3}}) {
    CAPTURE(length);
    const auto list = read_safetensors(folder.write("long", little_endian(length) + "{}"));
    REQUIRE_FALSE(list);
    CHECK(list.error().pointer == "byte 0");
  }
  const auto cut = read_safetensors(folder.write("cut", "\1\2\3"));
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::kInvalidInput);
  CHECK_FALSE(read_safetensors(folder.write("empty", "")));
}

TEST_CASE("safetensors: a folder and a missing file are the environment's fault") {
  const test::TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.path("nothing")}) {
    const auto list = read_safetensors(path);
    REQUIRE_FALSE(list);
    CHECK(list.error().code == ErrorCode::kEnvironment);
    CHECK(list.error().file == path);
  }
}

TEST_CASE("safetensors: a file that is cut off after its header gives exact sizes, and a note") {
  const test::TemporaryFolder folder;
  const std::string whole = safetensors(kHeader, 20);
  for (const std::size_t lost : {std::size_t{1}, std::size_t{20}}) {
    CAPTURE(lost);
    const auto list =
        read_weights(folder.write("cut.safetensors", whole.substr(0, whole.size() - lost)));
    REQUIRE(list);
    CHECK(total_bytes(list.value()) == Bytes{20});
    REQUIRE(list->notes.size() == 1);
    CHECK(list->notes[0].find(std::to_string(20 - lost) + " of the 20 bytes") != std::string::npos);
  }
  const auto shorter =
      read_safetensors(folder.write("shorter", whole.substr(0, whole.size() - 21)));
  REQUIRE_FALSE(shorter);
  CHECK(shorter.error().fix ==
        "download at least the first " + std::to_string(whole.size() - 20) + " bytes");
}

TEST_CASE("safetensors: a header that describes more than 1 PiB is refused") {
  const auto list = read_header(
      R"({"a": {"dtype": "U8", "shape": [1125899906842625], "data_offsets": [0, 1125899906842625]}})",
      0);
  REQUIRE_FALSE(list);
  CHECK(list.error().pointer == "/a/data_offsets");
  CHECK(read_header(
      R"({"a": {"dtype": "U8", "shape": [1125899906842624], "data_offsets": [0, 1125899906842624]}})",
      0));
}

TEST_CASE("safetensors shards: a folder without index is read by the names of its shards") {
  const test::TemporaryFolder folder;
  const std::string a =
      safetensors(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 8);
  folder.write("model-00001-of-00002.safetensors", a);
  const auto half = read_weights(folder.path());
  REQUIRE_FALSE(half);
  CHECK(half.error().wanted.starts_with("2 shards; number 2 is missing"));
  folder.write("model-00002-of-00002.safetensors",
               safetensors(R"({"b": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})", 0));
  folder.write("consolidated.safetensors", "another set");
  folder.write("adapter-00001-of-00003.safetensors", "another set");
  const auto list = read_weights(folder.path());
  REQUIRE_MESSAGE(list, to_text(list.error()));
  CHECK(list->tensors.size() == 2);
  CHECK(total_bytes(list.value()) == Bytes{10});
  CHECK(list->notes.size() == 1);  // The second one is cut off.
  CHECK(holds_weights(folder.path()));
  folder.write("model-00002-of-00002.safetensors", a);
  CHECK(read_weights(folder.path()).error().wanted == "each tensor in one shard");
  const test::TemporaryFolder empty;
  CHECK_FALSE(holds_weights(empty.path()));
  CHECK(read_weights(empty.path()).error().code == ErrorCode::kEnvironment);
}

TEST_CASE("safetensors index: with its shards it gives their tensors") {
  const test::TemporaryFolder folder;
  folder.write("s1.safetensors",
               safetensors(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 8));
  folder.write("s2.safetensors",
               safetensors(R"({"b": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})", 2));
  const std::string index = folder.write(
      "model.safetensors.index.json",
      R"({"metadata": {"total_size": 10}, "weight_map": {"b": "s2.safetensors", "a": "s1.safetensors"}})");
  const auto list = read_weights(index);
  REQUIRE(list);
  CHECK(list->has_shapes);
  CHECK(list->notes.empty());
  REQUIRE(list->tensors.size() == 2);
  CHECK(list->tensors[0].name == "a");
  CHECK(list->tensors[1].file == "s2.safetensors");
  CHECK(total_bytes(list.value()) == Bytes{10});

  const auto other = read_weights(folder.write(
      "wrong.index.json",
      R"({"metadata": {"total_size": 11}, "weight_map": {"b": "s2.safetensors", "a": "s1.safetensors"}})"));
  REQUIRE(other);
  CHECK(other->notes.size() == 1);
}

TEST_CASE("safetensors index: without all shards it gives names and the stated size") {
  const test::TemporaryFolder folder;
  const auto list = read_safetensors_index(folder.write(
      "i.json",
      R"({"metadata": {"total_size": 16060522496}, "weight_map": {"a": "s1", "b": "s2"}})"));
  REQUIRE(list);
  CHECK_FALSE(list->has_shapes);
  CHECK(total_bytes(list.value()) == Bytes{16'060'522'496});
  CHECK(list->tensors.size() == 2);
  CHECK(list->tensors[1].file == "s2");
  REQUIRE(list->notes.size() == 1);
  CHECK(list->notes[0].starts_with("0 of 2 shards"));
}

TEST_CASE("safetensors index: it is refused where it is hostile or disagrees with its shards") {
  const test::TemporaryFolder folder;
  folder.write("s1",
               safetensors(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", 1));
  struct Broken {
    const char* index;
    const char* pointer;
  };
  const Broken cases[] = {
      {R"({"metadata": {}})", "/weight_map"},
      {R"({"weight_map": {}})", "/weight_map"},
      {R"({"weight_map": {"a": "../s1"}})", "/weight_map/a"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "/weight_map/a"},
      {R"({"weight_map": {"a": ".."}})", "/weight_map/a"},
      {R"({"weight_map": {"a": 3}})", "/weight_map/a"},
      {R"({"weight_map": {"a": "s1"}, "metadata": {"total_size": -1}})", "/metadata/total_size"},
      {R"({"weight_map": {"a": "s1", "b": "s1"}})", "/weight_map/b"},
      {R"({"weight_map": {"b": "s1"}})", "/weight_map/a"},
  };
  for (const Broken& one : cases) {
    CAPTURE(one.index);
    const auto list = read_safetensors_index(folder.write("i.json", one.index));
    REQUIRE_FALSE(list);
    CHECK(list.error().code == ErrorCode::kInvalidInput);
    CHECK(list.error().pointer == one.pointer);
  }
}

TEST_CASE("read_weights: a file of another kind is refused by its first bytes") {
  const test::TemporaryFolder folder;
  const auto list = read_weights(folder.write("pytorch_model.bin", "PK\3\4 a zip archive"));
  REQUIRE_FALSE(list);
  CHECK(list.error().pointer == "byte 0");
  CHECK(read_weights(folder.write("m.safetensors", safetensors(kHeader, 20))));
}

TEST_CASE("check_tensors: missing, extra and reshaped tensors, sorted by name") {
  const auto list = read_header(kHeader, 20);
  REQUIRE(list);
  const TensorCheck check = check_tensors(
      list.value(), {{"z.weight", {1}}, {"a.weight", {3, 2}}, {"scale", {}}, {"c.weight", {1}}});
  CHECK(check.missing == std::vector<std::string>{"c.weight", "z.weight"});
  CHECK(check.extra == std::vector<std::string>{"b.weight"});
  REQUIRE(check.differing.size() == 1);
  CHECK(check.differing[0] == ShapeDifference{"a.weight", {3, 2}, {2, 3}});
  CHECK(to_text(check, 1) ==
        "missing: c.weight\nmissing: 1 more\nextra: b.weight\n"
        "shape: a.weight [2, 3], expected [3, 2]\n");
  CHECK(check_tensors(list.value(), {{"a.weight", {2, 3}}, {"b.weight", {4}}, {"scale", {}}}) ==
        TensorCheck{});
}

TEST_CASE("check_tensors: an index without shards is compared by name only") {
  TensorList list;
  list.has_shapes = false;
  list.tensors.emplace_back();
  list.tensors.back().name = "a";
  CHECK(check_tensors(list, {{"a", {5}}}) == TensorCheck{});
  CHECK_FALSE(check_tensors(list, {{"b", {5}}}) == TensorCheck{});
}

TEST_CASE(
    "property: safetensors reading never crashes on mutated bytes and stays within the file") {
  const test::TemporaryFolder folder;
  const std::string whole = safetensors(kHeader, 20);
  constexpr std::uint32_t kSeed = 20'240'517;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < 3'000; ++round) {
    CAPTURE(round);
    std::string bytes = whole;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      bytes.resize(random() % bytes.size());
    }
    const auto list = read_safetensors(folder.write("fuzz", bytes));
    if (list) {
      ++accepted;
      CHECK(total_bytes(list.value()) <= Bytes{static_cast<std::int64_t>(bytes.size())});
    } else {
      CHECK_FALSE(list.error().wanted.empty());
    }
  }
  CHECK(accepted > 0);  // Changes inside the data and in names are fine.
}

}  // namespace headroom::ir
