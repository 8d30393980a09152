#include "costmodel/quick_estimate.h"

#include <cmath>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/time/machine.h"
#include "runtimes/interface/settle.h"
#include "runtimes/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::cost {
namespace {

ir::ModelSpec deep_llama(std::size_t layers) {
  ir::ModelSpec model = test::small_llama();
  model.layers.resize(layers, model.layers.front());
  return model;
}

struct Bed {
  DeviceSpec device = with_host(HEADROOM_SOURCE_DIR "/configs",
                                load_device(HEADROOM_SOURCE_DIR "/configs", "h100-80gb").value())
                          .value();
  Machine machine = load_machine(HEADROOM_SOURCE_DIR "/configs", device).value();
};

ir::ParallelPlan plan_of(const ir::Runtime& runtime) {
  ir::ParallelPlan plan;
  plan.runtime = runtime.name();
  plan.world = 8;
  plan.workload.sequence = 512;
  runtime.settle(plan);
  plan.precision = ir::nearest_precision(plan.precision, runtime.precisions());
  runtime.complete(plan);
  return plan;
}

double relative(double found, double exact) {
  return std::abs(found - exact) / exact;
}

}  // namespace

TEST_CASE("quick_estimate: continues a deep model to within a few percent, for every framework") {
  const Bed bed;
  const ir::ModelSpec model = deep_llama(32);
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    CAPTURE(runtime->name());
    const ir::ParallelPlan plan = plan_of(*runtime);
    const Result<StepEstimate> exact = estimate(model, plan, bed.device, Bytes{0}, &bed.machine);
    REQUIRE(exact);
    const auto quick = quick_estimate(model, plan, bed.device, Bytes{0}, &bed.machine);
    REQUIRE(quick.has_value());
    REQUIRE(*quick);
    const StepEstimate& found = **quick;
    const auto value = [](Bytes bytes) { return static_cast<double>(bytes.value()); };
    CHECK(relative(value(found.peak_allocated), value(exact->peak_allocated)) < 0.05);
    // So small tensors share segments, whose number does not grow evenly.
    CHECK(relative(value(found.peak_reserved), value(exact->peak_reserved)) < 0.25);
    CHECK(relative(found.time->total.value(), exact->time->total.value()) < 0.1);
    CHECK(found.outside_bytes == exact->outside_bytes);
    CHECK(found.capacity == exact->capacity);
    Bytes sum;
    for (const Bytes role : found.peak_by_role) {
      sum += role;
    }
    CHECK(sum == found.peak_allocated);
  }
}

TEST_CASE("quick_estimate: few layers have no short form, and a refused plan is an error") {
  const Bed bed;
  const ir::ParallelPlan plan = plan_of(*ir::find_runtime("transformers"));
  CHECK_FALSE(quick_estimate(deep_llama(4), plan, bed.device).has_value());
  ir::ParallelPlan refused = plan;
  refused.mesh.tensor = 2;  // This framework has no such degree.
  const auto answer = quick_estimate(deep_llama(32), refused, bed.device);
  REQUIRE(answer.has_value());
  CHECK_FALSE(*answer);
}

TEST_CASE("quick_estimate: a budget is judged as the device's total") {
  const Bed bed;
  const ir::ParallelPlan plan = plan_of(*ir::find_runtime("transformers"));
  const auto answer = quick_estimate(deep_llama(32), plan, bed.device, Bytes{2 * kGiB});
  REQUIRE(answer.has_value());
  REQUIRE(*answer);
  CHECK((*answer)->verdict == Verdict::kDoesNotFit);
  CHECK((*answer)->device_total == Bytes{2 * kGiB});
  CHECK((*answer)->margin == (*answer)->capacity - (*answer)->peak_reserved);
}

}  // namespace headroom::cost
