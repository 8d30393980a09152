#include "runtimes/typed/plan_options.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"
#include "runtimes/typed/allocator_options.h"
#include "runtimes/typed/part_options.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kUsualSequence = 2048;

}  // namespace

ParallelPlan usual_plan(const ModelSpec& model) {
  ParallelPlan plan;
  plan.workload.sequence =
      model.max_positions > 0 ? std::min(kUsualSequence, model.max_positions) : kUsualSequence;
  return plan;
}

std::string adapter_text(const ParallelPlan& plan) {
  std::string text = spec_text(lora_options(), plan);
  if (plan.quant) {
    const std::string quant = spec_text(quant_options(), plan);
    text += (quant.empty() ? "" : ",") + quant;
  }
  return text;
}

std::vector<OptionValue> usual_options() {
  return {{"gpus", "1"},
          {"precision", "bf16"},
          {"micro-batch", "1"},
          {"accumulation", "1"},
          {"checkpointing", "none"},
          {"optimizer", "adamw"},
          {"attention", "sdpa"},
          {"loss", "hf"}};
}

std::vector<OptionValue> options_of(const ParallelPlan& plan, const ModelSpec& model) {
  const Runtime& runtime = runtime_of(plan);
  const ParallelPlan usual = usual_plan(model);
  ParallelPlan completed = plan;
  runtime.complete(completed);
  std::vector<OptionValue> options;
  const auto add_if = [&](bool differs, std::string_view name, std::string value) {
    if (differs) {
      options.push_back({std::string(name), std::move(value)});
    }
  };
  /// Compares fields of the plan itself with `before`.
  const auto own = [&](std::initializer_list<std::string_view> names, const ParallelPlan& before) {
    for (const std::string_view name : names) {
      const OptionField& field = *find_field(plan_options().fields, name);
      const bool flag = field.kind == OptionKind::kSwitch;
      add_if(!field.same(plan, before), field.option,
             flag ? "" : value_text(field, field.get(plan)));
    }
  };
  bool says_runtime = false;
  ParallelPlan formats = usual;
  const auto parts = [&](PartPlace place) {
    for (const PlanPart* const part : framework_parts()) {
      if (place_of(*part) != place) {
        continue;
      }
      const ParallelPlan& with = part->has(plan) ? plan : completed;
      for (OptionValue& option : options_of_part(*part, with)) {
        options.push_back(std::move(option));
      }
      if (part->precision != nullptr && part->has(with)) {
        formats.precision = part->precision(usual.precision);
      }
    }
  };
  for (const PlanPart* const part : framework_parts()) {
    says_runtime = says_runtime || (part->runtime == plan.runtime && part->has(completed));
  }
  own({"gpus", "rank"}, usual);
  parts(PartPlace::kFirst);
  if (!says_runtime) {
    own({"runtime"}, usual);
  }
  own({"runtime_version"}, usual);
  parts(PartPlace::kBeforePrecision);
  own({"precision"}, formats);
  own({"micro_batch", "sequence", "images", "accumulation"}, usual);
  // "none" is said where the framework would recompute otherwise.
  const Recompute unsaid = runtime.usual_recomputation(plan).recompute;
  ParallelPlan other = usual;
  other.recompute = unsaid == plan.recompute ? usual.recompute : unsaid;
  own({"checkpointing"}, other);
  add_if(!(plan.optimizer == runtime.usual_optimizer(plan)), "optimizer",
         std::string(word_of(optimizer_words(), plan.optimizer)));
  own({"attention", "loss", "liger"}, usual);
  add_if(plan.workload.generation.has_value(), "generate",
         plan.workload.generation ? std::to_string(plan.workload.generation->new_tokens) : "");
  add_if(plan.lora.has_value(), plan.quant ? "qlora" : "lora", plan.lora ? adapter_text(plan) : "");
  parts(PartPlace::kLast);
  add_if(!(plan.allocator == usual.allocator), "alloc-conf", to_text(plan.allocator));
  own({"clip_norm", "padded_batch", "keep_logits", "keep_batch", "evaluation", "checkpoint_save",
       "resume", "steps"},
      usual);
  return options;
}

}  // namespace headroom::ir
