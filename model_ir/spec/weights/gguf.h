#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::ir {

/// Numbers of a short metadata array (per-layer head counts). Longer arrays, arrays of texts and
/// those of a vocabulary only have their number of items.
struct GgufArray {
  std::uint64_t size = 0;
  std::vector<double> numbers;  ///< Empty if there are more than `kGgufNumbersKept`, or texts.
  friend bool operator==(const GgufArray&, const GgufArray&) = default;
};
inline constexpr std::uint64_t kGgufNumbersKept = 4096;

using GgufValue = std::variant<std::int64_t, double, bool, std::string, GgufArray>;

struct GgufEntry {
  std::string key;
  GgufValue value;
  friend bool operator==(const GgufEntry&, const GgufEntry&) = default;
};

/// A GGUF file's header.
struct GgufFile {
  std::string path;
  std::uint32_t version = 3;
  std::vector<GgufEntry> metadata;  ///< In the order of the file.
  TensorList tensors;
  std::int64_t data_begin = 0;  ///< Byte at which the tensors' data starts.

  /// The metadata value of `key`; nullptr if there is none.
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// A whole number, or nothing if `key` is absent or something else.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] const TensorEntry* tensor(std::string_view name) const;
};

/// Reads the header of a GGUF file: metadata and tensor list.
///
/// Model:   little endian; "GGUF", version 2 or 3, counts, key-value pairs, tensor infos with
///          ggml's dimensions (innermost first; `TensorEntry::shape` has them outermost first),
///          then data aligned to general.alignment (32). The file may be cut off after the tensor
///          infos; a note says so.
/// Errors:  kEnvironment if the file cannot be read; kInvalidInput, with the byte offset, for
///          another magic, version or byte order, counts and lengths that the file cannot hold,
///          more than 65,536 keys, 262,144 tensors or 16 MiB of metadata that would be kept,
///          unknown types, empty dimensions, keys or names that occur twice, and data that
///          overlaps, is not aligned or ends after 1 PiB.
/// Source:  ggml-org/ggml docs/gguf.md; block sizes: src/ggml-common.h (static asserts) and
///          src/ggml.c (type_traits).
[[nodiscard]] Result<GgufFile> read_gguf(const std::string& path);

/// As `read_gguf`; of a file NAME-00001-of-0000N.gguf that is split, all parts that lie beside it.
/// The result has the metadata of the first part and the tensors of all.
///
/// Errors:  those of `read_gguf` for every part; kInvalidInput if parts have fewer or more tensors
///          than the first one says, or a tensor is in two of them.
[[nodiscard]] Result<GgufFile> read_gguf_parts(const std::string& path);

}  // namespace headroom::ir
