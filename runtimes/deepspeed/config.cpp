#include "runtimes/deepspeed/config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/config_section.h"
#include "runtimes/deepspeed/leaf_modules.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp_plan.h"

namespace headroom::ir::deepspeed {
namespace {

constexpr IntegerRange kElements{0, std::numeric_limits<std::int64_t>::max()};
constexpr double kUsualClipping = 1.0;  // GRADIENT_CLIPPING_DEFAULT

constexpr std::array<std::string_view, 28> kHarmlessRootKeys = {
    "scheduler",
    "steps_per_print",
    "wall_clock_breakdown",
    "dump_state",
    "memory_breakdown",
    "disable_python_gc",
    "gradient_allreduce_op",
    "flops_profiler",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "monitor_config",
    "comms_logger",
    "checkpoint",
    "dataloader_drop_last",
    "timers",
    "vocabulary_size",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "autotuning",
    "log_level",
    "aio",
    "use_data_before_expert_parallelism",
    "managed_gradient_accumulation",
    "disable_allgather",
    "seq_parallel_communication_data_type",
    "datastates_ckpt"};

/// DeepSpeed 0.19 stops if one of these keys is present, whatever its value.
/// Source: deepspeed/runtime/config.py, _REMOVED_TOP_LEVEL_CONFIG_KEYS.
constexpr std::array<std::string_view, 11> kRemovedRootKeys = {"nebula",
                                                               "compression_training",
                                                               "amp",
                                                               "quantize_training",
                                                               "sparse_gradients",
                                                               "eigenvalue",
                                                               "sparse_attention",
                                                               "elasticity",
                                                               "graph_harvesting",
                                                               "curriculum_learning",
                                                               "progressive_layer_drop"};

/// Sections that change memory as soon as they are enabled.
constexpr std::array<std::string_view, 6> kUnmodelledSections = {
    "torch_autocast",  "hybrid_engine",   "data_efficiency",
    "tensor_parallel", "expert_parallel", "weight_quantization"};

/// A size and its keys. DeepSpeed accepts some keys with and without the prefix "stage3_".
struct SizeKey {
  std::string_view key;
  std::string_view alias;
  std::int64_t ZeroPlan::*value;
  IntegerRange range = kElements;
};
constexpr std::array<SizeKey, 8> kSizes = {
    {{"reduce_bucket_size", "", &ZeroPlan::reduce_bucket_size, {0, kMostElements}},
     {"allgather_bucket_size", "", &ZeroPlan::allgather_bucket_size},
     {"sub_group_size", "", &ZeroPlan::sub_group_size},
     {"stage3_prefetch_bucket_size", "prefetch_bucket_size", &ZeroPlan::prefetch_bucket_size},
     {"stage3_param_persistence_threshold", "param_persistence_threshold",
      &ZeroPlan::param_persistence_threshold},
     {"stage3_model_persistence_threshold", "model_persistence_threshold",
      &ZeroPlan::model_persistence_threshold},
     {"stage3_max_live_parameters", "max_live_parameters", &ZeroPlan::max_live_parameters},
     {"stage3_max_reuse_distance", "max_reuse_distance", &ZeroPlan::max_reuse_distance}}};

constexpr std::array<std::string_view, 13> kHarmlessZeroKeys = {
    "allgather_partitions",  // Nothing in DeepSpeed 0.19 reads it.
    "load_from_fp32_weights",
    "elastic_checkpoint",
    "ignore_unused_parameters",
    "stage3_gather_16bit_weights_on_model_save",
    "gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "override_module_apply",
    "log_trace_cache_warnings",
    "enable_sanity_checks",
    "pipeline_loading_checkpoint",
    "cpu_offload_use_pin_memory",
    "save_muon_momentum_buffer_in_memory"};

constexpr std::array<std::string_view, 2> kUnmodelledZeroSwitches = {"legacy_stage1", "zenflow"};

/// A switch, both of its keys, and the stages that read it.
struct StageSwitch {
  std::string_view key;
  std::string_view alias;
  bool ZeroPlan::*value;
  int first;
  int last;
};
constexpr std::array<StageSwitch, 7> kStageSwitches = {
    {{"reduce_scatter", "", &ZeroPlan::reduce_scatter, 1, 3},
     {"use_multi_rank_bucket_allreduce", "", &ZeroPlan::multi_rank_allreduce, 1, 2},
     {"parameter_alignment", "", &ZeroPlan::parameter_alignment, 1, 2},
     {"compute_grad_norm", "", &ZeroPlan::compute_grad_norm, 1, 2},
     {"memory_efficient_linear", "", &ZeroPlan::memory_efficient_linear, 3, 3},
     {"stage3_allgather_sequential", "allgather_sequential", &ZeroPlan::allgather_sequential, 3, 3},
     {"stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params",
      &ZeroPlan::all_reduce_fetch, 3, 3}}};

bool computes_in_bf16(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kBf16Master ||
         precision == Precision::kAutocastBf16 || precision == Precision::kBf16AutocastBf16;
}
bool computes_in_fp16(Precision precision) {
  return precision == Precision::kFp16 || precision == Precision::kFp16Master ||
         precision == Precision::kAutocastFp16;
}

/// Reads offload_optimizer.ratio; offload_param has no ratio. Stages below 3 refuse it.
/// Source: deepspeed/runtime/zero/offload_config.py; config.py, offload_ratio_check.
void read_offload_ratio(ConfigSection& section, ZeroPlan& plan) {
  constexpr std::string_view kKey = "ratio";
  const double ratio = section.number(kKey, {0, 1}).value_or(1);
  if (ratio == 1) {
    return;
  }
  if (plan.stage != 3) {
    section.refuse(kKey, "1 below ZeRO stage 3", "set stage to 3, or leave the key out");
  } else if (plan.offload_optimizer == OffloadDevice::kNvme) {
    section.refuse(kKey, "1 with states on a drive", "set device to cpu, or leave the key out");
  } else if (plan.offload_optimizer == OffloadDevice::kCpu) {
    plan.offload_ratio = ratio;
  } else {
    section.note("/zero_optimization/offload_optimizer/ratio does nothing without a device");
  }
}

void read_offload(ConfigSection& zero, std::string_view key, OffloadDevice ZeroPlan::*device_of,
                  ZeroPlan& plan) {
  constexpr std::array<std::string_view, 9> kHostKeys = {
      "pin_memory",     "buffer_count", "buffer_size",        "max_in_cpu", "pipeline_read",
      "pipeline_write", "fast_init",    "cpuadam_cores_perc", "pipeline"};
  ConfigSection section = zero.section(key);
  OffloadDevice& device = plan.*device_of;
  if (const auto word = section.text("device")) {
    const Result<OffloadDevice> found = parse_word(offload_words(), "device", *word);
    if (found) {
      device = *found;
    } else {
      section.refuse("device", found.error().wanted, found.error().fix);
    }
  }
  plan.nvme_path = section.text("nvme_path").value_or(plan.nvme_path);
  section.accept(kHostKeys);
  if (device_of == &ZeroPlan::offload_optimizer) {
    read_offload_ratio(section, plan);
  }
  section.demand("super_offload", JsonValue{false});
  section.finish_section();
}

/// Fills in what transformers sets for "auto". Without "auto", DeepSpeed's defaults apply.
void fill_auto_sizes(const ConfigSection& zero, const ModelSpec& model, ZeroPlan& plan) {
  const std::int64_t square = model.hidden * model.hidden;
  if (zero.is_auto("reduce_bucket_size")) {
    plan.reduce_bucket_size = square;
  }
  if (plan.stage == 3 && zero.is_auto("stage3_prefetch_bucket_size")) {
    // int(0.9 * H * H), multiplied in Python's order.
    const double share =
        0.9 * static_cast<double>(model.hidden) * static_cast<double>(model.hidden);
    plan.prefetch_bucket_size = static_cast<std::int64_t>(share);
  }
  if (plan.stage == 3 && zero.is_auto("stage3_param_persistence_threshold")) {
    plan.param_persistence_threshold = 10 * model.hidden;
  }
}

void read_old_offload(ConfigSection& zero, std::string_view key, OffloadDevice& device) {
  if (zero.boolean(key).value_or(false)) {
    device = OffloadDevice::kCpu;
    zero.note("/zero_optimization/" + std::string(key) + " is the old form of " +
              (key == "cpu_offload" ? "offload_optimizer" : "offload_param"));
  }
}

/// Reads the keys of ZeRO++, and refuses those of MiCS and LoCo, which DeepSpeed 0.19 has removed.
void read_zero_plus(ConfigSection& zero, ZeroPlan& plan) {
  plan.hpz_partition_size =
      zero.integer("zero_hpz_partition_size", {1, kMostRanks}).value_or(plan.hpz_partition_size);
  plan.quantized_weights = zero.boolean("zero_quantized_weights").value_or(false);
  if (zero.boolean("zero_quantized_nontrainable_weights").value_or(false)) {
    zero.note(
        "/zero_optimization/zero_quantized_nontrainable_weights reaches parameters that are "
        "frozen before zero.Init partitions them alone: none here");
  }
  plan.quantized_gradients = zero.boolean("zero_quantized_gradients").value_or(false);
  for (const std::string_view key : {"mics_shard_size", "mics_hierarchical_params_gather"}) {
    if (zero.has(key)) {
      zero.refuse(key, "no MiCS, which DeepSpeed 0.19 has removed",
                  "leave the key out; zero_hpz_partition_size keeps gathers within a node");
    }
    zero.accept({&key, 1});
  }
  constexpr std::string_view kLoco = "zeropp_loco_param";
  if (zero.has(kLoco)) {
    zero.refuse(kLoco, "no LoCo, which DeepSpeed 0.19 has removed", "leave the key out");
  }
  zero.accept({&kLoco, 1});
}

/// Reads the leaf modules. Classes in the configuration replace DeepSpeed's own list.
void read_leaf_module(ConfigSection& zero, const ModelSpec& model, ZeroPlan& plan) {
  ConfigSection section = zero.section("leaf_module");
  const std::string known(experts_class(model.family));
  for (const std::string& name : section.texts("classes")) {
    if (known.empty() || name.substr(name.rfind('.') + 1) != known) {
      section.refuse("classes", known.empty() ? "nothing: this model has no blocks of experts"
                                              : "this model's block of experts, " + known);
      break;
    }
    plan.leaf = ZeroLeaf::kExperts;
  }
  for (const std::string_view key : {"names", "name_suffixes"}) {
    section.demand(key, JsonValue{JsonValue::Array{}});
  }
  section.finish_section();
}

/// Reads the switches. Stages that do not use a switch ignore it, except compute_grad_norm.
void read_switches(ConfigSection& zero, ZeroPlan& plan) {
  for (const StageSwitch& each : kStageSwitches) {
    for (const std::string_view key : {each.key, each.alias}) {
      const std::optional<bool> value = key.empty() ? std::nullopt : zero.boolean(key);
      const bool reads = each.first <= plan.stage && plan.stage <= each.last;
      // DeepSpeed refuses compute_grad_norm at stages that do not use it, so it is read there, too.
      if (value && (reads || each.value == &ZeroPlan::compute_grad_norm)) {
        plan.*each.value = *value;
      }
    }
  }
}

ZeroPlan read_zero(ConfigSection& root, const ModelSpec& model) {
  ConfigSection zero = root.section("zero_optimization");
  ZeroPlan plan;
  plan.stage = static_cast<int>(zero.integer("stage", {0, 3}).value_or(0));
  for (const SizeKey& size : kSizes) {
    for (const std::string_view key : {size.key, size.alias}) {
      if (!key.empty()) {
        plan.*size.value = zero.integer(key, size.range).value_or(plan.*size.value);
      }
    }
  }
  fill_auto_sizes(zero, model, plan);
  plan.overlap_comm = zero.boolean("overlap_comm");
  plan.contiguous_gradients =
      zero.boolean("contiguous_gradients").value_or(plan.contiguous_gradients);
  plan.round_robin_gradients =
      zero.boolean("round_robin_gradients").value_or(plan.round_robin_gradients);
  read_offload(zero, "offload_optimizer", &ZeroPlan::offload_optimizer, plan);
  read_offload(zero, "offload_param", &ZeroPlan::offload_param, plan);
  read_old_offload(zero, "cpu_offload", plan.offload_optimizer);
  read_old_offload(zero, "cpu_offload_param", plan.offload_param);
  zero.accept(kHarmlessZeroKeys);
  read_switches(zero, plan);
  for (const std::string_view key : kUnmodelledZeroSwitches) {
    zero.demand(key, JsonValue{false});
  }
  read_zero_plus(zero, plan);
  for (const std::string_view key :
       {"module_granularity_threshold", "stage3_module_granularity_threshold"}) {
    zero.demand(key, JsonValue{std::int64_t{0}});
  }
  read_leaf_module(zero, model, plan);
  zero.finish_section();
  return plan;
}

bool read_enabled(ConfigSection& root, std::string_view key, bool argument) {
  constexpr std::array<std::string_view, 7> kScaling = {
      "loss_scale",         "initial_scale_power",    "loss_scale_window",
      "hysteresis",         "consecutive_hysteresis", "min_loss_scale",
      "check_grad_overflow"};
  ConfigSection section = root.section(key);
  const bool enabled =
      section.is_auto("enabled") ? argument : section.boolean("enabled").value_or(false);
  section.accept(std::array<std::string_view, 1>{"enabled"});
  section.accept(kScaling);
  for (const std::string_view copy :
       {"auto_cast", "fp16_master_weights_and_grads", "bf16_master_weights_and_grads",
        "bf16_optimizer_states", "immediate_grad_update"}) {
    section.demand(copy, JsonValue{false});
  }
  section.finish_section();
  return enabled;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void read_precision(ConfigSection& root, ParallelPlan& plan) {
  const Precision argument = plan.precision;
  const std::string_view brain = root.has("bfloat16") && !root.has("bf16") ? "bfloat16" : "bf16";
  const bool bf16 = read_enabled(root, brain, computes_in_bf16(argument));
  const bool fp16 = read_enabled(root, "fp16", computes_in_fp16(argument));
  if (bf16 && fp16) {
    root.refuse("fp16", "only one of bf16 and fp16 enabled");
  }
  plan.precision = bf16 ? Precision::kBf16Master : fp16 ? Precision::kFp16Master : Precision::kFp32;
  const std::string own = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
  if (const std::optional<std::string> word = root.text("communication_data_type")) {
    const Result<DType> type =
        parse_word(policy_dtype_words(), "communication_data_type", lower_case(*word));
    if (!type) {
      root.refuse("communication_data_type", type.error().wanted);
    } else if (name_of(*type) != own) {
      edit_zero(plan).communication_dtype = *type;
    }
  }
  ConfigSection types = root.section("data_types");
  const std::string accumulation = types.text("grad_accum_dtype").value_or(own);
  if (accumulation == "fp32" && accumulation != own && zero_of(plan).stage > 0) {
    edit_zero(plan).grad_accum_dtype = DType::kFp32;
  } else if (accumulation != own) {
    types.refuse("grad_accum_dtype", own + " or, from ZeRO stage 1 on, fp32");
  }
  types.demand("param_dtype", JsonValue{own});
  types.demand("buffer_dtype", JsonValue{"fp32"});
  types.accept(std::array<std::string_view, 1>{"keep_in_fp32_modules"});
  types.finish_section();
}

/// Which of torch's implementations the parameters of a torch optimizer select.
OptimizerForm torch_form(ConfigSection& params) {
  if (params.boolean("fused").value_or(false)) {
    return OptimizerForm::kFused;
  }
  return params.boolean("foreach").value_or(true) ? OptimizerForm::kForeach : OptimizerForm::kLoop;
}

void read_optimizer(ConfigSection& root, ParallelPlan& plan) {
  constexpr std::array<std::string_view, 12> kNumbers = {"lr",
                                                         "betas",
                                                         "eps",
                                                         "weight_decay",
                                                         "bias_correction",
                                                         "adam_w_mode",
                                                         "fp32_optimizer_states",
                                                         "dampening",
                                                         "nesterov",
                                                         "maximize",
                                                         "capturable",
                                                         "differentiable"};
  if (!root.has("optimizer")) {
    static_cast<void>(root.section("optimizer"));  // The trainer's own optimizer applies.
    return;
  }
  ConfigSection section = root.section("optimizer");
  ConfigSection params = section.section("params");
  params.accept(kNumbers);
  const std::string type = section.text("type").value_or("");
  const std::string name = lower_case(type);
  if (name == "adam" || name == "adamw") {
    const bool torch = params.boolean("torch_adam").value_or(false);
    plan.optimizer = {OptimizerKind::kAdamW, torch ? torch_form(params) : OptimizerForm::kFused, 0};
    edit_zero(plan).torch_adam = torch && plan.optimizer.form == OptimizerForm::kFused;
    params.demand("amsgrad", JsonValue{false});
  } else if (name == "lion") {
    plan.optimizer = {OptimizerKind::kLion, OptimizerForm::kForeach, 0};
  } else if (type == "SGD") {
    plan.optimizer = {OptimizerKind::kSgd, torch_form(params),
                      params.number("momentum", {0, 1}).value_or(0)};
  } else {
    section.refuse("type", "Adam, AdamW, Lion or SGD",
                   "leave the section out to take the optimizer of the trainer's arguments");
  }
  section.accept(std::array<std::string_view, 1>{"legacy_fusion"});
  params.finish_section();
  section.finish_section();
}

/// Reads the three batch sizes, any two of which determine the third, as in DeepSpeed. "auto" takes
/// the trainer's value.
void read_batch(ConfigSection& root, ParallelPlan& plan) {
  constexpr std::string_view kTotal = "train_batch_size";
  constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
  constexpr std::string_view kSteps = "gradient_accumulation_steps";
  const auto read = [&](std::string_view key, std::int64_t most, std::int64_t argument) {
    const bool is_auto = root.is_auto(key);
    const std::optional<std::int64_t> value = root.integer(key, {1, most});
    return is_auto ? std::optional(argument) : value;
  };
  const std::int64_t own_total =
      plan.world * plan.workload.micro_batch * plan.workload.accumulation;
  const auto total = read(kTotal, kMostRanks * kMostMicroBatch, own_total);
  const auto micro = read(kMicro, kMostMicroBatch, plan.workload.micro_batch);
  const auto steps = read(kSteps, kMostAccumulation, plan.workload.accumulation);
  if (!total && !micro) {
    return;  // The trainer's own numbers apply.
  }
  if (micro) {
    plan.workload.micro_batch = *micro;
    plan.workload.accumulation = steps ? *steps : total ? *total / plan.world / *micro : 1;
  } else {
    plan.workload.accumulation = steps.value_or(1);
    plan.workload.micro_batch = *total / plan.world / plan.workload.accumulation;
  }
  if (total && *total != plan.world * plan.workload.micro_batch * plan.workload.accumulation) {
    root.refuse(kTotal, std::string(kMicro) + " * " + std::string(kSteps) + " * " +
                            std::to_string(plan.world) + " ranks");
  } else if (plan.workload.micro_batch < 1 || plan.workload.accumulation < 1) {
    root.refuse(kTotal,
                "at least one sequence for each of " + std::to_string(plan.world) + " ranks");
  }
}

void read_clipping(ConfigSection& root, ParallelPlan& plan) {
  constexpr std::string_view kKey = "gradient_clipping";
  if (root.is_auto(kKey)) {
    // Trainer fills in its max_grad_norm. Source: transformers 5
    // src/transformers/integrations/deepspeed.py, trainer_config_process; training_args.py.
    constexpr double kTrainersClipping = 1.0;
    static_cast<void>(root.number(kKey, {}));
    if (!plan.clip_norm) {
      plan.clip_norm = kTrainersClipping;
      root.note("gradient_clipping \"auto\" is 1, as in Trainer; --clip-norm sets another norm");
    }
    return;
  }
  const double norm = root.number(kKey, {0, 1e12}).value_or(kUsualClipping);
  plan.clip_norm = norm > 0 ? std::optional(norm) : std::nullopt;
}

/// Checks keys of older versions. If switched off, they change nothing; if on, they are not
/// modelled.
void check_removed(ConfigSection& root) {
  for (const std::string_view key : kRemovedRootKeys) {
    if (!root.has(key)) {
      root.accept({&key, 1});
    } else if (root.switches_on(key)) {
      root.refuse(key, "nothing: DeepSpeed 0.19 has removed it", "leave the key out");
    } else {
      root.note("/" + std::string(key) +
                ": DeepSpeed 0.19 has removed it and breaks off where it stands");
    }
  }
}

/// Refuses what DeepSpeed itself refuses. Source: the constructors in zero/stage_1_and_2.py and
/// zero/stage3.py.
void check_reduction(ConfigSection& root, int stage) {
  const bool before = root.boolean("prescale_gradients").value_or(false);
  if (before && stage >= 2) {
    root.refuse("prescale_gradients", "false at ZeRO stages 2 and 3, where DeepSpeed breaks off",
                "leave the key out");
  }
  const double factor = root.number("gradient_predivide_factor", {0, 1e12}).value_or(1);
  if (factor != 1 && stage >= 2) {
    root.refuse("gradient_predivide_factor",
                "1 at ZeRO stages 2 and 3, where DeepSpeed breaks off otherwise",
                "leave the key out");
  }
}

void check_unmodelled(ConfigSection& root) {
  root.accept(kHarmlessRootKeys);
  root.demand("sequence_parallel_size", JsonValue{std::int64_t{1}});
  for (const std::string_view key : kUnmodelledSections) {
    ConfigSection section = root.section(key);
    if (section.boolean("enabled").value_or(false) || section.has("autotp_size")) {
      root.refuse(key, "nothing here: it changes memory in a way not modelled");
    }
  }
  ConfigSection compile = root.section("compile");
  compile.demand("deepcompile", JsonValue{false});
  if (root.has("activation_checkpointing")) {
    root.note(
        "/activation_checkpointing: no effect on Hugging Face models, which checkpoint with "
        "torch.utils.checkpoint (--checkpointing)");
  }
  root.accept(std::array<std::string_view, 1>{"activation_checkpointing"});
}

Error joined(std::vector<Error> errors) {
  Error first = std::move(errors.front());
  for (std::size_t index = 1; index < errors.size(); ++index) {
    const Error& other = errors[index];
    first.notes.push_back("also " + other.pointer + ": got " + other.got + ", expected " +
                          other.wanted);
  }
  return first;
}

}  // namespace

Result<ConfigReading> parse_config(std::string_view text, std::string_view file,
                                   const ModelSpec& model, const ParallelPlan& arguments) {
  const Result<JsonValue> document = JsonReader::parse_root(text, file);
  if (!document) {
    return document.error();
  }
  Findings findings{.file = std::string(file), .errors = {}, .notes = {}};
  ConfigSection root(&*document, "", findings);
  ParallelPlan plan = arguments;
  plan.runtime = "deepspeed";
  plan.own.reset<DdpPlan>();
  edit_zero(plan) = read_zero(root, model);
  if (has_zero(arguments)) {  // Only the trainer knows these of its optimizer.
    edit_zero(plan).decay_groups = zero_of(arguments).decay_groups;
    edit_zero(plan).torch_adam = zero_of(arguments).torch_adam;
  }
  read_precision(root, plan);
  read_optimizer(root, plan);
  read_batch(root, plan);
  read_clipping(root, plan);
  check_removed(root);
  check_reduction(root, zero_of(plan).stage);
  check_unmodelled(root);
  root.finish_root();
  if (!findings.errors.empty()) {
    return joined(std::move(findings.errors));
  }
  return ConfigReading{.plan = std::move(plan), .notes = std::move(findings.notes)};
}

Result<ConfigReading> read_config(const std::string& path, const ModelSpec& model,
                                  const ParallelPlan& arguments) {
  const Result<std::string> text = read_file(path);
  return text ? parse_config(*text, path, model, arguments) : Result<ConfigReading>(text.error());
}

}  // namespace headroom::ir::deepspeed
