// Published rows of torchtitan: FSDP2 with its own model code, in the words of its benchmarks.
#include <algorithm>
#include <array>
#include <charconv>

#include "validators/measured/case_plan.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

constexpr std::array<Word<ir::Precision>, 3> kTitanPrecisions = {
    {{"fp32 master params, bf16 FSDP param/compute, fp32 reduce", ir::Precision::kFp32},
     {"fp32 params, bf16 FSDP compute, fp32 reduce", ir::Precision::kFp32},
     {"bf16 params and compute, fp32 reduce", ir::Precision::kBf16}}};

/// What may follow the precision: 8-bit linear layers, and whether they are gathered so.
struct Float8 {
  ir::Float8Recipe recipe = ir::Float8Recipe::kNone;
  bool gather = false;
};
// A weight that is gathered in 8 bits needs no second cast in backward, forced or not.
constexpr std::array<Word<Float8>, 8> kFloat8 = {
    {{"float8 tensorwise dynamic on Linear (not lm head), fp8 all-gather",
      {ir::Float8Recipe::kTensorwise, true}},
     {"float8 tensorwise dynamic on Linear (not lm head), fp8 all-gather, "
      "force_recompute_fp8_weight_in_bwd",
      {ir::Float8Recipe::kTensorwise, true}},
     {"fp8-tensorwise-fp8ag", {ir::Float8Recipe::kTensorwise, true}},
     {"fp8-tensorwise", {ir::Float8Recipe::kTensorwise, false}},
     {"float8 fp8-compile", {ir::Float8Recipe::kTensorwise, false}},
     {"fp8-rowwise", {ir::Float8Recipe::kRowwise, false}},
     {"fp8-rowwise-gwhp", {ir::Float8Recipe::kRowwiseGradientHp, false}},
     {"bf16", {ir::Float8Recipe::kNone, false}}}};

enum class TitanCheckpointing : std::uint8_t { kNone, kFull, kEverySecond, kOperators };
/// A layer's selective checkpointing takes every second one unless told otherwise.
constexpr std::array<Word<TitanCheckpointing>, 8> kTitanCheckpointing = {
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

constexpr std::array<Word<ir::TitanReshard>, 3> kTitanReshardRemarks = {
    {{"default (all but last block)", ir::TitanReshard::kDefault},
     {"never", ir::TitanReshard::kNever},
     {"always", ir::TitanReshard::kAlways}}};

constexpr std::array<Word<ir::LossKind>, 2> kTitanLosses = {
    {{"plain CE", ir::LossKind::kHf}, {"chunked CE (8 chunks)", ir::LossKind::kChunked}}};

constexpr std::array<Word<bool>, 3> kTitanCompile = {
    {{"none", false}, {"torch.compile per block", true}, {"torch.compile per block only", true}}};

/// Words that have to be among those known.
template <std::size_t N>
void expect_one_of(CaseReader& row, std::string_view key,
                   const std::array<std::string_view, N>& known) {
  const std::string words = row.text(key, "");
  for (const std::string_view each : known) {
    if (each == words) {
      return;
    }
  }
  row.fail(key, words.empty() ? "not stated" : "'" + words + "'");
}

/// "FSDP2 full shard 8", or "HSDP 2x4": copies times ranks that share one.
void read_titan_sharding(CaseReader& row, ir::FsdpPlan& fsdp) {
  const std::string words = row.text("fsdp", "");
  if (words.starts_with("FSDP2")) {
    return;
  }
  constexpr std::string_view kHybrid = "HSDP ";
  const char* const end = words.data() + words.size();
  const bool hybrid = words.starts_with(kHybrid);
  const auto [rest, fault] =
      std::from_chars(hybrid ? words.data() + kHybrid.size() : end, end, fsdp.replicas);
  if (fault != std::errc{} || rest == end || *rest != 'x' || fsdp.replicas < 1) {
    row.fail("fsdp", words.empty() ? "not stated" : "'" + words + "'");
    fsdp.replicas = 1;
  }
}

/// Which PyTorch a row's words about its version mean; the newest where they say nothing.
std::string torch_version(CaseReader& row) {
  struct Era {
    std::string_view words;
    const char* version;
  };
  // Nightlies of December 2024; of January 2025, when pull request 778 was open; of June 2025.
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

/// "fp32 master params, ...; float8 ...": the precision and, behind a semicolon, 8-bit products.
void read_titan_precision(CaseReader& row, ir::ParallelPlan& plan) {
  const std::string words = row.text("precision", "not stated");
  const std::size_t end = words.find("; ");
  const Word<ir::Precision>* const precision = std::ranges::find(
      kTitanPrecisions, std::string_view(words).substr(0, end), &Word<ir::Precision>::word);
  if (precision == kTitanPrecisions.end()) {
    row.fail("precision", "'" + words + "'");
    return;
  }
  plan.precision = precision->value;
  if (end == std::string::npos) {
    return;
  }
  const Word<Float8>* const float8 =
      std::ranges::find(kFloat8, std::string_view(words).substr(end + 2), &Word<Float8>::word);
  if (float8 == kFloat8.end()) {
    row.fail("precision", "'" + words + "'");
    return;
  }
  plan.titan->float8 = float8->value.recipe;
  plan.titan->float8_gather = float8->value.gather;
}

void read_titan_checkpointing(CaseReader& row, ir::ParallelPlan& plan) {
  const auto words =
      row.word<TitanCheckpointing>("checkpointing", "not stated", kTitanCheckpointing);
  const bool layers =
      words == TitanCheckpointing::kFull || words == TitanCheckpointing::kEverySecond;
  plan.recompute = layers ? ir::Recompute::kFull : ir::Recompute::kNone;
  plan.recompute_every = words == TitanCheckpointing::kEverySecond ? 2 : 1;
  plan.titan->selective_operators = words == TitanCheckpointing::kOperators;
}

void read_titan_remarks(CaseReader& row, ir::ParallelPlan& plan) {
  CaseReader other(row.take("other"), "other");
  plan.loss = other.word<ir::LossKind>("loss", "plain CE", kTitanLosses);
  plan.titan->reshard = other.word<ir::TitanReshard>(
      "reshard_after_forward", "default (all but last block)", kTitanReshardRemarks);
  if (other.flag("async_tp", false)) {
    other.fail("async_tp", "true");
  }
  row.absorb(other.trouble());
}

}  // namespace

std::string read_torchtitan_row(CaseReader& row, ir::ParallelPlan& plan) {
  plan.runtime = "torchtitan";
  plan.fsdp.emplace();
  plan.titan.emplace();
  plan.clip_norm = 1.0;
  // Branches run run_train.sh on one machine; the benchmarks' clusters have launchers of their own.
  plan.allocator.expandable_segments =
      row.text("framework", "") == "torchtitan (agent experiment branch)";
  plan.runtime_version = torch_version(row);
  plan.world = stated(row, "num_gpus", kWorldRange);
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  read_titan_precision(row, plan);
  plan.optimizer = lookup<ir::OptimizerPlan>(row, "optimizer", published_optimizer);
  read_titan_checkpointing(row, plan);
  expect_one_of(row, "attention", std::array<std::string_view, 2>{"SDPA flash", "SDPA"});
  for (const std::string_view key : {"quant", "offload", "lora"}) {
    expect_none(row, key);
  }
  plan.titan->compiled = row.word<bool>("compile", "none", kTitanCompile);
  plan.titan->tensor = row.integer("tp", 1, kWorldRange);
  for (const std::string_view axis : {"pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
  read_titan_sharding(row, *plan.fsdp);
  read_titan_remarks(row, plan);
  ir::ParallelPlan batch = plan;  // Tensor-parallel ranks read the same sequences.
  batch.world = plan.world / plan.titan->tensor;
  plan.accumulation = published_accumulation(row, batch);
  return published_config(row);
}

}  // namespace headroom::check
