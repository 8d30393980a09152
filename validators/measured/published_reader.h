#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "validators/measured/case_reader.h"

/// Steps that the readers of published rows share. Each notes in the reader what it cannot take.
namespace headroom::check {

/// Looks the words of a key up; what the table does not know is the reader's trouble.
template <typename T>
T lookup(CaseReader& row, std::string_view key, std::optional<T> (*find)(std::string_view)) {
  const std::string words = row.text(key, "");
  const std::optional<T> meaning = find(words);
  if (!meaning) {
    row.fail(key, words.empty() ? "not stated" : "'" + words + "'");
  }
  return meaning.value_or(T{});
}

/// A key that has to be absent, "none" or false.
void expect_none(CaseReader& row, std::string_view key);
/// A whole number that has to be there.
[[nodiscard]] std::int64_t stated(CaseReader& row, std::string_view key, CaseReader::Range range);
/// Micro-batches per step, from `num_microbatches` or from the global batch.
[[nodiscard]] std::int64_t published_accumulation(CaseReader& row, const ir::ParallelPlan& plan);
/// Keys of every row that change nothing about memory, or that others derive from.
void ignore_remarks(CaseReader& row);

/// The configuration that Hugging Face would hold for a row's `model` with Llama's keys.
[[nodiscard]] std::string published_config(CaseReader& row);

/// torchtitan's training on several GPUs: plan and configuration of the model.
///
/// Model:  the launcher, and with it PYTORCH_ALLOC_CONF, is not stated: taken to be run_train.sh
/// for
///         experiments on branches, which sets expandable segments, and none for the rest.
/// Source: pytorch/torchtitan benchmarks/*.md and docs/performance.md.
[[nodiscard]] std::string read_torchtitan_row(CaseReader& row, ir::ParallelPlan& plan);

/// torchtune's recipes on one GPU and on FSDP2: plan and configuration of the model.
///
/// Model:  attention is not stated: flash kernels, with or without a block mask.
/// Source: pytorch/torchtune recipes/{full,lora}_finetune_{single_device,distributed}.py and
///         recipes/configs at 30b8519 and 1814feb.
[[nodiscard]] std::string read_torchtune_row(CaseReader& row, ir::ParallelPlan& plan);

/// Qwen's finetune.py: plan and configuration of the model.
///
/// Model:  the model's own code of 2023 is close to Qwen2's: queries, keys and values come from one
///         product there, and rotation and norms have kernels of their own.
/// Source: QwenLM/Qwen finetune.py and finetune/*.sh.
[[nodiscard]] std::string read_qwen_row(CaseReader& row, ir::ParallelPlan& plan);

/// LitGPT's `finetune` on one GPU: plan and configuration of the model, and what the configuration
/// cannot say.
///
/// Model:  the recipe checkpoints no activations on one GPU; adapters have a dropout. Embedding and
///         head are apart.
/// Source: Lightning-AI/litgpt, config_hub/finetune and tutorials/resource-tables.md.
[[nodiscard]] std::string read_litgpt_row(CaseReader& row, ir::ParallelPlan& plan);
/// `architecture`: the row's `model.arch`.
void complete_litgpt_model(std::string_view architecture, ir::ModelSpec& model);

}  // namespace headroom::check
