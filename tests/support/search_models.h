#pragma once

#include <cstddef>
#include <cstdint>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_spec.h"
#include "tests/support/configs.h"

/// Small models, and devices on which to plan them.
namespace headroom::test {

inline ir::ModelSpec small_model() {
  return ir::parse_hf_config(R"({"hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 512, "max_position_embeddings": 4096, "model_type": "llama"})",
                             "small")
      .value();
}

inline cost::DeviceSpec a100() {
  return cost::load_device(kConfigs, "a100-80gb").value();
}

inline const cost::Machine& dgx() {
  static const cost::Machine machine = cost::load_machine(kConfigs, a100()).value();
  return machine;
}

/// A device with 8-bit matrix products.
inline cost::DeviceSpec h100() {
  return cost::load_device(kConfigs, "h100-80gb").value();
}

/// A model of few narrow layers, of one kind or of two.
inline ir::ModelSpec tiny_model(std::int64_t layers, std::int64_t dense) {
  ir::ModelSpec model = ir::parse_hf_config(R"({"hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 256, "max_position_embeddings": 4096, "num_local_experts": 4,
    "num_experts_per_tok": 2, "model_type": "mixtral"})",
                                            "tiny")
                            .value();
  model.layers.resize(static_cast<std::size_t>(layers), model.layers.back());
  for (std::int64_t layer = 0; layer < dense; ++layer) {
    model.layers[static_cast<std::size_t>(layer)].moe = false;
  }
  return model;
}

}  // namespace headroom::test
