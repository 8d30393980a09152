#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace headroom::test {

/// Writes little-endian fields one after the other.
class GgufWriter {
 public:
  GgufWriter& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) {
      bytes_ += static_cast<char>(value >> (8 * i) & 0xFFU);
    }
    return *this;
  }
  GgufWriter& u32(std::uint64_t value) { return number(value, 4); }
  GgufWriter& u64(std::uint64_t value) { return number(value, 8); }
  GgufWriter& text(const std::string& value) {
    u64(value.size());
    bytes_ += value;
    return *this;
  }
  GgufWriter& raw(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  GgufWriter& pad(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  ///< ggml's order: innermost first.
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

struct GgufParts {
  std::uint32_t version = 3;
  std::vector<std::string> metadata;  ///< Encoded key-value pairs.
  std::vector<GgufTensor> tensors;
  std::size_t data_bytes = 0;
};

inline std::string key_text(const std::string& key, const std::string& value) {
  return GgufWriter().text(key).u32(8).text(value).bytes();
}
inline std::string key_u32(const std::string& key, std::uint64_t value) {
  return GgufWriter().text(key).u32(4).u32(value).bytes();
}

inline std::string gguf(const GgufParts& parts) {
  GgufWriter out;
  out.raw("GGUF").u32(parts.version).u64(parts.tensors.size()).u64(parts.metadata.size());
  for (const std::string& entry : parts.metadata) {
    out.raw(entry);
  }
  for (const GgufTensor& tensor : parts.tensors) {
    out.text(tensor.name).u32(tensor.dims.size());
    for (const std::uint64_t dim : tensor.dims) {
      out.u64(dim);
    }
    out.u32(tensor.type).u64(tensor.offset);
  }
  return out.pad(32).raw(std::string(parts.data_bytes, '\1')).bytes();
}

/// Tensors one after the other, 32-byte aligned, as fp16.
inline void place(GgufParts& parts, const std::string& name, std::vector<std::uint64_t> dims) {
  std::uint64_t bytes = 2;
  for (const std::uint64_t dim : dims) {
    bytes *= dim;
  }
  parts.tensors.push_back({name, std::move(dims), 1, parts.data_bytes});
  parts.data_bytes += (bytes + 31) / 32 * 32;
}

/// Llama: L 2, H 64, A 4, K 2, F 96, V 128, as convert_hf_to_gguf.py writes it.
inline GgufParts llama_parts(const std::string& architecture = "llama") {
  GgufParts parts;
  parts.metadata = {key_text("general.architecture", architecture),
                    key_text("general.name", "Tiny"),
                    key_u32(architecture + ".block_count", 2),
                    key_u32(architecture + ".context_length", 512),
                    key_u32(architecture + ".embedding_length", 64),
                    key_u32(architecture + ".feed_forward_length", 96),
                    key_u32(architecture + ".attention.head_count", 4),
                    key_u32(architecture + ".attention.head_count_kv", 2)};
  place(parts, "token_embd.weight", {64, 128});
  place(parts, "output_norm.weight", {64});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    place(parts, block + "attn_norm.weight", {64});
    place(parts, block + "attn_q.weight", {64, 64});
    place(parts, block + "attn_k.weight", {64, 32});
    place(parts, block + "attn_v.weight", {64, 32});
    place(parts, block + "attn_output.weight", {64, 64});
    place(parts, block + "ffn_norm.weight", {64});
    place(parts, block + "ffn_gate.weight", {64, 96});
    place(parts, block + "ffn_up.weight", {64, 96});
    place(parts, block + "ffn_down.weight", {96, 64});
  }
  return parts;
}

}  // namespace headroom::test
