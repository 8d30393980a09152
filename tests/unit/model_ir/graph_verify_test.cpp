#include "tests/support/graph_verify/verify.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "model_ir/graph/decoder.h"
#include "tests/support/small_models.h"

namespace headroom::ir {
namespace {

/// The parts of a graph, free to be broken before they are put together again.
struct GraphParts {
  std::vector<TensorInfo> tensors;
  std::vector<Op> ops;
  std::vector<LayerRange> layers;

  [[nodiscard]] Op& find(OpKind kind) {
    for (Op& op : ops) {
      if (op.kind == kind) {
        return op;
      }
    }
    throw InternalError("no such operator");
  }
  [[nodiscard]] TensorInfo& tensor(TensorId id) { return tensors[index_of(id)]; }
  TensorId add(TensorInfo info) {
    tensors.push_back(std::move(info));
    return TensorId{static_cast<std::uint32_t>(tensors.size() - 1)};
  }
};

GraphParts take_apart(const Graph& graph) {
  GraphParts parts;
  for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
    parts.tensors.push_back(graph.tensor(TensorId{static_cast<std::uint32_t>(i)}));
  }
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    parts.ops.push_back(graph.op(NodeId{static_cast<std::uint32_t>(i)}));
  }
  parts.layers.assign(graph.layers().begin(), graph.layers().end());
  return parts;
}

/// `first` and `last` of the layers say where begin_layer and end_layer are called.
Graph put_together(const GraphParts& parts) {
  Graph graph;
  for (const TensorInfo& info : parts.tensors) {
    graph.add_tensor(info);
  }
  for (std::size_t i = 0; i < parts.ops.size(); ++i) {
    for (const LayerRange& range : parts.layers) {
      if (index_of(range.first) == i) {
        graph.begin_layer(range.layer, range.input);
      }
    }
    graph.add_op(parts.ops[i]);
    for (const LayerRange& range : parts.layers) {
      if (index_of(range.last) == i) {
        graph.end_layer(range.output);
      }
    }
  }
  return graph;
}

GraphParts parts_of(const std::string& model) {
  return take_apart(build_graph(test::small_model(model).spec, {.batch = 2, .sequence = 5}));
}

/// Violations of a small model that `damage` has been done to.
std::vector<std::string> after(const std::string& model,
                               const std::function<void(GraphParts&)>& damage) {
  GraphParts parts = parts_of(model);
  damage(parts);
  return verify(put_together(parts));
}

bool mentions(const std::vector<std::string>& violations, std::string_view text) {
  return std::any_of(violations.begin(), violations.end(), [&](const std::string& violation) {
    return violation.find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("verify: a graph put together from its own parts is sound") {
  for (const char* name : {"llama", "qwen2_moe", "t5-gated", "bert-untied"}) {
    CAPTURE(name);
    CHECK(after(name, [](GraphParts&) {}).empty());
  }
  CHECK(verify(Graph{}).empty());
}

TEST_CASE("verify: an activation without a producer") {
  const auto violations =
      after("llama", [](GraphParts& parts) { parts.add({.name = "orphan", .dims = {1}}); });
  CHECK(violations.size() == 1);
  CHECK(mentions(violations, "(orphan): no operator produces this activation"));
}

TEST_CASE("verify: an activation that nobody reads") {
  const auto violations = after("llama", [](GraphParts& parts) {
    const TensorId hidden = parts.ops.front().outputs[0];
    TensorInfo info = parts.tensor(hidden);
    info.name = "waste";
    const TensorId waste = parts.add(info);
    parts.ops.push_back({.kind = OpKind::kScale, .inputs = {hidden}, .outputs = {waste}});
  });
  CHECK(violations.size() == 1);
  CHECK(mentions(violations, "(waste): nobody reads this activation"));
}

TEST_CASE("verify: an input that nobody reads") {
  const auto violations = after("llama", [](GraphParts& parts) {
    parts.add({.name = "mask", .kind = ValueKind::kInput, .dims = {2, 5}});
  });
  CHECK(violations.size() == 1);
  CHECK(mentions(violations, "(mask): nobody reads this input"));
}

TEST_CASE("verify: an extent below 1") {
  const auto violations = after("llama", [](GraphParts& parts) {
    parts.tensor(parts.find(OpKind::kRope).outputs[0]).dims[1] = 0;
  });
  CHECK(mentions(violations, "(rotated_query): has an extent below 1"));
}

TEST_CASE("verify: an activation that names another layer") {
  const auto violations = after("llama", [](GraphParts& parts) {
    parts.tensor(parts.find(OpKind::kRope).outputs[0]).layer = 1;
  });
  CHECK(violations.size() == 1);
  CHECK(mentions(violations, "names another layer than its producer's"));
}

TEST_CASE("verify: parameters without a reader, and unused ones with one") {
  const auto idle = after("llama", [](GraphParts& parts) {
    parts.add({.name = "idle", .kind = ValueKind::kParameter, .dims = {4}});
  });
  CHECK(idle.size() == 1);
  CHECK(mentions(idle, "(idle): no operator uses this parameter"));
  const auto busy = after("llama", [](GraphParts& parts) { parts.tensors[0].unused = true; });
  CHECK(busy.size() == 1);
  CHECK(mentions(busy, "is registered as unused but is used"));
}

TEST_CASE("verify: two parameters of one name") {
  const auto violations =
      after("llama", [](GraphParts& parts) { parts.tensors[1].name = parts.tensors[2].name; });
  CHECK(violations.size() == 1);
  CHECK(mentions(violations, "k_proj.weight): has the name of another parameter"));
}

TEST_CASE("verify: tensors in places where their kind does not belong") {
  const auto parameter_as_input = after("llama", [](GraphParts& parts) {
    Op& add = parts.find(OpKind::kAdd);
    add.inputs[1] = parts.find(OpKind::kNorm).parameters[0];
  });
  CHECK(mentions(parameter_as_input, "reads a parameter as an input"));
  const auto input_as_parameter = after("llama", [](GraphParts& parts) {
    parts.find(OpKind::kNorm).parameters[0] = parts.ops.front().inputs[0];
  });
  CHECK(mentions(input_as_parameter, "names something as parameter that is none"));
  const auto produced_input = after("llama", [](GraphParts& parts) {
    parts.tensor(parts.find(OpKind::kRope).outputs[0]).kind = ValueKind::kInput;
  });
  CHECK(mentions(produced_input, "produces something that is not an activation"));
}

TEST_CASE("verify: a parameter that does not exist, or is another layer's") {
  const auto unknown = after("llama", [](GraphParts& parts) {
    parts.find(OpKind::kNorm).parameters[0] = TensorId{99'999};
  });
  CHECK(mentions(unknown, "names a parameter that does not exist"));
  const auto foreign = after("llama", [](GraphParts& parts) {
    const std::size_t second = index_of(parts.layers[1].first);
    parts.ops[second].parameters = parts.find(OpKind::kNorm).parameters;
  });
  CHECK(mentions(foreign, "uses the parameter model.layers.0.input_layernorm.weight of another"));
}

TEST_CASE("verify: a reader before the producer") {
  const auto violations = after("llama", [](GraphParts& parts) {
    // The ids become an output of the last operator, though the first has read them.
    parts.ops.back().outputs.push_back(parts.ops.front().inputs[0]);
  });
  CHECK(mentions(violations, "reads what is produced only by operator"));
}

TEST_CASE("verify: wrong numbers of inputs, outputs and parameters") {
  CHECK(mentions(
      after("llama", [](GraphParts& parts) { parts.find(OpKind::kRope).inputs.pop_back(); }),
      "(rope, layer 0): has 1 inputs"));
  CHECK(mentions(after("phi3",
                       [](GraphParts& parts) {
                         Op& split = parts.find(OpKind::kSplitQkv);
                         split.outputs.push_back(parts.add({.name = "fourth", .dims = {2, 5, 1}}));
                       }),
                 "(split_qkv, layer 0): has 4 outputs"));
  CHECK(mentions(
      after("llama", [](GraphParts& parts) { parts.find(OpKind::kLinear).parameters.clear(); }),
      "(linear, role query, layer 0): has 0 parameters"));
}

TEST_CASE("verify: a bias where the norm has none, and half of the experts' biases") {
  CHECK(mentions(
      after("gpt2", [](GraphParts& parts) { parts.find(OpKind::kNorm).norm = NormKind::kRms; }),
      "only a LayerNorm has a bias"));
  CHECK(
      mentions(after("gpt_oss",
                     [](GraphParts& parts) { parts.find(OpKind::kExperts).parameters.pop_back(); }),
               "has a bias for one of its two products only"));
}

TEST_CASE("verify: a dropout probability outside its range, and an empty window") {
  CHECK(mentions(
      after("gpt2", [](GraphParts& parts) { parts.find(OpKind::kDropout).probability = 1; }),
      "has a dropout probability outside [0, 1)"));
  CHECK(mentions(
      after("mistral", [](GraphParts& parts) { parts.find(OpKind::kAttention).window = 0; }),
      "has a window below 1"));
}

TEST_CASE("verify: layers out of order, empty, or left without an output") {
  CHECK(mentions(after("llama", [](GraphParts& parts) { parts.layers[1].layer = 2; }),
                 "layer 2: expected layer 1 here"));
  CHECK(mentions(
      after("llama", [](GraphParts& parts) { parts.layers[0].output = parts.layers[0].input; }),
      "layer 0: does not produce its output"));
  CHECK(mentions(after("llama",
                       [](GraphParts& parts) {
                         parts.layers[0].input = parts.find(OpKind::kRope).outputs[0];
                       }),
                 "layer 0: produces its own input"));
  Graph empty;
  const TensorId ids = empty.add_tensor({.name = "ids", .kind = ValueKind::kInput, .dims = {1, 1}});
  empty.begin_layer(0, ids);
  empty.end_layer(ids);
  CHECK(mentions(verify(empty), "layer 0: has no operators"));
}

TEST_CASE("verify: two layers that share an operator") {
  Graph graph;
  const TensorId ids = graph.add_tensor({.name = "ids", .kind = ValueKind::kInput, .dims = {1, 1}});
  graph.begin_layer(0, ids);
  graph.end_layer(ids);
  graph.begin_layer(1, ids);
  const TensorId out = graph.add_tensor({.name = "out", .dims = {1, 1}, .layer = 1});
  graph.add_op({.kind = OpKind::kScale, .inputs = {ids}, .outputs = {out}});
  graph.end_layer(out);
  CHECK(mentions(verify(graph), "layer 1: overlaps the layer before it"));
}

TEST_CASE("verify: an operator that claims a layer from outside") {
  CHECK(mentions(after("llama", [](GraphParts& parts) { parts.ops.back().layer = 1; }),
                 "claims a layer but stands outside it"));
}

TEST_CASE("verify: a value that leaves its layer by another way than the output") {
  const auto violations = after("llama", [](GraphParts& parts) {
    // The final norm reads what the last layer's norm made.
    const TensorId inner = parts.ops[index_of(parts.layers[1].first)].outputs[0];
    parts.ops[index_of(parts.layers[1].last) + 1].inputs[0] = inner;
  });
  CHECK(mentions(violations, "reads a value inside layer 1 that is not its output"));
}

TEST_CASE("verify: modules torn apart or in the wrong place") {
  CHECK(mentions(
      after("llama", [](GraphParts& parts) { parts.find(OpKind::kRope).module = Module::kNone; }),
      "stands apart from the other operators of its module"));
  CHECK(mentions(
      after("llama", [](GraphParts& parts) { parts.find(OpKind::kRope).module = Module::kHead; }),
      "belongs to the head but stands in a layer"));
  CHECK(mentions(after("llama", [](GraphParts& parts) { parts.ops.front().module = Module::kMlp; }),
                 "belongs to a module of a layer but stands outside all layers"));
}

TEST_CASE("verify: names the operator and the shapes at odds") {
  const auto violations = after("llama", [](GraphParts& parts) {
    parts.tensor(parts.find(OpKind::kLinear).parameters[0]).dims = {47, 48};
  });
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] ==
        "operator 2 (linear, role query, layer 0): parameter [47,48] does not fit input [2,5,48] "
        "and output [2,5,48]");
}

namespace {

/// Tables whose rows are free: looked up by number, or one for each expert of a router without
/// bias.
std::vector<TensorId> free_tables(const GraphParts& parts) {
  std::vector<TensorId> tables;
  for (const Op& op : parts.ops) {
    const bool looked_up = op.kind == OpKind::kEmbedding || op.kind == OpKind::kPositions ||
                           op.kind == OpKind::kTokenTypes || op.kind == OpKind::kRouter;
    for (const TensorId parameter : op.parameters) {
      // T5's table of relative positions has buckets by heads.
      const bool buckets =
          op.kind == OpKind::kAttention && parts.tensors[index_of(parameter)].dims.size() == 2;
      if (looked_up || buckets) {
        tables.push_back(parameter);
      }
    }
  }
  return tables;
}

/// Raises each extent of a tensor by one in turn.
void check_extents(const GraphParts& sound, TensorId id, std::size_t first_dim) {
  const TensorInfo& info = sound.tensors[index_of(id)];
  for (std::size_t dim = first_dim; dim < info.dims.size(); ++dim) {
    CAPTURE(info.name);
    CAPTURE(dim);
    GraphParts broken = sound;
    ++broken.tensor(id).dims[dim];
    CHECK_FALSE(verify(put_together(broken)).empty());
  }
}

}  // namespace

TEST_CASE("property: verify notices every extent that is off by one") {
  for (const char* name : {"phi3", "gpt_oss", "deepseek_v3", "qwen2_moe", "bert-untied", "t5-gated",
                           "stablelm-parallel"}) {
    CAPTURE(name);
    const GraphParts sound = parts_of(name);
    const std::vector<TensorId> tables = free_tables(sound);
    for (std::size_t i = 0; i < sound.tensors.size(); ++i) {
      const TensorId id{static_cast<std::uint32_t>(i)};
      const bool first_layer = sound.tensors[i].layer == 0;  // The second has all forms.
      if (!first_layer && !sound.tensors[i].unused) {
        check_extents(sound, id, std::count(tables.begin(), tables.end(), id) > 0 ? 1 : 0);
      }
    }
  }
}

}  // namespace headroom::ir
