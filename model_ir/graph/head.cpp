#include <utility>
#include <vector>

#include "model_ir/graph/sublayers.h"
#include "model_ir/spec/task.h"

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

TensorId pool(GraphBuilder& builder, TensorId input, Pooling pooling) {
  const TensorId output = builder.tensor("pooled", {builder.shape().batch, builder.width(input)});
  builder.add({.kind = OpKind::kPool, .inputs = {input}, .outputs = {output}, .pooling = pooling});
  return output;
}

/// BERT pools the hidden states, decoders the logits.
void build_classifier(GraphBuilder& builder, const ClassifierForm& form, TensorId hidden) {
  const ModelSpec& model = builder.model();
  const bool sequences = model.task == Task::kSequenceClassification;
  const TensorId labels =
      sequences ? builder.input_per_sequence("labels") : builder.input("labels");
  builder.enter(Module::kHead);
  if (form.pools) {
    hidden = builder.linear(OpRole::kPooler, "pooled", pool(builder, hidden, Pooling::kFirst));
    hidden = builder.same_width(
        "activated",
        {.kind = OpKind::kActivation, .inputs = {hidden}, .activation = Activation::kTanh});
  }
  if (form.drops) {
    hidden = builder.dropout(hidden, model.dropout.classifier);
  }
  TensorId logits = builder.linear(OpRole::kHead, "logits", hidden);
  if (sequences && !form.pools) {
    logits = pool(builder, logits, Pooling::kLast);
  }
  const bool regression = sequences && model.labels == 1;
  builder.add({.kind = regression ? OpKind::kSquaredError : OpKind::kCrossEntropy,
               .inputs = {logits, labels},
               .outputs = {builder.tensor("loss", {})}});
  builder.leave();
}

}  // namespace

void build_head(GraphBuilder& builder, TensorId hidden, TensorId embedding) {
  const ModelSpec& model = builder.model();
  if (const auto form = classifier_form(model.family, model.task)) {
    return build_classifier(builder, *form, hidden);
  }
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
