#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "costmodel/time/model_flops.h"
#include "model_ir/plan/parallel_plan.h"
#include "validators/measured/row.h"

namespace headroom::check {

// The words of published rows that are regular, in one place. A word that is not here is not
// guessed: every function returns nothing for it.

/// Runtime of a framework as its authors write it ("Megatron-Bridge (NeMo container 25.11)").
[[nodiscard]] std::optional<std::string_view> published_runtime(std::string_view framework);
/// Hugging Face `model_type` of an architecture whose configuration has Llama's keys.
[[nodiscard]] std::optional<std::string_view> published_model_type(std::string_view architecture);
/// Class of transformers with the head that an architecture names; none: a language model's.
[[nodiscard]] std::optional<std::string_view> published_class(std::string_view architecture);
/// Catalogue name of a GPU.
[[nodiscard]] std::optional<std::string_view> published_device(std::string_view gpu);
[[nodiscard]] std::optional<ir::Precision> published_precision(std::string_view words);
[[nodiscard]] std::optional<ir::OptimizerPlan> published_optimizer(std::string_view words);
[[nodiscard]] std::optional<ir::Recompute> published_checkpointing(std::string_view words);
[[nodiscard]] std::optional<ir::AttentionKind> published_attention(std::string_view words);
/// How the authors of a framework's figures count FLOPs.
struct FlopCount {
  cost::AttentionCount attention = cost::AttentionCount::kAllKeys;
  bool recomputed = false;  ///< What is run again for backward counts too.
};
/// Source: NVIDIA/Megatron-LM megatron/training/training.py, num_floating_point_operations (half of
///         the scores since core 0.10); Narayanan et al. 2021, arXiv:2104.04473, section 5.1 (2020
///         and 2021: with what is run again); mosaicml/llm-foundry
///         scripts/train/benchmarking/README.md;
///         MooreThreads/SimuMax simumax/core/config.py, flops_per_token, for runs of its scripts,
///         which `remarks` (the row's `other`) names.
[[nodiscard]] std::optional<FlopCount> published_flop_count(std::string_view framework,
                                                            std::string_view remarks);
/// Which memory metric `mem_metric` means.
[[nodiscard]] std::optional<Metric> published_metric(std::string_view words);
/// Bytes in one `peak_mem_unit`.
[[nodiscard]] std::optional<double> published_unit(std::string_view words);

}  // namespace headroom::check
