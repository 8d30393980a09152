#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "validators/executor/cpu/cpu_backend.h"
#include "validators/executor/rank.h"

/// Small executions in fp64 on the CPU.
namespace headroom::test {

/// H 16, 4 heads of 4, 2 KV heads, F 24, V 37.
inline ir::ModelSpec tiny_model(std::size_t layers) {
  ir::ModelSpec model;
  model.name = "tiny";
  model.hidden = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn = 24;
  model.vocabulary = 37;
  model.max_positions = 16;
  model.layers.resize(layers);
  model.embedding_dim = model.hidden;
  return model;
}

inline ir::ModelSpec with_experts(ir::ModelSpec model, bool normalise) {
  for (ir::LayerSpec& layer : model.layers) {
    layer.moe = true;
  }
  ir::MoeSpec moe;
  moe.experts = 4;
  moe.top_k = 2;
  moe.expert_ffn = 12;
  moe.normalise_top_k = normalise;
  model.moe = moe;
  return model;
}

/// LayerNorm, biases, learned positions, a plain MLP, tied embeddings.
inline ir::ModelSpec tiny_gpt2(std::size_t layers) {
  ir::ModelSpec model = tiny_model(layers);
  model.norm = ir::NormKind::kLayer;
  model.position = ir::PositionKind::kLearned;
  model.kv_heads = model.heads;
  model.gated_mlp = false;
  model.activation = ir::Activation::kGeluNew;
  model.qkv_bias = true;
  model.output_bias = true;
  model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

/// Everything in fp64, two sequences of 5 tokens, one step.
inline exec::Execution tiny_execution(const ir::ModelSpec& model) {
  exec::Execution execution;
  execution.model = model;
  const ir::DType wide = ir::DType::kFp64;
  execution.types = {.parameter = wide, .compute = wide, .gradient = wide, .state = wide};
  execution.micro_batch = 2;
  execution.sequence = 5;
  execution.layers.resize(model.layers.size());
  execution.workspace = Bytes{4096};
  return execution;
}

inline std::unique_ptr<exec::Rank> cpu_rank(const exec::Execution& execution) {
  std::unique_ptr<exec::Device> device =
      exec::Device::open(exec::cpu_backend(), 0, execution.workspace).value();
  const Bytes capacity{device->info().free_bytes};
  return std::make_unique<exec::Rank>(std::move(device), execution, exec::Groups{}, capacity,
                                      exec::Memory::Backing::kDevice);
}

}  // namespace headroom::test
