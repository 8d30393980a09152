#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/support/graph_verify/verify_parts.h"

namespace headroom::ir {
namespace {

using Dims = std::vector<std::int64_t>;
using Fault = std::optional<std::string>;

/// The shapes around one operator.
struct Shapes {
  const Graph& graph;
  const Op& op;

  [[nodiscard]] const Dims& in(std::size_t i) const { return graph.tensor(op.inputs[i]).dims; }
  [[nodiscard]] const Dims& out(std::size_t i) const { return graph.tensor(op.outputs[i]).dims; }
  [[nodiscard]] const Dims& parameter(std::size_t i) const {
    return graph.tensor(op.parameters[i]).dims;
  }
  [[nodiscard]] std::int64_t in_width(std::size_t i) const { return in(i).back(); }
  [[nodiscard]] std::int64_t out_width(std::size_t i) const { return out(i).back(); }
};

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  }
  return text + "]";
}

/// Equal in all but the last extent.
bool same_rows(const Dims& a, const Dims& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end() - 1, b.begin());
}

std::int64_t rows_of(const Dims& dims) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    rows *= dims[i];
  }
  return rows;
}

Fault output_like(const Shapes& s, std::size_t input) {
  if (s.out(0) == s.in(input)) {
    return std::nullopt;
  }
  return "output " + text_of(s.out(0)) + " differs from input " + text_of(s.in(input));
}

Fault parameter_misfit(const Shapes& s, std::size_t i) {
  return "parameter " + text_of(s.parameter(i)) + " does not fit input " + text_of(s.in(0)) +
         " and output " + text_of(s.out(0));
}

Fault embedding_fault(const Shapes& s) {
  Dims expected = s.in(0);
  expected.push_back(s.parameter(0).back());
  return s.parameter(0).size() == 2 && s.out(0) == expected ? std::nullopt : parameter_misfit(s, 0);
}

Fault table_fault(const Shapes& s) {
  if (s.parameter(0).size() != 2 || s.parameter(0).back() != s.in_width(0)) {
    return parameter_misfit(s, 0);
  }
  return output_like(s, 0);
}

Fault norm_fault(const Shapes& s) {
  const Dims weight{s.out_width(0)};
  for (std::size_t i = 0; i < s.op.parameters.size(); ++i) {
    if (s.parameter(i) != weight) {
      return parameter_misfit(s, i);
    }
  }
  if (s.op.parameters.size() == 2 && s.op.norm != NormKind::kLayer) {
    return "only a LayerNorm has a bias";
  }
  // A latent norm reads only the first columns; the remaining columns hold the rope part.
  const bool cuts = s.op.role == OpRole::kLatentKvNorm && s.in_width(0) >= s.out_width(0);
  if (same_rows(s.in(0), s.out(0)) && (cuts || s.in_width(0) == s.out_width(0))) {
    return std::nullopt;
  }
  return output_like(s, 0);
}

Fault linear_fault(const Shapes& s) {
  const Dims plain{s.out_width(0), s.in_width(0)};
  const Dims conv1d{s.in_width(0), s.out_width(0)};
  if (s.parameter(0) != plain && s.parameter(0) != conv1d) {
    return parameter_misfit(s, 0);
  }
  if (s.op.parameters.size() == 2 && s.parameter(1) != Dims{s.out_width(0)}) {
    return parameter_misfit(s, 1);
  }
  return same_rows(s.in(0), s.out(0)) ? std::nullopt : output_like(s, 0);
}

/// Each column of the input is in exactly one output.
Fault split_fault(const Shapes& s) {
  std::int64_t width = 0;
  for (std::size_t i = 0; i < s.op.outputs.size(); ++i) {
    if (!same_rows(s.in(0), s.out(i))) {
      return "output " + text_of(s.out(i)) + " has other rows than input " + text_of(s.in(0));
    }
    width += s.out_width(i);
  }
  if (width != s.in_width(0)) {
    return "outputs are " + std::to_string(width) + " wide, the input " +
           std::to_string(s.in_width(0));
  }
  if (s.op.kind == OpKind::kSplitGateUp && s.out(0) != s.out(1)) {
    return "gate and up differ in shape";
  }
  return std::nullopt;
}

Fault head_norm_fault(const Shapes& s) {
  const std::int64_t width = s.in_width(0);
  std::int64_t weights = 0;
  for (std::size_t i = 0; i < s.op.parameters.size(); ++i) {
    weights += s.graph.tensor(s.op.parameters[i]).elements();
  }
  const bool shared = s.op.parameters.size() == 1 && s.parameter(0).size() == 1;
  if (weights < 1 || (shared ? width % weights != 0 : weights != width)) {
    return parameter_misfit(s, 0);
  }
  return output_like(s, 0);
}

Fault rope_fault(const Shapes& s) {
  return s.in(0) == s.out(0) && s.in(1) == s.out(1)
             ? std::nullopt
             : Fault("a rotated tensor differs in shape from what it was");
}

Fault attention_fault(const Shapes& s) {
  const Dims& q = s.in(0);
  const Dims& k = s.in(1);
  const Dims& v = s.in(2);
  if (q.size() != 3 || !same_rows(k, v) || k.size() != 3 || q[0] != k[0]) {
    return "queries, keys and values do not belong together";
  }
  // Grouped queries: A = ratio * K heads, so q is ratio times as wide as k, and out as v.
  const std::int64_t ratio = q[2] / k[2];
  if (ratio * k[2] != q[2]) {
    return "queries " + text_of(q) + " are not a multiple of keys " + text_of(k);
  }
  if (!same_rows(s.out(0), q) || s.out_width(0) != ratio * v[2]) {
    return "output " + text_of(s.out(0)) + " does not fit values " + text_of(v);
  }
  if (!s.op.parameters.empty() && q[2] % s.parameter(0).back() != 0) {  // One entry per head.
    return parameter_misfit(s, 0);
  }
  if (s.op.window && *s.op.window < 1) {
    return "has a window below 1";
  }
  return std::nullopt;
}

Fault latent_fault(const Shapes& s) {
  // Per head: key = nope + rope, expanded = nope + value.
  const std::int64_t nope = s.in_width(2) - s.out_width(2);
  const std::int64_t rope = s.out_width(1) - nope;
  if (s.out(0) != s.in(0) || s.out(1) != s.in(0) || !same_rows(s.out(2), s.in(0)) || nope < 1 ||
      rope < 1) {
    return "queries, keys and values do not fit the latents";
  }
  return std::nullopt;
}

Fault pair_fault(const Shapes& s) {
  if (s.in(0) != s.in(1)) {
    return "inputs " + text_of(s.in(0)) + " and " + text_of(s.in(1)) + " differ";
  }
  return output_like(s, 0);
}

Fault router_fault(const Shapes& s) {
  const Dims& weight = s.parameter(0);
  if (weight.size() != 2 || weight[1] != s.in_width(0) ||
      (s.op.parameters.size() == 2 && s.parameter(1) != Dims{weight[0]})) {
    return parameter_misfit(s, 0);
  }
  if (s.out(0) != s.out(1) || s.out(0).size() != 2 || s.out(0)[0] != rows_of(s.in(0)) ||
      s.out(0)[1] > weight[0]) {
    return "weights " + text_of(s.out(0)) + " and indices " + text_of(s.out(1)) +
           " are not those of " + text_of(weight) + " for input " + text_of(s.in(0));
  }
  return std::nullopt;
}

/// Gate and up [F,H] and down [H,F] of each expert.
Fault expert_modules_fault(const Shapes& s) {
  const std::int64_t hidden = s.in_width(0);
  const std::size_t count = s.op.parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Dims& gate = s.parameter(0);
    const Dims wanted = i % 3 == 2 ? Dims{hidden, gate[0]} : Dims{gate[0], hidden};
    if (count % 3 != 0 || s.parameter(i) != wanted) {
      return parameter_misfit(s, i);
    }
  }
  return std::nullopt;
}

/// [E,2F,H] and [E,H,F], or with biases [E,H,2F] and [E,F,H].
Fault fused_experts_fault(const Shapes& s) {
  const bool biased = s.op.parameters.size() == 4;
  if (s.op.parameters.size() == 3) {
    return "has a bias for one of its two products only";
  }
  const Dims& gate_up = s.parameter(0);
  const Dims& down = s.parameter(biased ? 2 : 1);
  const std::int64_t hidden = s.in_width(0);
  if (gate_up.size() != 3 || down.size() != 3 || gate_up[0] != down[0]) {
    return parameter_misfit(s, 0);
  }
  const std::int64_t experts = down[0];
  const std::int64_t width = biased ? down[1] : down[2];
  const Dims wanted_up =
      biased ? Dims{experts, hidden, 2 * width} : Dims{experts, 2 * width, hidden};
  const Dims wanted_down = biased ? Dims{experts, width, hidden} : Dims{experts, hidden, width};
  if (gate_up != wanted_up || down != wanted_down) {
    return parameter_misfit(s, 0);
  }
  if (biased &&
      (s.parameter(1) != Dims{experts, 2 * width} || s.parameter(3) != Dims{experts, hidden})) {
    return parameter_misfit(s, 1);
  }
  return std::nullopt;
}

Fault experts_fault(const Shapes& s) {
  const bool modules = s.parameter(0).size() == 2;
  if (const Fault fault = modules ? expert_modules_fault(s) : fused_experts_fault(s)) {
    return fault;
  }
  if (s.in(1) != s.in(2) || s.in(1).front() != rows_of(s.in(0))) {
    return "weights and indices are not those of the tokens";
  }
  return output_like(s, 0);
}

Fault shared_gate_fault(const Shapes& s) {
  return s.parameter(0) == Dims{1, s.in_width(0)} ? output_like(s, 1) : parameter_misfit(s, 0);
}

/// One token of each sequence: the second extent disappears.
Fault pool_fault(const Shapes& s) {
  const Dims& input = s.in(0);
  const bool pooled = input.size() == 3 && s.out(0) == Dims{input[0], input[2]};
  return pooled ? std::nullopt : Fault("output " + text_of(s.out(0)) + " is not one token each");
}

Fault loss_fault(const Shapes& s) {
  const Dims& logits = s.in(0);
  if (Dims(logits.begin(), logits.end() - 1) != s.in(1)) {
    return "labels " + text_of(s.in(1)) + " do not fit logits " + text_of(logits);
  }
  return s.out(0).empty() ? std::nullopt : Fault("the loss is not a single number");
}

/// All operators but the loss have the last extent that the rules below need.
bool has_scalar(const Shapes& s) {
  const auto scalar = [&](TensorId id) { return s.graph.tensor(id).dims.empty(); };
  const bool output = std::any_of(s.op.outputs.begin(), s.op.outputs.end(), scalar);
  return (output && !is_loss(s.op.kind)) ||
         std::any_of(s.op.inputs.begin(), s.op.inputs.end(), scalar) ||
         std::any_of(s.op.parameters.begin(), s.op.parameters.end(), scalar);
}

bool has_zero(const Shapes& s) {
  const auto zero = [&](TensorId id) { return s.graph.tensor(id).elements() < 1; };
  return std::any_of(s.op.inputs.begin(), s.op.inputs.end(), zero) ||
         std::any_of(s.op.parameters.begin(), s.op.parameters.end(), zero);
}

}  // namespace

std::optional<std::string> shape_fault(const Graph& graph, const Op& op) {
  const Shapes shapes{graph, op};
  if (has_scalar(shapes)) {
    return "has a tensor without dims";
  }
  if (has_zero(shapes)) {
    return std::nullopt;  // Reported with the tensor. The rules would divide by these extents.
  }
  switch (op.kind) {
    case OpKind::kEmbedding:
      return embedding_fault(shapes);
    case OpKind::kPositions:
    case OpKind::kTokenTypes:
      return table_fault(shapes);
    case OpKind::kNorm:
      return norm_fault(shapes);
    case OpKind::kLinear:
      return linear_fault(shapes);
    case OpKind::kSplitQkv:
    case OpKind::kSplitGateUp:
      return split_fault(shapes);
    case OpKind::kHeadNorm:
      return head_norm_fault(shapes);
    case OpKind::kRope:
      return rope_fault(shapes);
    case OpKind::kAttention:
      return attention_fault(shapes);
    case OpKind::kLatentQkv:
      return latent_fault(shapes);
    case OpKind::kActivation:
    case OpKind::kScale:
    case OpKind::kDropout:
    case OpKind::kSoftcap:
      return output_like(shapes, 0);
    case OpKind::kMultiply:
    case OpKind::kAdd:
      return pair_fault(shapes);
    case OpKind::kRouter:
      return router_fault(shapes);
    case OpKind::kExperts:
      return experts_fault(shapes);
    case OpKind::kSharedGate:
      return shared_gate_fault(shapes);
    case OpKind::kPool:
      return pool_fault(shapes);
    case OpKind::kCrossEntropy:
    case OpKind::kSquaredError:
      return loss_fault(shapes);
  }
  return std::nullopt;
}

}  // namespace headroom::ir
