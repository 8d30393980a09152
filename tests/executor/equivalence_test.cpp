#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/executor/executions.h"
#include "validators/executor/cpu/world.h"

namespace headroom::exec {
namespace {

using test::tiny_execution;
using test::tiny_gpt2;
using test::tiny_model;
using test::with_experts;

/// Losses of all steps, and parameters and gradients after the last one, each as a whole: the parts
/// of all ranks put together.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> parameters;
  std::map<std::string, std::vector<double>> gradients;
  double norm = 0;
};

/// Puts the part of a parameter that a rank has into the whole one. `begin`: where `held` begins in
/// the unit's flat buffer.
void put(std::vector<double>& whole, const Unit& unit, std::size_t index, const Tensor& held,
         std::int64_t begin, double factor) {
  const ParameterShape& shape = unit.parameters()[index];
  const std::int64_t rows = shape.repeat > 0 ? shape.repeat : shape.rows;
  for (std::int64_t i = 0; i < shape.rows * shape.columns; ++i) {
    const std::int64_t place = unit.offset(index) + i - begin;
    if (place < 0 || place >= held.elements()) {
      continue;
    }
    const std::int64_t local = i / shape.columns;
    const std::int64_t row =
        shape.repeat > 0 ? local / rows * shape.whole_repeat + local % rows : local;
    const std::int64_t global =
        (row + shape.row_offset) * shape.whole_columns + i % shape.columns + shape.column_offset;
    if (global >= static_cast<std::int64_t>(whole.size())) {
      whole.resize(static_cast<std::size_t>(global) + 1);
    }
    whole[static_cast<std::size_t>(global)] = held.as<double>()[place] * factor;
  }
}

Outcome run(const Execution& execution) {
  Outcome outcome;
  run_world(execution, [&](Rank& rank, int /*number*/) {
    REQUIRE(rank.device().status());
    if (!rank.losses().empty()) {
      outcome.losses = rank.losses();
    }
    outcome.norm = rank.training().gradient_norm().value_or(0);
    const Stage& stage = rank.training().stage();
    const LayerRange range =
        layers_of_stage(static_cast<std::int64_t>(execution.model.layers.size()),
                        execution.division.pipeline, rank.division().stage());
    std::int64_t layer = range.first;
    for (const std::unique_ptr<Unit>& unit : stage.units()) {
      const bool is_layer = unit->parameters().front().name == "norm1";
      for (std::size_t index = 0; index < unit->parameters().size(); ++index) {
        std::string name = unit->parameters()[index].name;
        name += is_layer ? " " + std::to_string(layer) : "";
        if (!unit->held_parameters().empty()) {
          put(outcome.parameters[name], *unit, index, unit->held_parameters(),
              unit->held_parameters_begin(), 1);
        }
        put(outcome.gradients[name], *unit, index, unit->optimizer_gradients(),
            unit->optimizer_begin(), 1 / execution.loss_scale);
      }
      layer += is_layer ? 1 : 0;
    }
  });
  return outcome;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b, double limit) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  CHECK(worst <= limit);
}

/// `tolerance` 0: bitwise. Gradients are compared with the largest one of all: some are 0 but for
/// rounding, such as those of biases of keys.
void check_same(const Outcome& plain, const Outcome& other, double tolerance) {
  check_close(plain.losses, other.losses, tolerance * largest_of(plain.losses));
  REQUIRE(plain.gradients.size() == other.gradients.size());
  double largest = 0;
  for (const auto& [name, gradient] : plain.gradients) {
    largest = std::max(largest, largest_of(gradient));
  }
  for (const auto& [name, gradient] : plain.gradients) {
    CAPTURE(name);
    check_close(gradient, other.gradients.at(name), tolerance * largest);
  }
  for (const auto& [name, parameter] : other.parameters) {
    CAPTURE(name);
    check_close(plain.parameters.at(name), parameter, tolerance * 1e3);
  }
}

constexpr double kClose = 1e-9;

/// Models that between them have every operator.
std::vector<ir::ModelSpec> models() {
  ir::ModelSpec qwen = tiny_model(3);
  qwen.qk_norm = ir::QkNorm::kPerHead;
  qwen.qkv_bias = true;
  qwen.layers[1].window = 3;
  return {tiny_model(3), qwen, tiny_gpt2(3), with_experts(tiny_model(3), true)};
}

Execution three_steps(const ir::ModelSpec& model) {
  Execution execution = tiny_execution(model);
  execution.steps = 3;
  execution.accumulation = 4;
  return execution;
}

}  // namespace

TEST_CASE("equivalence: every placement of recomputation, bitwise") {
  for (const ir::ModelSpec& model : models()) {
    for (const bool flash : {true, false}) {
      Execution execution = three_steps(model);
      execution.flash = flash;
      const Outcome plain = run(execution);
      for (int placement = 1; placement < 8; ++placement) {
        CAPTURE(placement);
        const ir::RecomputedParts recomputed{.layer = (placement & 1) != 0,
                                             .attention = (placement & 2) != 0,
                                             .mlp = (placement & 4) != 0};
        execution.layers.assign(model.layers.size(), recomputed);
        check_same(plain, run(execution), 0);
        execution.layers.front() = {};
        check_same(plain, run(execution), 0);
      }
    }
  }
}

TEST_CASE("equivalence: the loss in chunks") {
  for (const ir::ModelSpec& model : models()) {
    Execution execution = three_steps(model);
    const Outcome plain = run(execution);
    execution.chunked_loss = true;
    check_same(plain, run(execution), kClose);
  }
}

TEST_CASE("equivalence: flash and eager attention") {
  for (const ir::ModelSpec& model : models()) {
    Execution execution = three_steps(model);
    const Outcome plain = run(execution);
    execution.flash = false;
    check_same(plain, run(execution), kClose);
  }
}

TEST_CASE("equivalence: offload of activations, states and parameters, bitwise") {
  for (const ir::ModelSpec& model : models()) {
    Execution execution = three_steps(model);
    const Outcome plain = run(execution);
    for (int offload = 1; offload < 8; ++offload) {
      CAPTURE(offload);
      execution.activations_on_host = (offload & 1) != 0;
      execution.units.states_on_host = (offload & 2) != 0;
      execution.units.parameters_on_host = (offload & 4) != 0;
      check_same(plain, run(execution), 0);
      execution.layers.assign(model.layers.size(), {.layer = true});
      check_same(plain, run(execution), 0);
      execution.layers.assign(model.layers.size(), {});
    }
  }
}

TEST_CASE("equivalence: micro-batches of one sequence each, and one batch of all") {
  for (const ir::ModelSpec& model : models()) {
    Execution execution = three_steps(model);
    execution.accumulation = 1;
    execution.micro_batch = 8;
    const Outcome plain = run(execution);
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      execution.micro_batch = micro_batch;
      execution.accumulation = 8 / micro_batch;
      check_same(plain, run(execution), kClose);
    }
  }
}

TEST_CASE("equivalence: every ZeRO stage on 2 and 4 ranks") {
  for (const ir::ModelSpec& model : models()) {
    Execution plain_execution = three_steps(model);
    plain_execution.clip_norm = 0.5;
    const Outcome plain = run(plain_execution);
    for (const int ranks : {2, 4}) {
      for (int stage = 0; stage <= 3; ++stage) {
        CAPTURE(stage);
        Execution execution = plain_execution;
        execution.division.data = ranks;
        execution.accumulation = 4 / ranks;
        execution.units.zero_stage = stage;
        const Outcome other = run(execution);
        check_same(plain, other, kClose);
        CHECK(other.norm == doctest::Approx(plain.norm).epsilon(kClose));
      }
    }
  }
}

TEST_CASE("equivalence: tensor-parallel ranks") {
  for (const ir::ModelSpec& model : models()) {
    for (const bool chunked : {false, true}) {
      Execution execution = three_steps(model);
      execution.chunked_loss = chunked;
      execution.clip_norm = 0.5;
      const Outcome plain = run(execution);
      execution.division.tensor = 2;
      const Outcome other = run(execution);
      check_same(plain, other, kClose);
      CHECK(other.norm == doctest::Approx(plain.norm).epsilon(kClose));
    }
  }
}

TEST_CASE("equivalence: sequence parallelism, alone and with everything else") {
  for (const ir::ModelSpec& model : models()) {
    if (model.position == ir::PositionKind::kLearned) {
      continue;
    }
    Execution execution = three_steps(model);
    execution.clip_norm = 0.5;
    const Outcome plain = run(execution);
    execution.division.tensor = 2;
    execution.sequence_parallel = true;
    check_same(plain, run(execution), kClose);
    execution.chunked_loss = true;
    execution.units.zero_stage = 2;
    execution.division.data = 2;
    execution.division.pipeline = 2;
    execution.accumulation = 2;
    execution.activations_on_host = true;
    execution.layers[1] = {.attention = true, .mlp = true};
    execution.layers[2] = {.layer = true};
    const Outcome other = run(execution);
    check_same(plain, other, kClose);
    CHECK(other.norm == doctest::Approx(plain.norm).epsilon(kClose));
  }
}

TEST_CASE("equivalence: pipeline stages") {
  for (const ir::ModelSpec& model : models()) {
    if (model.tied_embeddings) {
      continue;
    }
    Execution execution = three_steps(model);
    execution.clip_norm = 0.5;
    const Outcome plain = run(execution);
    for (const int stages : {2, 3}) {
      execution.division.pipeline = stages;
      const Outcome other = run(execution);
      check_same(plain, other, kClose);
      CHECK(other.norm == doctest::Approx(plain.norm).epsilon(kClose));
    }
  }
}

TEST_CASE("equivalence: tensor x data x pipeline, with everything else at once") {
  for (const ir::ModelSpec& model : models()) {
    Execution execution = three_steps(model);
    execution.clip_norm = 0.5;
    const Outcome plain = run(execution);
    execution.division = {.tensor = 2, .data = 2, .pipeline = model.tied_embeddings ? 1 : 2};
    execution.accumulation = 2;
    execution.units = {.zero_stage = 3, .parameters_on_host = true, .states_on_host = true};
    execution.activations_on_host = true;
    execution.layers.front().layer = true;
    execution.layers.back() = {.attention = true, .mlp = true};
    check_same(plain, run(execution), kClose);
  }
}

TEST_CASE("equivalence: a loss scale changes nothing, and overflow skips the step") {
  Execution execution = three_steps(tiny_model(2));
  execution.clip_norm = 0.5;
  const Outcome plain = run(execution);
  execution.loss_scale = 4096;
  check_same(plain, run(execution), kClose);

  execution.steps = 1;
  execution.loss_scale = 1e100;
  run_world(execution, [](Rank& rank, int) { CHECK_FALSE(rank.training().skipped()); });
  execution.types.parameter = ir::DType::kFp16;
  execution.types.compute = ir::DType::kFp16;
  execution.types.gradient = ir::DType::kFp16;
  execution.types.state = ir::DType::kFp32;
  execution.types.master = true;
  execution.loss_scale = 1e30;
  run_world(execution, [](Rank& rank, int) {
    CHECK(rank.training().skipped());
    CHECK(rank.training().loss_scale() == 1e30 / 2);
  });
}

TEST_CASE("equivalence: a plan that differs is noticed") {
  Execution execution = three_steps(tiny_model(2));
  const Outcome plain = run(execution);
  execution.seed = 2;
  CHECK(run(execution).losses != plain.losses);
  execution.seed = 1;
  execution.division.data = 2;  // Two ranks have twice the batch.
  CHECK(run(execution).losses != plain.losses);
}

}  // namespace headroom::exec
