#include "runtimes/deepspeed/save.h"

#include <string_view>
#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/phase.h"

namespace headroom::ir::deepspeed {
namespace {

/// "model.layers.0.self_attn.q_proj" for its weight and for its bias.
std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

}  // namespace

void save_checkpoint(const EngineState& state) {
  torch::Eager& eager = state.eager;
  const torch::PhaseScope phase(eager, PhaseKind::kCheckpointSave);
  if (state.zero.stage < 3) {
    return;
  }
  eager.set_site("zero3.gather", -1);
  const Graph& graph = *state.model.graph;
  std::string_view module;
  std::vector<torch::Tensor> gathered;
  for (const TensorId id : graph.parameters()) {
    const std::string_view owner = module_of(graph.tensor(id).name);
    if (owner != module) {
      gathered.clear();
      module = owner;
    }
    const torch::Tensor& parameter = state.model.parameters[index_of(id)];
    // The shards of all ranks are gathered whole: padded to a multiple of the ranks.
    const std::int64_t elements =
        ceil_div(parameter.elements(), state.plan.world) * state.plan.world;
    gathered.push_back(eager.empty({elements}, parameter.dtype(), TensorRole::kCommunication));
  }
}

}  // namespace headroom::ir::deepspeed
