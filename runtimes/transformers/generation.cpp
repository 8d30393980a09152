#include "runtimes/transformers/generation.h"

#include <array>
#include <memory>
#include <utility>

#include "model_ir/graph/decoder.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/phase.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/forward.h"
#include "runtimes/transformers/kv_cache.h"
#include "runtimes/transformers/masks.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

/// Names of `_sample` and of `generate`.
struct Sequences {
  Tensor ids;                     ///< [B, tokens so far]
  GivenInputs kwargs;             ///< Of all tokens so far.
  std::array<Tensor, 2> special;  ///< Ids of the beginning of a sequence and of padding.
  Tensor unfinished;              ///< [B]
  Tensor scores;                  ///< [B, V] of the last token, fp32.
  Tensor next;                    ///< [B]
  Tensor last;                    ///< [B, 1]: among the model's inputs of the last step,
  GivenInputs inputs;             ///< as are these.
};

Tensor row(Eager& eager, std::int64_t batch, std::int64_t tokens) {
  return torch::computed(eager, {batch, tokens}, DType::kInt64, TensorRole::kInput);
}

Tensor flags(Eager& eager, std::int64_t batch) {
  return torch::computed(eager, {batch}, DType::kBool, TensorRole::kTemporary);
}

/// Batches of several prompts are checked for padding on the right.
void check_padding(Eager& eager, std::int64_t batch) {
  if (batch > 1) {
    const Tensor padded = flags(eager, batch);
    const Tensor any = torch::computed(eager, {}, DType::kBool, TensorRole::kTemporary);
  }
}

/// _prepare_position_ids_for_generation: counted along the mask.
Tensor count_along(Eager& eager, const Tensor& mask) {
  const std::int64_t batch = mask.shape()[0];
  const std::int64_t tokens = mask.shape()[1];
  Tensor counts = row(eager, batch, tokens);
  scan_scratch(eager, batch, DType::kInt64);
  const Tensor from_zero = row(eager, batch, tokens);
  counts.reset();
  const Tensor hidden =
      torch::computed(eager, {batch, tokens}, DType::kBool, TensorRole::kTemporary);
  return row(eager, batch, tokens);
}

/// _update_model_kwargs_for_generation: positions and mask of one more token.
void lengthen(Eager& eager, GivenInputs& kwargs) {
  const std::int64_t batch = kwargs.mask.shape()[0];
  const std::int64_t tokens = kwargs.mask.shape()[1] + 1;
  Tensor range = row(eager, 1, 1);
  Tensor sum = row(eager, batch, 1);
  range.reset();
  Tensor position = row(eager, batch, 1);
  sum.reset();
  Tensor positions = row(eager, batch, tokens);
  position.reset();
  const Tensor one = row(eager, batch, 1);
  kwargs.mask = row(eager, batch, tokens);
  kwargs.positions = std::move(positions);
}

/// Only the length stops a sequence.
void check_stop(Eager& eager, Sequences& names) {
  const std::int64_t batch = names.ids.shape()[0];
  Tensor none = flags(eager, batch);
  Tensor long_enough = flags(eager, batch);
  Tensor done = flags(eager, batch);
  long_enough.reset();
  none.reset();
  Tensor others = flags(eager, batch);
  done.reset();
  names.unfinished = torch::computed(eager, {batch}, DType::kInt64, TensorRole::kInput);
  others.reset();
  Tensor most = torch::computed(eager, {}, DType::kInt64, TensorRole::kTemporary);
  const Tensor finished = torch::computed(eager, {}, DType::kBool, TensorRole::kTemporary);
  most.reset();
}

/// _has_unfinished_sequences: ranks that share parameters stop together (synced_gpus).
void ask_ranks(Eager& eager, const Model& model) {
  if (!model.setting.stops_together || model.plan->world == 1) {
    return;
  }
  const Tensor unfinished = torch::computed(eager, {}, DType::kFp32, TensorRole::kCommunication);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = torch::bytes_of(unfinished),
                            .group = {.size = model.plan->world}});
}

/// Appends the token with the highest score and releases `logits`.
void append_token(Eager& eager, Sequences& names, Tensor logits) {
  eager.set_site("sample", -1);
  const std::int64_t batch = names.ids.shape()[0];
  const std::int64_t tokens = names.ids.shape()[1] + 1;
  lengthen(eager, names.kwargs);
  names.scores =
      torch::computed(eager, {batch, logits.shape()[2]}, DType::kFp32, TensorRole::kLogits);
  names.next = torch::computed(eager, {batch}, DType::kInt64, TensorRole::kInput);
  names.ids = row(eager, batch, tokens);
  check_stop(eager, names);
  logits.reset();
}

/// prepare_inputs_for_generation for one more token; releases the inputs of the last step.
void prepare_inputs(Eager& eager, Sequences& names) {
  eager.set_site("input_ids", -1);
  const std::int64_t batch = names.ids.shape()[0];
  Tensor last = row(eager, batch, 1);
  GivenInputs inputs{.mask = names.kwargs.mask, .positions = row(eager, batch, 1)};
  names.last = std::move(last);
  names.inputs.positions = std::move(inputs.positions);
  names.inputs.mask = std::move(inputs.mask);
}

}  // namespace

std::optional<Error> generation_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (!plan.workload.generation) {
    return std::nullopt;
  }
  const bool served = spec.architecture == Architecture::kCausalLm && !spec.latent &&
                      spec.position != PositionKind::kAlibi && !spec.attention_sinks;
  if (!served) {
    return Error::invalid_argument("generate", "for " + spec.name,
                                   "a decoder without latent attention, attention sinks and ALiBi",
                                   "leave out --generate");
  }
  if (plan.lora && adapts_experts(spec, *plan.lora)) {
    return Error::invalid_argument("generate", "adapters on experts", "adapters on linear layers",
                                   "leave out --generate, or name other targets");
  }
  if (plan.workload.padded_batch) {
    return Error::invalid_argument("generate", "padded prompts", "prompts of one length",
                                   "leave out --padded");
  }
  if (plan.workload.generation->static_cache) {
    return Error::invalid_argument("generate", "a static cache", "a dynamic one",
                                   "set generation.static_cache to false in the plan file");
  }
  return std::nullopt;
}

void generate(Eager& eager, const Model& model, const ForwardCall& call) {
  const torch::GradMode grad(eager, false);
  const std::int64_t batch = model.plan->workload.micro_batch;
  const std::int64_t prompt = model.plan->workload.sequence;
  Sequences names;
  Sequences given;
  Model prefill = model;
  prefill.training = false;
  prefill.cache = std::make_shared<KeyValueCache>(*model.spec);
  {
    const PhaseScope phase(eager, PhaseKind::kPrefill);
    eager.set_site("input_ids", -1);
    names.ids = row(eager, batch, prompt);
    names.kwargs.mask = row(eager, batch, prompt);
    for (Tensor& token : names.special) {
      token = row(eager, 1, 1);
    }
    check_padding(eager, batch);
    names.kwargs.positions = count_along(eager, names.kwargs.mask);
    given = names;  // The caller's arguments and generate's own.
    names.unfinished = torch::computed(eager, {batch}, DType::kInt64, TensorRole::kInput);
    ask_ranks(eager, model);
    Tensor passed = row(eager, batch, prompt);
    prefill.cache->given = names.kwargs;
    Tensor logits = call(eager, prefill, {passed, passed}).logits;
    passed.reset();
    prefill.cache->given = {};
    append_token(eager, names, std::move(logits));
    ask_ranks(eager, model);
  }
  const PhaseScope phase(eager, PhaseKind::kDecode);
  ParallelPlan one = *model.plan;
  one.workload.sequence = 1;
  const Graph graph = build_graph(*model.spec, {.batch = batch, .sequence = 1});
  Model decode = prefill;
  decode.plan = &one;
  decode.graph = &graph;
  decode.cache->decodes = true;
  for (std::int64_t token = 1; token < model.plan->workload.generation->new_tokens; ++token) {
    prepare_inputs(eager, names);
    decode.cache->given = names.inputs;
    Tensor logits = call(eager, decode, {names.last, names.last}).logits;
    decode.cache->given = {};
    append_token(eager, names, std::move(logits));
    ask_ranks(eager, model);
  }
  prefill.cache.reset();
  decode.cache.reset();
  names = {};
  given = {};
}

}  // namespace headroom::ir::transformers
