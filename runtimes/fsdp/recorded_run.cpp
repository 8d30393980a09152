// Reads runs of transformers' models under FSDP2 and FSDP1.
#include <array>
#include <string>

#include "runtimes/fsdp/measured_runs.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::fsdp {
namespace {

/// A type of the mixed-precision policy; null keeps the parameters' own type.
DType policy_dtype(RunReader& parallel, std::string_view key, std::string_view absent,
                   const ParallelPlan& plan) {
  constexpr std::array<RowWord<DType>, 3> kTypes = {
      {{"fp32", DType::kFp32}, {"bf16", DType::kBf16}, {"fp16", DType::kFp16}}};
  return parallel.is_null(key) ? param_dtype(plan.precision)
                               : parallel.word<DType>(key, absent, kTypes);
}

/// `tied`: the harness leaves a tied embedding in the root's group.
void read_fsdp(RunReader& parallel, bool tied, ParallelPlan& plan) {
  FsdpPlan fsdp;
  const JsonValue* reshard = parallel.take("reshard");
  if (reshard != nullptr && reshard->as_integer()) {
    fsdp.reshard_ranks = parallel.integer("reshard", 0, kWorldRange);
  } else {
    fsdp.reshard_after_forward = parallel.flag("reshard", true);
  }
  fsdp.shard_decoder = false;  // The harness shards the layers of the first list that it finds.
  fsdp.shard_embeddings = parallel.flag("shard_embeddings", false) && !tied;
  fsdp.param_dtype = policy_dtype(parallel, "param_dtype", "bf16", plan);
  fsdp.reduce_dtype = policy_dtype(parallel, "reduce_dtype", "fp32", plan);
  plan.mesh.replicas = parallel.integer("replicate", 1, kWorldRange);
  fsdp.cpu_offload = parallel.flag("offload", false);
  edit_fsdp(plan) = fsdp;
}

/// Reads a run of FullyShardedDataParallel. Absent settings have the defaults of `accelerate
/// config`.
void read_wrapper(RunReader& parallel, ParallelPlan& plan) {
  FsdpPlan& fsdp = edit_fsdp(plan);
  fsdp.version = 1;
  const std::string strategy = parallel.text("strategy", "FULL_SHARD");
  const bool hybrid = strategy == "HYBRID_SHARD" || strategy == "_HYBRID_SHARD_ZERO2";
  const bool whole = strategy == "NO_SHARD";
  fsdp.reshard_after_forward = strategy == "FULL_SHARD" || strategy == "HYBRID_SHARD";
  if ((!hybrid && !whole && strategy != "FULL_SHARD" && strategy != "SHARD_GRAD_OP") ||
      hybrid != (plan.mesh.replicas > 1)) {
    parallel.fail("strategy", "'" + strategy + "'");
  }
  plan.mesh.replicas = whole ? plan.world : plan.mesh.replicas;
  constexpr std::array<RowWord<FsdpPrefetch>, 3> kPrefetches = {
      {{"BACKWARD_PRE", FsdpPrefetch::kBackwardPre},
       {"BACKWARD_POST", FsdpPrefetch::kBackwardPost},
       {"none", FsdpPrefetch::kNone}}};
  fsdp.backward_prefetch =
      parallel.is_null("prefetch")
          ? FsdpPrefetch::kNone
          : parallel.word<FsdpPrefetch>("prefetch", "BACKWARD_PRE", kPrefetches);
  fsdp.forward_prefetch = parallel.flag("forward_prefetch", false);
  fsdp.use_orig_params = parallel.flag("use_orig_params", true);
  constexpr std::array<std::string_view, 1> kAside = {"limit_all_gathers"};
  parallel.ignore(kAside);
}

/// Whether embedding and head are tied, which is so unless the configuration says otherwise.
bool says_tied(const JsonValue* config) {
  const JsonValue* tied = config != nullptr ? config->find("tie_word_embeddings") : nullptr;
  return tied == nullptr || tied->as_bool().value_or(true);
}

bool says(const JsonValue* value, std::string_view word) {
  return value != nullptr && value->as_string() != nullptr && *value->as_string() == word;
}

void read_sharded_run(RunReader& row, RunSetting& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "fsdp";
  transformers::read_training_keys(row, plan);
  RunReader parallel(row.take("parallel"), "case.parallel");
  transformers::read_ranks(parallel, run);
  const std::string kind = parallel.text("kind", "");
  if (kind != "fsdp1" && kind != "fsdp2") {
    parallel.fail("kind", "'" + kind + "'");
  }
  read_fsdp(parallel, says_tied(row.peek("config")), plan);
  if (kind == "fsdp1") {
    read_wrapper(parallel, plan);
  }
  if (says(row.peek("checkpointing"), "full_wrapper") && says(row.peek("task"), "seq2seq")) {
    row.fail("checkpointing", "'full_wrapper' around the encoder's layers alone");
  }
  row.absorb(parallel.trouble());
  // FullyShardedDataParallel's weights are quantised before they are copied. FSDP's codes have the
  // type of the other weights.
  const bool on_host = fsdp_of(plan).version == 1;
  transformers::read_quant(row, plan, {.on_host = on_host, .wide_codes = true});
  edit_fsdp(plan).quantised_on_host = on_host && plan.quant.has_value();
}

}  // namespace

std::string recorded_parallel(const JsonValue& setting) {
  const std::string kind = transformers::parallel_kind(setting);
  const JsonValue* parallel = setting.find("parallel");
  const bool hybrid = parallel != nullptr && integer_or(*parallel, "replicate", 1) > 1;
  return kind == "fsdp2" && hybrid ? "hsdp" : kind;
}

void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run) {
  transformers::read_run_of_model(row, recorder, run, read_sharded_run);
}

}  // namespace headroom::ir::fsdp
