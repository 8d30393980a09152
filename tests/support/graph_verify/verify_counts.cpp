#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/graph_verify/verify_parts.h"

namespace headroom::ir {
namespace {

struct Counts {
  std::size_t inputs;
  std::size_t fewest_parameters;
  std::size_t most_parameters;
  std::size_t outputs;
};

constexpr std::size_t kAnyNumber = SIZE_MAX;

Counts counts_of(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbedding:
    case OpKind::kPositions:
    case OpKind::kTokenTypes:
      return {1, 1, 1, 1};
    case OpKind::kNorm:
    case OpKind::kLinear:
      return {1, 1, 2, 1};
    case OpKind::kSplitQkv:
      return {1, 0, 0, 3};
    case OpKind::kHeadNorm:  // StableLM has a weight per head.
      return {1, 1, kAnyNumber, 1};
    case OpKind::kRope:
      return {2, 0, 0, 2};
    case OpKind::kAttention:
      return {3, 0, 1, 1};
    case OpKind::kLatentQkv:
      return {3, 0, 0, 3};
    case OpKind::kActivation:
    case OpKind::kScale:
    case OpKind::kDropout:
    case OpKind::kSoftcap:
    case OpKind::kPool:
      return {1, 0, 0, 1};
    case OpKind::kSplitGateUp:
      return {1, 0, 0, 2};
    case OpKind::kMultiply:
    case OpKind::kAdd:
    case OpKind::kCrossEntropy:
    case OpKind::kSquaredError:
      return {2, 0, 0, 1};
    case OpKind::kRouter:
      return {1, 1, 2, 2};
    case OpKind::kExperts:
      return {3, 2, kAnyNumber, 1};
    case OpKind::kSharedGate:
      return {2, 1, 1, 1};
  }
  return {0, 0, 0, 0};
}

}  // namespace

std::optional<std::string> count_fault(const Op& op) {
  const Counts counts = counts_of(op.kind);
  const auto differs = [](std::string_view what, std::size_t got) {
    return "has " + std::to_string(got) + " " + std::string(what) + ", which do not fit its kind";
  };
  if (op.inputs.size() != counts.inputs) {
    return differs("inputs", op.inputs.size());
  }
  if (op.outputs.size() != counts.outputs) {
    return differs("outputs", op.outputs.size());
  }
  if (op.parameters.size() < counts.fewest_parameters ||
      op.parameters.size() > counts.most_parameters) {
    return differs("parameters", op.parameters.size());
  }
  return std::nullopt;
}

}  // namespace headroom::ir
