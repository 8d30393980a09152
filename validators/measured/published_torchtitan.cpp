// Published rows of torchtitan: FSDP2 with its own model code, in the words of its benchmarks.
#include <array>
#include <charconv>

#include "validators/measured/case_plan.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

constexpr std::array<Word<ir::Precision>, 3> kPrecisions = {
    {{"fp32 master params, bf16 FSDP param/compute, fp32 reduce", ir::Precision::kFp32},
     {"fp32 params, bf16 FSDP compute, fp32 reduce", ir::Precision::kFp32},
     {"bf16 params and compute, fp32 reduce", ir::Precision::kBf16}}};

enum class Checkpointing : std::uint8_t { kNone, kFull, kOperators };
constexpr std::array<Word<Checkpointing>, 4> kCheckpointing = {
    {{"none", Checkpointing::kNone},
     {"full (every block)", Checkpointing::kFull},
     {"selective op (torchtitan policy)", Checkpointing::kOperators},
     {"selective 'op': saves SDPA output, reduce-scatter, every second mm (and abs/max); "
      "recomputes "
      "the rest",
      Checkpointing::kOperators}}};

constexpr std::array<Word<ir::TitanReshard>, 3> kReshards = {
    {{"default (all but last block)", ir::TitanReshard::kDefault},
     {"never", ir::TitanReshard::kNever},
     {"always", ir::TitanReshard::kAlways}}};

constexpr std::array<Word<ir::LossKind>, 2> kLosses = {
    {{"plain CE", ir::LossKind::kHf}, {"chunked CE (8 chunks)", ir::LossKind::kChunked}}};

constexpr std::array<Word<bool>, 3> kCompile = {
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
void read_sharding(CaseReader& row, ir::FsdpPlan& fsdp) {
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

void read_other(CaseReader& row, ir::ParallelPlan& plan) {
  CaseReader other(row.take("other"), "other");
  plan.loss = other.word<ir::LossKind>("loss", "plain CE", kLosses);
  plan.titan->reshard = other.word<ir::TitanReshard>("reshard_after_forward",
                                                     "default (all but last block)", kReshards);
  row.absorb(other.trouble());
}

}  // namespace

std::string read_torchtitan_row(CaseReader& row, ir::ParallelPlan& plan) {
  plan.runtime = ir::RuntimeKind::kFsdp;
  plan.model_code = ir::ModelCode::kTorchtitan;
  plan.fsdp.emplace();
  plan.titan.emplace();
  plan.clip_norm = 1.0;
  // Branches run run_train.sh on one machine; the benchmarks' clusters have launchers of their own.
  plan.allocator.expandable_segments =
      row.text("framework", "") == "torchtitan (agent experiment branch)";
  if (row.text("framework_version", "").find("(2024-12)") != std::string::npos) {
    plan.runtime_version = "2.6";  // A nightly of that month.
  }
  plan.world = stated(row, "num_gpus", kWorldRange);
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  plan.precision = row.word<ir::Precision>("precision", "not stated", kPrecisions);
  plan.optimizer = lookup<ir::OptimizerPlan>(row, "optimizer", published_optimizer);
  const auto checkpointing = row.word<Checkpointing>("checkpointing", "not stated", kCheckpointing);
  plan.titan->selective_operators = checkpointing == Checkpointing::kOperators;
  plan.recompute =
      checkpointing == Checkpointing::kFull ? ir::Recompute::kFull : ir::Recompute::kNone;
  expect_one_of(row, "attention", std::array<std::string_view, 2>{"SDPA flash", "SDPA"});
  for (const std::string_view key : {"quant", "offload", "lora"}) {
    expect_none(row, key);
  }
  plan.titan->compiled = row.word<bool>("compile", "none", kCompile);
  plan.titan->tensor = row.integer("tp", 1, kWorldRange);
  for (const std::string_view axis : {"pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
  read_sharding(row, *plan.fsdp);
  read_other(row, plan);
  ir::ParallelPlan batch = plan;  // Tensor-parallel ranks read the same sequences.
  batch.world = plan.world / plan.titan->tensor;
  plan.accumulation = published_accumulation(row, batch);
  return published_config(row);
}

}  // namespace headroom::check
