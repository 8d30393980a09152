#include "model_ir/graph/op.h"

namespace headroom::ir {

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbedding:
      return "embedding";
    case OpKind::kPositions:
      return "positions";
    case OpKind::kTokenTypes:
      return "token_types";
    case OpKind::kNorm:
      return "norm";
    case OpKind::kLinear:
      return "linear";
    case OpKind::kSplitQkv:
      return "split_qkv";
    case OpKind::kHeadNorm:
      return "head_norm";
    case OpKind::kRope:
      return "rope";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kLatentQkv:
      return "latent_qkv";
    case OpKind::kActivation:
      return "activation";
    case OpKind::kSplitGateUp:
      return "split_gate_up";
    case OpKind::kMultiply:
      return "multiply";
    case OpKind::kAdd:
      return "add";
    case OpKind::kScale:
      return "scale";
    case OpKind::kDropout:
      return "dropout";
    case OpKind::kRouter:
      return "router";
    case OpKind::kExperts:
      return "experts";
    case OpKind::kSharedGate:
      return "shared_gate";
    case OpKind::kSoftcap:
      return "softcap";
    case OpKind::kPool:
      return "pool";
    case OpKind::kCrossEntropy:
      return "cross_entropy";
    case OpKind::kSquaredError:
      return "squared_error";
  }
  return "?";
}

// NOLINTNEXTLINE(readability-function-size): one case per role, so that a new one must be named.
std::string_view name_of(OpRole role) {
  switch (role) {
    case OpRole::kNone:
      return "none";
    case OpRole::kQuery:
      return "query";
    case OpRole::kKey:
      return "key";
    case OpRole::kValue:
      return "value";
    case OpRole::kQkv:
      return "qkv";
    case OpRole::kAttentionOutput:
      return "attention_output";
    case OpRole::kGate:
      return "gate";
    case OpRole::kUp:
      return "up";
    case OpRole::kGateUp:
      return "gate_up";
    case OpRole::kDown:
      return "down";
    case OpRole::kRouter:
      return "router";
    case OpRole::kSharedGate:
      return "shared_gate";
    case OpRole::kSharedUp:
      return "shared_up";
    case OpRole::kSharedDown:
      return "shared_down";
    case OpRole::kLatentQueryDown:
      return "latent_query_down";
    case OpRole::kLatentQueryUp:
      return "latent_query_up";
    case OpRole::kLatentKvDown:
      return "latent_kv_down";
    case OpRole::kLatentKvUp:
      return "latent_kv_up";
    case OpRole::kProjectIn:
      return "project_in";
    case OpRole::kProjectOut:
      return "project_out";
    case OpRole::kHeadDense:
      return "head_dense";
    case OpRole::kHead:
      return "head";
    case OpRole::kAttentionNorm:
      return "attention_norm";
    case OpRole::kMlpNorm:
      return "mlp_norm";
    case OpRole::kAttentionOutNorm:
      return "attention_out_norm";
    case OpRole::kMlpOutNorm:
      return "mlp_out_norm";
    case OpRole::kFinalNorm:
      return "final_norm";
    case OpRole::kEmbeddingNorm:
      return "embedding_norm";
    case OpRole::kQueryNorm:
      return "query_norm";
    case OpRole::kKeyNorm:
      return "key_norm";
    case OpRole::kLatentQueryNorm:
      return "latent_query_norm";
    case OpRole::kLatentKvNorm:
      return "latent_kv_norm";
    case OpRole::kTokenEmbedding:
      return "token_embedding";
    case OpRole::kPositionTable:
      return "position_table";
    case OpRole::kTokenTypeTable:
      return "token_type_table";
    case OpRole::kSinks:
      return "sinks";
    case OpRole::kRelativeBias:
      return "relative_bias";
    case OpRole::kExpertGateUp:
      return "expert_gate_up";
    case OpRole::kExpertGate:
      return "expert_gate";
    case OpRole::kExpertUp:
      return "expert_up";
    case OpRole::kExpertDown:
      return "expert_down";
    case OpRole::kSharedSigmoid:
      return "shared_sigmoid";
    case OpRole::kCrossAttentionNorm:
      return "cross_attention_norm";
    case OpRole::kHeadDenseNorm:
      return "head_dense_norm";
    case OpRole::kPooler:
      return "pooler";
    case OpRole::kEncoderFinalNorm:
      return "encoder_final_norm";
  }
  return "?";
}

std::string_view name_of(Module module) {
  switch (module) {
    case Module::kNone:
      return "none";
    case Module::kAttention:
      return "attention";
    case Module::kMlp:
      return "mlp";
    case Module::kCrossAttention:
      return "cross_attention";
    case Module::kHead:
      return "head";
  }
  return "?";
}

}  // namespace headroom::ir
