#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/executor/executions.h"
#include "validators/executor/state_code.h"

namespace headroom::exec {
namespace {

std::vector<double> losses_of(const Execution& execution) {
  const std::unique_ptr<Rank> rank = test::cpu_rank(execution);
  rank->run();
  REQUIRE(rank->device().status());
  return rank->losses();
}

/// Ten steps with a learning rate that moves every parameter by much of its size.
Execution learning(const Types& types) {
  Execution execution = test::tiny_execution(test::tiny_model(2));
  execution.types = types;
  execution.steps = 10;
  execution.learning_rate = 1e-2;
  execution.clip_norm = 1;
  return execution;
}

}  // namespace

TEST_CASE("training: AdamW by hand for one parameter") {
  // With one step, Adam moves each parameter by the learning rate against the sign of its gradient,
  // up to epsilon, after decay.
  Execution execution = test::tiny_execution(test::tiny_model(1));
  const std::unique_ptr<Rank> rank = test::cpu_rank(execution);
  rank->training().load();
  const Unit& unit = *rank->training().stage().units()[1];
  const std::int64_t place = unit.offset(0) + 3;
  const double before = unit.held_parameters().as<double>()[place];
  rank->training().step(1);
  const double gradient = unit.held_gradients().as<double>()[place];
  const double after = unit.held_parameters().as<double>()[place];
  const double expected =
      before * (1 - 1e-3 * 0.01) - 1e-3 * gradient / (std::abs(gradient) + 1e-8);
  CHECK(after == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("training: all precisions follow fp64") {
  using ir::DType;
  const Types wide{.parameter = DType::kFp64,
                   .compute = DType::kFp64,
                   .gradient = DType::kFp64,
                   .state = DType::kFp64};
  const std::vector<double> exact = losses_of(learning(wide));
  struct Case {
    const char* name;
    Types types;
    double loss_scale;
    double tolerance;
  };
  const Types mixed{.parameter = DType::kBf16,
                    .compute = DType::kBf16,
                    .gradient = DType::kBf16,
                    .state = DType::kFp32,
                    .master = true};
  Types half = mixed;
  half.parameter = half.compute = half.gradient = DType::kFp16;
  Types bytes{};
  bytes.state = DType::kUInt8;
  Types pure = mixed;
  pure.master = false;
  pure.state = DType::kBf16;
  const std::vector<Case> cases = {{"fp32", {}, 1, 1e-5},
                                   {"bf16 under autocast", {.compute = DType::kBf16}, 1, 0.02},
                                   {"fp16 under autocast", {.compute = DType::kFp16}, 256, 0.005},
                                   {"bf16 with masters", mixed, 1, 0.02},
                                   {"fp16 with masters", half, 256, 0.005},
                                   {"pure bf16", pure, 1, 0.05},
                                   {"8-bit states", bytes, 1, 0.1}};
  for (const Case& each : cases) {
    CAPTURE(each.name);
    Execution execution = learning(each.types);
    execution.loss_scale = each.loss_scale;
    const std::vector<double> losses = losses_of(execution);
    REQUIRE(losses.size() == exact.size());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      CHECK(losses[step] == doctest::Approx(exact[step]).epsilon(each.tolerance));
    }
  }
}

TEST_CASE("training: the numbers of 8-bit states are ascending and reach from -1 or 0 to 1") {
  for (const std::vector<float>& code : {signed_state_code(), unsigned_state_code()}) {
    CHECK(code.size() == 256);
    CHECK(std::ranges::is_sorted(code));
    CHECK(code.back() == 1.0F);
    CHECK(std::ranges::find(code, 0.0F) != code.end());
  }
  CHECK(signed_state_code().front() < -0.99F);
  CHECK(unsigned_state_code().front() == 0.0F);
}

}  // namespace headroom::exec
