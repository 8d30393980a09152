#include "runtimes/plan_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

/// The product, or the greatest number if it would overflow. Factors are not negative.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

/// Elements per token of the widest tensor that the model or its loss makes.
std::int64_t widest_row(const ModelSpec& model, const ParallelPlan& plan) {
  std::int64_t widest = std::max({model.hidden, model.vocabulary, 2 * model.ffn,
                                  saturating_product(3 * model.heads, model.head_dim)});
  if (model.moe) {
    widest = std::max(
        widest,
        saturating_product(model.moe->top_k, std::max(2 * model.moe->expert_ffn, model.hidden)));
  }
  // The scores count even if the plan asks for another kernel: a mask or an old device makes
  // PyTorch fall back.
  const std::int64_t scores = saturating_product(model.heads, plan.workload.sequence);
  return std::max(widest, scores);
}

Status check_sizes(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t tokens = saturating_product(plan.workload.micro_batch, plan.workload.sequence);
  if (plan.workload.micro_batch < 1 || plan.workload.sequence < 1 ||
      plan.workload.sequence > kMostSequence || tokens > kMostTokens ||
      saturating_product(tokens, widest_row(model, plan)) > kMostElements) {
    return Error::invalid_argument(
        "micro-batch",
        std::to_string(plan.workload.micro_batch) + " x " + std::to_string(plan.workload.sequence),
        "a micro-batch of at most " + std::to_string(kMostTokens) +
            " tokens, and no tensor of more than 2^56 elements",
        "lower --micro-batch or --seq");
  }
  if (plan.rank && (*plan.rank < 0 || *plan.rank >= plan.world)) {
    return Error::invalid_argument("rank", std::to_string(*plan.rank),
                                   "a rank from 0 to " + std::to_string(plan.world - 1));
  }
  // The last generated token is not fed back into the model.
  const std::int64_t generated =
      plan.workload.generation ? plan.workload.generation->new_tokens : 0;
  const std::int64_t most = model.max_positions - plan.workload.sequence + 1;
  if (model.position == PositionKind::kLearned && plan.workload.sequence <= model.max_positions &&
      generated > most) {
    return Error::invalid_argument("generate", std::to_string(generated),
                                   "at most " + std::to_string(most) + " after --seq " +
                                       std::to_string(plan.workload.sequence) + ": the model has " +
                                       std::to_string(model.max_positions) + " positions",
                                   "use a shorter --seq");
  }
  if (model.position == PositionKind::kLearned && plan.workload.sequence > model.max_positions) {
    return Error::invalid_argument(
        "seq", std::to_string(plan.workload.sequence),
        "at most " + std::to_string(model.max_positions) + ", the most positions of this model",
        "use --seq " + std::to_string(model.max_positions));
  }
  return ok();
}

Status check_optimizer(const ParallelPlan& plan) {
  const bool shards = std::ranges::any_of(
      framework_parts(), [&plan](const PlanPart* part) { return part->shards && part->has(plan); });
  if (plan.optimizer.kind == OptimizerKind::kMuon && shards) {
    return Error::invalid_argument(
        "optimizer",
        "muon is not supported with ZeRO, FSDP and Megatron-Core: Muon needs whole matrices, "
        "which they shard",
        {}, "use --runtime transformers, or another --optimizer");
  }
  OptimizerPlan form = plan.optimizer;
  form.momentum = 0;
  for (const Word<OptimizerPlan>& word : optimizer_words()) {
    OptimizerPlan known = word.value;
    known.momentum = 0;
    if (known == form) {
      return ok();
    }
  }
  return Error::invalid_argument("optimizer", "a combination of kind and form that does not exist",
                                 "one of " + join(texts_of(optimizer_words())));
}

Status check_adapters(const ParallelPlan& plan) {
  if (plan.quant && !plan.lora) {
    return Error::invalid_argument("qlora", "quantised weights without adapters",
                                   "adapters as well, because quantised weights are not trained",
                                   "use --qlora r=16");
  }
  return ok();
}

}  // namespace

Status check_images(const ModelSpec& model, const ParallelPlan& plan) {
  if (!plan.workload.images || model.recording) {
    return ok();
  }
  const std::string images = text_of(*plan.workload.images);
  constexpr std::string_view kTextAlone = "none: this model is known for batches of text alone";
  if (model.family == Family::kGemma3Text) {
    return Error::invalid_argument(
        "images", images, kTextAlone,
        "name the whole model, such as gemma-3-4b, or give its config.json, in place of its text "
        "part");
  }
  return Error::invalid_argument(
      "images", images, kTextAlone,
      "leave out --images; if the model has a tower for images, record it with them, which needs "
      "PyTorch and the model's config.json: headroom import FOLDER/config.json --images " +
          images + " --output my-model.json");
}

Status check_plan(const ModelSpec& model, const ParallelPlan& plan) {
  const Runtime* const runtime = find_runtime(plan.runtime);
  if (runtime == nullptr) {
    const std::vector<std::string> known = runtime_names();
    return Error::invalid_argument("runtime", plan.runtime, "one of " + join(known),
                                   suggestion(plan.runtime, known));
  }
  if (Status sizes = check_sizes(model, plan); !sizes) {
    return sizes;
  }
  if (Status images = check_images(model, plan); !images) {
    return images;
  }
  if (Status parts = refuse_foreign_parts(plan); !parts) {
    return parts;
  }
  if (model.recording && !runtime->runs_recordings()) {
    std::vector<std::string> able = runtime_names();
    std::erase_if(able,
                  [](const std::string& name) { return !find_runtime(name)->runs_recordings(); });
    return Error::invalid_argument("runtime", plan.runtime + " with a model recording",
                                   "one of " + join(able) +
                                       ": the recording says what the model's code in "
                                       "transformers does",
                                   "use --runtime transformers");
  }
  // The framework's own errors come before the general ones.
  if (Status own = runtime->check(model, plan); !own) {
    return own;
  }
  if (Status optimizer = check_optimizer(plan); !optimizer) {
    return optimizer;
  }
  return check_adapters(plan);
}

}  // namespace headroom::ir
