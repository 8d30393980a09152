#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/units.h"

namespace headroom::ir {

/// 1 PiB: the most bytes that a header may describe, so that no sum over it overflows. The data
/// itself may be absent.
inline constexpr std::int64_t kMostWeightBytes = std::int64_t{1} << 50;

/// One tensor of a weight file.
struct TensorEntry {
  std::string name;
  std::string type;                 ///< Type in its format's words: "BF16", "Q4_K". Empty: unknown.
  std::vector<std::int64_t> shape;  ///< Outermost dimension first, whatever the format's order.
  std::int64_t elements = 0;
  Bytes bytes;       ///< In the file, without padding.
  std::string file;  ///< Name of the shard that holds it, without folder.
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

/// Tensors of one type, summed.
struct TypeTotal {
  std::string type;
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  Bytes bytes;
  friend bool operator==(const TypeTotal&, const TypeTotal&) = default;
};

enum class WeightFormat : std::uint8_t { kSafetensors, kGguf };

/// The contents of a checkpoint, read from its headers alone.
struct TensorList {
  WeightFormat format = WeightFormat::kSafetensors;
  std::vector<TensorEntry> tensors;  ///< In the order of their data; shards in order of name.
  /// False: an index without its shards. Names and files are known, types and sizes are not.
  bool has_shapes = true;
  std::optional<Bytes> stated_total;  ///< `metadata.total_size` of an index.
  std::vector<std::string> notes;     ///< What is unusual but not an error.
  friend bool operator==(const TensorList&, const TensorList&) = default;
};

/// The note on a file that ends before its data does.
[[nodiscard]] std::string cut_off_note(const std::string& path, std::int64_t held,
                                       std::int64_t described);

[[nodiscard]] std::int64_t total_elements(const TensorList& list);
/// The sum over the tensors, or the stated total of an index without shards.
[[nodiscard]] Bytes total_bytes(const TensorList& list);
/// One entry for each type, most bytes first, ties by name.
[[nodiscard]] std::vector<TypeTotal> totals_by_type(const TensorList& list);

}  // namespace headroom::ir
