#include "runtimes/transformers/recording/recorded_loss.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace headroom::ir::transformers {
namespace {

/// The operators between the output layer and the loss. Logits in fp32 are not cast, and the labels
/// of one sequence are not copied.
constexpr std::array<std::string_view, 8> kOperators = {
    "_to_copy", "constant_pad_nd", "slice",           "clone", "view",
    "view",     "_log_softmax",    "nll_loss_forward"};

bool reads_ids(const Instruction& padding) {
  constexpr std::uint32_t kIds = 0;  // The first of the model's inputs.
  return !padding.inputs.empty() && padding.inputs[0].kind == Reference::Kind::kValue &&
         padding.inputs[0].index == kIds;
}

}  // namespace

std::optional<RecordedLoss> find_causal_loss(const RecordedCode& code) {
  using Kind = Instruction::Kind;
  const std::vector<Instruction>& all = code.instructions;
  const auto loss = std::ranges::find(all, kOperators.back(), &Instruction::name);
  if (loss == all.end()) {
    return std::nullopt;
  }
  std::size_t left = kOperators.size();
  auto at = loss;
  for (; at != all.begin() && at->kind != Kind::kLinear; --at) {
    if (at->kind == Kind::kDrop) {
      continue;
    }
    if (left > 0 && kOperators[left - 1] == "clone" && at->name == "slice") {
      --left;
    }
    if (left == 0 || at->kind != Kind::kOp || at->name != kOperators[left - 1] ||
        (at->name == "constant_pad_nd" && !reads_ids(*at))) {
      return std::nullopt;
    }
    --left;
  }
  if (left > 1 || at->kind != Kind::kLinear) {
    return std::nullopt;
  }
  return RecordedLoss{.head = static_cast<std::uint32_t>(at - all.begin()),
                      .last = static_cast<std::uint32_t>(loss - all.begin())};
}

}  // namespace headroom::ir::transformers
