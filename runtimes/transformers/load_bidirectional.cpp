#include "runtimes/transformers/load_bidirectional.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtimes/transformers/library_version.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

constexpr std::string_view kEncoder = "bert.";
constexpr std::string_view kHeadBias = "cls.predictions.bias";
constexpr std::string_view kAttention = ".self_attn.";
constexpr std::string_view kSinks = ".sinks";

/// _adjust_bias: pads the output layer's bias to the vocabulary, which copies it.
void pad_bias(Eager& eager, const Tensor& bias) {
  const Tensor padded = eager.empty(bias.shape(), bias.dtype(), TensorRole::kParameter);
  eager.move_storage(bias, padded);
}

}  // namespace

std::vector<TensorId> construction_order(const Graph& graph, bool loads) {
  std::vector<TensorId> order(graph.parameters().begin(), graph.parameters().end());
  if (loads) {
    return order;
  }
  const auto bias = std::find_if(order.begin(), order.end(),
                                 [&](TensorId id) { return graph.tensor(id).name == kHeadBias; });
  if (bias != order.end()) {
    std::rotate(bias, bias + 1, order.end());
  }
  for (auto at = order.begin(); at != order.end(); ++at) {
    if (graph.tensor(*at).name.ends_with(kSinks)) {
      const auto after = std::find_if(at + 1, order.end(), [&](TensorId id) {
        return graph.tensor(id).name.find(kAttention) == std::string::npos;
      });
      at = std::rotate(at, at + 1, after);
    }
  }
  return order;
}

ConstructorExtras::ConstructorExtras(Eager& eager, Model& model,
                                     const std::function<void(const Tensor&)>& created)
    : eager_(eager),
      model_(model),
      created_(created),
      fourth_(library_traits(*model.spec, *model.plan).fourth) {}

void ConstructorExtras::add_table(bool biased) {
  const DType dtype = param_dtype(model_.plan->precision);
  copies_.push_back(
      eager_.empty({model_.spec->vocabulary, model_.spec->hidden}, dtype, TensorRole::kParameter));
  if (biased) {
    decoder_bias_ = eager_.empty({model_.spec->vocabulary}, dtype, TensorRole::kParameter);
  }
  if (created_) {
    created_(copies_.back());
  }
  if (created_ && biased) {
    created_(decoder_bias_);
  }
}

void ConstructorExtras::before(TensorId parameter) {
  const std::int32_t layer = model_.graph->tensor(parameter).layer;
  if (model_.spec->architecture == Architecture::kMaskedLm) {
    before_masked(parameter);
  } else if (model_.spec->encoder && !fourth_ && layer != layer_ &&
             (layer == 0 || layer == model_.spec->encoder->layers)) {
    add_table(false);  // Each stack makes its own embed_tokens.
  }
  layer_ = layer;
}

void ConstructorExtras::add_ids() {
  const torch::Shape ids{1, model_.spec->max_positions};
  for (int buffer = 0; buffer < 2; ++buffer) {  // position_ids and token_type_ids.
    model_.buffers.push_back(eager_.empty(ids, DType::kInt64, TensorRole::kBuffer));
  }
}

void ConstructorExtras::before_masked(TensorId parameter) {
  if (model_.plan->quant) {
    return;  // Made without memory; parameters are read one by one.
  }
  const TensorInfo& info = model_.graph->tensor(parameter);
  const torch::Shape ids{1, model_.spec->max_positions};
  if (layer_ < 0 && info.layer == 0) {
    add_ids();
  }
  if (!encoder_made_ && !info.name.starts_with(kEncoder) && !fourth_) {
    encoder_made_ = true;
    const Tensor range = eager_.empty(ids, DType::kInt64, TensorRole::kTemporary);
  }
  if (info.name == kHeadBias && model_.spec->tied_embeddings) {
    add_table(!fourth_);  // Before 5.0, the decoder's bias was the head's.
  }
}

void ConstructorExtras::finish() {
  if (model_.spec->architecture == Architecture::kMaskedLm) {
    finish_masked();
  } else if (model_.spec->encoder) {
    add_table(false);  // lm_head
  }
  copies_.clear();
}

/// The decoder is read last, tied; its buffers then come from the host.
void ConstructorExtras::finish_loaded() {
  const bool has_decoder = model_.spec->task == Task::kLanguage && model_.spec->tied_embeddings;
  if (has_decoder) {
    add_table(true);
    copies_.clear();
    pad_bias(eager_, decoder_bias_);
    pad_bias(eager_, decoder_bias_);
  }
  add_ids();
  decoder_bias_.reset();
}

/// tie_weights() runs twice; the second call comes from the code that built the model without
/// initial weights.
void ConstructorExtras::finish_masked() {
  if (model_.plan->quant) {
    finish_loaded();
    return;
  }
  if (!model_.spec->tied_embeddings) {
    return;
  }
  const auto bias =
      std::find_if(model_.graph->parameters().begin(), model_.graph->parameters().end(),
                   [&](TensorId id) { return model_.graph->tensor(id).name == kHeadBias; });
  const Tensor& kept = model_.parameters[index_of(*bias)];
  copies_.clear();
  if (created_) {  // A partitioned bias cannot be padded here.
    decoder_bias_.reset();
    return;
  }
  if (decoder_bias_.defined()) {
    pad_bias(eager_, decoder_bias_);
    decoder_bias_.reset();
  }
  const int passes = fourth_ ? 2 : 3;
  for (int pass = 0; pass < passes; ++pass) {
    pad_bias(eager_, kept);
  }
}

}  // namespace headroom::ir::transformers
