// Operators of mixtures of experts and of latent attention.

#include <array>
#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/expert_loop.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/kv_cache.h"
#include "runtimes/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Tensor;

bool Interpreter::is_local(const Op& op, TensorId input) const {
  switch (op.kind) {
    case OpKind::kAttention:
      return !model_.spec->latent;
    case OpKind::kExperts:
      return input != op.inputs[0];
    default:
      return false;
  }
}

const Tensor& Interpreter::rows(const Op& op) {
  if (!rows_.defined()) {
    const Tensor& hidden = value(op, 0);
    const std::int64_t width = hidden.shape()[-1];
    rows_ = torch::view(eager_, hidden, {hidden.elements() / width, width});
  }
  return rows_;
}

/// Qwen2-MoE passes [T, H] to its shared expert, as to its router.
bool Interpreter::reads_rows(const Op& op) const {
  return model_.spec->moe && model_.spec->moe->shared_gate &&
         (op.role == OpRole::kSharedGate || op.role == OpRole::kSharedUp ||
          op.role == OpRole::kSharedSigmoid);
}

/// `hidden_states *= torch.empty_like(hidden_states).uniform_(...)`: in place, so all readers see
/// it.
void Interpreter::disturb(const Op& op) {
  Tensor& hidden = values_[index_of(op.inputs[0])];
  torch::Record record(eager_, {&hidden});
  const Tensor noise = torch::filled(eager_, hidden.shape(), hidden.dtype());
  record.save(noise);
  Tensor disturbed = eager_.alias(hidden, hidden.shape(), false);
  torch::launch(eager_, {&hidden, &noise, &hidden});
  record.finish(
      disturbed, [](Eager& e, torch::Gradients& grads, torch::Node& node) -> torch::Gradients {
        const Tensor saved = node.saved[0].unpack(e);
        return {torch::computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0], &saved})};
      });
  hidden = std::move(disturbed);
}

/// The router as a module of the library, which is not a linear layer.
Routing Interpreter::route_apart(const Op& op) {
  RouterInput input;
  const bool wide = op.router == RouterForm::kWideSoftmax || op.router == RouterForm::kWideSigmoid;
  // DeepSeek's router gets [B, S, H], as gpt-oss's did.
  Tensor given = wide || library_.fourth ? value(op, 0) : rows(op);
  if (model_.hooks.enter) {
    model_.hooks.enter(module_of(op), {&given});
  }
  input.weight = router_weight_of(eager_, model_, op.parameters[0]);
  input.bias = parameter(op, 1);
  const std::int64_t width = given.shape()[-1];
  input.rows = torch::view(eager_, given, {given.elements() / width, width});
  if (op.router == RouterForm::kWideSigmoid) {
    input.correction = model_.corrections.at(static_cast<std::uint32_t>(op.parameters[0]));
  }
  input.fourth = library_.fourth;
  Routing routing = route(eager_, op.router, *model_.spec->moe, input);
  if (model_.hooks.leave) {
    model_.hooks.leave(module_of(op), {&routing.weights});
  }
  return routing;
}

void Interpreter::run_router(const Op& op) {
  if (model_.spec->moe->input_noise && model_.training) {
    disturb(op);
  }
  const bool loops = library_.loop != ExpertLoop::kNone;
  const bool within = loops && is_linear_router(op);
  Routing routing = within ? route_within(op) : route_apart(op);
  // Recomputed logits are not recorded again.
  if (model_.spec->moe->auxiliary_loss && !eager_.in_backward()) {
    router_logits_.push_back(routing.logits);
  }
  if (!loops) {
    block_names_.push_back(std::move(routing.logits));
  } else if (within) {  // The block returns them, and the layer has a name for them.
    layer_names_.push_back(std::move(routing.logits));
  }
  values_[index_of(op.outputs[0])] = std::move(routing.weights);
  values_[index_of(op.outputs[1])] = std::move(routing.indices);
}

/// The experts as a separate module.
Tensor Interpreter::group_experts(const Op& op) {
  const bool biases = op.parameters.size() == 4;
  Tensor hidden = rows(op);
  Tensor weights = value(op, 1);
  if (model_.hooks.enter) {
    model_.hooks.enter(module_of(op), {&hidden, &weights});
  }
  FoldedWeight down = factors_of(eager_, model_, op.parameters[biases ? 2 : 1]);
  FoldedWeight gate_up = factors_of(eager_, model_, op.parameters[0]);
  const ExpertsInput input{.rows = hidden,
                           .weights = weights,
                           .indices = value(op, 2),
                           .gate_up = std::move(gate_up),
                           .gate_up_bias = biases ? parameter(op, 1) : Tensor{},
                           .down = std::move(down),
                           .down_bias = biases ? parameter(op, 3) : Tensor{},
                           .gate = op.gate,
                           .activation = op.activation};
  const bool decodes = model_.cache != nullptr && model_.cache->decodes;
  Tensor output =
      decodes ? run_chosen_experts(eager_, input) : transformers::run_experts(eager_, input);
  if (model_.hooks.leave) {
    model_.hooks.leave(module_of(op), {&output});
  }
  return output;
}

void Interpreter::run_experts(const Op& op) {
  Tensor output = library_.loop == ExpertLoop::kNone ? group_experts(op) : loop_over_experts(op);
  if (!model_.spec->moe->shared_gate) {  // Qwen2-MoE adds its shared expert first.
    output = torch::view(eager_, output, value(op, 0).shape());
  }
  values_[index_of(op.outputs[0])] = std::move(output);
  if (model_.spec->attention_sinks && attention_weights_.defined()) {
    // gpt-oss's layer: `hidden_states, _ = ...` of attention and of experts; the scores are
    // assigned to the same name `_`. Source: modeling_gpt_oss.py, GptOssDecoderLayer.
    attention_weights_ = value(op, 1);
  }
}

/// sigmoid(gate(x)) * shared(x)
Tensor Interpreter::run_shared_gate(const Op& op) {
  Tensor gate = run_linear(op);
  gate = torch::sigmoid(eager_, gate);
  Tensor gated = torch::mul(eager_, gate, value(op, 1));
  block_names_.insert(block_names_.begin(), gated);  // Named before the router's results.
  return gated;
}

/// Routing from the logits of a router that is a linear layer of the block itself.
Routing Interpreter::route_within(const Op& op) {
  const Tensor& given = rows(op);
  return route_in_block(eager_, *model_.spec->moe, run_linear_of(op, given), given.dtype());
}

Tensor Interpreter::run_linear_of(const Op& op, const Tensor& input) {
  return model_.adapters.contains(static_cast<std::uint32_t>(op.parameters[0]))
             ? adapted_linear(eager_, model_, op, input)
             : frozen_linear(eager_, model_, op, input);
}

/// act_fn(gate_proj(x)) * up_proj(x), then down_proj. Source: modeling_mixtral.py,
/// MixtralBlockSparseTop2MLP.forward.
Tensor Interpreter::run_expert(const Op& op, std::int64_t expert, const Tensor& rows) {
  const auto linear = [&](std::size_t index, const Tensor& input) {
    const TensorId weight = op.parameters[3 * static_cast<std::size_t>(expert) + index];
    return run_linear_of({.kind = OpKind::kLinear, .layer = op.layer, .parameters = {weight}},
                         input);
  };
  Tensor gate = linear(0, rows);
  Tensor activated = activation(eager_, op.activation, gate);
  gate.reset();
  Tensor up = linear(1, rows);
  const Tensor product = torch::mul(eager_, activated, up);
  activated.reset();
  up.reset();
  return linear(2, product);
}

Tensor Interpreter::loop_over_experts(const Op& op) {
  if (op.gate == ExpertGate::kInterleavedClamped) {
    const BiasedExpertsInput input{.rows = rows(op),
                                   .weights = value(op, 1),
                                   .indices = value(op, 2),
                                   .gate_up = parameter(op, 0),
                                   .gate_up_bias = parameter(op, 1),
                                   .down = parameter(op, 2),
                                   .down_bias = parameter(op, 3),
                                   .spare_class = library_.spare_class};
    return model_.training ? run_biased_loop(eager_, input) : run_biased_batch(eager_, input);
  }
  const ExpertLoopInput input{.rows = rows(op),
                              .weights = value(op, 1),
                              .indices = value(op, 2),
                              .experts = model_.spec->moe->experts,
                              .loop = library_.loop,
                              .run = [&](std::int64_t expert, const Tensor& given) {
                                return run_expert(op, expert, given);
                              }};
  return modeling_.experts_method ? run_expert_method(eager_, input)
                                  : run_expert_loop(eager_, input, frame_);
}

Tensor Interpreter::run_latent_norm(const Op& op) {
  const Tensor rows = cut_compressed(eager_, *model_.spec->latent, value(op, 0), latent_);
  Tensor normed = run_norm(op, rows);
  if (!modeling_.expands_first) {  // That code has no name for it.
    latent_.normed = normed;
  }
  return normed;
}

void Interpreter::run_expanded_qkv(const Op& op) {
  KeyValue made = cut_expanded(eager_, *model_.spec, value(op, 2));
  rotate_latent(eager_, model_, {shared_.cos, shared_.sin}, latent_);
  const Tensor everywhere = torch::expand_heads(eager_, latent_.key_rope, model_.spec->heads);
  const Tensor query = join_query(eager_, latent_);
  made.key = torch::cat_last(eager_, made.key, everywhere);
  values_[index_of(op.outputs[0])] = query;
  values_[index_of(op.outputs[1])] = made.key;
  values_[index_of(op.outputs[2])] = made.value;
  // Names of the module, in the order of their first assignment.
  frame_.insert(frame_.end(), {latent_.query, latent_.query_rope, value(op, 1), latent_.key_rope,
                               made.value, query, made.key});
  latent_ = {};
}

void Interpreter::run_latent_qkv(const Op& op) {
  if (modeling_.expands_first) {
    run_expanded_qkv(op);
    return;
  }
  KeyValue made = expand_latent(eager_, *model_.spec, value(op, 2), latent_.key_rope);
  values_[index_of(op.outputs[0])] = std::move(latent_query_);
  values_[index_of(op.outputs[1])] = std::move(made.key);
  values_[index_of(op.outputs[2])] = std::move(made.value);
  // Names of the module, in the order of their first assignment: DeepSeek-V2 has a new name for the
  // normalised latents, V3 reuses that of the latents.
  std::array<Tensor, 2> keys = {std::move(latent_.normed), std::move(latent_.key_rope)};
  if (modeling_.rope == RopeForm::kComplex) {
    std::swap(keys[0], keys[1]);
  }
  frame_.insert(frame_.end(), {latent_.query, latent_.query_rope, value(op, 1), keys[0], keys[1]});
  for (const TensorId output : op.outputs) {
    frame_.push_back(values_[index_of(output)]);
  }
  latent_ = {};
}

}  // namespace headroom::ir::transformers
