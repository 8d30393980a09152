#include "runtimes/megatron/search/plan_key.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "runtimes/megatron/search/plan_memory.h"
#include "runtimes/megatron/search/sampled_blocks.h"
#include "runtimes/megatron/search/step_time.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"
#include "runtimes/plan_parts.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/random_plan.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

/// Values near the one that `plan` has of an option, whatever the option is.
std::vector<ir::JsonValue> other_values(const ir::OptionField& field, const ir::JsonValue& now) {
  std::vector<ir::JsonValue> values;
  switch (field.kind) {
    case ir::OptionKind::kSwitch:
      values.emplace_back(!now.as_bool().value_or(false));
      break;
    case ir::OptionKind::kWhole: {
      const std::int64_t number = now.as_integer().value_or(0);
      for (const std::int64_t other : {number + 1, 2 * number, number / 2}) {
        if (other >= field.wholes.least && other <= field.wholes.greatest) {
          values.emplace_back(other);
        }
      }
      break;
    }
    case ir::OptionKind::kReal:
      for (const double other : {0.5, 1.0, 1.5}) {
        if (other >= field.reals.least && other <= field.reals.greatest) {
          values.emplace_back(other);
        }
      }
      break;
    case ir::OptionKind::kWord:
      for (const std::string& word : field.words()) {
        values.emplace_back(word);
      }
      break;
    case ir::OptionKind::kNames:
      for (const std::string& word :
           field.words == nullptr ? std::vector<std::string>{} : field.words()) {
        values.emplace_back(ir::JsonValue::Array{ir::JsonValue(word)});
      }
      break;
    case ir::OptionKind::kText:
    case ir::OptionKind::kBytes:
      break;
  }
  return values;
}

const ir::PlanPart& megatron_part() {
  const auto parts = ir::framework_parts();
  return **std::ranges::find(parts, std::string_view("megatron"), &ir::PlanPart::name);
}

/// Every plan that differs from `plan` in one option of Megatron-Core, and that it takes.
std::vector<ir::ParallelPlan> neighbours(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  std::vector<ir::ParallelPlan> all;
  const ir::PlanPart& part = megatron_part();
  for (const ir::OptionField& field : part.fields) {
    for (const ir::JsonValue& value : other_values(field, field.get(plan))) {
      ir::ParallelPlan other = plan;
      if (field.set(other, value) && !(other == plan) && ir::check_plan(model, other)) {
        all.push_back(std::move(other));
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("plan keys: no option of a plan is answered with another plan's peak or times") {
  test::Random random = test::seeded_random(1301);
  CAPTURE(random.seed());
  const cost::DeviceSpec device = test::h100();
  const cost::Machine machine = cost::load_machine(test::kConfigs, device).value();
  int compared = 0;
  for (const bool sparse : {false, true}) {
    const ir::ModelSpec model = test::tiny_model(4, sparse ? 1 : 4);
    for (int round = 0; round < (test::kSanitized ? 2 : 12); ++round) {
      ir::ParallelPlan plan = test::random_megatron_plan(random);
      plan.workload.sequence = 64;
      plan.allocator.expandable_segments = true;
      if (!ir::check_plan(model, plan)) {
        continue;
      }
      PlanMemory shared(model, device);
      SampledBlocks blocks(model, device, machine);
      static_cast<void>(shared.peak(plan));
      static_cast<void>(blocks.of(plan));
      for (const ir::ParallelPlan& other : neighbours(model, plan)) {
        CAPTURE(ir::to_json(ir::plan_to_json(plan)));
        CAPTURE(ir::to_json(ir::plan_to_json(other)));
        PlanMemory fresh(model, device);
        const Result<Bytes> alone = fresh.peak(other);
        const Result<Bytes> after = shared.peak(other);
        REQUIRE(static_cast<bool>(alone) == static_cast<bool>(after));
        CHECK((!alone || *alone == *after));
        const Result<BlockTimes> known = blocks.of(other);
        const Result<BlockTimes> own = block_times(model, other, machine, device);
        REQUIRE(static_cast<bool>(known) == static_cast<bool>(own));
        if (own) {
          CHECK(step_parts(model, other, *known, machine).total() ==
                step_parts(model, other, *own, machine).total());
        }
        ++compared;
      }
    }
  }
  CHECK(compared > (test::kSanitized ? 20 : 200));
}

}  // namespace headroom::plan
