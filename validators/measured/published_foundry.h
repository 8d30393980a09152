#pragma once

#include "validators/measured/published_plan.h"

namespace headroom::check {

/// Turns a row of llm-foundry's throughput tables into a setting.
///
/// Model:   MPT's blocks have LayerNorms, GELU and learned positions, no bias in a linear layer,
///          embedding and head tied: OPT's without biases, where queries, keys and values are three
///          products and not one. FSDP1 with every block wrapped; shards, gradients and states in
///          fp32.
/// Source:  mosaicml/llm-foundry, scripts/train/benchmarking (README.md, sweep.py) and
///          llmfoundry/models/mpt; mosaicml/composer, composer/distributed/mosaic_fsdp.py (DEFAULT:
///          gradients reduced in fp32, PURE: in bf16).
[[nodiscard]] PublishedPlanned plan_of_foundry_row(const MeasuredRow& row, const ScoreTools& tools);

}  // namespace headroom::check
