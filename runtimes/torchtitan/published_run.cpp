// Published rows of torchtitan: FSDP2 with its own model code, in the words of its benchmarks.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"
#include "runtimes/torchtitan/measured_runs.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

constexpr std::array<RowWord<Precision>, 3> kTitanPrecisions = {
    {{"fp32 master params, bf16 FSDP param/compute, fp32 reduce", Precision::kFp32},
     {"fp32 params, bf16 FSDP compute, fp32 reduce", Precision::kFp32},
     {"bf16 params and compute, fp32 reduce", Precision::kBf16}}};

/// What may follow the precision: FP8 linear layers, and whether their weights are gathered in FP8.
struct Float8 {
  Float8Recipe recipe = Float8Recipe::kNone;
  bool gather = false;
};
// A weight that is gathered in FP8 is not cast again in backward, whether this is forced or not.
constexpr std::array<RowWord<Float8>, 8> kFloat8 = {
    {{"float8 tensorwise dynamic on Linear (not lm head), fp8 all-gather",
      {Float8Recipe::kTensorwise, true}},
     {"float8 tensorwise dynamic on Linear (not lm head), fp8 all-gather, "
      "force_recompute_fp8_weight_in_bwd",
      {Float8Recipe::kTensorwise, true}},
     {"fp8-tensorwise-fp8ag", {Float8Recipe::kTensorwise, true}},
     {"fp8-tensorwise", {Float8Recipe::kTensorwise, false}},
     {"float8 fp8-compile", {Float8Recipe::kTensorwise, false}},
     {"fp8-rowwise", {Float8Recipe::kRowwise, false}},
     {"fp8-rowwise-gwhp", {Float8Recipe::kRowwiseGradientHp, false}},
     {"bf16", {Float8Recipe::kNone, false}}}};

enum class TitanCheckpointing : std::uint8_t { kNone, kFull, kEverySecond, kOperators };
/// Selective checkpointing by layers takes every second layer by default.
constexpr std::array<RowWord<TitanCheckpointing>, 8> kTitanCheckpointing = {
    {{"none", TitanCheckpointing::kNone},
     {"full", TitanCheckpointing::kFull},
     {"full (every block)", TitanCheckpointing::kFull},
     {"selective layer", TitanCheckpointing::kEverySecond},
     {"selective layer, every 2nd block", TitanCheckpointing::kEverySecond},
     {"selective layer (every 2nd block; default option)", TitanCheckpointing::kEverySecond},
     {"selective op (torchtitan policy)", TitanCheckpointing::kOperators},
     {"selective 'op': saves SDPA output, reduce-scatter, every second mm (and abs/max); "
      "recomputes "
      "the rest",
      TitanCheckpointing::kOperators}}};

constexpr std::array<RowWord<TitanReshard>, 3> kTitanReshardRemarks = {
    {{"default (all but last block)", TitanReshard::kDefault},
     {"never", TitanReshard::kNever},
     {"always", TitanReshard::kAlways}}};

constexpr std::array<RowWord<LossKind>, 2> kTitanLosses = {
    {{"plain CE", LossKind::kHf}, {"chunked CE (8 chunks)", LossKind::kChunked}}};

constexpr std::array<RowWord<bool>, 3> kTitanCompile = {
    {{"none", false}, {"torch.compile per block", true}, {"torch.compile per block only", true}}};

/// Reads "FSDP2 full shard 8", or "HSDP 2x4": replicas times the ranks that share one.
void read_titan_sharding(RunReader& row, Mesh& mesh) {
  const std::string words = row.text("fsdp", "");
  if (words.starts_with("FSDP2")) {
    return;
  }
  constexpr std::string_view kHybrid = "HSDP ";
  const char* const end = words.data() + words.size();
  const bool hybrid = words.starts_with(kHybrid);
  const auto [rest, fault] =
      std::from_chars(hybrid ? words.data() + kHybrid.size() : end, end, mesh.replicas);
  if (fault != std::errc{} || rest == end || *rest != 'x' || mesh.replicas < 1) {
    row.fail("fsdp", words.empty() ? "not stated" : "'" + words + "'");
    mesh.replicas = 1;
  }
}

/// The version of PyTorch that a row's words mean; the newest if they say nothing.
std::string torch_version(RunReader& row) {
  struct Era {
    std::string_view words;
    const char* version;
  };
  // Nightlies of December 2024; of January 2025, when pull request 778 was open; and of June 2025.
  constexpr std::array<Era, 4> kEras = {{{"(2024-12)", "2.6"},
                                         {"PR 778 era", "2.7"},
                                         {"torch 2.8.0a0", "2.8"},
                                         {"(2025-06)", "2.8"}}};
  const std::string words = row.text("framework_version", "");
  for (const Era& era : kEras) {
    if (words.find(era.words) != std::string::npos) {
      return era.version;
    }
  }
  return "";
}

/// Reads "fp32 master params, ...; float8 ...": the precision and, after a semicolon, FP8 products.
void read_titan_precision(RunReader& row, ParallelPlan& plan) {
  const std::string words = row.text("precision", "not stated");
  const std::size_t end = words.find("; ");
  const RowWord<Precision>* const precision = std::ranges::find(
      kTitanPrecisions, std::string_view(words).substr(0, end), &RowWord<Precision>::word);
  if (precision == kTitanPrecisions.end()) {
    row.fail("precision", "'" + words + "'");
    return;
  }
  plan.precision = precision->value;
  if (end == std::string::npos) {
    return;
  }
  const RowWord<Float8>* const float8 =
      std::ranges::find(kFloat8, std::string_view(words).substr(end + 2), &RowWord<Float8>::word);
  if (float8 == kFloat8.end()) {
    row.fail("precision", "'" + words + "'");
    return;
  }
  edit_titan(plan).float8 = float8->value.recipe;
  edit_titan(plan).float8_gather = float8->value.gather;
}

void read_titan_checkpointing(RunReader& row, ParallelPlan& plan) {
  const auto words =
      row.word<TitanCheckpointing>("checkpointing", "not stated", kTitanCheckpointing);
  const bool layers =
      words == TitanCheckpointing::kFull || words == TitanCheckpointing::kEverySecond;
  plan.recompute = layers ? Recompute::kFull : Recompute::kNone;
  plan.recompute_every = words == TitanCheckpointing::kEverySecond ? 2 : 1;
  edit_titan(plan).selective_operators = words == TitanCheckpointing::kOperators;
}

void read_titan_remarks(RunReader& row, ParallelPlan& plan) {
  RunReader other(row.take("other"), "other");
  plan.loss = other.word<LossKind>("loss", "plain CE", kTitanLosses);
  edit_titan(plan).reshard = other.word<TitanReshard>(
      "reshard_after_forward", "default (all but last block)", kTitanReshardRemarks);
  if (other.flag("async_tp", false)) {
    other.fail("async_tp", "true");
  }
  row.absorb(other.trouble());
}

}  // namespace

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "torchtitan";
  edit_fsdp(plan) = {};
  edit_titan(plan) = {};
  plan.clip_norm = 1.0;
  // Branches run run_train.sh on one machine; the benchmarks' clusters have other launchers.
  plan.allocator.expandable_segments =
      row.text("framework", "") == "torchtitan (agent experiment branch)";
  plan.runtime_version = torch_version(row);
  plan.world = row.stated("num_gpus", kWorldRange);
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  read_titan_precision(row, plan);
  plan.optimizer = row.lookup<OptimizerPlan>("optimizer", published_optimizer);
  read_titan_checkpointing(row, plan);
  row.expect_one_of("attention", {"SDPA flash", "SDPA"});
  row.expect_none({"quant", "offload", "lora"});
  edit_titan(plan).compiled = row.word<bool>("compile", "none", kTitanCompile);
  plan.mesh.tensor = row.integer("tp", 1, kWorldRange);
  row.expect_one({"pp", "cp", "ep"});
  read_titan_sharding(row, plan.mesh);
  read_titan_remarks(row, plan);
  ParallelPlan batch = plan;  // Tensor-parallel ranks read the same sequences.
  batch.world = plan.world / plan.mesh.tensor;
  plan.workload.accumulation = published_accumulation(row, batch);
  run.model = read_published_model(row);
}

}  // namespace headroom::ir::torchtitan
