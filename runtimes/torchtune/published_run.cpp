// Reads published rows of torchtune's recipes for one GPU and for FSDP2.
#include <array>
#include <optional>

#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"
#include "runtimes/torchtune/measured_runs.h"
#include "runtimes/torchtune/plan.h"

namespace headroom::ir::torchtune {
namespace {

struct TuneOptimizer {
  OptimizerForm form = OptimizerForm::kFused;
  bool in_backward = false;
};
// Configurations that name torch's AdamW use its fused form.
constexpr std::array<RowWord<TuneOptimizer>, 3> kTuneOptimizers = {
    {{"AdamW fused", {OptimizerForm::kFused, false}},
     {"AdamW", {OptimizerForm::kFused, false}},
     {"PagedAdamW8bit, optimizer in backward", {OptimizerForm::kPagedEightBit, true}}}};

constexpr std::array<RowWord<bool>, 2> kTuneCompile = {{{"none", false}, {"torch.compile", true}}};

constexpr std::array<RowWord<std::int64_t>, 4> kTuneAdapterRanks = {
    {{"", 0},
     {"LoRA r8 alpha16 on q,v,output_proj + MLP", 8},
     {"LoRA r16 alpha32 on q,v,output_proj + MLP", 16},
     {"LoRA r64 alpha128 on q,v,output_proj + MLP", 64}}};

constexpr std::array<RowWord<bool>, 3> kTuneQuants = {
    {{"", false},
     {"NF4 base", true},
     {"NF4 base weights (torchao, double quantised scales)", true}}};

constexpr std::array<RowWord<bool>, 2> kTuneShardings = {{{"", false}, {"FSDP2 full shard", true}}};

enum class TuneOffload : std::uint8_t { kNone, kActivations, kStates };
constexpr std::array<RowWord<TuneOffload>, 3> kTuneOffloads = {
    {{"", TuneOffload::kNone},
     {"activation offloading (checkpoint inputs to CPU)", TuneOffload::kActivations},
     {"FSDP CPU offload (params, grads, optimizer)", TuneOffload::kStates}}};

constexpr std::array<RowWord<LossKind>, 2> kTuneLosses = {
    {{"CE", LossKind::kHf}, {"chunked CE (8 chunks)", LossKind::kChunked}}};

/// Every batch is full only if examples are packed.
void read_tune_remarks(RunReader& row, ParallelPlan& plan) {
  RunReader other(row.take("other"), "other");
  plan.loss = other.word<LossKind>("loss", "chunked CE (8 chunks)", kTuneLosses);
  if (!other.flag("packed", true)) {
    row.fail("other.packed", "false, so seq_len is only the limit");
  }
  edit_tune(plan).optimizer_in_backward =
      other.flag("optimizer_in_backward", tune_of(plan).optimizer_in_backward);
  constexpr std::array<std::string_view, 1> kAside = {"step"};
  other.ignore(kAside);
  row.absorb(other.trouble());
}

void read_tune_adapters(RunReader& row, ParallelPlan& plan) {
  if (const auto rank = row.word<std::int64_t>("lora", "", kTuneAdapterRanks); rank != 0) {
    plan.lora =
        LoraPlan{.rank = rank,
                 .targets = {"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  }
  if (row.word<bool>("quant", "", kTuneQuants)) {
    plan.quant = QuantPlan{.bits = 4, .double_quant = true, .prepare_kbit = false};
  }
}

void read_tune_spread(RunReader& row, ParallelPlan& plan) {
  plan.world = row.stated("num_gpus", kWorldRange);
  const bool sharded = row.word<bool>("fsdp", "", kTuneShardings);
  const auto offload = row.word<TuneOffload>("offload", "", kTuneOffloads);
  edit_tune(plan).offload_activations = offload == TuneOffload::kActivations;
  if (sharded) {
    // The configuration with offload lists tok_embeddings and output in custom_sharded_layers.
    const bool offloads = offload == TuneOffload::kStates;
    edit_fsdp(plan) = FsdpPlan{
        .shard_embeddings = offloads, .reduce_dtype = DType::kBf16, .cpu_offload = offloads};
  } else {
    refuse_several_gpus(row, plan);
  }
  row.expect_one({"tp", "pp", "cp", "ep"});
}

}  // namespace

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "torchtune";
  edit_tune(plan) = {};
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  plan.precision = row.lookup<Precision>("precision", published_precision);
  const auto optimizer = row.word<TuneOptimizer>("optimizer", "not stated", kTuneOptimizers);
  plan.optimizer.form = optimizer.form;
  edit_tune(plan).optimizer_in_backward = optimizer.in_backward;
  plan.recompute = row.lookup<Recompute>("checkpointing", published_checkpointing);
  edit_tune(plan).compiled = row.word<bool>("compile", "not stated", kTuneCompile);
  if (tune_of(plan).compiled && plan.recompute == Recompute::kNone) {
    row.fail("compile", "'torch.compile' without checkpointing: what layers keep is not modelled");
  }
  row.expect_none({"attention"});
  read_tune_spread(row, plan);
  read_tune_remarks(row, plan);
  read_tune_adapters(row, plan);
  plan.workload.accumulation = published_accumulation(row, plan);
  if (tune_of(plan).compiled) {
    run.untimed = "compiled layers are priced as eager ones";
  }
  run.model = read_published_model(row);
}

}  // namespace headroom::ir::torchtune
