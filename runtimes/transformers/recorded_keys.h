#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

/// Keys that the recorded runs of transformers' models share, whichever framework trains them
/// (tests/measured/README.md, "Fields"). Each function leaves unsupported keys in the reader.
namespace headroom::ir::transformers {

/// Reads a run whose model is the case's `config`: the model with its head, the GPU, the allocator,
/// and the keys that `read` reads. On the accounting device, every value read back from the device
/// is zero, and cuDNN's attention is missing.
void read_run_of_model(RunReader& row, Recorder recorder, RunSetting& run,
                       void (*read)(RunReader& row, RunSetting& run));

/// Batch, sequence, accumulation, steps, attention, checkpointing.
void read_common_keys(RunReader& row, ParallelPlan& plan);
/// The keys of the harness for one GPU, DDP and FSDP, except how the run is distributed.
void read_training_keys(RunReader& row, ParallelPlan& plan);
/// World and rank of `parallel`.
void read_ranks(RunReader& parallel, RunSetting& run);
/// `parallel` of a run on one GPU, where it is absent, or under DDP.
void read_replicas(RunReader& row, RunSetting& run);
/// All of Liger's kernels; `fused_linear_cross_entropy` is a separate option.
void read_liger(RunReader& row, ParallelPlan& plan);
/// {r, alpha, dropout, targets, dora}.
void read_lora(RunReader& row, ParallelPlan& plan);
/// PEFT's LoraConfig, of recorded and of published rows.
[[nodiscard]] LoraPlan read_peft_config(RunReader& peft);
/// How a framework loads quantised weights.
struct QuantLoading {
  bool on_host = false;     ///< 4-bit weights are quantised before they are copied.
  bool wide_codes = false;  ///< Codes have the type of the other weights.
};
/// {bits, double, load, type, compute} and `prepare_kbit`.
void read_quant(RunReader& row, ParallelPlan& plan, const QuantLoading& loading = {});
/// The key that gives the parameters' type, and the type if it is absent.
struct DtypeKey {
  std::string_view key;
  std::string_view absent;
};
/// "fp32" | "bf16" | "fp16" parameters, under `precision` autocast or not.
[[nodiscard]] Precision read_precision(RunReader& row, const DtypeKey& dtype);
/// Module names of a LoRA; empty for "all-linear" and if none are given.
[[nodiscard]] std::vector<std::string> read_targets(RunReader& row, std::string_view key);

/// `parallel.kind` of a case: "none", "ddp", "fsdp2".
[[nodiscard]] std::string parallel_kind(const JsonValue& setting);

/// A run with bitsandbytes: LoRA on quantised weights, 8-bit and paged optimizers.
void read_quantised_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A run on one GPU or under DDP.
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

}  // namespace headroom::ir::transformers
