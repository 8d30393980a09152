// Recorded cases of torchtitan, with short names for the keys of its job configuration.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "model_ir/spec/hf_config.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/torchtitan/measured_runs.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

constexpr RunReader::Range kTitanDegreeRange{1, 1 << 12};

constexpr std::array<RowWord<TitanReshard>, 3> kReshardPolicies = {
    {{"default", TitanReshard::kDefault},
     {"always", TitanReshard::kAlways},
     {"never", TitanReshard::kNever}}};

constexpr std::array<RowWord<OptimizerForm>, 3> kOptimizerForms = {
    {{"fused", OptimizerForm::kFused},
     {"foreach", OptimizerForm::kForeach},
     {"for-loop", OptimizerForm::kLoop}}};

/// training.dtype, the type of the shards.
constexpr std::array<RowWord<Precision>, 2> kStored = {
    {{"float32", Precision::kFp32}, {"bfloat16", Precision::kBf16}}};

enum class AcMode : std::uint8_t { kNone, kFull, kSelective, kBudget };
constexpr std::array<RowWord<AcMode>, 4> kAcModes = {{{"none", AcMode::kNone},
                                                      {"full", AcMode::kFull},
                                                      {"selective", AcMode::kSelective},
                                                      {"memory_budget", AcMode::kBudget}}};

/// `ac` and `ac_option`: "op", or each k-th layer, where 0 is each layer. `memory_budget`: 0.5 by
/// default.
void read_ac_keys(RunReader& row, ParallelPlan& plan) {
  const AcMode mode = row.word<AcMode>("ac", "none", kAcModes);
  const std::string option = row.text("ac_option", "op");
  edit_titan(plan).selective_operators = mode == AcMode::kSelective && option == "op";
  if (mode == AcMode::kFull) {
    plan.recompute = Recompute::kFull;
  }
  const double budget = row.number("memory_budget", 0.5);
  if (budget < 0 || budget > 1) {
    row.fail("memory_budget", "a share below 0 or above 1");
    return;
  }
  if (mode == AcMode::kBudget) {
    edit_titan(plan).memory_budget = budget;
  }
  if (mode != AcMode::kSelective || option == "op") {
    return;
  }
  std::int64_t every = 0;
  const auto [end, fault] = std::from_chars(option.data(), option.data() + option.size(), every);
  if (fault != std::errc{} || end != option.data() + option.size() || every < 0 || every > 4096) {
    row.fail("ac_option", "'" + option + "'");
  }
  plan.recompute = Recompute::kFull;
  plan.recompute_every = every > 0 ? every : 1;
}

constexpr std::array<RowWord<Float8Recipe>, 3> kRecipes = {
    {{"tensorwise", Float8Recipe::kTensorwise},
     {"rowwise", Float8Recipe::kRowwise},
     {"rowwise_with_gw_hp", Float8Recipe::kRowwiseGradientHp}}};

/// Whether a key is a list of this one string. An absent key is not.
bool has_only(RunReader& row, std::string_view key, std::string_view wanted) {
  const JsonValue* const value = row.take(key);
  if (value == nullptr || (value->as_array() != nullptr && value->as_array()->empty())) {
    return false;
  }
  const auto* const list = value->as_array();
  const bool known = list != nullptr && list->size() == 1 && list->front().as_string() != nullptr &&
                     *list->front().as_string() == wanted;
  if (!known) {
    row.fail(key, "another list than of " + std::string(wanted));
  }
  return known;
}

/// Reads `converters` and, in `set`, the configuration of FP8 linear layers.
void read_float8(RunReader& row, TitanPlan& titan) {
  const bool converts = has_only(row, "converters", "quantize.linear.float8");
  RunReader set(row.take("set"), "set");
  constexpr std::string_view kRecipe = "quantize.linear.float8.recipe_name";
  constexpr std::string_view kGather = "quantize.linear.float8.enable_fsdp_float8_all_gather";
  constexpr std::string_view kPrecompute =
      "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp";
  constexpr std::string_view kFilter = "quantize.linear.float8.filter_fqns";
  if (converts) {
    titan.float8 = set.word<Float8Recipe>(kRecipe, "tensorwise", kRecipes);
    titan.float8_gather = set.flag(kGather, false);
    titan.float8_precompute = set.flag(kPrecompute, false);
    if (!has_only(set, kFilter, "output")) {
      set.fail(kFilter, "a head in 8 bits");
    }
  }
  row.absorb(set.trouble());
}

/// Reads the degrees, and keys that must have the modelled value.
void read_titan_degrees(RunReader& row, ParallelPlan& plan) {
  plan.world = row.integer("world", 8, kWorldRange);
  plan.mesh.tensor = row.integer("tp", 1, kTitanDegreeRange);
  plan.mesh.replicas = row.integer("dp_replicate", 1, kWorldRange);
  const std::int64_t shards = row.integer("dp_shard", -1, {-1, kWorldRange.high});
  const bool replicated = shards == 1 && plan.mesh.replicas == plan.world;
  if (shards != -1 && !replicated) {
    row.fail("dp_shard", "another degree than what is left over");
  }
  plan.mesh.context = row.integer("cp", 1, kTitanDegreeRange);
  plan.mesh.pipeline = row.integer("pp", 1, kTitanDegreeRange);
  plan.mesh.expert = row.integer("ep", 1, kTitanDegreeRange);
  const std::int64_t expert_tensor = row.integer("etp", 1, kTitanDegreeRange);
  plan.mesh.expert_tensor = expert_tensor > 1 ? expert_tensor : 0;
}

/// pipeline_parallel_schedule.
constexpr std::array<RowWord<PipelineKind>, 6> kSchedules = {
    {{"GPipe", PipelineKind::kGPipe},
     {"1F1B", PipelineKind::kOneForwardOneBackward},
     {"Interleaved1F1B", PipelineKind::kInterleaved},
     {"InterleavedZeroBubble", PipelineKind::kZbH1},
     {"ZBVZeroBubble", PipelineKind::kZbV},
     {"DualPipeV", PipelineKind::kDualPipeV}}};

/// Reads the pipeline, and the rank that was recorded.
void read_pipeline(RunReader& row, RunSetting& run) {
  TitanPlan& titan = edit_titan(run.plan);
  titan.schedule = row.word<PipelineKind>("pp_schedule", "1F1B", kSchedules);
  if (titan.schedule == PipelineKind::kDualPipeV && row.flag("pp_overlap", true)) {
    row.fail("pp_overlap", "a forward and a backward in two threads at once");
  }
  titan.pipeline_batch = row.integer("pp_microbatch", 1, kBatchRange);
  titan.stage_layers = row.integer("pp_layers_per_stage", 0, {0, 1 << 12});
  titan.first_stage_less = row.integer("pp_first_less", 1, {0, 1 << 12});
  titan.last_stage_less = row.integer("pp_last_less", 1, {0, 1 << 12});
  const std::int64_t rank = row.integer("rank", 0, {0, run.plan.world - 1});
  run.rank = Rank{static_cast<std::int32_t>(rank)};
}

/// `global_batch`: -1 for what all ranks process at once.
void read_global_batch(RunReader& row, ParallelPlan& plan) {
  const std::int64_t global = row.integer("global_batch", -1, {-1, 1 << 24});
  const std::int64_t once = plan.workload.micro_batch * plan.world /
                            (plan.mesh.tensor * plan.mesh.context * plan.mesh.pipeline);
  if (global == 0 || global < -1 || (global > 0 && global % std::max<std::int64_t>(1, once) != 0)) {
    row.fail("global_batch", "no multiple of what all ranks take at once");
    return;
  }
  plan.workload.accumulation = global > 0 ? global / once : 1;
}

void read_keys(RunReader& row, RunSetting& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "torchtitan";
  plan.precision = row.word<Precision>("dtype", "float32", kStored);
  edit_fsdp(plan) = {};
  edit_titan(plan) = {};
  // Keys that repeat what `config` says in full, and keys that affect no tensor.
  constexpr std::array<std::string_view, 7> kAside = {"titan",  "model",    "flavor", "model_args",
                                                      "config", "log_freq", "events"};
  row.ignore(kAside);
  read_titan_degrees(row, plan);
  read_ac_keys(row, plan);
  edit_titan(plan).reshard = row.word<TitanReshard>("reshard", "default", kReshardPolicies);
  edit_titan(plan).compiled = row.flag("compile", false);
  read_float8(row, edit_titan(plan));
  edit_titan(plan).loss_parallel = row.flag("loss_parallel", true);
  plan.optimizer = {.kind = OptimizerKind::kAdamW,
                    .form = row.word<OptimizerForm>("opt_impl", "fused", kOptimizerForms)};
  plan.clip_norm = 1.0;
  plan.workload.micro_batch = row.integer("batch", 1, kBatchRange);
  read_global_batch(row, plan);
  read_pipeline(row, run);
  plan.workload.sequence = row.integer("seq", 2048, kSequenceRange);
  plan.workload.steps = static_cast<int>(row.integer("steps", 3, {1, 64}));
  plan.workload.resume = row.flag("resume", false);
  run.capacity = Bytes{row.integer("gpu_bytes", 85'024'112'640, {1, std::int64_t{1} << 50})};
  run.traits.memory_bytes = run.capacity.value();
  read_allocator(row, "alloc_conf", "expandable_segments:True", plan.allocator);
}

/// torchtitan's names of model families that differ from Hugging Face's.
constexpr std::array<RowWord<std::string_view>, 2> kFamilies = {
    {{"llama3", "llama"}, {"qwen3", "qwen3"}}};

/// The configuration with Hugging Face's name as `model_type`.
JsonValue hugging_face_config(const JsonValue::Object& config) {
  JsonValue::Object members = config;
  for (JsonMember& member : members) {
    const std::string* type = member.key == "model_type" ? member.value.as_string() : nullptr;
    if (const auto known = find_word<std::string_view>(type != nullptr ? *type : "", kFamilies)) {
      member.value = JsonValue(std::string(*known));
    }
  }
  return JsonValue(std::move(members));
}

}  // namespace

std::string recorded_parallel(const JsonValue& setting) {
  const std::string spread = degrees_of(setting);
  const bool hybrid = integer_or(setting, "dp_replicate", 1) > 1;
  return spread != "none" ? spread : (hybrid ? "hsdp" : "fsdp2");
}

void read_recorded_run(RunReader& row, Recorder /*recorder*/, RunSetting& run) {
  const JsonValue* config = row.take("config");
  if (config == nullptr || config->as_object() == nullptr) {
    row.fail("config", "absent");
    return;
  }
  Result<ModelSpec> model =
      parse_hf_config(to_json(hugging_face_config(*config->as_object())), "case.config");
  if (!model) {
    row.refuse(model.error());
    return;
  }
  run.model = std::move(model).value();
  read_keys(row, run);
}

}  // namespace headroom::ir::torchtitan
