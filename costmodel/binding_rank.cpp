#include "costmodel/binding_rank.h"

#include <cstdint>

#include "runtimes/registry.h"

namespace headroom::cost {

std::vector<ir::Rank> binding_ranks(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (plan.rank) {
    return {ir::Rank{static_cast<std::int32_t>(*plan.rank)}};
  }
  return ir::runtime_of(plan).binding_ranks(model, plan);
}

}  // namespace headroom::cost
