#include "model_ir/spec/recording/position_limit.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace headroom::ir {
namespace {

constexpr std::int64_t kRowsBeside = 2;  // BART's.

bool names_value(const Reference& reference) {
  return reference.kind == Reference::Kind::kValue;
}

/// A table of positions of tokens, not of patches of images.
bool is_table(const RecordedParameter& parameter) {
  const auto has = [&parameter](std::string_view part) {
    return parameter.name.find(part) != std::string::npos;
  };
  constexpr std::array<std::string_view, 4> kOfImages = {"vision", "visual", "image", "patch"};
  return parameter.dims.size() == 2 && (has("position") || has("wpe.")) &&
         std::ranges::none_of(kOfImages, has);
}

/// Whether positions are sums of the places of the ids, which are value 0, that are no padding.
bool counts_positions(const RecordedCode& code) {
  std::set<std::uint32_t> marks;  // Values that say where the ids are no padding.
  for (const Instruction& one : code.instructions) {
    if (one.kind != Instruction::Kind::kOp || one.inputs.empty() || !names_value(one.inputs[0])) {
      continue;
    }
    const std::uint32_t input = one.inputs[0].index;
    if (one.name == "cumsum" && marks.contains(input)) {
      return true;
    }
    const bool marked =
        one.name == "ne" ? input == 0 : one.name == "_to_copy" && marks.contains(input);
    for (const RecordedOutput& output : one.outputs) {
      if (marked && names_value(output.target)) {
        marks.insert(output.target.index);
      }
    }
  }
  return false;
}

}  // namespace

std::optional<std::int64_t> position_limit(const Recording& recording, const PositionKeys& keys) {
  const RecordedVariant& variant = recording.variants.front();
  const bool counts = counts_positions(variant.forward);
  std::optional<std::int64_t> limit;
  for (const Instruction& one : variant.forward.instructions) {
    if (one.name == "clamp") {
      return std::nullopt;
    }
    const bool reads = (one.name == "embedding" || one.name == "index") && !one.inputs.empty() &&
                       one.inputs[0].kind == Reference::Kind::kParameter;
    if (!reads) {
      continue;
    }
    const RecordedParameter& table =
        recording.parameters[variant.forward_scope.parameters[one.inputs[0].index]];
    if (!is_table(table)) {
      continue;
    }
    const std::int64_t rows = table.dims[0];
    const std::int64_t own = counts                                 ? rows - keys.padding - 1
                             : rows == keys.positions + kRowsBeside ? keys.positions
                                                                    : rows;
    limit = std::min(limit.value_or(own), std::max<std::int64_t>(1, own));
  }
  return limit;
}

}  // namespace headroom::ir
