#include "model_ir/runtime/transformers/lowering.h"

#include <optional>
#include <string>
#include <utility>

#include "model_ir/graph/decoder.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/training.h"

namespace headroom::ir::transformers {

namespace {

/// The first operator that the interpreter does not run yet, if any.
std::optional<OpKind> unknown_operator(const Graph& graph) {
  for (std::size_t at = 0; at < graph.op_count(); ++at) {
    const OpKind kind = graph.op(NodeId{static_cast<std::uint32_t>(at)}).kind;
    if (!Interpreter::runs(kind)) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                          const DeviceTraits& device) {
  const Graph graph = build_graph(model, {.batch = plan.micro_batch, .sequence = plan.sequence});
  if (const std::optional<OpKind> kind = unknown_operator(graph)) {
    return Error::invalid_argument(
        "model", model.name, "a model that the transformers runtime can run",
        "its operator '" + std::string(name_of(*kind)) + "' is not modelled by this version");
  }
  torch::Eager eager(device);
  train(eager, model, plan, graph);
  return eager.finish();
}

}  // namespace headroom::ir::transformers
