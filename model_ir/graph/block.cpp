#include "model_ir/base/check.h"
#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

/// The last operator of a sub-layer that the sub-layer's own module runs.
enum class ModuleEnd { kProjection, kDropout, kResidual };

ModuleEnd module_end(Family family) {
  if (family == Family::kGpt2 || family == Family::kStarcoder2) {
    return ModuleEnd::kDropout;
  }
  // BLOOM calls dropout_add inside its modules; BERT has BertSelfOutput and BertOutput.
  return family == Family::kBloom || family == Family::kBert ? ModuleEnd::kResidual
                                                             : ModuleEnd::kProjection;
}

/// Dropout on the attention's output, before the addition.
double attention_out_dropout(const ModelSpec& model) {
  if (model.family == Family::kFalcon) {  // Its layer passes config.attention_dropout.
    return model.dropout.attention;
  }
  // StableLmDecoderLayer applies dropout only to the MLP's output.
  return model.family == Family::kStablelm ? 0 : model.dropout.residual;
}

/// How a sub-layer's output joins the residual stream.
struct Joint {
  OpRole out_norm;
  double dropout;
};

bool norm_before_addition(NormPlacement placement) {
  return placement == NormPlacement::kOutput || placement == NormPlacement::kSandwich;
}

TensorId join_residual(GraphBuilder& builder, const Joint& joint, TensorId residual,
                       TensorId value) {
  const ModelSpec& model = builder.model();
  const ModuleEnd end = module_end(model.family);
  if (end == ModuleEnd::kProjection) {
    builder.leave();
  }
  if (norm_before_addition(model.norm_placement)) {
    value = builder.norm(joint.out_norm, value);
  }
  value = builder.dropout(value, joint.dropout);
  if (end == ModuleEnd::kDropout) {
    builder.leave();
  }
  if (model.scales_residual) {
    value = builder.scale(OpRole::kNone, value);
  }
  TensorId hidden = builder.add_residual(residual, value);
  if (model.norm_placement == NormPlacement::kPost) {
    hidden = builder.norm(joint.out_norm, hidden);
  }
  builder.leave();
  return hidden;
}

bool norm_before_sublayer(NormPlacement placement) {
  return placement == NormPlacement::kPre || placement == NormPlacement::kSandwich;
}

AttentionForm form_of(const ModelSpec& model, const LayerSpec& layer) {
  return {.window = layer.window,
          .causal = model.architecture == Architecture::kCausalLm,
          .memory = {},
          .relative_bias = {}};
}

TensorId run_attention(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  builder.enter(Module::kAttention);
  return build_attention(builder, form_of(builder.model(), layer), hidden);
}

TensorId run_mlp(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  // OPTDecoderLayer.forward calls fc1 and fc2 itself.
  builder.enter(builder.model().family == Family::kOpt ? Module::kNone : Module::kMlp);
  return build_mlp(builder, layer, hidden);
}

TensorId build_sequential(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const ModelSpec& model = builder.model();
  const bool before = norm_before_sublayer(model.norm_placement);
  TensorId input = before ? builder.norm(OpRole::kAttentionNorm, hidden) : hidden;
  TensorId value = run_attention(builder, layer, input);
  hidden = join_residual(builder, {OpRole::kAttentionOutNorm, attention_out_dropout(model)}, hidden,
                         value);
  input = before ? builder.norm(OpRole::kMlpNorm, hidden) : hidden;
  value = run_mlp(builder, layer, input);
  return join_residual(builder, {OpRole::kMlpOutNorm, model.dropout.residual}, hidden, value);
}

/// GPT-NeoX: x + (mlp(norm2(x)) + attention(norm1(x))), each with its own dropout.
TensorId build_parallel_neox(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const double dropout = builder.model().dropout.residual;
  TensorId attention = run_attention(builder, layer, builder.norm(OpRole::kAttentionNorm, hidden));
  builder.leave();
  attention = builder.dropout(attention, dropout);
  TensorId mlp = run_mlp(builder, layer, builder.norm(OpRole::kMlpNorm, hidden));
  builder.leave();
  mlp = builder.dropout(mlp, dropout);
  return builder.add_residual(hidden, builder.add_residual(attention, mlp));
}

/// Falcon: both norms first, the two outputs summed in place, one dropout on the sum.
TensorId build_parallel_falcon(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const ModelSpec& model = builder.model();
  const TensorId attention_input = builder.norm(OpRole::kAttentionNorm, hidden);
  const TensorId mlp_input = model.residual == ResidualForm::kParallelTwoNorms
                                 ? builder.norm(OpRole::kMlpNorm, hidden)
                                 : attention_input;
  const TensorId attention = run_attention(builder, layer, attention_input);
  builder.leave();
  const TensorId mlp = run_mlp(builder, layer, mlp_input);
  builder.leave();
  const TensorId sum = builder.add_residual(attention, mlp);
  return builder.add_residual(hidden, builder.dropout(sum, model.dropout.residual));
}

/// Cohere and StableLM: (x + attention(norm(x))) + mlp(norm(x)).
TensorId build_parallel_one_norm(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const TensorId input = builder.norm(OpRole::kAttentionNorm, hidden);
  const TensorId attention = run_attention(builder, layer, input);
  builder.leave();
  TensorId mlp = run_mlp(builder, layer, input);
  builder.leave();
  mlp = builder.dropout(mlp, builder.model().dropout.residual);
  return builder.add_residual(builder.add_residual(hidden, attention), mlp);
}

}  // namespace

TensorId build_block(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const ModelSpec& model = builder.model();
  if (model.residual == ResidualForm::kSequential) {
    return build_sequential(builder, layer, hidden);
  }
  if (model.family == Family::kFalcon) {
    return build_parallel_falcon(builder, layer, hidden);
  }
  return model.residual == ResidualForm::kParallelTwoNorms
             ? build_parallel_neox(builder, layer, hidden)
             : build_parallel_one_norm(builder, layer, hidden);
}

}  // namespace headroom::ir
