#include "model_ir/graph/dot.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "model_ir/graph/decoder.h"
#include "tests/support/small_models.h"

namespace headroom::ir {
namespace {

using test::small_graph;

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

bool contains(const std::string& text, std::string_view part) {
  return count(text, part) > 0;
}

}  // namespace

TEST_CASE("to_dot: a box for every operator, a cluster for every layer and module") {
  const Graph graph = small_graph("llama");
  const std::string text = to_dot(graph, {.layers = DotLayers::kAll});
  CHECK(text.rfind("digraph model {", 0) == 0);
  CHECK(count(text, "subgraph cluster_layer_") == 2);
  CHECK(count(text, "subgraph cluster_module_") == 5);  // Two in each layer, and the head.
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    CHECK(count(text, "  op" + std::to_string(i) + " [label=") == 1);
  }
  CHECK(std::count(text.begin(), text.end(), '{') == std::count(text.begin(), text.end(), '}'));
}

TEST_CASE("to_dot: edges carry names and shapes, boxes the parameters") {
  const std::string text = to_dot(small_graph("llama"));
  CHECK(contains(text,
                 "op0 [label=\"embedding (token_embedding)\\n"
                 "model.embed_tokens.weight 50x48\"];"));
  CHECK(contains(text, "op0 -> op1 [label=\"embedded 2x5x48\"];"));
  CHECK(contains(text, "[shape=point, xlabel=\"input_ids\"];"));
}

TEST_CASE("to_dot: layers that are alike are drawn once") {
  const Graph graph = small_graph("llama");
  const std::string text = to_dot(graph);
  CHECK(count(text, "subgraph cluster_layer_") == 1);
  CHECK(contains(text, "label=\"layers 0 to 1, all alike\";"));
  // The final norm hangs on the layer that is drawn: its last operator is 15, an addition.
  const std::size_t norm = index_of(graph.layers()[1].last) + 1;
  CHECK(contains(text, "op15 -> op" + std::to_string(norm) + " "));
}

TEST_CASE("to_dot: layers that differ in window, experts or kind are drawn apart") {
  CHECK(count(to_dot(small_graph("gemma2")), "subgraph cluster_layer_") == 2);
  CHECK(count(to_dot(small_graph("qwen2_moe")), "subgraph cluster_layer_") == 2);
  // An encoder's layers are alike but for the first's own table; so are the decoder's.
  const std::string t5 = to_dot(small_graph("t5"));
  CHECK(count(t5, "subgraph cluster_layer_") == 2);
  CHECK(contains(t5, "layers 2 to 3, all alike"));
}

}  // namespace headroom::ir
