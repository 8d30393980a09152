// Cases of torchtitan: the keys of its job configuration by short names.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "validators/measured/case_plan.h"

namespace headroom::check {
namespace {

using ir::TitanPlan;

constexpr CaseReader::Range kTitanDegreeRange{1, 1 << 12};

constexpr std::array<Word<ir::TitanReshard>, 3> kReshardPolicies = {
    {{"default", ir::TitanReshard::kDefault},
     {"always", ir::TitanReshard::kAlways},
     {"never", ir::TitanReshard::kNever}}};

constexpr std::array<Word<ir::OptimizerForm>, 3> kOptimizerForms = {
    {{"fused", ir::OptimizerForm::kFused},
     {"foreach", ir::OptimizerForm::kForeach},
     {"for-loop", ir::OptimizerForm::kLoop}}};

/// training.dtype, of the shards.
constexpr std::array<Word<ir::Precision>, 2> kStored = {
    {{"float32", ir::Precision::kFp32}, {"bfloat16", ir::Precision::kBf16}}};

enum class AcMode : std::uint8_t { kNone, kFull, kSelective, kBudget };
constexpr std::array<Word<AcMode>, 4> kAcModes = {{{"none", AcMode::kNone},
                                                   {"full", AcMode::kFull},
                                                   {"selective", AcMode::kSelective},
                                                   {"memory_budget", AcMode::kBudget}}};

/// `ac` and `ac_option`: "op", or each k-th layer; 0 is each. `memory_budget`: 0.5, unless it says
/// otherwise.
void read_ac_keys(CaseReader& reader, ir::ParallelPlan& plan) {
  const AcMode mode = reader.word<AcMode>("ac", "none", kAcModes);
  const std::string option = reader.text("ac_option", "op");
  plan.titan->selective_operators = mode == AcMode::kSelective && option == "op";
  if (mode == AcMode::kFull) {
    plan.recompute = ir::Recompute::kFull;
  }
  const double budget = reader.number("memory_budget", 0.5);
  if (budget < 0 || budget > 1) {
    reader.fail("memory_budget", "a share below 0 or above 1");
    return;
  }
  if (mode == AcMode::kBudget) {
    plan.titan->memory_budget = budget;
  }
  if (mode != AcMode::kSelective || option == "op") {
    return;
  }
  std::int64_t every = 0;
  const auto [end, fault] = std::from_chars(option.data(), option.data() + option.size(), every);
  if (fault != std::errc{} || end != option.data() + option.size() || every < 0 || every > 4096) {
    reader.fail("ac_option", "'" + option + "'");
  }
  plan.recompute = ir::Recompute::kFull;
  plan.recompute_every = every > 0 ? every : 1;
}

constexpr std::array<Word<ir::Float8Recipe>, 3> kRecipes = {
    {{"tensorwise", ir::Float8Recipe::kTensorwise},
     {"rowwise", ir::Float8Recipe::kRowwise},
     {"rowwise_with_gw_hp", ir::Float8Recipe::kRowwiseGradientHp}}};

/// Whether a key is a list of this one string; absent is no.
bool has_only(CaseReader& reader, std::string_view key, std::string_view wanted) {
  const ir::JsonValue* const value = reader.take(key);
  if (value == nullptr || (value->as_array() != nullptr && value->as_array()->empty())) {
    return false;
  }
  const auto* const list = value->as_array();
  const bool known = list != nullptr && list->size() == 1 && list->front().as_string() != nullptr &&
                     *list->front().as_string() == wanted;
  if (!known) {
    reader.fail(key, "another list than of " + std::string(wanted));
  }
  return known;
}

/// `converters` and, in `set`, what the configuration says of 8-bit linear layers.
void read_float8(CaseReader& reader, ir::TitanPlan& titan) {
  const bool converts = has_only(reader, "converters", "quantize.linear.float8");
  CaseReader set(reader.take("set"), "set");
  constexpr std::string_view kRecipe = "quantize.linear.float8.recipe_name";
  constexpr std::string_view kGather = "quantize.linear.float8.enable_fsdp_float8_all_gather";
  constexpr std::string_view kPrecompute =
      "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp";
  constexpr std::string_view kFilter = "quantize.linear.float8.filter_fqns";
  if (converts) {
    titan.float8 = set.word<ir::Float8Recipe>(kRecipe, "tensorwise", kRecipes);
    titan.float8_gather = set.flag(kGather, false);
    titan.float8_precompute = set.flag(kPrecompute, false);
    if (!has_only(set, kFilter, "output")) {
      set.fail(kFilter, "a head in 8 bits");
    }
  }
  reader.absorb(set.trouble());
}

/// Degrees, and keys that have to say what is modelled.
void read_titan_degrees(CaseReader& reader, ir::ParallelPlan& plan) {
  plan.world = reader.integer("world", 8, kWorldRange);
  plan.titan->tensor = reader.integer("tp", 1, kTitanDegreeRange);
  plan.fsdp->replicas = reader.integer("dp_replicate", 1, kWorldRange);
  const std::int64_t shards = reader.integer("dp_shard", -1, {-1, kWorldRange.high});
  const bool replicated = shards == 1 && plan.fsdp->replicas == plan.world;
  if (shards != -1 && !replicated) {
    reader.fail("dp_shard", "another degree than what is left over");
  }
  plan.titan->context = reader.integer("cp", 1, kTitanDegreeRange);
  plan.titan->pipeline = reader.integer("pp", 1, kTitanDegreeRange);
  plan.titan->expert = reader.integer("ep", 1, kTitanDegreeRange);
  plan.titan->expert_tensor = reader.integer("etp", 1, kTitanDegreeRange);
}

/// pipeline_parallel_schedule
constexpr std::array<Word<ir::PipelineKind>, 6> kSchedules = {
    {{"GPipe", ir::PipelineKind::kGPipe},
     {"1F1B", ir::PipelineKind::kOneForwardOneBackward},
     {"Interleaved1F1B", ir::PipelineKind::kInterleaved},
     {"InterleavedZeroBubble", ir::PipelineKind::kZbH1},
     {"ZBVZeroBubble", ir::PipelineKind::kZbV},
     {"DualPipeV", ir::PipelineKind::kDualPipeV}}};

/// The pipeline, and the rank that was recorded.
void read_pipeline(CaseReader& reader, RunSetting& setting) {
  ir::TitanPlan& titan = *setting.plan.titan;
  titan.schedule = reader.word<ir::PipelineKind>("pp_schedule", "1F1B", kSchedules);
  if (titan.schedule == ir::PipelineKind::kDualPipeV && reader.flag("pp_overlap", true)) {
    reader.fail("pp_overlap", "a forward and a backward in two threads at once");
  }
  titan.pipeline_batch = reader.integer("pp_microbatch", 1, kBatchRange);
  titan.stage_layers = reader.integer("pp_layers_per_stage", 0, {0, 1 << 12});
  titan.first_stage_less = reader.integer("pp_first_less", 1, {0, 1 << 12});
  titan.last_stage_less = reader.integer("pp_last_less", 1, {0, 1 << 12});
  const std::int64_t rank = reader.integer("rank", 0, {0, setting.plan.world - 1});
  setting.rank = ir::Rank{static_cast<std::int32_t>(rank)};
}

/// `global_batch`: -1 for what all ranks take at once.
void read_global_batch(CaseReader& reader, ir::ParallelPlan& plan) {
  const std::int64_t global = reader.integer("global_batch", -1, {-1, 1 << 24});
  const std::int64_t once = plan.micro_batch * plan.world /
                            (plan.titan->tensor * plan.titan->context * plan.titan->pipeline);
  if (global == 0 || global < -1 || (global > 0 && global % std::max<std::int64_t>(1, once) != 0)) {
    reader.fail("global_batch", "no multiple of what all ranks take at once");
    return;
  }
  plan.accumulation = global > 0 ? global / once : 1;
}

}  // namespace

void read_torchtitan_case(CaseReader& reader, RunSetting& setting) {
  ir::ParallelPlan& plan = setting.plan;
  plan.runtime = "torchtitan";
  plan.precision = reader.word<ir::Precision>("dtype", "float32", kStored);
  plan.fsdp.emplace();
  plan.titan.emplace();
  // What `config` says in full, and what changes no tensor.
  constexpr std::array<std::string_view, 7> kAside = {"titan",  "model",    "flavor", "model_args",
                                                      "config", "log_freq", "events"};
  reader.ignore(kAside);
  read_titan_degrees(reader, plan);
  read_ac_keys(reader, plan);
  plan.titan->reshard = reader.word<ir::TitanReshard>("reshard", "default", kReshardPolicies);
  plan.titan->compiled = reader.flag("compile", false);
  read_float8(reader, *plan.titan);
  plan.titan->loss_parallel = reader.flag("loss_parallel", true);
  plan.optimizer = {.kind = ir::OptimizerKind::kAdamW,
                    .form = reader.word<ir::OptimizerForm>("opt_impl", "fused", kOptimizerForms)};
  plan.clip_norm = 1.0;
  plan.micro_batch = reader.integer("batch", 1, kBatchRange);
  read_global_batch(reader, plan);
  read_pipeline(reader, setting);
  plan.sequence = reader.integer("seq", 2048, kSequenceRange);
  plan.steps = static_cast<int>(reader.integer("steps", 3, {1, 64}));
  setting.capacity = Bytes{reader.integer("gpu_bytes", 85'024'112'640, {1, std::int64_t{1} << 50})};
  setting.traits.memory_bytes = setting.capacity.value();
  read_allocator(reader, "alloc_conf", "expandable_segments:True", plan.allocator);
}

}  // namespace headroom::check
