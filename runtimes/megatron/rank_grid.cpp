#include "runtimes/megatron/rank_grid.h"

#include <initializer_list>
#include <string>

#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {
namespace {

/// Splits `rank` into the coordinates of `axes`; the first varies fastest.
void place(std::int64_t rank, std::initializer_list<Axis*> axes) {
  std::int64_t stride = 1;
  for (Axis* const axis : axes) {
    axis->rank = rank % axis->size;
    axis->stride = stride;
    rank /= axis->size;
    stride *= axis->size;
  }
}

Error misfit(const char* what, std::int64_t product, std::int64_t world) {
  return Error::invalid_argument(what, std::to_string(product),
                                 "a divisor of the " + std::to_string(world) + " ranks");
}

}  // namespace

Result<RankGrid> rank_grid(const ParallelPlan& plan, std::int64_t rank) {
  const MegatronPlan& megatron = megatron_of(plan);
  const Mesh& mesh = plan.mesh;
  const std::int64_t world = plan.world;
  RankGrid grid;
  grid.world = world;
  grid.instances = megatron.optimizer_instances;
  grid.tensor.size = mesh.tensor;
  grid.context.size = mesh.context;
  grid.pipeline.size = mesh.pipeline;
  grid.expert.size = mesh.expert;
  grid.expert_tensor.size = expert_tensor_of(mesh);
  const std::int64_t dense = mesh.tensor * mesh.context * mesh.pipeline;
  if (world % dense != 0) {
    return misfit("tp x cp x pp", dense, world);
  }
  const std::int64_t experts = grid.expert_tensor.size * grid.expert.size * mesh.pipeline;
  if (world % experts != 0) {
    return misfit("etp x ep x pp", experts, world);
  }
  if (rank < 0 || rank >= world) {
    return Error::invalid_argument("rank", std::to_string(rank),
                                   "0 to " + std::to_string(world - 1));
  }
  grid.data.size = world / dense;
  grid.expert_data.size = world / experts;
  Axis pipeline = grid.pipeline;
  if (megatron.pipeline_before_data) {
    place(rank, {&grid.tensor, &grid.context, &grid.pipeline, &grid.data});
    place(rank, {&grid.expert_tensor, &grid.expert, &pipeline, &grid.expert_data});
  } else {
    place(rank, {&grid.tensor, &grid.context, &grid.data, &grid.pipeline});
    place(rank, {&grid.expert_tensor, &grid.expert, &grid.expert_data, &pipeline});
  }
  return grid;
}

}  // namespace headroom::ir::megatron
