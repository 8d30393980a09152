#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/executor/executions.h"

namespace headroom::exec {
namespace {

using test::tiny_execution;
using test::tiny_gpt2;
using test::tiny_model;
using test::with_experts;

/// Compares the gradient of every parameter with central differences of the loss, at a few of its
/// elements.
void check_gradients(Execution execution) {
  execution.learning_rate = 0;  // The parameters stay what the test makes them.
  const std::unique_ptr<Rank> rank = test::cpu_rank(execution);
  rank->training().load();
  const auto loss = [&rank] {
    rank->training().step(1);
    REQUIRE(rank->device().status());
    return rank->training().loss().value();
  };
  CHECK(std::abs(loss() - std::log(static_cast<double>(execution.model.vocabulary))) < 0.5);
  for (const std::unique_ptr<Unit>& unit : rank->training().stage().units()) {
    for (std::size_t index = 0; index < unit->parameters().size(); ++index) {
      const ParameterShape& shape = unit->parameters()[index];
      CAPTURE(shape.name);
      const std::int64_t elements = shape.rows * shape.columns;
      for (std::int64_t sample = 0; sample < 4; ++sample) {
        const std::int64_t place = unit->offset(index) + (7 * sample + 3) % elements;
        CAPTURE(place);
        double& value = unit->held_parameters().as<double>()[place];
        static_cast<void>(loss());
        const double gradient = unit->held_gradients().as<double>()[place] / execution.loss_scale;
        constexpr double kStep = 1e-5;
        const double before = value;
        value = before + kStep;
        const double above = loss();
        value = before - kStep;
        const double below = loss();
        value = before;
        const double difference = (above - below) / (2 * kStep);
        CHECK(gradient == doctest::Approx(difference).epsilon(1e-5).scale(1e-4));
      }
    }
  }
}

}  // namespace

TEST_CASE("gradients: Llama's layer with flash attention") {
  check_gradients(tiny_execution(tiny_model(2)));
}

TEST_CASE("gradients: eager attention") {
  Execution execution = tiny_execution(tiny_model(1));
  execution.flash = false;
  check_gradients(execution);
}

TEST_CASE("gradients: a sliding window, in both forms of attention") {
  ir::ModelSpec model = tiny_model(1);
  model.layers[0].window = 3;
  for (const bool flash : {true, false}) {
    Execution execution = tiny_execution(model);
    execution.flash = flash;
    check_gradients(execution);
  }
}

TEST_CASE("gradients: LayerNorm, biases, learned positions, plain MLP, tied embeddings") {
  check_gradients(tiny_execution(tiny_gpt2(1)));
}

TEST_CASE("gradients: every activation function, in gated and in plain MLPs") {
  for (const ir::Activation activation :
       {ir::Activation::kSilu, ir::Activation::kGelu, ir::Activation::kGeluTanh,
        ir::Activation::kRelu, ir::Activation::kTanh}) {
    for (const bool is_gated : {true, false}) {
      CAPTURE(static_cast<int>(activation));
      ir::ModelSpec model = tiny_model(1);
      model.activation = activation;
      model.gated_mlp = is_gated;
      check_gradients(tiny_execution(model));
    }
  }
}

TEST_CASE("gradients: partial and interleaved rotary embedding, norms of queries and keys") {
  ir::ModelSpec model = tiny_model(1);
  model.rope_fraction = 0.5;
  model.qk_norm = ir::QkNorm::kPerHead;
  check_gradients(tiny_execution(model));
  model.rope_interleaved = true;
  model.rope_fraction = 1;
  check_gradients(tiny_execution(model));
}

TEST_CASE("gradients: experts, with and without normalised weights") {
  check_gradients(tiny_execution(with_experts(tiny_model(1), true)));
  check_gradients(tiny_execution(with_experts(tiny_model(1), false)));
}

TEST_CASE("gradients: the loss in chunks, and a loss scale") {
  Execution execution = tiny_execution(tiny_model(1));
  execution.chunked_loss = true;
  check_gradients(execution);
  execution.model.tied_embeddings = true;
  execution.loss_scale = 1024;
  check_gradients(execution);
}

}  // namespace headroom::exec
