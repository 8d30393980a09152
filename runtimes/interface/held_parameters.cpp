#include "runtimes/interface/held_parameters.h"

namespace headroom::ir {
namespace {

bool keeps_master(Precision precision) {
  return precision == Precision::kBf16Master || precision == Precision::kFp16Master;
}

/// The least number of bits of optimizer state per trainable parameter.
std::int64_t state_bits(const ParallelPlan& plan) {
  const std::int64_t full =
      keeps_master(plan.precision) ? 32 : bits_of(param_dtype(plan.precision));
  std::int64_t states = 0;
  switch (plan.optimizer.kind) {
    case OptimizerKind::kAdamW:
      states = 2;
      break;
    case OptimizerKind::kLion:
    case OptimizerKind::kMuon:
      states = 1;
      break;
    case OptimizerKind::kSgd:
      states = plan.optimizer.momentum > 0 ? 1 : 0;
      break;
    case OptimizerKind::kNone:
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdafactorTorch:
      break;
  }
  switch (plan.optimizer.form) {
    case OptimizerForm::kForeach:
    case OptimizerForm::kFused:
    case OptimizerForm::kLoop:
      return states * full;
    case OptimizerForm::kEightBit:
      return states * 8;
    case OptimizerForm::kPagedEightBit:
    case OptimizerForm::kPaged:
      return 0;
  }
  return 0;
}

}  // namespace

HeldParameters whole_parameters(const ParallelPlan& plan) {
  const std::int64_t own = bits_of(param_dtype(plan.precision));
  return {.weights = {.bits = plan.quant ? plan.quant->bits : own},
          .gradients = {.bits = own},
          .optimizer = {.bits = state_bits(plan) + (keeps_master(plan.precision) ? 32 : 0)}};
}

HeldParameters sharded_parameters(const ParallelPlan& plan, std::int64_t ranks) {
  HeldParameters held = whole_parameters(plan);
  held.weights.ranks = held.gradients.ranks = held.optimizer.ranks = ranks;
  return held;
}

}  // namespace headroom::ir
