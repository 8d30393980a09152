#include "model_ir/runtime/transformers/generation.h"

#include <array>
#include <memory>
#include <utility>

#include "model_ir/graph/decoder.h"
#include "model_ir/runtime/torch/phase.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/kv_cache.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

/// Names of `_sample` and of `generate`.
struct Sequences {
  Tensor ids;                     ///< [B, tokens so far]
  Tensor mask;                    ///< Likewise.
  Tensor positions;               ///< Likewise.
  Tensor scores;                  ///< [B, V] of the last token, fp32.
  std::array<Tensor, 2> special;  ///< Ids of the ends of a sequence and of padding.
  Tensor unfinished;              ///< [B]
  Tensor next;                    ///< [B]
};

Tensor row(Eager& eager, std::int64_t batch, std::int64_t tokens) {
  return eager.empty({batch, tokens}, DType::kInt64, TensorRole::kInput);
}

/// The token of the greatest score is appended; `logits` go.
void append_token(Eager& eager, Sequences& names, Tensor logits) {
  eager.set_site("sample", -1);
  const std::int64_t batch = names.ids.shape()[0];
  const std::int64_t tokens = names.ids.shape()[1] + 1;
  names.mask = row(eager, batch, tokens);
  names.positions = row(eager, batch, tokens);
  names.scores = eager.empty({batch, logits.shape()[2]}, DType::kFp32, TensorRole::kLogits);
  names.next = eager.empty({batch}, DType::kInt64, TensorRole::kInput);
  names.ids = row(eager, batch, tokens);
  names.unfinished = eager.empty({batch}, DType::kInt64, TensorRole::kInput);
  logits.reset();
}

}  // namespace

std::optional<Error> generation_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (!plan.generation) {
    return std::nullopt;
  }
  if (plan.runtime != RuntimeKind::kTransformers) {
    return Error::invalid_argument("generation", "parameters that are sharded", "whole ones",
                                   "leave generation out, or use --runtime transformers");
  }
  bool windows = false;
  for (const LayerSpec& layer : spec.layers) {
    windows = windows || layer.window.has_value();
  }
  const bool served = spec.architecture == Architecture::kCausalLm && !windows && !spec.latent &&
                      !spec.moe && spec.position != PositionKind::kAlibi && !spec.attention_sinks;
  if (!served) {
    return Error::invalid_argument("generation", spec.name,
                                   "a dense causal decoder without windows or alibi",
                                   "leave generation out");
  }
  if (plan.generation->static_cache || plan.padded_batch) {
    return Error::invalid_argument("generation", "a static cache, or padded prompts",
                                   "a dynamic cache and prompts of one length",
                                   "leave static_cache and padded out");
  }
  return std::nullopt;
}

void generate(Eager& eager, const Model& model) {
  const torch::GradMode grad(eager, false);
  const std::int64_t batch = model.plan->micro_batch;
  const std::int64_t prompt = model.plan->sequence;
  Sequences names;
  Sequences given;
  Model prefill = model;
  prefill.training = false;
  prefill.cache = std::make_shared<KeyValueCache>(model.spec->layers.size());
  {
    const PhaseScope phase(eager, "generation.prefill");
    eager.set_site("input_ids", -1);
    names.ids = row(eager, batch, prompt);
    names.mask = row(eager, batch, prompt);
    for (Tensor& token : names.special) {
      token = eager.empty({1}, DType::kInt64, TensorRole::kInput);
    }
    names.positions = row(eager, batch, prompt);
    given = names;  // The caller's, and generate's own arguments.
    names.unfinished = eager.empty({batch}, DType::kInt64, TensorRole::kInput);
    Tensor logits = forward(eager, prefill, names.ids).logits;
    append_token(eager, names, std::move(logits));
  }
  const PhaseScope phase(eager, "generation.decode");
  ParallelPlan one = *model.plan;
  one.sequence = 1;
  const Graph graph = build_graph(*model.spec, {.batch = batch, .sequence = 1});
  Model decode = prefill;
  decode.plan = &one;
  decode.graph = &graph;
  for (std::int64_t token = 1; token < model.plan->generation->new_tokens; ++token) {
    eager.set_site("input_ids", -1);
    const Tensor last = row(eager, batch, 1);
    append_token(eager, names, forward(eager, decode, last).logits);
  }
  prefill.cache.reset();
  decode.cache.reset();
  names = {};
  given = {};
}

}  // namespace headroom::ir::transformers
