#include "runtimes/transformers/recording/padded_batch.h"

#include <algorithm>
#include <string_view>

#include "runtimes/transformers/masks.h"
#include "runtimes/transformers/recording/prepared_code.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

constexpr std::string_view kFusedAttention = "scaled_dot_product_attention";

/// Kinds of attention in a variant's layers.
struct LayerAttention {
  bool masked = false;         ///< One has a mask of its own.
  bool causal = false;         ///< One is causal without a mask.
  bool bidirectional = false;  ///< One is neither.
  bool missing = false;        ///< A layer has none: a state space, linear attention.
};

void look_at(const RecordedCode& code, LayerAttention& found, bool& attends) {
  for (const Instruction& instruction : code.instructions) {
    if (instruction.loop) {
      look_at(instruction.loop->body.code, found, attends);
    }
    if (instruction.name != kFusedAttention) {
      continue;
    }
    attends = true;
    if (instruction.inputs.size() > 3 && instruction.inputs[3].kind != Reference::Kind::kNone) {
      found.masked = true;
    } else {
      (instruction.causal ? found.causal : found.bidirectional) = true;
    }
  }
}

LayerAttention attention_of(const RecordedVariant& variant) {
  LayerAttention found;
  for (const RecordedLayer& layer : variant.layers) {
    bool attends = false;
    look_at(variant.bodies[layer.body].code, found, attends);
    found.missing = found.missing || !attends;
  }
  found.missing = found.missing || variant.layers.empty();
  return found;
}

/// Whether the model makes a mask of ones [B, S] itself before its layers.
bool makes_ones(const RecordedVariant& variant) {
  const RecordedShape& ids = variant.inputs.front().shape;
  return std::ranges::any_of(variant.forward.instructions, [&](const Instruction& instruction) {
    return instruction.name == "ones" && instruction.outputs.front().shape == ids;
  });
}

/// Eager attention of a model that makes ones itself gets them in the same form.
bool is_masked_already(const RecordedVariant& variant) {
  return variant.attention != "sdpa" && makes_ones(variant);
}

}  // namespace

std::optional<Error> padding_trouble(const Recording& recording, const TypedCode& code) {
  const RecordedVariant& variant = *code.variant;
  const auto refused = [](std::string_view what) {
    return Error::invalid_argument("padded",
                                   "is not supported for recorded models " + std::string(what), {},
                                   "leave out --padded: the answer is then for sequences that "
                                   "fill --seq");
  };
  const bool has_encoder_and_decoder = recording.task.find("seq2seq") != std::string::npos;
  if (has_encoder_and_decoder) {
    return refused("with an encoder and a decoder");
  }
  if (variant.images.kind != RecordedImages::Kind::kNone) {
    return refused("with images");
  }
  if (is_masked_already(variant)) {
    return std::nullopt;
  }
  const LayerAttention attention = attention_of(variant);
  const bool windowed = std::ranges::any_of(recording.variants, [](const RecordedVariant& one) {
    return one.sequence_below || one.sequence_from > 1;
  });
  if (variant.attention != "sdpa" || attention.missing || attention.masked || windowed ||
      attention.causal == attention.bidirectional) {
    return refused(windowed            ? "with sliding-window attention"
                   : attention.missing ? "with layers that have no attention"
                                       : "whose attention is eager or has a mask of its own");
  }
  return std::nullopt;
}

Tensor make_padded_mask(Eager& eager, const Model& model, const Tensor& padding) {
  const RecordedVariant& variant = model.recorded->variant();
  if (is_masked_already(variant)) {
    return {};
  }
  eager.set_site("masks", -1);
  const MaskInput input{.padding = padding, .dtype = param_dtype(model.plan->precision)};
  return attention_of(variant).causal ? make_masks(eager, model, input).full
                                      : make_bidirectional_mask(eager, model, input);
}

}  // namespace headroom::ir::transformers
