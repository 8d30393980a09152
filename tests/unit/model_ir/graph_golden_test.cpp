#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/graph/decoder.h"
#include "model_ir/graph/param_table.h"
#include "model_ir/spec/param_count.h"
#include "tests/support/graph_verify/verify.h"
#include "tests/support/small_models.h"

namespace headroom::ir {
namespace {

using test::kSmallShape;

/// How the operator shows among the recorded calls: its parameters' positions, or a dropout.
void append_calls(const Graph& graph, const Op& op, std::vector<std::string>& calls) {
  const auto position = [&](TensorId id) {
    const auto parameters = graph.parameters();
    return std::to_string(std::find(parameters.begin(), parameters.end(), id) - parameters.begin());
  };
  if (op.kind == OpKind::kDropout) {
    calls.push_back(to_json(JsonValue("dropout " + to_json(JsonValue(op.probability)))));
  } else if (op.kind == OpKind::kHeadNorm) {  // StableLM: a module per head.
    for (const TensorId parameter : op.parameters) {
      calls.push_back(position(parameter));
    }
  } else if (op.kind != OpKind::kAttention && !op.parameters.empty()) {
    calls.push_back(position(op.parameters.front()));
  }
}

std::vector<std::string> calls_of(const Graph& graph) {
  std::vector<std::string> calls;
  bool calls_project_in = false;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(i)});
    append_calls(graph, op, calls);
    if (op.kind == OpKind::kPositions && calls_project_in) {
      // OPT looks its positions up before project_in; the operator stands where they are added.
      std::swap(calls.end()[-1], calls.end()[-2]);
    }
    calls_project_in = op.role == OpRole::kProjectIn;
  }
  return calls;
}

}  // namespace

TEST_CASE("graph golden: every family has a small model") {
  for (const Family family : kFamilies) {
    CAPTURE(name_of(family));
    const auto& models = test::small_models();
    CHECK(std::any_of(models.begin(), models.end(),
                      [&](const test::SmallModel& model) { return model.spec.family == family; }));
  }
}

TEST_CASE("parameter_table: names, order and shapes are those of named_parameters") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    const std::vector<ModelParameter> table = parameter_table(model.spec);
    REQUIRE(table.size() == model.parameters.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      CHECK(table[i].info.name == model.parameters[i].first);
      CHECK(table[i].info.dims == model.parameters[i].second);
    }
  }
}

TEST_CASE("build_graph: registers the parameters of the table, in its order") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    const std::vector<ModelParameter> table = parameter_table(model.spec);
    const Graph graph = build_graph(model.spec, kSmallShape);
    REQUIRE(graph.parameters().size() == table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
      const TensorInfo& info = graph.tensor(graph.parameters()[i]);
      CHECK(info.name == table[i].info.name);
      CHECK(info.dims == table[i].info.dims);
      CHECK(info.layer == table[i].info.layer);
    }
  }
}

TEST_CASE("build_graph: operators read their parameters in the order of a real forward pass") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    std::vector<std::string> expected;
    for (const JsonValue& call : model.calls) {
      expected.push_back(to_json(call));
    }
    CHECK(calls_of(build_graph(model.spec, kSmallShape)) == expected);
  }
}

TEST_CASE("build_graph: the graph counts as many parameters as the closed form") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    CHECK(parameter_count(build_graph(model.spec, kSmallShape)) ==
          count_parameters(model.spec).total());
  }
}

TEST_CASE("build_graph: every small model passes verify") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    const Graph graph = build_graph(model.spec, kSmallShape);
    const std::vector<std::string> violations = verify(graph);
    CAPTURE(violations.size());
    CHECK(violations == std::vector<std::string>{});
  }
}

TEST_CASE("parameter_table: only the bias beside an untied BERT head is unused") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    for (const ModelParameter& parameter : parameter_table(model.spec)) {
      const bool expected =
          model.name == "bert-untied" && parameter.info.name == "cls.predictions.bias";
      CHECK(parameter.info.unused == expected);
    }
  }
}

TEST_CASE("parameter_table: parts and roles tell what reads a parameter") {
  const std::vector<ModelParameter> table = parameter_table(test::small_model("gpt_oss").spec);
  // Embedding, then sinks, q.weight, q.bias; see the golden file.
  CHECK(table[0].role == OpRole::kTokenEmbedding);
  CHECK(table[1].role == OpRole::kSinks);
  CHECK(table[1].module == Module::kAttention);
  CHECK(table[2].role == OpRole::kQuery);
  CHECK(table[2].part == ParameterPart::kWeight);
  CHECK(table[3].role == OpRole::kQuery);
  CHECK(table[3].part == ParameterPart::kBias);
  CHECK(table[3].info.layer == 0);
  CHECK(table.back().role == OpRole::kHead);
  CHECK(table.back().info.layer == -1);
}

}  // namespace headroom::ir
