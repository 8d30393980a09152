#include "runtimes/megatron/search/cell_times.h"

#include "runtimes/megatron/plan.h"

namespace headroom::plan {
namespace {

constexpr std::size_t kLosses = 3;  ///< Implementations of the loss in Megatron.
constexpr std::size_t kOrders = 2;  ///< Orders of the mesh.

}  // namespace

CellTimes::CellTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                     const BlockTimes& blocks, const cost::Machine& machine,
                     const MegatronChoices& choices)
    : machine_(machine),
      choices_(choices),
      pipeline_(model, plan, blocks),
      pipelines_(kOrders * kLosses * choices.recomputations.size()),
      plan_(plan) {}

const PipelineParts& CellTimes::pipeline(std::uint64_t recomputation) {
  const ir::MegatronPlan& with = megatron_of(plan_);
  const auto loss = static_cast<std::size_t>(with.cross_entropy);
  const std::size_t order = with.pipeline_before_data ? 1 : 0;
  std::optional<PipelineParts>& parts =
      pipelines_[(recomputation * kLosses + loss) * kOrders + order];
  if (!parts) {
    ir::ParallelPlan plan = choices_.recomputations[recomputation];
    edit_megatron(plan).cross_entropy = with.cross_entropy;
    edit_megatron(plan).pipeline_before_data = with.pipeline_before_data;
    parts = pipeline_.parts(plan);
  }
  return *parts;
}

const ExchangeTimes& CellTimes::exchange() {
  std::optional<ExchangeTimes>& times = exchange_[megatron_of(plan_).pipeline_before_data ? 1 : 0];
  if (!times) {
    times.emplace(plan_, pipeline_.held(), machine_);
  }
  return *times;
}

StepParts CellTimes::parts(std::uint64_t index) {
  const std::uint64_t count = choices_.switches.size();
  const ir::MegatronPlan& with = choices_.switches[index % count];
  ir::MegatronPlan& megatron = edit_megatron(plan_);
  megatron.distributed_optimizer = with.distributed_optimizer;
  megatron.overlap_grad_reduce = with.overlap_grad_reduce;
  megatron.overlap_param_gather = with.overlap_param_gather;
  megatron.accumulation_fusion = with.accumulation_fusion;
  megatron.cross_entropy = with.cross_entropy;
  megatron.pipeline_before_data = with.pipeline_before_data;
  megatron.optimizer_offload = with.optimizer_offload;
  return exchange().parts(plan_, pipeline(index / count));
}

}  // namespace headroom::plan
