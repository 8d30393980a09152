#include "model_ir/spec/weights/gguf.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/param_count.h"
#include "model_ir/spec/weights/ggml_types.h"
#include "model_ir/spec/weights/gguf_model.h"
#include "tests/support/gguf_file.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {
namespace {

using test::gguf;
using test::GgufParts;
using test::GgufTensor;
using test::GgufWriter;
using test::key_text;
using test::key_u32;
using test::llama_parts;
using test::place;

/// 64 x 2 Q4_0: 128 / 32 blocks of 18 = 72 bytes, padded to 96; 8 fp32 = 32 bytes.
GgufParts small_parts() {
  GgufParts parts;
  parts.metadata = {key_text("general.architecture", "llama"), key_u32("llama.block_count", 7)};
  parts.tensors = {{"w", {64, 2}, 2, 0}, {"norm", {8}, 0, 96}};
  parts.data_bytes = 128;
  return parts;
}

Result<GgufFile> read_bytes(const std::string& bytes) {
  const test::TemporaryFolder folder;
  return read_gguf(folder.write("model.gguf", bytes));
}

}  // namespace

TEST_CASE("gguf: metadata, and tensors with shapes outermost first and bytes by block") {
  const auto file = read_bytes(gguf(small_parts()));
  REQUIRE(file);
  CHECK(file->version == 3);
  CHECK(file->text("general.architecture") == "llama");
  CHECK(file->integer("llama.block_count") == 7);
  CHECK_FALSE(file->integer("general.architecture"));
  CHECK(file->tensors.format == WeightFormat::kGguf);
  REQUIRE(file->tensors.tensors.size() == 2);
  CHECK(file->tensors.tensors[0] == TensorEntry{.name = "w",
                                                .type = "Q4_0",
                                                .shape = {2, 64},
                                                .elements = 128,
                                                .bytes = Bytes{72},
                                                .file = "model.gguf"});
  CHECK(total_bytes(file->tensors) == Bytes{104});
  CHECK(file->data_begin % 32 == 0);
  CHECK(read_bytes(gguf([] {
    GgufParts parts = small_parts();
    parts.version = 2;
    return parts;
  }())));
}

TEST_CASE("gguf: values of every type, short arrays of numbers kept, others counted") {
  GgufParts parts = small_parts();
  const auto scalar = [](const char* key, std::uint32_t type, std::uint64_t value, int width) {
    return GgufWriter().text(key).u32(type).number(value, width).bytes();
  };
  parts.metadata = {
      scalar("u8", 0, 200, 1),
      scalar("i8", 1, 200, 1),
      scalar("i16", 3, 0xFFFE, 2),
      scalar("i32", 5, 0xFFFFFFFF, 4),
      scalar("u64", 10, UINT64_MAX, 8),
      scalar("f32", 6, 0x3FC00000, 4),
      scalar("f64", 12, 0x3FF8000000000000, 8),
      scalar("bool", 7, 1, 1),
      GgufWriter().text("heads").u32(9).u32(4).u64(3).u32(8).u32(8).u32(4).bytes(),
      GgufWriter().text("tokens").u32(9).u32(8).u64(2).text("<s>").text("").bytes(),
      GgufWriter().text("scores").u32(9).u32(6).u64(5000).raw(std::string(20'000, '\0')).bytes(),
      key_text("template", std::string(2'000'000, 't')),
      key_u32("last", 9)};
  const auto file = read_bytes(gguf(parts));
  REQUIRE(file);
  CHECK(file->integer("u8") == 200);
  CHECK(file->integer("i8") == -56);
  CHECK(file->integer("i16") == -2);
  CHECK(file->integer("i32") == -1);
  CHECK(file->integer("u64") == INT64_MAX);
  CHECK(std::get<double>(*file->find("f32")) == 1.5);
  CHECK(std::get<double>(*file->find("f64")) == 1.5);
  CHECK(std::get<bool>(*file->find("bool")));
  CHECK(std::get<GgufArray>(*file->find("heads")).numbers == std::vector<double>{8, 8, 4});
  CHECK(std::get<GgufArray>(*file->find("tokens")) == GgufArray{.size = 2, .numbers = {}});
  CHECK(std::get<GgufArray>(*file->find("scores")) == GgufArray{.size = 5000, .numbers = {}});
  CHECK(file->text("template")->empty());  // Longer than what is kept; what follows is still read.
  CHECK(file->integer("last") == 9);
}

TEST_CASE("gguf: two million keys or tensors, and metadata without end, are one error each") {
  // The counts are refused before anything is kept.
  const auto counts = [](std::uint64_t tensors, std::uint64_t keys) {
    return GgufWriter().raw("GGUF").u32(3).u64(tensors).u64(keys).raw(std::string(70'000'000, 'x'));
  };
  const auto many_keys = read_bytes(counts(0, 2'000'000).bytes());
  REQUIRE_FALSE(many_keys);
  CHECK(many_keys.error().got == "2000000 keys");
  CHECK(many_keys.error().wanted == "at most 65536");
  CHECK(many_keys.error().notes.empty());
  const auto many_tensors = read_bytes(counts(1'000'000, 0).bytes());
  REQUIRE_FALSE(many_tensors);
  CHECK(many_tensors.error().got == "1000000 tensors");
  GgufParts long_keys = small_parts();
  for (int i = 0; i < 400; ++i) {
    long_keys.metadata.push_back(key_u32(std::to_string(i) + std::string(60'000, 'k'), 1));
  }
  const auto heavy = read_bytes(gguf(long_keys));
  REQUIRE_FALSE(heavy);
  CHECK(heavy.error().got == "more than 16 MiB of keys, texts and short arrays");
}

TEST_CASE("gguf: numbers of a vocabulary are counted, not kept") {
  GgufParts parts = small_parts();
  for (const char* key : {"tokenizer.ggml.scores", "llama.attention.head_count_kv"}) {
    parts.metadata.push_back(GgufWriter().text(key).u32(9).u32(4).u64(2).u32(8).u32(4).bytes());
  }
  const auto file = read_bytes(gguf(parts));
  REQUIRE(file);
  CHECK(std::get<GgufArray>(*file->find("tokenizer.ggml.scores")) ==
        GgufArray{.size = 2, .numbers = {}});
  CHECK(std::get<GgufArray>(*file->find("llama.attention.head_count_kv")).numbers.size() == 2);
}

TEST_CASE("gguf: a broken header is refused at its byte") {
  struct Broken {
    const char* what;
    std::string bytes;
    const char* pointer;
  };
  const auto head = [](std::uint64_t tensors, std::uint64_t keys) {
    return GgufWriter().raw("GGUF").u32(3).u64(tensors).u64(keys);
  };
  const std::string room(256, '\0');
  const Broken cases[] = {
      {"empty", "", "byte 0"},
      {"another magic", "GGML" + room, "byte 0"},
      {"version 1", GgufWriter().raw("GGUF").u32(1).raw(room).bytes(), "byte 4"},
      {"big endian", GgufWriter().raw("GGUF").u32(0x03000000).raw(room).bytes(), "byte 4"},
      {"2^63 tensors", head(std::uint64_t{1} << 63U, 0).raw(room).bytes(), "byte 8"},
      {"2^63 keys", head(0, std::uint64_t{1} << 63U).raw(room).bytes(), "byte 16"},
      {"a key beyond the file", head(0, 1).u64(1'000'000).raw(room).bytes(), "byte 24"},
      {"a key of 2^64 - 1", head(0, 1).u64(UINT64_MAX).raw(room).bytes(), "byte 24"},
      {"value type 13", head(0, 1).text("k").u32(13).raw(room).bytes(), "byte 33"},
      {"text beyond the file", head(0, 1).text("k").u32(8).u64(1 << 20).raw(room).bytes(),
       "byte 37"},
      {"array of arrays", head(0, 1).text("k").u32(9).u32(9).u64(1).raw(room).bytes(), "byte 37"},
      {"array beyond the file",
       head(0, 1).text("k").u32(9).u32(10).u64(UINT64_MAX / 8).raw(room).bytes(), "byte 41"},
      {"cut inside a value", head(0, 1).text("k").u32(10).raw("abcd").bytes(), "byte 37"},
      {"no dimensions", head(1, 0).text("t").u32(0).raw(room).bytes(), "byte 33"},
      {"five dimensions", head(1, 0).text("t").u32(5).raw(room).bytes(), "byte 33"},
      {"an empty dimension", head(1, 0).text("t").u32(1).u64(0).raw(room).bytes(), "byte 37"},
      {"2^63 elements",
       head(1, 0)
           .text("t")
           .u32(2)
           .u64(std::uint64_t{1} << 32U)
           .u64(std::uint64_t{1} << 31U)
           .raw(room)
           .bytes(),
       "byte 45"},
      {"an unknown type", head(1, 0).text("t").u32(1).u64(32).u32(99).raw(room).bytes(), "byte 45"},
      {"a withdrawn type", head(1, 0).text("t").u32(1).u64(32).u32(4).raw(room).bytes(), "byte 45"},
      {"a row that is no block", head(1, 0).text("t").u32(1).u64(31).u32(2).raw(room).bytes(),
       "byte 45"},
      {"an offset of 2^63",
       head(1, 0).text("t").u32(1).u64(8).u32(0).u64(std::uint64_t{1} << 63U).raw(room).bytes(),
       "byte 49"},
  };
  for (const Broken& one : cases) {
    CAPTURE(one.what);
    const auto file = read_bytes(one.bytes);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == ErrorCode::kInvalidInput);
    CHECK(file.error().pointer == one.pointer);
    CHECK_FALSE(file.error().wanted.empty());
  }
}

TEST_CASE("gguf: data that overlaps, is not aligned or ends after 1 PiB is refused") {
  const auto broken = [](std::uint64_t second_offset, std::size_t data_bytes) {
    GgufParts parts = small_parts();
    parts.tensors[1].offset = second_offset;
    parts.data_bytes = data_bytes;
    return read_bytes(gguf(parts));
  };
  CHECK(broken(96, 128));
  CHECK(broken(128, 160));  // A gap is padding.
  CHECK(broken(64, 128).error().wanted.starts_with("data from 72 on"));
  CHECK(broken(100, 160).error().wanted == "a multiple of 32");
  CHECK(broken(UINT64_MAX / 4 / 32 * 32, 128).error().wanted.starts_with("data that ends within"));
}

TEST_CASE("gguf: a file that is cut off after its tensor infos gives exact sizes, and a note") {
  GgufParts parts = small_parts();
  const auto whole = read_bytes(gguf(parts));
  REQUIRE(whole);
  CHECK(whole->tensors.notes.empty());
  for (const std::size_t data_bytes : {std::size_t{0}, parts.data_bytes - 32}) {
    CAPTURE(data_bytes);
    parts.data_bytes = data_bytes;
    const auto cut = read_bytes(gguf(parts));
    REQUIRE(cut);
    CHECK(cut->tensors.tensors == whole->tensors.tensors);
    CHECK(cut->tensors.notes.size() == 1);
  }
  const std::string bytes = gguf(small_parts());
  for (std::size_t size = 0; size < bytes.size() - small_parts().data_bytes - 32; ++size) {
    CAPTURE(size);
    CHECK_FALSE(read_bytes(bytes.substr(0, size)));
  }
}

TEST_CASE("gguf: the parts of a split file are read together") {
  const test::TemporaryFolder folder;
  GgufParts first = small_parts();
  first.metadata.push_back(key_u32("split.count", 2));
  first.metadata.push_back(key_u32("split.tensors.count", first.tensors.size() + 1));
  GgufParts second;
  second.metadata.push_back(key_u32("split.count", 2));
  test::place(second, "more", {32, 2});
  const std::string path = folder.write("m-00001-of-00002.gguf", gguf(first));
  CHECK(read_gguf_parts(path).error().file.ends_with("m-00002-of-00002.gguf"));
  folder.write("m-00002-of-00002.gguf", gguf(second));
  const auto whole = read_gguf_parts(path);
  REQUIRE_MESSAGE(whole, to_text(whole.error()));
  CHECK(whole->tensors.tensors.size() == first.tensors.size() + 1);
  CHECK_FALSE(whole->integer("split.count"));
  folder.write("m-00002-of-00002.gguf", gguf(first));
  CHECK(read_gguf_parts(path).error().pointer == "split.tensors.count");
  // Alone, one part is one part.
  CHECK(read_gguf_parts(folder.write("part.gguf", gguf(first)))->integer("split.count") == 2);
}

TEST_CASE("gguf: an alignment of its own, and one that is none") {
  GgufParts parts = small_parts();
  parts.metadata.push_back(key_u32("general.alignment", 64));
  parts.tensors[1].offset = 128;
  parts.data_bytes = 192;
  CHECK(read_bytes(gguf(parts)));
  parts.tensors[1].offset = 96;
  CHECK(read_bytes(gguf(parts)).error().wanted == "a multiple of 64");
  for (const std::uint64_t alignment : {std::uint64_t{0}, std::uint64_t{48}}) {
    parts = small_parts();
    parts.metadata.push_back(key_u32("general.alignment", alignment));
    const auto file = read_bytes(gguf(parts));
    REQUIRE_FALSE(file);
    CHECK(file.error().wanted == "a power of two");
  }
}

TEST_CASE("gguf: a key or a tensor that occurs twice is refused by name") {
  GgufParts parts = small_parts();
  parts.metadata.push_back(key_u32("llama.block_count", 8));
  CHECK(read_bytes(gguf(parts)).error().got == "the key llama.block_count twice");
  parts = small_parts();
  parts.tensors[1].name = "w";
  CHECK(read_bytes(gguf(parts)).error().got == "the tensor w twice");
}

TEST_CASE("gguf: a folder, a missing file and an empty list of tensors") {
  const test::TemporaryFolder folder;
  CHECK(read_gguf(folder.path()).error().code == ErrorCode::kEnvironment);
  CHECK(read_gguf(folder.path("none.gguf")).error().code == ErrorCode::kEnvironment);
  const auto vocabulary_only =
      read_bytes(GgufWriter().raw("GGUF").u32(3).u64(0).u64(1).raw(key_u32("k", 1)).bytes());
  REQUIRE(vocabulary_only);
  CHECK(vocabulary_only->tensors.tensors.empty());
}

TEST_CASE("ggml types: bytes per block") {
  struct Expected {
    std::uint32_t number;
    const char* name;
    std::int64_t elements;
    std::int64_t bytes;
  };
  const Expected cases[] = {
      {0, "F32", 1, 4},       {8, "Q8_0", 32, 34},      {12, "Q4_K", 256, 144},
      {14, "Q6_K", 256, 210}, {23, "IQ4_XS", 256, 136}, {30, "BF16", 1, 2},
      {39, "MXFP4", 32, 17},  {40, "NVFP4", 64, 36},    {42, "Q2_0", 64, 18}};
  for (const Expected& one : cases) {
    const GgmlType* type = ggml_type(one.number);
    REQUIRE(type != nullptr);
    CHECK(type->name == one.name);
    CHECK(type->elements == one.elements);
    CHECK(type->bytes == one.bytes);
  }
  CHECK(ggml_type(31) == nullptr);
  CHECK(ggml_type(1000) == nullptr);
}

TEST_CASE("gguf model: Llama's metadata gives the model whose parameters the file holds") {
  const auto file = read_bytes(gguf(llama_parts()));
  REQUIRE(file);
  const auto model = model_of_gguf(file.value());
  REQUIRE(model);
  CHECK(model->name == "Tiny");
  CHECK(model->family == Family::kLlama);
  CHECK(model->hidden == 64);
  CHECK(model->heads == 4);
  CHECK(model->kv_heads == 2);
  CHECK(model->head_dim == 16);
  CHECK(model->ffn == 96);
  CHECK(model->vocabulary == 128);  // Rows of token_embd.weight.
  CHECK(model->layers.size() == 2);
  CHECK(model->tied_embeddings);
  CHECK(model->checkpoint_dtype == DType::kFp16);
  CHECK_FALSE(model->qkv_bias);
  CHECK(count_parameters(model.value()).total() == total_elements(file->tensors));
}

TEST_CASE("gguf model: an output matrix unties, biases and experts show in the tensors and keys") {
  GgufParts parts = llama_parts();
  place(parts, "output.weight", {64, 128});
  place(parts, "blk.0.attn_q.bias", {64});
  const auto untied = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE(untied);
  CHECK_FALSE(untied->tied_embeddings);
  CHECK(untied->qkv_bias);

  parts = llama_parts();
  parts.metadata.push_back(key_u32("llama.expert_count", 8));
  parts.metadata.push_back(key_u32("llama.expert_used_count", 2));
  const auto mixtral = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE(mixtral);
  CHECK(mixtral->family == Family::kMixtral);
  REQUIRE(mixtral->moe.has_value());
  CHECK(mixtral->moe->experts == 8);
  CHECK(mixtral->moe->top_k == 2);
  CHECK(mixtral->moe->expert_ffn == 96);
}

TEST_CASE("gguf model: architectures of llama.cpp and the families they stand for") {
  struct Expected {
    const char* architecture;
    Family family;
  };
  const Expected cases[] = {{"llama", Family::kLlama},
                            {"qwen2", Family::kQwen2},
                            {"qwen3", Family::kQwen3},
                            {"gemma", Family::kGemma},
                            {"gemma2", Family::kGemma2},
                            {"gemma3", Family::kGemma3Text},
                            {"phi3", Family::kPhi3},
                            {"granite", Family::kGranite},
                            {"olmo2", Family::kOlmo2},
                            {"command-r", Family::kCohere},
                            {"starcoder2", Family::kStarcoder2},
                            {"glm4", Family::kGlm4},
                            {"stablelm", Family::kStablelm},
                            {"gpt2", Family::kGpt2},
                            {"gptneox", Family::kGptNeox},
                            {"bloom", Family::kBloom},
                            {"falcon", Family::kFalcon}};
  for (const Expected& one : cases) {
    CAPTURE(one.architecture);
    GgufParts parts = llama_parts(one.architecture);
    parts.metadata.push_back(key_u32(std::string(one.architecture) + ".rope.dimension_count", 8));
    const auto file = read_bytes(gguf(parts));
    REQUIRE(file);
    const auto model = model_of_gguf(file.value());
    INFO((model ? std::string() : to_text(model.error())));
    REQUIRE(model);
    CHECK(model->family == one.family);
    CHECK(model->hidden == 64);
    CHECK(model->layers.size() == 2);
    CHECK(model->vocabulary == 128);
  }
}

TEST_CASE("gguf model: experts of Qwen, DeepSeek and gpt-oss") {
  const auto with = [](const std::string& architecture,
                       const std::vector<std::pair<std::string, std::uint64_t>>& keys) {
    GgufParts parts = llama_parts(architecture);
    for (const auto& [key, value] : keys) {
      parts.metadata.push_back(key_u32(architecture + "." + key, value));
    }
    return parts;
  };
  const auto model_of = [](const GgufParts& parts) {
    const auto file = read_bytes(gguf(parts));
    REQUIRE(file);
    const auto model = model_of_gguf(file.value());
    INFO((model ? std::string() : to_text(model.error())));
    REQUIRE(model);
    return model.value();
  };
  const ModelSpec qwen = model_of(
      with("qwen3moe",
           {{"expert_count", 16}, {"expert_used_count", 4}, {"expert_feed_forward_length", 24}}));
  CHECK(qwen.family == Family::kQwen3Moe);
  CHECK(qwen.moe->expert_ffn == 24);

  GgufParts deepseek = with("deepseek2", {{"expert_count", 16},
                                          {"expert_used_count", 4},
                                          {"expert_shared_count", 2},
                                          {"expert_feed_forward_length", 24},
                                          {"leading_dense_block_count", 1},
                                          {"rope.dimension_count", 8},
                                          {"attention.key_length", 24},
                                          {"attention.value_length", 16},
                                          {"attention.kv_lora_rank", 32}});
  const ModelSpec v2 = model_of(deepseek);
  CHECK(v2.family == Family::kDeepseekV2);
  REQUIRE(v2.latent.has_value());
  CHECK(v2.latent->q_rank == 0);
  CHECK(v2.latent->nope_dim == 16);
  CHECK(v2.latent->rope_dim == 8);
  CHECK(v2.latent->v_dim == 16);
  CHECK_FALSE(v2.layers[0].moe);
  CHECK(v2.layers[1].moe);
  CHECK(v2.moe->shared_ffn == 48);
  place(deepseek, "blk.1.exp_probs_b.bias", {16});
  CHECK(model_of(deepseek).family == Family::kDeepseekV3);

  const ModelSpec oss = model_of(with(
      "gpt-oss", {{"expert_count", 8}, {"expert_used_count", 2}, {"attention.key_length", 16}}));
  CHECK(oss.family == Family::kGptOss);
  CHECK(oss.head_dim == 16);
}

TEST_CASE("gguf model: what keeps a file from being a model is named") {
  GgufParts parts = llama_parts("lama");
  const auto unknown = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().pointer == "general.architecture");
  CHECK(unknown.error().wanted.find("llama") != std::string::npos);

  parts = llama_parts();
  parts.metadata.erase(parts.metadata.begin() + 4);  // llama.embedding_length
  const auto missing = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE_FALSE(missing);
  CHECK(missing.error().pointer == "llama.embedding_length");

  parts = llama_parts();
  parts.metadata.push_back(key_u32("split.count", 3));
  const auto split = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE_FALSE(split);
  CHECK(split.error().got == "one of 3 parts");

  parts = llama_parts();
  parts.metadata[5] =
      GgufWriter().text("llama.feed_forward_length").u32(9).u32(4).u64(2).u32(96).u32(64).bytes();
  const auto uneven = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE_FALSE(uneven);
  CHECK(uneven.error().pointer == "llama.feed_forward_length");
  parts.metadata[5] =
      GgufWriter().text("llama.feed_forward_length").u32(9).u32(4).u64(2).u32(96).u32(96).bytes();
  CHECK(model_of_gguf(read_bytes(gguf(parts)).value())->ffn == 96);

  parts = llama_parts();
  parts.metadata[6] = key_u32("llama.attention.head_count", 5);  // 64 / 5 is no whole number.
  const auto refused = model_of_gguf(read_bytes(gguf(parts)).value());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().notes.size() >= 1);
}

TEST_CASE("property: gguf reading never crashes on mutated bytes and says what the file lacks") {
  const test::TemporaryFolder folder;
  const std::string whole = gguf(llama_parts());
  const std::size_t header = whole.size() < 2'600 ? whole.size() : 2'600;
  constexpr std::uint32_t kSeed = 20'231'111;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < 1'500; ++round) {
    CAPTURE(round);
    std::string bytes = whole;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      bytes[random() % header] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
    }
    if (random() % 8 == 0) {
      bytes.resize(random() % bytes.size());
    }
    const auto file = read_gguf(folder.write("fuzz.gguf", bytes));
    if (file) {
      ++accepted;
      // Tensors beyond the end of the file are mentioned in a note.
      const bool whole_data =
          total_bytes(file->tensors) <= Bytes{static_cast<std::int64_t>(bytes.size())};
      CHECK((whole_data || file->tensors.notes.size() == 1));
      CHECK(total_bytes(file->tensors) <= Bytes{kMostWeightBytes});
      const auto model = model_of_gguf(file.value());
      CHECK((model || !model.error().wanted.empty()));
    } else {
      CHECK_FALSE(file.error().wanted.empty());
    }
  }
  CHECK(accepted > 0);
}

}  // namespace headroom::ir
