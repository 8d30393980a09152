#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

bool recomputes_layer(const ParallelPlan& plan, std::int64_t layer) {
  const bool within = plan.recompute_first == 0 || layer < plan.recompute_first;
  return plan.recompute != Recompute::kNone && within && layer % plan.recompute_every == 0;
}

DType param_dtype(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kAutocastBf16:
    case Precision::kAutocastFp16:
      return DType::kFp32;
    case Precision::kBf16:
    case Precision::kBf16AutocastBf16:
    case Precision::kBf16Master:
      return DType::kBf16;
    case Precision::kFp16:
    case Precision::kFp16Master:
      return DType::kFp16;
  }
  return DType::kFp32;
}

std::optional<DType> autocast_dtype(Precision precision) {
  switch (precision) {
    case Precision::kAutocastBf16:
    case Precision::kBf16AutocastBf16:
      return DType::kBf16;
    case Precision::kAutocastFp16:
      return DType::kFp16;
    case Precision::kFp32:
    case Precision::kBf16:
    case Precision::kFp16:
    case Precision::kBf16Master:
    case Precision::kFp16Master:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace headroom::ir
