#include "model_ir/plan/rank_program.h"

namespace headroom::ir {

std::string_view name_of(TensorRole role) {
  switch (role) {
    case TensorRole::kParameter:
      return "parameters";
    case TensorRole::kGradient:
      return "gradients";
    case TensorRole::kOptimizerState:
      return "optimizer states";
    case TensorRole::kMasterParameter:
      return "master parameters";
    case TensorRole::kActivation:
      return "activations";
    case TensorRole::kLogits:
      return "logits and loss";
    case TensorRole::kTemporary:
      return "temporaries";
    case TensorRole::kCommunication:
      return "communication";
    case TensorRole::kWorkspace:
      return "workspaces";
    case TensorRole::kBuffer:
      return "buffers";
    case TensorRole::kInput:
      return "inputs";
  }
  return "?";
}

void hold_on_host(RankProgram& program, HostUse use, HostPages pages, std::int64_t bytes) {
  add_to(program.host, {.use = use, .requested = {}, .bytes = {}, .source = {}}, pages, bytes);
  program.host_bytes += bytes;
}

}  // namespace headroom::ir
