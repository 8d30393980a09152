#include "runtimes/litgpt/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/idle_options.h"

namespace headroom::ir::litgpt {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

constexpr std::array<const char*, 6> kTargets = {"query",      "key", "value",
                                                 "projection", "mlp", "head"};

bool names(const LoraPlan& lora, const char* target) {
  return std::find(lora.targets.begin(), lora.targets.end(), target) != lora.targets.end();
}

Targets targets_of(const LoraPlan& lora) {
  const bool all = lora.targets.empty();
  return Targets{
      .qkv = {all || names(lora, "query"), all || names(lora, "key"), all || names(lora, "value")},
      .projection = all || names(lora, "projection"),
      .mlp = all || names(lora, "mlp"),
      .head = names(lora, "head")};
}

/// Constructs modules and records which parameters are trained.
class Loader {
 public:
  Loader(Eager& eager, Model& model)
      : eager_(eager), model_(model), dtype_(param_dtype(model.plan->precision)) {}

  Tensor parameter(const Shape& shape, bool trainable) {
    Tensor made = eager_.parameter(shape, dtype_, trainable);
    count_ += made.elements();
    if (trainable) {
      model_.trainable.push_back(made);
    }
    return made;
  }
  /// With adapters, everything else is frozen.
  Tensor weight(const Shape& shape) { return parameter(shape, !model_.plan->lora); }

  /// Fabric quantises every linear layer as soon as it is created, including the head.
  void add_weight(Linear& layer, const Shape& shape) {
    Tensor made = weight(shape);
    if (model_.plan->quant) {
      layer.packed =
          transformers::quantise(eager_, *model_.plan, made, DType::kUInt8, model_.dynamic_codes);
      return;
    }
    layer.weight = std::move(made);
  }

  /// A module's own parameters come before those of the layer that it wraps.
  Linear linear(std::int64_t out, std::int64_t in, bool bias, bool adapted) {
    Linear layer;
    if (adapted && model_.plan->lora) {
      layer.a = parameter({model_.plan->lora->rank, in}, true);
      layer.b = parameter({out, model_.plan->lora->rank}, true);
    }
    add_weight(layer, {out, in});
    layer.bias = bias ? weight({out}) : Tensor{};
    return layer;
  }

  FusedLinear fused(const std::array<bool, 3>& adapted) {
    const ModelSpec& spec = *model_.spec;
    const std::array<std::int64_t, 3> sizes = {
        spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim, spec.kv_heads * spec.head_dim};
    FusedLinear fused{.linear = {}, .adapted = adapted};
    std::int64_t parts = 0;
    std::int64_t out = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      parts += adapted[i] ? 1 : 0;
      out += adapted[i] ? sizes[i] : 0;
    }
    if (parts > 0 && model_.plan->lora) {
      fused.linear.a = parameter({model_.plan->lora->rank * parts, spec.hidden}, true);
      fused.linear.b = parameter({out, model_.plan->lora->rank}, true);
    }
    add_weight(fused.linear, {sizes[0] + sizes[1] + sizes[2], spec.hidden});
    fused.linear.bias = spec.qkv_bias ? weight({sizes[0] + sizes[1] + sizes[2]}) : Tensor{};
    return fused;
  }

  Norm norm() {
    Norm made{.weight = weight({model_.spec->hidden}), .bias = {}};
    if (model_.spec->norm == NormKind::kLayer) {
      made.bias = weight({model_.spec->hidden});
    }
    return made;
  }

  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  Eager& eager_;
  Model& model_;
  DType dtype_;
  std::int64_t count_ = 0;
};

Block load_block(Loader& load, const ModelSpec& spec, const Targets& targets) {
  Block block;
  block.first = load.norm();
  block.qkv = load.fused(targets.qkv);
  block.projection =
      load.linear(spec.hidden, spec.heads * spec.head_dim, spec.output_bias, targets.projection);
  const bool sandwich = spec.norm_placement == NormPlacement::kSandwich;
  if (sandwich) {
    block.after_attention = load.norm();
  }
  if (spec.residual != ResidualForm::kParallelOneNorm) {
    block.second = load.norm();
  }
  block.fc = load.linear(spec.ffn, spec.hidden, spec.mlp_bias, targets.mlp);
  if (spec.gated_mlp) {
    block.fc_two = load.linear(spec.ffn, spec.hidden, spec.mlp_bias, targets.mlp);
  }
  block.mlp_projection = load.linear(spec.hidden, spec.ffn, spec.mlp_bias, targets.mlp);
  if (sandwich) {
    block.after_mlp = load.norm();
  }
  return block;
}

Error refused(const char* key, const std::string& got, const char* wanted) {
  return Error::invalid_argument(key, got, wanted,
                                 "leave out this option, or use --runtime transformers");
}

}  // namespace

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan) {
  const bool layer_norm = spec.norm == NormKind::kLayer;
  const bool rms_norm = spec.norm == NormKind::kRms || spec.norm == NormKind::kRmsGemma;
  const bool pre_norm = spec.norm_placement == NormPlacement::kPre && spec.attention_softcap == 0;
  const bool gemma2 = spec.norm_placement == NormPlacement::kSandwich &&
                      spec.attention_softcap > 0 && spec.norm == NormKind::kRmsGemma;
  const bool plain = spec.architecture == Architecture::kCausalLm && !spec.moe && !spec.latent &&
                     spec.position == PositionKind::kRope && spec.qk_norm == QkNorm::kNone &&
                     (pre_norm || gemma2) && (layer_norm || rms_norm);
  if (!plain) {
    return Error::invalid_argument("model", spec.name,
                                   "a dense decoder with rotary embedding, as LitGPT trains it",
                                   "use another framework, such as --runtime transformers");
  }
  if (plan.precision != Precision::kBf16) {
    return refused("precision", std::string(word_of(precision_words(), plan.precision)),
                   "bf16, which LitGPT calls bf16-true");
  }
  if (plan.quant && (plan.quant->bits != 4 || plan.quant->prepare_kbit || !plan.lora)) {
    return refused("qlora", "bits=8 or prepare=yes", "bits=4,prepare=no");
  }
  constexpr std::array<IdleOption, 3> kIdle = {
      {{"padded", ""}, {"keep-logits", ""}, {"keep-batch", ""}}};
  if (const std::optional<Error> idle = idle_option(plan, kIdle, "LitGPT")) {
    return *idle;
  }
  if (plan.world > 1 || plan.recompute != Recompute::kNone ||
      (plan.attention != AttentionKind::kSdpa && plan.attention != AttentionKind::kSdpaNoCudnn) ||
      plan.liger || plan.loss != LossKind::kHf) {
    return refused("runtime",
                   "litgpt with several GPUs, --checkpointing, --attention, --loss or --liger",
                   "one GPU without these options: LitGPT is modelled with its own loss and "
                   "attention");
  }
  for (const std::string& target : plan.lora ? plan.lora->targets : std::vector<std::string>{}) {
    if (std::find(kTargets.begin(), kTargets.end(), target) == kTargets.end()) {
      return refused("lora", target, "targets=query, key, value, projection, mlp or head");
    }
  }
  return std::nullopt;
}

Model load_model(Eager& eager, const ModelSpec& spec, const ParallelPlan& plan) {
  Model model;
  model.spec = &spec;
  model.plan = &plan;
  Loader load(eager, model);
  const Targets targets = plan.lora ? targets_of(*plan.lora) : Targets{};
  eager.set_site("litgpt.load", -1);
  model.head = load.linear(spec.vocabulary, spec.hidden, spec.head_bias, targets.head);
  model.embedding = load.weight({spec.vocabulary, spec.hidden});
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    model.blocks.push_back(load_block(load, spec, targets));
  }
  model.final = load.norm();
  const auto rotated = static_cast<std::int64_t>(
      std::llround(spec.rope_fraction * static_cast<double>(spec.head_dim)));
  model.cos = eager.empty({plan.workload.sequence, rotated}, DType::kFp32, TensorRole::kBuffer);
  model.sin = eager.empty({plan.workload.sequence, rotated}, DType::kFp32, TensorRole::kBuffer);
  eager.program().parameters = load.count();
  std::int64_t trained = 0;
  for (const Tensor& parameter : model.trainable) {
    trained += parameter.elements();
  }
  eager.program().trainable_parameters = trained;
  return model;
}

}  // namespace headroom::ir::litgpt
