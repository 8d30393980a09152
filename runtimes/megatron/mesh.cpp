#include "runtimes/megatron/mesh.h"

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

Result<Mesh> mesh_of(const MegatronPlan& plan, std::int64_t world, std::int64_t rank) {
  Mesh mesh;
  mesh.world = world;
  mesh.instances = plan.optimizer_instances;
  mesh.tensor.size = plan.tensor;
  mesh.context.size = plan.context;
  mesh.pipeline.size = plan.pipeline;
  mesh.expert.size = plan.expert;
  mesh.expert_tensor.size = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  const std::int64_t dense = plan.tensor * plan.context * plan.pipeline;
  if (world % dense != 0) {
    return misfit("tp x cp x pp", dense, world);
  }
  const std::int64_t experts = mesh.expert_tensor.size * mesh.expert.size * plan.pipeline;
  if (world % experts != 0) {
    return misfit("etp x ep x pp", experts, world);
  }
  if (rank < 0 || rank >= world) {
    return Error::invalid_argument("rank", std::to_string(rank),
                                   "0 to " + std::to_string(world - 1));
  }
  mesh.data.size = world / dense;
  mesh.expert_data.size = world / experts;
  Axis pipeline = mesh.pipeline;
  if (plan.pipeline_before_data) {
    place(rank, {&mesh.tensor, &mesh.context, &mesh.pipeline, &mesh.data});
    place(rank, {&mesh.expert_tensor, &mesh.expert, &pipeline, &mesh.expert_data});
  } else {
    place(rank, {&mesh.tensor, &mesh.context, &mesh.data, &mesh.pipeline});
    place(rank, {&mesh.expert_tensor, &mesh.expert, &mesh.expert_data, &pipeline});
  }
  return mesh;
}

}  // namespace headroom::ir::megatron
