#include "runtimes/plan_json.h"

#include <array>
#include <limits>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/megatron/fields.h"
#include "runtimes/registry.h"

namespace headroom::ir {
namespace {

constexpr std::array<Word<OptimizerKind>, 7> kKinds = {
    {{"none", OptimizerKind::kNone},
     {"adamw", OptimizerKind::kAdamW},
     {"sgd", OptimizerKind::kSgd},
     {"adafactor", OptimizerKind::kAdafactor},
     {"adafactor-torch", OptimizerKind::kAdafactorTorch},
     {"lion", OptimizerKind::kLion},
     {"muon", OptimizerKind::kMuon}}};
constexpr std::array<Word<OptimizerForm>, 6> kForms = {
    {{"foreach", OptimizerForm::kForeach},
     {"fused", OptimizerForm::kFused},
     {"loop", OptimizerForm::kLoop},
     {"8bit", OptimizerForm::kEightBit},
     {"paged-8bit", OptimizerForm::kPagedEightBit},
     {"paged", OptimizerForm::kPaged}}};

constexpr std::int64_t kSchemaVersion = 1;
constexpr IntegerRange kElements{0, std::numeric_limits<std::int64_t>::max()};
constexpr IntegerRange kByteSize{1, std::int64_t{1} << 50};

JsonFields optimizer_fields(const OptimizerPlan& plan) {
  JsonFields fields;
  fields.add("kind", word_of<OptimizerKind>(kKinds, plan.kind));
  fields.add("form", word_of<OptimizerForm>(kForms, plan.form));
  fields.add("momentum", plan.momentum);
  return fields;
}

struct ZeroSwitch {
  std::string_view key;
  bool ZeroPlan::*value;
};
constexpr std::array<ZeroSwitch, 7> kZeroSwitches = {
    {{"reduce_scatter", &ZeroPlan::reduce_scatter},
     {"multi_rank_allreduce", &ZeroPlan::multi_rank_allreduce},
     {"parameter_alignment", &ZeroPlan::parameter_alignment},
     {"compute_grad_norm", &ZeroPlan::compute_grad_norm},
     {"memory_efficient_linear", &ZeroPlan::memory_efficient_linear},
     {"allgather_sequential", &ZeroPlan::allgather_sequential},
     {"all_reduce_fetch", &ZeroPlan::all_reduce_fetch}}};

JsonFields zero_fields(const ZeroPlan& zero) {
  JsonFields fields;
  fields.add("stage", zero.stage);
  fields.add("reduce_bucket_elements", zero.reduce_bucket_size);
  fields.add("allgather_bucket_elements", zero.allgather_bucket_size);
  fields.add("overlap_comm", zero.overlap_comm ? JsonValue{*zero.overlap_comm} : JsonValue{});
  fields.add("contiguous_gradients", zero.contiguous_gradients);
  fields.add("round_robin_gradients", zero.round_robin_gradients);
  fields.add("sub_group_elements", zero.sub_group_size);
  fields.add("prefetch_bucket_elements", zero.prefetch_bucket_size);
  fields.add("param_persistence_threshold_elements", zero.param_persistence_threshold);
  fields.add("model_persistence_threshold_elements", zero.model_persistence_threshold);
  fields.add("max_live_parameters", zero.max_live_parameters);
  fields.add("max_reuse_distance_elements", zero.max_reuse_distance);
  fields.add("offload_optimizer", word_of(offload_words(), zero.offload_optimizer));
  fields.add("offload_param", word_of(offload_words(), zero.offload_param));
  fields.add("offload_ratio", zero.offload_ratio);
  fields.add("nvme_path", zero.nvme_path);
  fields.add("decay_groups", zero.decay_groups);
  fields.add("grad_accum_dtype",
             zero.grad_accum_dtype
                 ? JsonValue{std::string(word_of(policy_dtype_words(), *zero.grad_accum_dtype))}
                 : JsonValue{});
  fields.add("torch_adam", zero.torch_adam);
  fields.add("hpz_partition_ranks", zero.hpz_partition_size);
  fields.add("quantized_weights", zero.quantized_weights);
  fields.add("quantized_gradients", zero.quantized_gradients);
  fields.add("node_devices", zero.node_devices);
  fields.add("leaf", word_of(zero_leaf_words(), zero.leaf));
  for (const ZeroSwitch& each : kZeroSwitches) {
    fields.add(each.key, zero.*each.value);
  }
  fields.add("communication_dtype",
             zero.communication_dtype
                 ? JsonValue{std::string(word_of(policy_dtype_words(), *zero.communication_dtype))}
                 : JsonValue{});
  return fields;
}

JsonFields lora_fields(const LoraPlan& lora) {
  JsonFields fields;
  fields.add("rank", lora.rank);
  fields.add("dropout", lora.dropout);
  fields.add("dora", lora.dora);
  fields.add("rank_stabilised", lora.rank_stabilised);
  fields.add("targets", json_texts(lora.targets));
  fields.add("modules_to_save", json_texts(lora.modules_to_save));
  return fields;
}

JsonFields quant_fields(const QuantPlan& quant) {
  JsonFields fields;
  fields.add("bits", quant.bits);
  fields.add("double_quant", quant.double_quant);
  fields.add("prepare_kbit", quant.prepare_kbit);
  return fields;
}

JsonFields allocator_fields(const AllocatorSettings& settings) {
  JsonFields fields;
  fields.add("expandable_segments", settings.expandable_segments);
  fields.add("max_split_bytes",
             settings.max_split_size ? JsonValue{settings.max_split_size->value()} : JsonValue{});
  fields.add("max_non_split_rounding_bytes", settings.max_non_split_rounding);
  fields.add("garbage_collection_threshold_ratio", settings.garbage_collection_threshold);
  fields.add("roundup_power2_divisions", settings.roundup_power2_divisions);
  return fields;
}

JsonFields ddp_fields(const DdpPlan& ddp) {
  JsonFields fields;
  fields.add("gradient_as_bucket_view", ddp.gradient_as_bucket_view);
  fields.add("bucket_cap_bytes", ddp.bucket_cap_bytes);
  return fields;
}

JsonFields fsdp_fields(const FsdpPlan& fsdp) {
  JsonFields fields;
  fields.add("version", fsdp.version);
  fields.add("reshard_after_forward", fsdp.reshard_after_forward);
  fields.add("reshard_ranks", fsdp.reshard_ranks);
  fields.add("cpu_offload", fsdp.cpu_offload);
  fields.add("shard_decoder", fsdp.shard_decoder);
  fields.add("shard_embeddings", fsdp.shard_embeddings);
  fields.add("param_dtype", word_of(policy_dtype_words(), fsdp.param_dtype));
  fields.add("reduce_dtype", word_of(policy_dtype_words(), fsdp.reduce_dtype));
  fields.add("replicas", fsdp.replicas);
  fields.add("use_orig_params", fsdp.use_orig_params);
  fields.add("backward_prefetch", word_of(fsdp_prefetch_words(), fsdp.backward_prefetch));
  fields.add("forward_prefetch", fsdp.forward_prefetch);
  return fields;
}

JsonFields megatron_fields(const MegatronPlan& megatron) {
  JsonFields fields;
  for (const MegatronWhole& whole : megatron_wholes()) {
    fields.add(whole.name, megatron.*whole.value);
  }
  for (const MegatronSwitch& each : megatron_switches()) {
    fields.add(each.name, megatron.*each.value);
  }
  fields.add("pipeline_layout", megatron.pipeline_layout);
  fields.add("attention", word_of(megatron_attention_words(), megatron.attention));
  fields.add("cp_comm_type", word_of(megatron_context_words(), megatron.context_exchange));
  fields.add("dispatcher", word_of(megatron_dispatcher_words(), megatron.dispatcher));
  fields.add("fp8_recipe", word_of(megatron_fp8_words(), megatron.fp8));
  fields.add("cross_entropy_fusion",
             word_of(megatron_cross_entropy_words(), megatron.cross_entropy));
  fields.add("recompute", word_of(megatron_recompute_words(), megatron.recompute));
  fields.add("recompute_modules", json_texts(names_of(megatron.recompute_modules)));
  fields.add("offload_modules", json_texts(names_of(megatron.offload_modules)));
  fields.add("min_offloaded_tensor_size", megatron.least_offloaded);
  fields.add("capacity_factor",
             megatron.capacity_factor ? JsonValue{*megatron.capacity_factor} : JsonValue{});
  fields.add("expert_load", megatron.expert_load);
  fields.add("optimizer_offload", megatron.optimizer_offload);
  return fields;
}

JsonFields titan_fields(const TitanPlan& titan) {
  JsonFields fields;
  fields.add("tp", titan.tensor);
  fields.add("cp", titan.context);
  fields.add("ep", titan.expert);
  fields.add("etp", titan.expert_tensor);
  fields.add("pp", titan.pipeline);
  fields.add("schedule", word_of(titan_schedule_words(), titan.schedule));
  fields.add("pp_batch", titan.pipeline_batch);
  fields.add("pp_layers", titan.stage_layers);
  fields.add("pp_first_less", titan.first_stage_less);
  fields.add("pp_last_less", titan.last_stage_less);
  fields.add("loss_parallel", titan.loss_parallel);
  fields.add("reshard", word_of(titan_reshard_words(), titan.reshard));
  fields.add("selective_operators", titan.selective_operators);
  fields.add("compiled", titan.compiled);
  fields.add("memory_budget", titan.memory_budget ? JsonValue{*titan.memory_budget} : JsonValue{});
  fields.add("float8", word_of(float8_recipe_words(), titan.float8));
  fields.add("float8_gather", titan.float8_gather);
  fields.add("float8_precompute", titan.float8_precompute);
  return fields;
}

JsonFields tune_fields(const TunePlan& tune) {
  JsonFields fields;
  fields.add("compiled", tune.compiled);
  fields.add("optimizer_in_backward", tune.optimizer_in_backward);
  fields.add("offload_activations", tune.offload_activations);
  return fields;
}

JsonFields generation_fields(const GenerationPlan& generation) {
  JsonFields fields;
  fields.add("new_tokens", generation.new_tokens);
  fields.add("static_cache", generation.static_cache);
  return fields;
}

/// A choice named by a word; an unknown one is noted in the reader.
template <typename Value>
void read_word(const JsonObject& object, std::string_view key, std::span<const Word<Value>> words,
               Value& value) {
  const std::optional<std::string> text = object.optional_text(key);
  if (!text) {
    return;
  }
  const Result<Value> found = parse_word(words, key, *text);
  if (found) {
    value = *found;
  } else {
    object.refuse(key, found.error().wanted, found.error().fix);
  }
}

void read_optimizer(const JsonObject& object, OptimizerPlan& plan) {
  read_word<OptimizerKind>(object, "kind", kKinds, plan.kind);
  read_word<OptimizerForm>(object, "form", kForms, plan.form);
  plan.momentum = object.number_or("momentum", plan.momentum, {0, 1});
}

/// A type, or null for none.
void read_dtype(const JsonObject& object, std::string_view key, std::optional<DType>& dtype) {
  if (object.is_null(key)) {
    dtype.reset();
  } else if (object.has(key)) {
    DType word = DType::kFp32;
    read_word(object, key, policy_dtype_words(), word);
    dtype = word;
  }
}

void read_zero(const JsonObject& object, ZeroPlan& zero) {
  const auto elements = [&](std::string_view key, std::int64_t& value) {
    value = object.integer_or(key, value, kElements);
  };
  zero.stage = static_cast<int>(object.integer_or("stage", zero.stage, {0, 3}));
  elements("reduce_bucket_elements", zero.reduce_bucket_size);
  elements("allgather_bucket_elements", zero.allgather_bucket_size);
  elements("sub_group_elements", zero.sub_group_size);
  elements("prefetch_bucket_elements", zero.prefetch_bucket_size);
  elements("param_persistence_threshold_elements", zero.param_persistence_threshold);
  elements("model_persistence_threshold_elements", zero.model_persistence_threshold);
  elements("max_live_parameters", zero.max_live_parameters);
  elements("max_reuse_distance_elements", zero.max_reuse_distance);
  if (object.is_null("overlap_comm")) {
    zero.overlap_comm.reset();
  } else if (const std::optional<bool> overlap = object.optional_boolean("overlap_comm")) {
    zero.overlap_comm = overlap;
  }
  zero.contiguous_gradients = object.boolean_or("contiguous_gradients", zero.contiguous_gradients);
  zero.round_robin_gradients =
      object.boolean_or("round_robin_gradients", zero.round_robin_gradients);
  read_word(object, "offload_optimizer", offload_words(), zero.offload_optimizer);
  read_word(object, "offload_param", offload_words(), zero.offload_param);
  zero.offload_ratio = object.number_or("offload_ratio", zero.offload_ratio, {0, 1});
  zero.nvme_path = object.text_or("nvme_path", zero.nvme_path);
  zero.decay_groups = object.boolean_or("decay_groups", zero.decay_groups);
  read_dtype(object, "grad_accum_dtype", zero.grad_accum_dtype);
  read_dtype(object, "communication_dtype", zero.communication_dtype);
  for (const ZeroSwitch& each : kZeroSwitches) {
    zero.*each.value = object.boolean_or(each.key, zero.*each.value);
  }
  zero.torch_adam = object.boolean_or("torch_adam", zero.torch_adam);
  zero.hpz_partition_size =
      object.integer_or("hpz_partition_ranks", zero.hpz_partition_size, {1, kMostRanks});
  zero.quantized_weights = object.boolean_or("quantized_weights", zero.quantized_weights);
  zero.quantized_gradients = object.boolean_or("quantized_gradients", zero.quantized_gradients);
  zero.node_devices = object.integer_or("node_devices", zero.node_devices, {1, kMostRanks});
  read_word(object, "leaf", zero_leaf_words(), zero.leaf);
}

void read_lora(const JsonObject& object, LoraPlan& lora) {
  lora.rank = object.integer_or("rank", lora.rank, {1, kMostLoraRank});
  lora.dropout = object.number_or("dropout", lora.dropout, {0, 1});
  lora.dora = object.boolean_or("dora", lora.dora);
  lora.rank_stabilised = object.boolean_or("rank_stabilised", lora.rank_stabilised);
  if (object.has("targets")) {
    lora.targets = object.texts_or_none("targets");
  }
  if (object.has("modules_to_save")) {
    lora.modules_to_save = object.texts_or_none("modules_to_save");
  }
}

void read_quant(const JsonObject& object, QuantPlan& quant) {
  quant.bits = static_cast<int>(object.integer_or("bits", quant.bits, {4, 8}));
  if (quant.bits != 4 && quant.bits != 8) {
    object.refuse("bits", "4 or 8");
  }
  quant.double_quant = object.boolean_or("double_quant", quant.double_quant);
  quant.prepare_kbit = object.boolean_or("prepare_kbit", quant.prepare_kbit);
}

void read_allocator(const JsonObject& object, AllocatorSettings& settings) {
  settings.expandable_segments =
      object.boolean_or("expandable_segments", settings.expandable_segments);
  if (object.is_null("max_split_bytes")) {
    settings.max_split_size.reset();
  } else if (const auto size = object.optional_integer("max_split_bytes", kByteSize)) {
    settings.max_split_size = Bytes{*size};
  }
  settings.max_non_split_rounding = Bytes{object.integer_or(
      "max_non_split_rounding_bytes", settings.max_non_split_rounding.value(), kByteSize)};
  settings.garbage_collection_threshold = object.number_or(
      "garbage_collection_threshold_ratio", settings.garbage_collection_threshold, {0, 1});
  const std::int64_t divisions =
      object.integer_or("roundup_power2_divisions", settings.roundup_power2_divisions, {0, 64});
  if ((divisions & (divisions - 1)) != 0) {
    object.refuse("roundup_power2_divisions", "0 (off) or a power of two");
  }
  settings.roundup_power2_divisions = divisions;
}

void read_ddp(const JsonObject& object, DdpPlan& ddp) {
  ddp.gradient_as_bucket_view =
      object.boolean_or("gradient_as_bucket_view", ddp.gradient_as_bucket_view);
  ddp.bucket_cap_bytes = object.integer_or("bucket_cap_bytes", ddp.bucket_cap_bytes, kByteSize);
}

void read_fsdp(const JsonObject& object, FsdpPlan& fsdp) {
  fsdp.version = static_cast<int>(object.integer_or("version", fsdp.version, {1, 2}));
  fsdp.reshard_ranks = object.integer_or("reshard_ranks", fsdp.reshard_ranks, {0, kMostRanks});
  fsdp.cpu_offload = object.boolean_or("cpu_offload", fsdp.cpu_offload);
  fsdp.reshard_after_forward =
      object.boolean_or("reshard_after_forward", fsdp.reshard_after_forward);
  fsdp.shard_decoder = object.boolean_or("shard_decoder", fsdp.shard_decoder);
  fsdp.shard_embeddings = object.boolean_or("shard_embeddings", fsdp.shard_embeddings);
  read_word(object, "param_dtype", policy_dtype_words(), fsdp.param_dtype);
  read_word(object, "reduce_dtype", policy_dtype_words(), fsdp.reduce_dtype);
  fsdp.replicas = object.integer_or("replicas", fsdp.replicas, {1, kMostRanks});
  fsdp.use_orig_params = object.boolean_or("use_orig_params", fsdp.use_orig_params);
  read_word(object, "backward_prefetch", fsdp_prefetch_words(), fsdp.backward_prefetch);
  fsdp.forward_prefetch = object.boolean_or("forward_prefetch", fsdp.forward_prefetch);
}

void read_megatron(const JsonObject& object, MegatronPlan& megatron) {
  for (const MegatronWhole& whole : megatron_wholes()) {
    megatron.*whole.value =
        object.integer_or(whole.name, megatron.*whole.value, {whole.least, kMostRanks});
  }
  for (const MegatronSwitch& each : megatron_switches()) {
    megatron.*each.value = object.boolean_or(each.name, megatron.*each.value);
  }
  megatron.pipeline_layout = object.text_or("pipeline_layout", megatron.pipeline_layout);
  read_word(object, "attention", megatron_attention_words(), megatron.attention);
  read_word(object, "cp_comm_type", megatron_context_words(), megatron.context_exchange);
  read_word(object, "dispatcher", megatron_dispatcher_words(), megatron.dispatcher);
  read_word(object, "fp8_recipe", megatron_fp8_words(), megatron.fp8);
  read_word(object, "cross_entropy_fusion", megatron_cross_entropy_words(), megatron.cross_entropy);
  read_word(object, "recompute", megatron_recompute_words(), megatron.recompute);
  if (object.has("recompute_modules")) {
    const Result<MegatronModules> modules =
        parse_modules("recompute_modules", object.texts_or_none("recompute_modules"));
    if (modules) {
      megatron.recompute_modules = *modules;
    } else {
      object.refuse("recompute_modules", modules.error().wanted, modules.error().fix);
    }
  }
  if (object.has("offload_modules")) {
    const Result<MegatronOffload> modules =
        parse_offload_modules("offload_modules", object.texts_or_none("offload_modules"));
    if (modules) {
      megatron.offload_modules = *modules;
    } else {
      object.refuse("offload_modules", modules.error().wanted, modules.error().fix);
    }
  }
  megatron.least_offloaded =
      object.integer_or("min_offloaded_tensor_size", megatron.least_offloaded, {1, kMostElements});
  if (object.is_null("capacity_factor")) {
    megatron.capacity_factor.reset();
  } else if (object.has("capacity_factor")) {
    megatron.capacity_factor = object.number_or("capacity_factor", 1, {1e-3, 1e6});
  }
  megatron.expert_load = object.number_or("expert_load", megatron.expert_load, {1e-3, 1e4});
  megatron.optimizer_offload =
      object.number_or("optimizer_offload", megatron.optimizer_offload, {0, 1});
}

void read_titan(const JsonObject& object, TitanPlan& titan) {
  titan.tensor = object.integer_or("tp", titan.tensor, {1, kMostRanks});
  titan.context = object.integer_or("cp", titan.context, {1, kMostRanks});
  titan.expert = object.integer_or("ep", titan.expert, {1, kMostRanks});
  titan.expert_tensor = object.integer_or("etp", titan.expert_tensor, {1, kMostRanks});
  titan.pipeline = object.integer_or("pp", titan.pipeline, {1, kMostRanks});
  read_word(object, "schedule", titan_schedule_words(), titan.schedule);
  titan.pipeline_batch = object.integer_or("pp_batch", titan.pipeline_batch, {1, kMostMicroBatch});
  titan.stage_layers = object.integer_or("pp_layers", titan.stage_layers, {0, kMostRanks});
  titan.first_stage_less =
      object.integer_or("pp_first_less", titan.first_stage_less, {0, kMostRanks});
  titan.last_stage_less = object.integer_or("pp_last_less", titan.last_stage_less, {0, kMostRanks});
  titan.loss_parallel = object.boolean_or("loss_parallel", titan.loss_parallel);
  read_word(object, "reshard", titan_reshard_words(), titan.reshard);
  titan.selective_operators = object.boolean_or("selective_operators", titan.selective_operators);
  titan.compiled = object.boolean_or("compiled", titan.compiled);
  if (object.is_null("memory_budget")) {
    titan.memory_budget.reset();
  } else if (object.has("memory_budget")) {
    titan.memory_budget = object.number_or("memory_budget", 1, {0, 1});
  }
  read_word(object, "float8", float8_recipe_words(), titan.float8);
  titan.float8_gather = object.boolean_or("float8_gather", titan.float8_gather);
  titan.float8_precompute = object.boolean_or("float8_precompute", titan.float8_precompute);
}

void read_tune(const JsonObject& object, TunePlan& tune) {
  tune.compiled = object.boolean_or("compiled", tune.compiled);
  tune.optimizer_in_backward =
      object.boolean_or("optimizer_in_backward", tune.optimizer_in_backward);
  tune.offload_activations = object.boolean_or("offload_activations", tune.offload_activations);
}

void read_generation(const JsonObject& object, GenerationPlan& generation) {
  generation.new_tokens =
      object.integer_or("new_tokens", generation.new_tokens, {1, kMostSequence});
  generation.static_cache = object.boolean_or("static_cache", generation.static_cache);
}

/// A part that a plan may lack: null takes it away, an object sets it, absence leaves it.
template <typename Part>
void read_part(const JsonObject& root, std::string_view key, std::optional<Part>& part,
               void (*read)(const JsonObject&, Part&)) {
  if (root.is_null(key)) {
    part.reset();
  } else if (const std::optional<JsonObject> object = root.optional_object(key)) {
    Part value = part.value_or(Part{});
    read(*object, value);
    part = value;
  }
}

void read_training(const JsonObject& root, ParallelPlan& plan) {
  plan.micro_batch = root.integer_or("micro_batch", plan.micro_batch, {1, kMostMicroBatch});
  plan.sequence = root.integer_or("sequence", plan.sequence, {1, kMostSequence});
  plan.accumulation = root.integer_or("accumulation", plan.accumulation, {1, kMostAccumulation});
  if (const auto text = root.optional_text("checkpointing")) {
    const Result<Checkpointing> found = parse_checkpointing("checkpointing", *text);
    if (found) {
      plan.recompute = found->recompute;
      plan.recompute_every = found->every;
    } else {
      root.refuse("checkpointing", found.error().wanted, found.error().fix);
    }
  }
  if (root.is_null("clip_norm")) {
    plan.clip_norm.reset();
  } else if (const auto norm = root.optional_number("clip_norm", {1e-12, 1e12})) {
    plan.clip_norm = norm;
  }
  plan.padded_batch = root.boolean_or("padded_batch", plan.padded_batch);
  plan.keep_logits = root.boolean_or("keep_logits", plan.keep_logits);
  plan.keep_batch = root.boolean_or("keep_batch", plan.keep_batch);
  plan.evaluation = root.boolean_or("evaluation", plan.evaluation);
  plan.checkpoint_save = root.boolean_or("checkpoint_save", plan.checkpoint_save);
  plan.steps = static_cast<int>(root.integer_or("steps", plan.steps, {1, kMostSteps}));
  plan.world = root.integer_or("gpus", plan.world, {1, kMostRanks});
  if (root.is_null("rank")) {
    plan.rank.reset();
  } else if (const auto rank = root.optional_integer("rank", {0, kMostRanks - 1})) {
    plan.rank = rank;
  }
}

/// The framework by its name. Files of earlier versions named the model code of torchtitan,
/// torchtune and LitGPT beside the framework whose sharding it runs on.
void read_runtime(const JsonObject& root, std::string& runtime) {
  const std::vector<std::string> known = runtime_names();
  const auto take = [&](std::string_view key) {
    const std::optional<std::string> name = root.optional_text(key);
    if (!name) {
      return;
    }
    if (find_runtime(*name) == nullptr) {
      root.refuse(key, "one of " + join(known), suggestion(*name, known));
    } else if (key == "runtime" || *name != "transformers") {
      runtime = *name;
    }
  };
  take("runtime");
  take("model_code");
}

ParallelPlan read_root(const JsonObject& root, const ParallelPlan& base) {
  ParallelPlan plan = base;
  root.accept("$schema");
  // Read for its check alone.
  static_cast<void>(root.integer("schema_version", {kSchemaVersion, kSchemaVersion}));
  read_runtime(root, plan.runtime);
  plan.runtime_version = root.text_or("runtime_version", plan.runtime_version);
  read_word(root, "precision", precision_words(), plan.precision);
  if (const auto optimizer = root.optional_object("optimizer")) {
    read_optimizer(*optimizer, plan.optimizer);
  }
  read_word(root, "attention", attention_words(), plan.attention);
  read_word(root, "loss", loss_words(), plan.loss);
  plan.liger = root.boolean_or("liger", plan.liger);
  read_training(root, plan);
  read_part(root, "ddp", plan.ddp, read_ddp);
  read_part(root, "zero", plan.zero, read_zero);
  read_part(root, "fsdp", plan.fsdp, read_fsdp);
  read_part(root, "megatron", plan.megatron, read_megatron);
  read_part(root, "titan", plan.titan, read_titan);
  read_part(root, "tune", plan.tune, read_tune);
  read_part(root, "lora", plan.lora, read_lora);
  read_part(root, "quant", plan.quant, read_quant);
  read_part(root, "generation", plan.generation, read_generation);
  if (const auto allocator = root.optional_object("allocator")) {
    read_allocator(*allocator, plan.allocator);
  }
  return plan;
}

template <typename Part>
JsonValue part_json(const std::optional<Part>& part, JsonFields (*fields)(const Part&)) {
  return part ? fields(*part).finish() : JsonValue{};
}

}  // namespace

JsonValue plan_to_json(const ParallelPlan& plan) {
  JsonFields fields;
  fields.add("schema_version", kSchemaVersion);
  fields.add("runtime", plan.runtime);
  fields.add("runtime_version", plan.runtime_version);
  fields.add("gpus", plan.world);
  fields.add("rank", plan.rank ? JsonValue{*plan.rank} : JsonValue{});
  fields.add("precision", word_of(precision_words(), plan.precision));
  fields.add("optimizer", optimizer_fields(plan.optimizer));
  fields.add("attention", word_of(attention_words(), plan.attention));
  fields.add("loss", word_of(loss_words(), plan.loss));
  fields.add("liger", plan.liger);
  fields.add("micro_batch", plan.micro_batch);
  fields.add("sequence", plan.sequence);
  fields.add("accumulation", plan.accumulation);
  fields.add("checkpointing", checkpointing_text(plan.recompute, plan.recompute_every));
  fields.add("clip_norm", plan.clip_norm ? JsonValue{*plan.clip_norm} : JsonValue{});
  fields.add("padded_batch", plan.padded_batch);
  fields.add("keep_logits", plan.keep_logits);
  fields.add("keep_batch", plan.keep_batch);
  fields.add("evaluation", plan.evaluation);
  fields.add("checkpoint_save", plan.checkpoint_save);
  fields.add("steps", plan.steps);
  fields.add("ddp", part_json(plan.ddp, ddp_fields));
  fields.add("zero", part_json(plan.zero, zero_fields));
  fields.add("fsdp", part_json(plan.fsdp, fsdp_fields));
  fields.add("megatron", part_json(plan.megatron, megatron_fields));
  fields.add("titan", part_json(plan.titan, titan_fields));
  fields.add("tune", part_json(plan.tune, tune_fields));
  fields.add("lora", part_json(plan.lora, lora_fields));
  fields.add("quant", part_json(plan.quant, quant_fields));
  fields.add("generation", part_json(plan.generation, generation_fields));
  fields.add("allocator", allocator_fields(plan.allocator));
  return std::move(fields).finish();
}

Result<ParallelPlan> parse_plan(std::string_view text, std::string_view file,
                                const ParallelPlan& base) {
  const Result<JsonReader> reader = JsonReader::from_text(text, file);
  if (!reader) {
    return reader.error();
  }
  ParallelPlan plan = read_root(reader->root(), base);
  if (Status status = reader->finish_refusing_unknown_keys(); !status) {
    return std::move(status).error();
  }
  return plan;
}

Result<ParallelPlan> read_plan(const std::string& path, const ParallelPlan& base) {
  const Result<std::string> text = read_file(path);
  return text ? parse_plan(*text, path, base) : Result<ParallelPlan>(text.error());
}

}  // namespace headroom::ir
