#pragma once

#include <string_view>

#include "model_ir/plan/parallel_plan.h"
#include "validators/measured/case_reader.h"
#include "validators/measured/row_plan.h"

namespace headroom::check {

// Parts of `plan_of_case`, one per program that measured rows. Each fills `setting.plan` and
// `setting.traits` and leaves what it cannot follow in `reader`.

inline constexpr CaseReader::Range kBatchRange{1, 1 << 16};
inline constexpr CaseReader::Range kSequenceRange{1, 1 << 22};
inline constexpr CaseReader::Range kWorldRange{1, 1 << 20};
/// A parallel degree of Megatron, and what counts layers and ranks beside one.
inline constexpr CaseReader::Range kDegreeRange{1, 1 << 16};
/// A dimension of a published model.
inline constexpr CaseReader::Range kDimensionRange{1, 1 << 24};
/// A dimension or size among Megatron's own arguments.
inline constexpr CaseReader::Range kMegatronSizeRange{1, std::int64_t{1} << 32};

/// transformers on one GPU or under DDP.
void read_transformers_case(CaseReader& reader, RunSetting& setting);
/// bitsandbytes: LoRA on quantised weights, 8-bit and paged optimizers.
void read_quantised_case(CaseReader& reader, RunSetting& setting);
/// DeepSpeed ZeRO; `hidden` is H of the model, which transformers' "auto" sizes depend on.
void read_deepspeed_case(CaseReader& reader, std::int64_t hidden, ir::ParallelPlan& plan);

/// Megatron-Core: model, degrees and switches; fills `setting.model` too.
void read_megatron_case(CaseReader& reader, RunSetting& setting);

/// torchtitan: FSDP2 with its own model code; the model comes from `config`.
void read_torchtitan_case(CaseReader& reader, RunSetting& setting);

/// Batch, sequence, accumulation, steps, attention, checkpointing: the keys all programs share.
void read_common_keys(CaseReader& reader, ir::ParallelPlan& plan);
/// All of Liger's kernels; `fused_linear_cross_entropy` is an option of its own.
void read_liger(CaseReader& reader, ir::ParallelPlan& plan);
/// {r, alpha, dropout, targets, dora}.
void read_lora(CaseReader& reader, ir::ParallelPlan& plan);
/// {bits, double, load, type, compute} and `prepare_kbit`.
void read_quant(CaseReader& reader, ir::ParallelPlan& plan);
/// The key that says what type parameters have, and the type if it is absent.
struct DtypeKey {
  std::string_view key;
  std::string_view absent;
};
/// "fp32" | "bf16" | "fp16" parameters, under `precision` autocast or not.
[[nodiscard]] ir::Precision read_precision(CaseReader& reader, const DtypeKey& dtype);
/// Module names of a LoRA; empty for "all-linear" and for nothing.
[[nodiscard]] std::vector<std::string> read_targets(CaseReader& reader, std::string_view key);
/// PYTORCH_ALLOC_CONF, "name:value,...", under `key`; `absent` if it is not there.
void read_allocator(CaseReader& reader, std::string_view key, std::string_view absent,
                    ir::AllocatorSettings& settings);

}  // namespace headroom::check
