#include "runtimes/interface/runs/published_keys.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model_ir/spec/hf_config.h"
#include "runtimes/interface/runs/published_words.h"

namespace headroom::ir {

std::int64_t published_accumulation(RunReader& row, const ParallelPlan& plan) {
  const std::int64_t batch = row.integer("global_batch", 0, {1, 1 << 24});
  const std::int64_t micro_batches = row.integer("num_microbatches", 0, {1, 1 << 16});
  const std::int64_t step = std::max<std::int64_t>(1, plan.workload.micro_batch * plan.world);
  return micro_batches != 0 ? micro_batches : std::max<std::int64_t>(1, batch / step);
}

void refuse_several_gpus(RunReader& row, const ParallelPlan& plan) {
  if (plan.world > 1) {
    row.fail("num_gpus", std::to_string(plan.world) +
                             " GPUs, but the row does not state how the model is distributed");
  }
}

ModelSpec model_of_config(RunReader& row, const JsonValue& config) {
  if (row.failed()) {
    return {};
  }
  Result<ModelSpec> model = parse_hf_config(to_json(config), "model");
  if (!model) {
    row.refuse(model.error());
    return {};
  }
  return std::move(model).value();
}

ModelSpec read_published_model(RunReader& row) {
  RunReader model(row.take("model"), "model");
  const std::string architecture = model.text("arch", "");
  const auto type = model.lookup<std::string_view>("arch", published_model_type);
  struct Key {
    std::string_view row;
    const char* config;
  };
  constexpr std::array<Key, 7> kKeys = {{{"layers", "num_hidden_layers"},
                                         {"hidden", "hidden_size"},
                                         {"heads", "num_attention_heads"},
                                         {"kv_heads", "num_key_value_heads"},
                                         {"head_dim", "head_dim"},
                                         {"ffn", "intermediate_size"},
                                         {"vocab", "vocab_size"}}};
  JsonValue::Object config{{"model_type", JsonValue{std::string(type)}}};
  for (const Key& key : kKeys) {
    config.push_back({key.config, JsonValue{model.stated(key.row, kDimensionRange)}});
  }
  const bool tied_stated = model.take("tied_embeddings") != nullptr;
  if (const auto head = published_class(architecture)) {  // A classifier has no tied embeddings.
    config.push_back({"architectures", JsonValue{JsonValue::Array{JsonValue{std::string(*head)}}}});
  } else if (!tied_stated) {
    model.fail("tied_embeddings", "not stated");
  }
  config.push_back({"tie_word_embeddings", JsonValue{model.flag("tied_embeddings", false)}});
  model.expect_none({"moe", "mla"});
  constexpr std::array<std::string_view, 4> kAside = {"name", "params_b", "qk_norm",
                                                      "padded_vocab"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  return model_of_config(row, JsonValue{std::move(config)});
}

}  // namespace headroom::ir
