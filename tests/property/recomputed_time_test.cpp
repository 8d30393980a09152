// What bounds the time of a Megatron plan by that of another one.

#include <cstdint>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/json/json_value.h"
#include "planner/space/search_space.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/plan_json.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/random_question.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

/// A question whose plans differ in much. Steps of some of them wait for the host.
SearchQuestion varied_question(test::Random& random, const ir::ModelSpec& model,
                               const cost::Machine& machine) {
  SearchQuestion question = test::random_megatron_question(random, model);
  if (random.chance(1, 2)) {
    question.device = test::h100();
    question.space.device = question.device.traits;
    question.machine = machine;
  }
  question.space.base.workload.sequence = random.pick<std::int64_t>({128, 512, 2048});
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({1, 2, 4, 8})};
  constraints.of(Axis::kAttention) = {random.between(0, 2)};
  constraints.of(Axis::kContext) = {random.between(1, 2)};
  constraints.of(Axis::kMicroBatch) = {random.pick<std::int64_t>({1, 2, 4})};
  constraints.of(megatron_axes::kOverlapParamGather) = {};
  return question;
}

/// `cost::step_time` of plans of one cell, each computed once.
class StepTimes {
 public:
  StepTimes(const SearchQuestion& question, const MegatronChoices& choices)
      : question_(question), choices_(choices) {}

  double operator()(std::uint64_t index) {
    const auto [at, added] = known_.try_emplace(index);
    if (added) {
      at->second = cost::step_time(question_.space.model, choices_.plan_at(index), question_.device,
                                   Bytes{0}, question_.machine)
                       .value()
                       .total.value();
    }
    return at->second;
  }

 private:
  const SearchQuestion& question_;
  const MegatronChoices& choices_;
  std::map<std::uint64_t, double> known_;
};

}  // namespace

TEST_CASE("megatron's plans: who recomputes what another one does, and more, takes no less time") {
  test::Random random = test::seeded_random(531);
  CAPTURE(random.seed());
  const cost::Machine machine = cost::load_machine(test::kConfigs, test::h100()).value();
  const std::vector<ir::ModelSpec> models = {test::small_model(), test::tiny_model(5, 5),
                                             test::tiny_model(4, 1)};
  int compared = 0;
  int longer = 0;
  for (int round = 0; compared < (test::kSanitized ? 20 : 1000); ++round) {
    const ir::ModelSpec& model = models[static_cast<std::size_t>(round) % models.size()];
    const SearchQuestion question = varied_question(random, model, machine);
    const std::vector<Cell> cells = cells_of(question.space);
    if (cells.empty()) {
      continue;
    }
    const Cell& cell = cells[static_cast<std::size_t>(
        random.between(0, static_cast<std::int64_t>(cells.size()) - 1))];
    const MegatronChoices choices = megatron_choices(question.space, cell.plan);
    StepTimes times(question, choices);
    const auto last = static_cast<std::int64_t>(choices.size()) - 1;
    for (int pair = 0; pair < 200; ++pair) {
      const auto more = static_cast<std::uint64_t>(random.between(0, last));
      const auto count = static_cast<std::int64_t>(choices.switches.size());
      const auto less = static_cast<std::uint64_t>(random.between(0, last / count) * count) +
                        more % choices.switches.size();
      if (!choices.recomputes_more(more, less) || !random.chance(1, 8)) {
        continue;
      }
      CAPTURE(ir::to_json(ir::plan_to_json(choices.plan_at(less))));
      CAPTURE(ir::to_json(ir::plan_to_json(choices.plan_at(more))));
      CHECK(times(more) >= times(less));
      longer += times(more) > times(less) ? 1 : 0;
      ++compared;
    }
  }
  CHECK(longer > compared / 2);
}

TEST_CASE("step_time: it is the time of the estimate, without the memory") {
  test::Random random = test::seeded_random(532);
  CAPTURE(random.seed());
  const cost::Machine machine = cost::load_machine(test::kConfigs, test::h100()).value();
  const ir::ModelSpec model = test::small_model();
  for (int round = 0; round < (test::kSanitized ? 3 : 30); ++round) {
    const SearchQuestion question = varied_question(random, model, machine);
    for (const Cell& cell : cells_of(question.space)) {
      CAPTURE(ir::to_json(ir::plan_to_json(cell.plan)));
      const cost::StepTime alone =
          cost::step_time(model, cell.plan, question.device, question.budget, question.machine)
              .value();
      const cost::StepEstimate estimate =
          cost::estimate(model, cell.plan, question.device, question.budget, &question.machine)
              .value();
      CHECK(alone.total == estimate.time->total);
      CHECK(alone.parts == estimate.time->parts);
      break;
    }
  }
}

}  // namespace headroom::plan
