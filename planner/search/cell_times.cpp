#include "planner/search/cell_times.h"

namespace headroom::plan {
namespace {

constexpr std::size_t kLosses = 3;  ///< Of Megatron.

}  // namespace

CellTimes::CellTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                     const BlockTimes& blocks, const cost::Machine& machine, const Choices& choices)
    : choices_(choices),
      pipeline_(model, plan, blocks),
      exchange_(plan, pipeline_.held(), machine),
      pipelines_(kLosses * choices.recomputations.size()),
      plan_(plan) {}

const PipelineParts& CellTimes::pipeline(std::uint64_t recomputation, std::size_t loss) {
  std::optional<PipelineParts>& parts = pipelines_[recomputation * kLosses + loss];
  if (!parts) {
    ir::ParallelPlan plan = choices_.recomputations[recomputation];
    plan.megatron->cross_entropy = static_cast<ir::MegatronCrossEntropy>(loss);
    parts = pipeline_.parts(plan);
  }
  return *parts;
}

StepParts CellTimes::parts(std::uint64_t index) {
  const std::uint64_t count = choices_.switches.size();
  const ir::MegatronPlan& with = choices_.switches[index % count];
  ir::MegatronPlan& megatron = *plan_.megatron;
  megatron.distributed_optimizer = with.distributed_optimizer;
  megatron.overlap_grad_reduce = with.overlap_grad_reduce;
  megatron.overlap_param_gather = with.overlap_param_gather;
  megatron.accumulation_fusion = with.accumulation_fusion;
  const auto loss = static_cast<std::size_t>(with.cross_entropy);
  return exchange_.parts(plan_, pipeline(index / count, loss));
}

}  // namespace headroom::plan
