#include "model_ir/graph/decoder.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "tests/support/small_models.h"

namespace headroom::ir {
namespace {

using test::kSmallShape;
using test::small_graph;

/// "module kind role", without what is none.
std::string describe_op(const Op& op) {
  std::string text;
  if (op.module != Module::kNone) {
    text += std::string(name_of(op.module)) + ": ";
  }
  text += name_of(op.kind);
  if (op.role != OpRole::kNone) {
    text += " " + std::string(name_of(op.role));
  }
  return text;
}

using Lines = std::vector<std::string>;

/// The operators of a layer; -1: those outside the layers.
Lines describe_layer(const Graph& graph, std::int32_t layer) {
  Lines lines;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(i)});
    if (op.layer == layer) {
      lines.push_back(describe_op(op));
    }
  }
  return lines;
}

/// The `nth` operator of a kind.
const Op& find_op(const Graph& graph, OpKind kind, std::size_t nth = 0) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(i)});
    if (op.kind == kind && nth-- == 0) {
      return op;
    }
  }
  throw InternalError("no such operator");
}

std::vector<std::int64_t> dims(const Graph& graph, TensorId id) {
  return graph.tensor(id).dims;
}

using Dims = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("build_graph: Llama's operators in the order of its code") {
  const Graph graph = small_graph("llama");
  CHECK(describe_layer(graph, -1) == Lines{"embedding token_embedding", "norm final_norm",
                                           "head: linear head", "head: cross_entropy"});
  const Lines layer{"norm attention_norm",
                    "attention: linear query",
                    "attention: linear key",
                    "attention: linear value",
                    "attention: rope",
                    "attention: attention",
                    "attention: linear attention_output",
                    "add",
                    "norm mlp_norm",
                    "mlp: linear gate",
                    "mlp: activation",
                    "mlp: linear up",
                    "mlp: multiply",
                    "mlp: linear down",
                    "add"};
  CHECK(describe_layer(graph, 0) == layer);
  CHECK(describe_layer(graph, 1) == layer);
}

TEST_CASE("build_graph: Phi-3's fused projections and dropout in the order of its code") {
  const Graph graph = small_graph("phi3");
  CHECK(describe_layer(graph, 1) ==
        Lines{"norm attention_norm", "attention: linear qkv", "attention: split_qkv",
              "attention: rope", "attention: attention", "attention: linear attention_output",
              "dropout", "add", "norm mlp_norm", "mlp: linear gate_up", "mlp: split_gate_up",
              "mlp: activation", "mlp: multiply", "mlp: linear down", "dropout", "add"});
  // up * act(gate), while Llama multiplies act(gate) * up.
  const Op& split = find_op(graph, OpKind::kSplitGateUp);
  const Op& activation = find_op(graph, OpKind::kActivation);
  CHECK(activation.inputs == std::vector<TensorId>{split.outputs[0]});
  CHECK(find_op(graph, OpKind::kMultiply).inputs ==
        std::vector<TensorId>{split.outputs[1], activation.outputs[0]});
}

TEST_CASE("build_graph: GPT-2 drops inside its modules") {
  const Graph graph = small_graph("gpt2");
  CHECK(describe_layer(graph, -1) == Lines{"embedding token_embedding", "positions position_table",
                                           "dropout", "norm final_norm", "head: linear head",
                                           "head: cross_entropy"});
  CHECK(describe_layer(graph, 0) ==
        Lines{"norm attention_norm", "attention: linear qkv", "attention: split_qkv",
              "attention: attention", "attention: linear attention_output", "attention: dropout",
              "add", "norm mlp_norm", "mlp: linear up", "mlp: activation", "mlp: linear down",
              "mlp: dropout", "add"});
  CHECK(find_op(graph, OpKind::kDropout, 0).probability == 0.1);  // embd_pdrop
  CHECK(find_op(graph, OpKind::kDropout, 1).probability == 0.2);  // resid_pdrop
  CHECK(find_op(graph, OpKind::kAttention).probability == 0.1);   // attn_pdrop
}

TEST_CASE("build_graph: Gemma 3 norms around both sub-layers, and queries after all projections") {
  const Graph graph = small_graph("gemma3_text");
  CHECK(describe_layer(graph, 0) ==
        Lines{"norm attention_norm", "attention: linear query", "attention: linear key",
              "attention: linear value", "attention: head_norm query_norm",
              "attention: head_norm key_norm", "attention: rope", "attention: attention",
              "attention: linear attention_output", "norm attention_out_norm", "add",
              "norm mlp_norm", "mlp: linear gate", "mlp: activation", "mlp: linear up",
              "mlp: multiply", "mlp: linear down", "norm mlp_out_norm", "add"});
  CHECK(describe_layer(graph, -1)[1] == "scale token_embedding");
}

TEST_CASE("build_graph: Qwen3 norms queries before it projects keys") {
  const Lines layer = describe_layer(small_graph("qwen3"), 0);
  CHECK(Lines(layer.begin() + 1, layer.begin() + 6) ==
        Lines{"attention: linear query", "attention: head_norm query_norm", "attention: linear key",
              "attention: head_norm key_norm", "attention: linear value"});
}

TEST_CASE("build_graph: BLOOM and BERT add the residual inside their modules") {
  CHECK(describe_layer(small_graph("bloom"), 0) ==
        Lines{"norm attention_norm", "attention: linear qkv", "attention: split_qkv",
              "attention: attention", "attention: linear attention_output", "attention: dropout",
              "attention: add", "norm mlp_norm", "mlp: linear up", "mlp: activation",
              "mlp: linear down", "mlp: dropout", "mlp: add"});
  const Lines bert = describe_layer(small_graph("bert"), 0);
  CHECK(Lines(bert.begin() + 4, bert.begin() + 9) ==
        Lines{"attention: linear attention_output", "attention: dropout", "attention: add",
              "attention: norm attention_out_norm", "mlp: linear up"});
}

TEST_CASE("build_graph: OPT scales queries itself and has no MLP module") {
  CHECK(describe_layer(small_graph("opt"), 0) ==
        Lines{"norm attention_norm", "attention: linear query", "attention: scale query",
              "attention: linear key", "attention: linear value", "attention: attention",
              "attention: linear attention_output", "dropout", "add", "norm mlp_norm", "linear up",
              "activation", "linear down", "dropout", "add"});
  // OPT-350m: narrow embeddings, norms after the additions, no final norm.
  const Graph post = small_graph("opt-350m");
  CHECK(describe_layer(post, -1) == Lines{"embedding token_embedding", "linear project_in",
                                          "positions position_table", "linear project_out",
                                          "head: linear head", "head: cross_entropy"});
  CHECK(describe_layer(post, 0).back() == "norm mlp_out_norm");
}

TEST_CASE("build_graph: the parallel forms add in the order of their code") {
  // GPT-NeoX: x + (attention + mlp).
  const Graph neox = small_graph("gpt_neox");
  const Op& inner = find_op(neox, OpKind::kAdd, 0);
  const Op& outer = find_op(neox, OpKind::kAdd, 1);
  CHECK(outer.inputs[0] == neox.layers()[0].input);
  CHECK(outer.inputs[1] == inner.outputs[0]);
  // Cohere: (x + attention) + mlp.
  const Graph cohere = small_graph("cohere");
  CHECK(find_op(cohere, OpKind::kAdd, 0).inputs[0] == cohere.layers()[0].input);
  CHECK(find_op(cohere, OpKind::kAdd, 1).inputs[0] == find_op(cohere, OpKind::kAdd, 0).outputs[0]);
  // Falcon-7B: attention and MLP read one norm; one dropout on their sum.
  const Graph falcon = small_graph("falcon-7b");
  const TensorId normed = find_op(falcon, OpKind::kNorm).outputs[0];
  CHECK(find_op(falcon, OpKind::kLinear, 0).inputs[0] == normed);
  CHECK(find_op(falcon, OpKind::kLinear, 2).inputs[0] == normed);
  CHECK(find_op(falcon, OpKind::kDropout).inputs == find_op(falcon, OpKind::kAdd).outputs);
}

TEST_CASE("build_graph: Granite scales embedding, residuals and logits") {
  const Graph graph = small_graph("granite");
  CHECK(describe_layer(graph, -1) == Lines{"embedding token_embedding", "scale token_embedding",
                                           "norm final_norm", "head: linear head",
                                           "head: scale head", "head: cross_entropy"});
  const Lines layer = describe_layer(graph, 0);
  CHECK(layer[7] == "scale");
  CHECK(layer[8] == "add");
}

TEST_CASE("build_graph: Gemma 2 caps its logits, and every other layer has a window") {
  const Graph graph = small_graph("gemma2");
  CHECK(describe_layer(graph, -1).end()[-2] == "head: softcap");
  CHECK(find_op(graph, OpKind::kAttention, 0).window == std::optional<std::int64_t>(8));
  CHECK_FALSE(find_op(graph, OpKind::kAttention, 1).window.has_value());
}

TEST_CASE("build_graph: shapes of queries, keys, values, gates and logits") {
  // A = 6, K = 2, D = 48 / 6 = 8, F = 40, V = 50.
  const Graph graph = small_graph("llama");
  const Op& attention = find_op(graph, OpKind::kAttention);
  CHECK(dims(graph, attention.inputs[0]) == Dims{2, 5, 48});
  CHECK(dims(graph, attention.inputs[1]) == Dims{2, 5, 16});
  CHECK(dims(graph, attention.inputs[2]) == Dims{2, 5, 16});
  CHECK(dims(graph, attention.outputs[0]) == Dims{2, 5, 48});
  CHECK(dims(graph, find_op(graph, OpKind::kMultiply).outputs[0]) == Dims{2, 5, 40});
  const Op& loss = find_op(graph, OpKind::kCrossEntropy);
  CHECK(dims(graph, loss.inputs[0]) == Dims{2, 5, 50});
  CHECK(dims(graph, loss.inputs[1]) == Dims{2, 5});
  CHECK(dims(graph, loss.outputs[0]).empty());
}

TEST_CASE("build_graph: latent attention rejoins the rope part") {
  // A = 6, ranks 9 and 14, nope 6, rope 4, value 5.
  const Graph graph = small_graph("deepseek_v3");
  CHECK(describe_layer(graph, 0)[1] == "attention: linear latent_query_down");
  const Op& latent = find_op(graph, OpKind::kLatentQkv);
  CHECK(dims(graph, latent.inputs[0]) == Dims{2, 5, 60});
  CHECK(dims(graph, latent.inputs[1]) == Dims{2, 5, 18});
  CHECK(dims(graph, latent.inputs[2]) == Dims{2, 5, 66});
  CHECK(dims(graph, latent.outputs[1]) == Dims{2, 5, 60});
  CHECK(dims(graph, latent.outputs[2]) == Dims{2, 5, 30});
  CHECK(dims(graph, find_op(graph, OpKind::kAttention).outputs[0]) == Dims{2, 5, 30});
}

TEST_CASE("build_graph: routed and shared experts in the order of their code") {
  const Lines qwen = describe_layer(small_graph("qwen2_moe"), 1);
  CHECK(Lines(qwen.begin() + 9, qwen.end()) ==
        Lines{"mlp: linear shared_gate", "mlp: activation", "mlp: linear shared_up",
              "mlp: multiply", "mlp: linear shared_down", "mlp: router router", "mlp: experts",
              "mlp: shared_gate shared_sigmoid", "mlp: add", "add"});
  const Graph deepseek = small_graph("deepseek_v2");
  const Lines layer = describe_layer(deepseek, 1);
  CHECK(Lines(layer.end() - 9, layer.end()) == Lines{"mlp: router router", "mlp: experts",
                                                     "mlp: linear shared_gate", "mlp: activation",
                                                     "mlp: linear shared_up", "mlp: multiply",
                                                     "mlp: linear shared_down", "mlp: add", "add"});
  // 2 * 5 tokens, 2 experts each.
  CHECK(dims(deepseek, find_op(deepseek, OpKind::kRouter).outputs[1]) == Dims{10, 2});
}

TEST_CASE("build_graph: T5 shares each stack's first bias table and attends to the encoder") {
  const Graph graph = small_graph("t5");
  REQUIRE(graph.layers().size() == 4);
  // Attentions: encoder 0 and 1, then self and cross of decoder layers 2 and 3.
  const Op& first = find_op(graph, OpKind::kAttention, 0);
  CHECK(find_op(graph, OpKind::kAttention, 1).parameters == first.parameters);
  const Op& decoder = find_op(graph, OpKind::kAttention, 2);
  const Op& cross = find_op(graph, OpKind::kAttention, 3);
  CHECK(find_op(graph, OpKind::kAttention, 4).parameters == decoder.parameters);
  CHECK(decoder.parameters != first.parameters);
  CHECK(cross.parameters.empty());
  CHECK(cross.module == Module::kCrossAttention);
  CHECK_FALSE(first.causal);
  CHECK(decoder.causal);
  CHECK_FALSE(cross.causal);
  CHECK(describe_layer(graph, -1) ==
        Lines{"embedding token_embedding", "dropout", "norm encoder_final_norm", "dropout",
              "embedding token_embedding", "dropout", "norm final_norm", "dropout", "head: scale",
              "head: linear head", "head: cross_entropy"});
}

TEST_CASE("build_graph: a tied head reads the token table and has no matrix of its own") {
  const Graph tied = small_graph("llama-biased");
  const Graph untied = small_graph("llama");
  const auto head = [](const Graph& graph) {
    return graph.op(NodeId{static_cast<std::uint32_t>(graph.op_count() - 2)}).parameters.at(0);
  };
  CHECK(head(tied) == tied.parameters().front());
  CHECK(head(untied) == untied.parameters().back());
}

TEST_CASE("build_graph: layers chain from output to input") {
  for (const test::SmallModel& model : test::small_models()) {
    CAPTURE(model.name);
    const Graph graph = build_graph(model.spec, kSmallShape);
    const std::int64_t encoder = model.spec.encoder ? model.spec.encoder->layers : 0;
    const auto layers = graph.layers();
    REQUIRE(layers.size() == model.spec.layers.size() + static_cast<std::size_t>(encoder));
    for (std::size_t i = 1; i < layers.size(); ++i) {
      if (static_cast<std::int64_t>(i) != encoder) {  // There a decoder begins.
        CHECK(layers[i].input == layers[i - 1].output);
      }
    }
  }
}

TEST_CASE("build_graph: an empty micro-batch is a bug of the caller") {
  const ModelSpec& spec = test::small_model("llama").spec;
  CHECK_THROWS_AS((void)build_graph(spec, {.batch = 0, .sequence = 5}), InternalError);
  CHECK_THROWS_AS((void)build_graph(spec, {.batch = 1, .sequence = 0}), InternalError);
}

}  // namespace headroom::ir
