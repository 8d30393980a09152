#include "model_ir/runtime/transformers/support.h"

#include <string>

#include "model_ir/runtime/transformers/forward.h"

namespace headroom::ir::transformers {
namespace {

std::optional<Error> unknown_operator(const ModelSpec& spec, const Graph& graph) {
  for (std::size_t at = 0; at < graph.op_count(); ++at) {
    const OpKind kind = graph.op(NodeId{static_cast<std::uint32_t>(at)}).kind;
    if (!Interpreter::runs(kind)) {
      return Error::invalid_argument(
          "model", spec.name, "a model whose operators are all modelled",
          "its operator '" + std::string(name_of(kind)) + "' is not modelled by this version");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan,
                                 const Graph& graph) {
  if (spec.architecture != Architecture::kCausalLm) {
    return Error::invalid_argument("model", spec.name, "a causal language model",
                                   "encoders and encoder-decoders are read, not yet lowered");
  }
  if (plan.quant) {
    return Error::invalid_argument(
        "qlora", "quantised base weights", "plain LoRA",
        "use --lora; quantised weights are not modelled by this version");
  }
  if (plan.lora && plan.lora->dora) {
    return Error::invalid_argument("lora", "dora", "LoRA without DoRA", "leave out dora");
  }
  if (plan.loss != LossKind::kHf) {
    return Error::invalid_argument("loss", "chunked or fused", "hf",
                                   "only the library's own cross entropy is modelled");
  }
  return unknown_operator(spec, graph);
}

}  // namespace headroom::ir::transformers
