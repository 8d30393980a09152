#include "validators/torch/known_options.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_ir/json/json_value.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/interface/option_json.h"
#include "runtimes/plan_parts.h"

namespace headroom::check {
namespace {

/// An option that the script reads, and the values that it knows.
struct KnownOption {
  std::string_view name;     ///< "micro_batch", "zero.stage".
  std::string_view words{};  ///< "hf|fused-linear"; empty: every value that a plan can have.
};

constexpr std::array<KnownOption, 29> kOfAll = {{
    {"runtime"},
    {"runtime_version"},  // A release is not chosen, but compared with the one that ran.
    {"gpus"},
    {"rank"},
    {"precision"},
    {"attention"},
    {"loss", "hf|fused-linear"},
    {"liger"},
    {"micro_batch"},
    {"sequence"},
    {"accumulation"},
    {"checkpointing"},
    {"clip_norm"},
    {"keep_logits"},
    {"keep_batch"},
    {"evaluation"},
    {"steps"},
    {"optimizer.momentum"},
    {"lora.rank"},
    {"lora.dropout"},
    {"lora.dora"},
    {"lora.rank_stabilised"},
    {"lora.targets"},
    {"lora.modules_to_save"},
    {"allocator.expandable_segments"},
    {"allocator.max_split_bytes"},
    {"allocator.max_non_split_rounding_bytes"},
    {"allocator.garbage_collection_threshold_ratio"},
    {"allocator.roundup_power2_divisions"},
}};

constexpr std::array<KnownOption, 8> kOfOneGpuOrDdp = {{
    {"optimizer.kind", "none|adamw|sgd|adafactor|adafactor-torch|lion"},
    {"optimizer.form"},
    {"ddp.gradient_as_bucket_view"},
    {"ddp.bucket_cap_bytes"},
    {"ddp.init_sync"},
    {"quant.bits"},
    {"quant.double_quant"},
    {"quant.prepare_kbit"},
}};

constexpr std::array<KnownOption, 14> kOfSharding = {{
    {"optimizer.kind", "none|adamw|sgd|adafactor|adafactor-torch|lion"},
    {"optimizer.form"},
    {"fsdp.version"},
    {"fsdp.reshard_after_forward"},
    {"fsdp.reshard_ranks"},
    {"fsdp.cpu_offload"},
    {"fsdp.shard_decoder"},
    {"fsdp.shard_embeddings"},
    {"fsdp.param_dtype"},
    {"fsdp.reduce_dtype"},
    {"fsdp.replicas"},
    {"fsdp.use_orig_params"},
    {"fsdp.backward_prefetch"},
    {"fsdp.forward_prefetch"},
}};

/// The keys of "zero" are written into the framework's own configuration file.
constexpr std::array<KnownOption, 33> kOfZero = {{
    {"optimizer.kind", "none|adamw|sgd|adafactor|adafactor-torch|lion"},
    {"optimizer.form"},
    {"zero.stage"},
    {"zero.reduce_bucket_elements"},
    {"zero.allgather_bucket_elements"},
    {"zero.overlap_comm"},
    {"zero.contiguous_gradients"},
    {"zero.round_robin_gradients"},
    {"zero.sub_group_elements"},
    {"zero.prefetch_bucket_elements"},
    {"zero.param_persistence_threshold_elements"},
    {"zero.model_persistence_threshold_elements"},
    {"zero.max_live_parameters"},
    {"zero.max_reuse_distance_elements"},
    {"zero.offload_optimizer", "none|cpu"},
    {"zero.offload_param", "none|cpu"},
    {"zero.offload_ratio"},
    {"zero.decay_groups"},
    {"zero.grad_accum_dtype"},
    {"zero.torch_adam"},
    {"zero.hpz_partition_ranks"},
    {"zero.quantized_weights"},
    {"zero.quantized_gradients"},
    {"zero.node_devices"},  // Compared with the GPUs of the one machine that the script uses.
    {"zero.leaf"},
    {"zero.reduce_scatter"},
    {"zero.multi_rank_allreduce"},
    {"zero.parameter_alignment"},
    {"zero.compute_grad_norm"},
    {"zero.memory_efficient_linear"},
    {"zero.allgather_sequential"},
    {"zero.all_reduce_fetch"},
    {"zero.communication_dtype"},
}};

/// The optimizers that the script makes, each with its forms; for transformers' Adafactor and for
/// no optimizer the form says nothing.
constexpr std::array<KnownOption, 6> kForms = {{
    {"none"},
    {"adamw"},
    {"sgd", "foreach|fused|loop"},
    {"adafactor"},
    {"adafactor-torch", "foreach|loop"},
    {"lion", "8bit|paged-8bit|paged"},
}};

/// DeepSpeed makes a plain Lion itself.
constexpr std::array<KnownOption, 6> kFormsOfZero = {{
    {"none"},
    {"adamw"},
    {"sgd", "foreach|fused|loop"},
    {"adafactor"},
    {"adafactor-torch", "foreach|loop"},
    {"lion", "foreach|8bit|paged-8bit|paged"},
}};

struct ScriptRuntime {
  std::string_view name;
  std::span<const KnownOption> options;
  std::span<const KnownOption> forms;
};
constexpr std::array<ScriptRuntime, 3> kScriptRuntimes = {{{"transformers", kOfOneGpuOrDdp, kForms},
                                                           {"fsdp", kOfSharding, kForms},
                                                           {"deepspeed", kOfZero, kFormsOfZero}}};

constexpr std::string_view kInstead =
    "change the plan (headroom fit --plan FILE with the option, and --json), or measure a script "
    "of your own: headroom dryrun --gpu GPU --against FILE -- COMMAND";

const KnownOption* find_option(std::span<const KnownOption> options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &KnownOption::name);
  return found == options.end() ? nullptr : &*found;
}

/// The value as a person would type it.
std::string value_text(const ir::JsonValue& value) {
  return value.as_string() != nullptr ? *value.as_string() : to_json(value);
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view first = words.substr(0, words.find('|'));
    if (first == word) {
      return true;
    }
    words.remove_prefix(std::min(first.size() + 1, words.size()));
  }
  return false;
}

/// "hf or fused-linear".
std::string wanted_words(std::string_view words) {
  std::string text(words);
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|')) {
    text.replace(at, 1, text.find('|', at + 1) == std::string::npos ? " or " : ", ");
  }
  return text;
}

std::string pointer_of(std::string_view name) {
  std::string pointer = "/plan/" + std::string(name);
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

/// Refuses the options of one part that the script does not know. `prefix`: "zero.", or empty for
/// the plan's own fields.
Status check_part(const ir::PlanPart& part, const std::string& prefix, const ir::ParallelPlan& plan,
                  const ScriptRuntime& runtime, std::string_view file) {
  const auto known = [&](const ir::OptionField& field) {
    const std::string name = prefix + std::string(field.name);
    const KnownOption* const common = find_option(kOfAll, name);
    return common != nullptr ? common : find_option(runtime.options, name);
  };
  const std::string unknown = "a plan without it: the training script cannot express it";
  const auto any_known = [&](const ir::OptionField& field) { return known(field) != nullptr; };
  if (!part.always && std::ranges::none_of(part.fields, any_known)) {
    return Error::invalid_input(file, "/plan/" + std::string(part.name),
                                to_json(ir::part_json(part, plan)), unknown, kInstead);
  }
  for (const ir::OptionField& field : part.fields) {
    const KnownOption* const option = known(field);
    const std::string value = value_text(field.get(plan));
    const bool expressed = option == nullptr
                               ? field.same(plan, part.usual())
                               : option->words.empty() || has_word(option->words, value);
    if (!expressed) {
      return Error::invalid_input(
          file, pointer_of(prefix + std::string(field.name)), value,
          option == nullptr ? unknown
                            : wanted_words(option->words) + ", which the training script knows",
          kInstead);
    }
  }
  return ok();
}

/// The value that an option of a part has in a plan.
ir::JsonValue value_of(const ir::PlanPart& part, std::string_view name,
                       const ir::ParallelPlan& plan) {
  const auto field = std::ranges::find(part.fields, name, &ir::OptionField::name);
  return field == part.fields.end() ? ir::JsonValue{} : field->get(plan);
}

/// Refuses a form of the optimizer that the script cannot make.
Status check_optimizer_form(const ir::ParallelPlan& plan, const ScriptRuntime& runtime,
                            std::string_view file) {
  const std::string kind = value_text(value_of(ir::optimizer_options(), "kind", plan));
  const std::string form = value_text(value_of(ir::optimizer_options(), "form", plan));
  const KnownOption* const known = find_option(runtime.forms, kind);
  if (known == nullptr || known->words.empty() || has_word(known->words, form)) {
    return ok();
  }
  return Error::invalid_input(
      file, pointer_of("optimizer.form"), form,
      wanted_words(known->words) + ", in which the training script makes the optimizer " + kind,
      kInstead);
}

/// The script's ranks are all on one machine, so DeepSpeed finds one node; the number of its GPUs
/// changes nothing then.
Status check_nodes(const ir::ParallelPlan& plan, std::string_view file) {
  const std::vector<const ir::PlanPart*> parts = ir::plan_parts();
  const auto zero = std::ranges::find_if(
      parts, [&plan](const ir::PlanPart* part) { return part->name == "zero" && part->has(plan); });
  if (zero == parts.end() || value_of(**zero, "quantized_gradients", plan).as_bool() != true) {
    return ok();
  }
  const std::optional<std::int64_t> devices = value_of(**zero, "node_devices", plan).as_integer();
  if (!devices || *devices >= plan.world) {
    return ok();
  }
  return Error::invalid_input(
      file, pointer_of("zero.node_devices"), std::to_string(*devices),
      std::to_string(plan.world) + " or more: the training script has all its GPUs on one machine",
      kInstead);
}

}  // namespace

Status check_script_options(const ir::ParallelPlan& plan, std::string_view file) {
  const auto runtime = std::ranges::find(kScriptRuntimes, plan.runtime, &ScriptRuntime::name);
  if (runtime == kScriptRuntimes.end()) {
    std::string names;
    for (const ScriptRuntime& one : kScriptRuntimes) {
      names += (names.empty()                     ? ""
                : &one == &kScriptRuntimes.back() ? " or "
                                                  : ", ") +
               std::string(one.name);
    }
    return Error::invalid_input(file, "/plan/runtime", plan.runtime,
                                names + ", for which there is a training script",
                                "plan with --runtime transformers,fsdp,deepspeed, or measure a "
                                "script of your own: headroom "
                                "dryrun --gpu GPU --against FILE -- COMMAND");
  }
  if (Status known = check_part(ir::plan_options(), "", plan, *runtime, file); !known) {
    return known;
  }
  if (Status known = check_part(ir::optimizer_options(), "optimizer.", plan, *runtime, file);
      !known) {
    return known;
  }
  for (const ir::PlanPart* const part : ir::plan_parts()) {
    if (!part->has(plan)) {
      continue;
    }
    const std::string prefix = std::string(part->name) + ".";
    if (Status known = check_part(*part, prefix, plan, *runtime, file); !known) {
      return known;
    }
  }
  const Status form = check_optimizer_form(plan, *runtime, file);
  return form ? check_nodes(plan, file) : form;
}

}  // namespace headroom::check
