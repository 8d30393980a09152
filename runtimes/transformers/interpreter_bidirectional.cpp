// Operators that only encoders and encoder-decoders have, and how a layer is left.

#include <optional>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/relative_bias.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

namespace {

/// torch.where(torch.isinf(x).any(), ..., ...): the bound to which T5Block clamps fp16 states.
Tensor finite_bound(Eager& eager, const Tensor& x) {
  Tensor size = torch::computed(eager, x.shape(), x.dtype(), {&x});  // isinf: |x| == inf
  Tensor infinite = torch::computed(eager, x.shape(), DType::kBool, {&size});
  size.reset();
  const Tensor any = torch::reduce(eager, {}, DType::kBool,
                                   {.outputs = 1,
                                    .inputs_per_output = x.elements(),
                                    .innermost = true,
                                    .accumulator_bytes = 1,
                                    .element_bytes = 1});
  infinite.reset();
  const Tensor lower = torch::computed(eager, {}, DType::kFp32);
  const Tensor greatest = torch::computed(eager, {}, DType::kFp32);
  return torch::computed(eager, {}, DType::kFp32, {&any, &lower, &greatest});
}

/// position_bias + mask: one for each sequence.
Tensor masked_bias(Eager& eager, const Tensor& bias, const Tensor& mask,
                   const torch::Shape& shape) {
  torch::Record record(eager, {&bias});
  const DType dtype = bits_of(mask.dtype()) > bits_of(bias.dtype()) ? mask.dtype() : bias.dtype();
  Tensor output = torch::computed(eager, shape, dtype, {&bias, &mask});
  if (record.active()) {
    record.finish(output, [](Eager&, torch::Gradients& grads, torch::Node&) -> torch::Gradients {
      return {grads[0]};
    });
  }
  return output;
}

/// torch.clamp(x, min=-bound, max=bound), which saves all three.
Tensor clamp(Eager& eager, const Tensor& x, const Tensor& bound) {
  const Tensor least = torch::computed(eager, {}, DType::kFp32, {&bound});
  torch::Record record(eager, {&x});
  record.save(x);
  record.save(least);
  record.save(bound);
  Tensor output = torch::computed(eager, x.shape(), x.dtype(), {&x});
  if (record.active()) {
    record.finish(output,
                  [](Eager& e, torch::Gradients& grads, torch::Node& node) -> torch::Gradients {
                    const torch::Unpacked saved(e, node);
                    const torch::Shape& shape = grads[0].shape();
                    const Tensor zero = torch::computed(e, {}, grads[0].dtype());
                    const Tensor above = torch::computed(e, shape, DType::kBool, {&saved[0]});
                    const Tensor below = torch::computed(e, shape, DType::kBool, {&saved[0]});
                    return {torch::computed(e, shape, grads[0].dtype(), {&grads[0], &above})};
                  });
  }
  return output;
}

}  // namespace

std::optional<Interpreter::Holder> Interpreter::bidirectional_holder(const Op& op,
                                                                     TensorId input) const {
  const bool in_module = op.module != Module::kNone && op.module != Module::kHead;
  const bool entered = in_module && entered_[index_of(input)];
  if (modeling_.normed == NormedName::kAttention && entered &&
      made_here(input, op.layer, OpKind::kNorm)) {
    const Op& norm = model_.graph->op(*producers_[index_of(input)]);
    return norm.role == OpRole::kMlpNorm ? Holder::kCaller : Holder::kAddition;
  }
  if (entered) {
    // BERT's layer has a name for the MLP's argument.
    return modeling_.nests_modules && op.module == Module::kMlp ? std::optional(Holder::kLayer)
                                                                : std::nullopt;
  }
  if (modeling_.nests_modules && in_module) {
    if (op.role == OpRole::kAttentionOutput || op.role == OpRole::kDown) {
      return Holder::kModule;  // A name of the outer module, between the inner two.
    }
    return op.kind == OpKind::kAdd ? Holder::kNorm : Holder::kNobody;
  }
  if (modeling_.names_gate && op.kind == OpKind::kMultiply) {
    return Holder::kModule;
  }
  const bool sum =
      op.kind == OpKind::kAdd && input == op.inputs[0] && made_here(input, op.layer, OpKind::kAdd);
  if (modeling_.adds_to_scores && op.layer >= 0 && !in_module && sum) {
    return Holder::kLayer;  // self_attention_outputs
  }
  const bool added =
      op.kind == OpKind::kDropout || (op.kind == OpKind::kAdd && input == op.inputs[0]);
  if (modeling_.drops_in_sum && op.layer >= 0 && !in_module && added) {
    return Holder::kAddition;
  }
  return std::nullopt;
}

/// T5Attention until 4.57: the first layer makes the bias with the mask. The bias is added to the
/// scores in place; the softmax of an fp32 copy is cast back to their type.
void Interpreter::run_biased_attention(const Op& op, const AttentionInput& input) {
  const torch::Shape& q = input.q.shape();
  const torch::Shape shape{q[0], q[1], q[2], input.k.shape()[2]};
  const bool cross = op.module == Module::kCrossAttention;
  Tensor length;
  Tensor scores = torch::batched_matmul(eager_, input.q, input.k, shape);
  Tensor& bias = cross ? shared_.cross_bias : shared_.position_bias;
  if (!bias.defined()) {
    if (!cross) {
      length = torch::computed(eager_, {}, DType::kInt64);  // cache_position[-1] + 1
    }
    const Tensor plain = position_bias(op, input.q, input.k);
    bias = masked_bias(eager_, plain, cross ? shared_.cross_mask : layer_mask_, shape);
  }
  scores = torch::add_in_place(eager_, scores, bias);
  frame_.insert(frame_.end(), {scores, length});
  Tensor weights;
  {
    const Tensor wide = torch::to(eager_, scores, DType::kFp32);
    weights = torch::softmax_last(eager_, wide, DType::kFp32);
  }
  weights = torch::to(eager_, weights, scores.dtype());
  weights = torch::dropout(eager_, weights, input.dropout);
  const Tensor output =
      torch::batched_matmul(eager_, weights, input.v, shape.with(3, input.v.shape()[3]));
  values_[index_of(op.outputs[0])] = torch::merge_heads(eager_, output);
  frame_.push_back(std::move(weights));  // Not returned.
}

/// T5LayerSelfAttention assigns its sum to the name of the addend; the other sub-layers have a name
/// for the sum and release the addend when they return.
bool Interpreter::is_reassigned(const Op& op, TensorId input) const {
  const std::optional<NodeId>& producer = producers_[index_of(input)];
  return modeling_.drops_in_sum && !modeling_.adds_to_scores && op.kind == OpKind::kDropout &&
         producer && model_.graph->op(*producer).module == Module::kAttention;
}

/// "clamp inf values to enable fp16 training": the result of a T5 sub-layer, unless an fp32 `wo` of
/// the previous layer has made it fp32.
void Interpreter::keep_finite(const Op& op) {
  if (!modeling_.widens_down || op.kind != OpKind::kAdd || op.layer < 0 ||
      op.module != Module::kNone) {
    return;
  }
  Tensor& hidden = values_[index_of(op.outputs[0])];
  if (hidden.dtype() == DType::kFp16) {
    hidden = clamp(eager_, hidden, finite_bound(eager_, hidden));
  }
}

/// The bias of a T5 attention: its argument, or made from its table or of zeros, also for later
/// layers.
Tensor Interpreter::position_bias(const Op& op, const Tensor& q, const Tensor& k) {
  Tensor own;  // The shared bias includes the mask.
  Tensor& shared =
      op.module == Module::kCrossAttention ? shared_.cross_bias : shared_.position_bias;
  Tensor& bias = modeling_.adds_to_scores ? own : shared;
  const std::int64_t queries = q.shape()[2];
  const std::int64_t keys = k.shape()[2];
  if (!bias.defined() && !op.parameters.empty()) {
    const auto look_up = [&](const Tensor& buckets) {
      return call_module(model_.hooks, module_of(op), buckets, [&](const Tensor& ids) {
        return torch::embedding(eager_, parameter(op, 0), ids);
      });
    };
    bias = relative_bias(eager_, look_up,
                         {.queries = queries,
                          .keys = keys,
                          .positions_given = modeling_.adds_to_scores,
                          .causal = op.causal});
  } else if (!bias.defined()) {
    bias = eager_.empty({1, q.shape()[1], queries, keys}, q.dtype());
    bias->requires_grad = recomputes(model_);  // position_bias.requires_grad = True
  }
  return bias;
}

namespace {

/// Norms that begin a sub-layer.
bool begins_sublayer(const Op& op) {
  return op.kind == OpKind::kNorm &&
         (op.role == OpRole::kAttentionNorm || op.role == OpRole::kCrossAttentionNorm ||
          op.role == OpRole::kMlpNorm);
}

/// The tensor to which the residual addition of the block of `at` adds.
TensorId residual_of(const Graph& graph, NodeId at) {
  while (graph.op(at).kind != OpKind::kAdd) {
    at = next(at);
  }
  return graph.op(at).inputs[0];
}

}  // namespace

void Interpreter::enter_nested(const ModuleCall& call, const std::vector<TensorId>& inputs) {
  NestedCall nested{.call = call, .given = {}};
  for (const TensorId id : inputs) {
    nested.given.emplace_back(id, values_[index_of(id)]);
  }
  Tensor unused;
  Tensor* const second = inputs.size() > 1 ? &values_[index_of(inputs[1])] : &unused;
  model_.hooks.enter(call, {&values_[index_of(inputs[0])], second});
  nested_.push_back(std::move(nested));
}

void Interpreter::leave_nested(std::initializer_list<Tensor*> outputs) {
  NestedCall nested = std::move(nested_.back());
  nested_.pop_back();
  for (auto& [id, caller] : nested.given) {
    if (values_[index_of(id)].defined()) {
      values_[index_of(id)] = std::move(caller);  // The caller holds what it passed.
    }
  }
  model_.hooks.leave(nested.call, outputs);
}

void Interpreter::enter_parts(NodeId id) {
  const Op& op = model_.graph->op(id);
  if (!model_.hooks.enter || op.layer < 0) {
    return;
  }
  if (modeling_.drops_in_sum && begins_sublayer(op)) {
    enter_nested({.part = ModuleCall::Part::kSublayer, .layer = op.layer, .op = &op},
                 {op.inputs[0]});
  }
  const ModuleCall half{.part = ModuleCall::Part::kHalf, .layer = op.layer, .op = &op};
  if (modeling_.nests_modules && (op.role == OpRole::kQuery || op.role == OpRole::kUp)) {
    enter_nested(half, {op.inputs[0]});
  }
  if (modeling_.nests_modules &&
      (op.role == OpRole::kAttentionOutput || op.role == OpRole::kDown)) {
    leave_nested({&values_[index_of(op.inputs[0])]});
    enter_nested(half, {op.inputs[0], residual_of(*model_.graph, id)});
  }
}

void Interpreter::leave_parts(const Op& op) {
  if (nested_.empty() || op.layer < 0) {
    return;
  }
  Tensor& output = values_[index_of(op.outputs[0])];
  if (modeling_.drops_in_sum && op.kind == OpKind::kAdd) {
    const bool crosses = nested_.back().call.op->role == OpRole::kCrossAttentionNorm;
    const bool attends = nested_.back().call.op->role != OpRole::kMlpNorm;
    Tensor none;
    leave_nested({&output, !attends  ? &none
                           : crosses ? &shared_.cross_bias
                                     : &shared_.position_bias});
  }
  if (modeling_.nests_modules && op.kind == OpKind::kNorm) {
    leave_nested({&output});
  }
}

void Interpreter::clear(const LayerRange& range) {
  rows_.reset();
  block_names_.clear();
  // The innermost frame goes first.
  for (std::size_t at = index_of(range.last) + 1; at-- > index_of(range.first);) {
    for (const TensorId output : model_.graph->op(NodeId{static_cast<std::uint32_t>(at)}).outputs) {
      values_[index_of(output)].reset();
    }
  }
  values_[index_of(range.input)].reset();
  attention_weights_.reset();
  earlier_weights_.reset();
  layer_mask_.reset();
  latent_ = {};
  latent_query_.reset();
  layer_names_.clear();
  until_addition_.clear();
  until_norm_.clear();
  frame_.clear();
  locals_.clear();
  arguments_.clear();
  block_ = nullptr;
  nested_.clear();
  module_ = Module::kNone;
}

/// Clears the names of a layer when the stack of its recomputation unwinds
/// (`torch::StopRecomputation`). Catching the exception and throwing it again would unwind every
/// frame twice.
class Interpreter::UnwoundNames {
 public:
  UnwoundNames(Interpreter& interpreter, const LayerRange& range)
      : interpreter_(interpreter), range_(range) {}
  ~UnwoundNames() {
    if (!kept_) {
      interpreter_.clear(range_);
    }
  }
  UnwoundNames(const UnwoundNames&) = delete;
  UnwoundNames& operator=(const UnwoundNames&) = delete;
  void keep() { kept_ = true; }

 private:
  Interpreter& interpreter_;
  const LayerRange& range_;
  bool kept_ = false;
};

Tensor Interpreter::run_layer(const LayerRange& range, const Tensor& input, const Tensor& mask) {
  values_[index_of(range.input)] = input;
  layer_mask_ = mask;
  {
    UnwoundNames names(*this, range);
    run(range.first, range.last);
    names.keep();
  }
  const bool reentrant = model_.plan->recompute == Recompute::kFullReentrant;
  if (modeling_.returns_weights && (reentrant || !eager_.in_backward())) {
    returned_weights_ = std::move(attention_weights_);
  }
  attention_weights_.reset();
  layer_mask_.reset();
  layer_names_.clear();
  until_norm_.clear();
  values_[index_of(range.input)].reset();
  return take(range.output);
}

}  // namespace headroom::ir::transformers
