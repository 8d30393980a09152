#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model_ir/spec/recording/code_context.h"

namespace headroom::ir {

inline constexpr std::uint32_t kMostIndex = 1U << 24;
/// Tensors that a backward node keeps: bits of the set in which the engine notes them.
inline constexpr std::size_t kMostSaved = 64;
/// Edges of a backward node, and gradients that it is given: one for each tensor of a list.
inline constexpr std::size_t kMostEdges = 65'536;

/// "in 3": the number behind the word.
[[nodiscard]] std::optional<std::uint32_t> number_after(std::string_view text,
                                                        std::string_view word);
/// A whole number from 0 to 2^24.
[[nodiscard]] std::optional<std::uint32_t> index_of(const JsonValue& value);

/// Gives each name a number in the order of its first use.
class NameList {
 public:
  explicit NameList(std::vector<std::string>& list) : list_(list) {}
  /// Requires that the text behind `name`, a part of the document, outlives the list.
  [[nodiscard]] std::uint32_t index(std::string_view name) {
    const auto [entry, fresh] = numbers_.emplace(name, static_cast<std::uint32_t>(list_.size()));
    if (fresh) {
      list_.emplace_back(name);
    }
    return entry->second;
  }

 private:
  std::vector<std::string>& list_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Reads operands of recorded code, and knows which values are alive.
class ValueReader {
 public:
  ValueReader(RecordingFaults& faults, const CodeContext& context, CodeNames& names);

  /// In a template, references lead to gradients and saved tensors.
  void set_template(bool is_template) { template_ = is_template; }
  void set_place(std::string place) { place_ = {std::move(place), std::nullopt}; }
  [[nodiscard]] bool read_reference(const JsonValue& value, Reference& reference);
  [[nodiscard]] bool refuse(const JsonValue& got, std::string_view wanted);

 protected:
  [[nodiscard]] bool is_alive(std::uint32_t value) const;
  /// Gives a new value a storage of its own; false if it exists already.
  [[nodiscard]] bool make(std::uint32_t value);
  /// Outputs on the storage of an input live as long as it does.
  void share_storages(const Instruction& instruction);
  void let_go(std::uint32_t value);
  [[nodiscard]] bool read_references(const JsonValue::Array& fields, std::size_t first,
                                     std::vector<Reference>& inputs);
  [[nodiscard]] bool read_size(const JsonValue& value, SizeExpression& size);
  [[nodiscard]] bool read_shape(const JsonValue& value, RecordedShape& shape);

  RecordingFaults& faults_;
  const CodeContext& context_;
  NameList parameters_, buffers_, modules_;
  static constexpr std::uint32_t kNotMade = UINT32_MAX;
  /// The place in the document, for messages.
  struct Place {
    std::string list;
    std::optional<std::size_t> entry;
    [[nodiscard]] std::string text() const {
      return entry ? list + "/" + std::to_string(*entry) : list;
    }
  };
  Place place_;
  std::vector<std::uint32_t> roots_;  ///< By value: the one that owns the storage.
  std::vector<bool> alive_;           ///< By value that owns a storage.
  std::uint32_t given_ = 0;           ///< Arguments of the code.
  std::vector<std::uint32_t> consumed_;
  int depth_ = 0;
  bool template_ = false;
};

}  // namespace headroom::ir
