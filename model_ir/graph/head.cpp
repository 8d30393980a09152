#include <utility>
#include <vector>

#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

/// The head's matrix, or the token table it is tied to, and the bias if there is one.
std::vector<TensorId> head_parameters(const GraphBuilder& builder, TensorId embedding) {
  std::vector<TensorId> own = builder.parameters(OpRole::kHead);
  if (builder.model().tied_embeddings) {
    own.insert(own.begin(), embedding);
  }
  return own;
}

TensorId build_transform(GraphBuilder& builder, TensorId hidden) {
  hidden = builder.linear(OpRole::kHeadDense, "transformed", hidden);
  return builder.norm(OpRole::kHeadDenseNorm, builder.act(hidden));
}

}  // namespace

void build_head(GraphBuilder& builder, TensorId hidden, TensorId embedding) {
  const ModelSpec& model = builder.model();
  const TensorId labels = builder.input("labels");
  builder.enter(Module::kHead);
  if (model.head_transform) {
    hidden = build_transform(builder, hidden);
  }
  if (model.head_input_scale != 1) {
    hidden = builder.scale(OpRole::kNone, hidden);
  }
  TensorId logits = builder.activation("logits", model.vocabulary);
  builder.add({.kind = OpKind::kLinear,
               .role = OpRole::kHead,
               .inputs = {hidden},
               .parameters = head_parameters(builder, embedding),
               .outputs = {logits}});
  if (model.scales_logits) {
    logits = builder.scale(OpRole::kHead, logits);
  }
  if (model.logit_softcap > 0) {
    logits = builder.same_width("capped", {.kind = OpKind::kSoftcap, .inputs = {logits}});
  }
  const TensorId loss = builder.tensor("loss", {});
  builder.add({.kind = OpKind::kCrossEntropy, .inputs = {logits, labels}, .outputs = {loss}});
  builder.leave();
}

}  // namespace headroom::ir
