#pragma once

#include <span>

#include "model_ir/plan/parallel_plan.h"

/// Helpers that frameworks share to adapt a plan (`Runtime::settle`).
namespace headroom::ir {

/// Precisions of frameworks that run the model's PyTorch code unchanged.
[[nodiscard]] std::span<const Precision> torch_precisions();
/// Precisions of optimizers that keep an fp32 master copy of 16-bit parameters themselves.
[[nodiscard]] std::span<const Precision> master_precisions();
/// Precisions without fp32 copies and without autocast.
[[nodiscard]] std::span<const Precision> stored_precisions();

/// The same 16-bit type with an fp32 master copy; other precisions as they are.
[[nodiscard]] Precision with_masters(Precision precision);

/// The precision among `offered` nearest to `precision`: itself, then one of the same 16-bit type
/// with an fp32 master copy, then one without.
/// Requires that `offered` is not empty.
[[nodiscard]] Precision nearest_precision(Precision precision, std::span<const Precision> offered);

}  // namespace headroom::ir
