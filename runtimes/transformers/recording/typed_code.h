#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/dtype.h"
#include "model_ir/spec/model_spec.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {

/// The sizes of the plan's micro-batches.
[[nodiscard]] inline BatchSizes sizes_of(const ParallelPlan& plan) {
  const Workload& workload = plan.workload;
  return {.batch = workload.micro_batch,
          .sequence = workload.sequence,
          .images = workload.images ? workload.images->count : 0};
}

/// Code that was recorded in type `from` runs in type `to`.
struct TypeChange {
  DType from = DType::kBf16;
  DType to = DType::kBf16;
};

[[nodiscard]] constexpr DType typed(const std::optional<TypeChange>& change, DType recorded) {
  return change && change->from == recorded ? change->to : recorded;
}

/// The size of a storage of `bytes` in the other type.
[[nodiscard]] constexpr std::int64_t scaled_bytes(std::int64_t bytes, const TypeChange& change) {
  return bytes * bits_of(change.to) / bits_of(change.from);
}

/// A variant of a recording, and what becomes of its types.
struct TypedCode {
  const RecordedVariant* variant = nullptr;
  std::optional<TypeChange> change;
  const RecordedLoad* load = nullptr;  ///< Constructors, of parameters in the plan's type if any.
  std::optional<TypeChange> load_change;
  /// A mask of int64 is given in place of the ones that the model makes itself for eager attention.
  bool given_mask = false;
};

/// The precisions that a variant answers for, as an option names them. A recording may be of types
/// that no option has, such as fp16 under autocast to bf16: it is described then.
[[nodiscard]] std::vector<std::string> precisions_of(const Recording& recording,
                                                     const RecordedVariant& variant);

/// Whether a variant has the code of the plan's precision and linear layers.
[[nodiscard]] bool computes(const Recording& recording, const RecordedVariant& variant,
                            const ParallelPlan& plan);

/// The attention whose code runs: where a class has no fused one, transformers falls back to eager
/// attention.
[[nodiscard]] std::string_view attention_for(const ModelSpec& spec, const ParallelPlan& plan);

/// The code of the model's recording for `plan`; nothing if there is none. Requires that `spec`
/// has a recording.
///
/// A model has the same code in each precision without autocast, and with autocast to bf16 or to
/// fp16. What was recorded in bf16 is therefore read as fp16 or fp32: types change, and a cast
/// whose input has the asked type already makes nothing. Code that tests for fp16 is an exception
/// (`Recording::differs_in_fp16`). bf16 weights under autocast run what was recorded in bf16, where
/// autocast changes nothing (`unchanged_by_autocast`).
[[nodiscard]] std::optional<TypedCode> code_for(const ModelSpec& spec, const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
