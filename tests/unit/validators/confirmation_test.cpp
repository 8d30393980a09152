#include "validators/confirmation/comparison.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "validators/confirmation/observed_phases.h"

namespace headroom::check {
namespace {

cost::PhaseMemory predicted_phase(std::string_view name, std::int64_t allocated,
                                  std::int64_t reserved) {
  cost::PhaseMemory phase;
  phase.name = ir::parse_phase_name(name);
  phase.peak_allocated = Bytes{allocated};
  phase.peak_reserved = Bytes{reserved};
  return phase;
}

DryRunPhase reported_phase(const char* name, std::int64_t step, std::int64_t micro_batch,
                           std::int64_t allocated, std::int64_t reserved) {
  DryRunPhase phase;
  phase.name = name;
  phase.step = step;
  phase.micro_batch = micro_batch;
  phase.peak_allocated = Bytes{allocated};
  phase.peak_reserved = Bytes{reserved};
  return phase;
}

PhaseComparison compared(const char* name, PhasePeaks predicted, PhasePeaks measured) {
  return {.name = name, .predicted = predicted, .measured = measured};
}

PhasePeaks peaks(std::int64_t allocated, std::int64_t reserved) {
  return {.allocated = Bytes{allocated}, .reserved = Bytes{reserved}};
}

}  // namespace

TEST_CASE("confirmation: phases are compared under the names of the prediction") {
  const std::vector<cost::PhaseMemory> predicted = {predicted_phase("load", 10, 20),
                                                    predicted_phase("step1.forward", 30, 40),
                                                    predicted_phase("step1.backward", 50, 60),
                                                    predicted_phase("step1.optimizer", 45, 60),
                                                    predicted_phase("step1.zero_grad", 40, 60),
                                                    predicted_phase("evaluation", 20, 60)};
  const std::vector<ObservedPhase> measured = observed_phases(
      {reported_phase("load", 0, 1, 10, 20), reported_phase("forward", 1, 1, 31, 40),
       reported_phase("backward", 1, 1, 50, 62), reported_phase("optimizer", 1, 1, 45, 62),
       reported_phase("zero_grad", 1, 1, 40, 62), reported_phase("forward", 2, 1, 21, 62)},
      1, 1);
  CHECK(compare_phases(predicted, measured, 1) ==
        std::vector<PhaseComparison>{compared("load", peaks(10, 20), peaks(10, 20)),
                                     compared("step1.forward", peaks(30, 40), peaks(31, 40)),
                                     compared("step1.backward", peaks(50, 60), peaks(50, 62)),
                                     compared("step1.optimizer", peaks(45, 60), peaks(45, 62)),
                                     compared("step1.zero_grad", peaks(40, 60), peaks(40, 62)),
                                     compared("evaluation", peaks(20, 60), peaks(21, 62))});
}

TEST_CASE("confirmation: what one side does not tell apart counts to the phase before") {
  // The engine's phases before the first step, its steps between, and no zero_grad on either side.
  const std::vector<cost::PhaseMemory> predicted = {predicted_phase("model", 10, 20),
                                                    predicted_phase("deepspeed.initialize", 15, 25),
                                                    predicted_phase("step1.1.forward", 30, 40),
                                                    predicted_phase("step1.1.backward", 50, 60),
                                                    predicted_phase("step1.1.step_noop", 51, 60),
                                                    predicted_phase("step1.2.forward", 55, 60),
                                                    predicted_phase("step1.2.backward", 56, 60),
                                                    predicted_phase("step1.step", 70, 80)};
  const std::vector<ObservedPhase> measured = observed_phases(
      {reported_phase("load", 0, 0, 15, 25), reported_phase("forward", 1, 1, 30, 40),
       reported_phase("backward", 1, 1, 51, 60), reported_phase("forward", 1, 2, 55, 60),
       reported_phase("backward", 1, 2, 56, 60), reported_phase("optimizer", 1, 0, 70, 80),
       reported_phase("zero_grad", 1, 0, 71, 80)},
      1, 2);
  const std::vector<PhaseComparison> both = compare_phases(predicted, measured, 2);
  REQUIRE(both.size() == 6);
  CHECK(both[0] == compared("load", peaks(15, 25), peaks(15, 25)));
  CHECK(both[2] == compared("step1.1.backward", peaks(51, 60), peaks(51, 60)));
  CHECK(both[5] == compared("step1.optimizer", peaks(70, 80), peaks(71, 80)));
}

TEST_CASE(
    "confirmation: micro-batches that were not replayed are compared with the one they repeat") {
  const std::vector<cost::PhaseMemory> predicted = {predicted_phase("step1.1.forward", 1, 1),
                                                    predicted_phase("step1.2.forward", 2, 2),
                                                    predicted_phase("step1.3.forward", 3, 3)};
  const std::vector<ObservedPhase> measured =
      observed_phases({reported_phase("forward", 1, 1, 1, 1), reported_phase("forward", 1, 2, 2, 2),
                       reported_phase("forward", 1, 3, 7, 2), reported_phase("forward", 1, 4, 2, 2),
                       reported_phase("forward", 1, 5, 3, 3)},
                      1, 5);
  const std::vector<PhaseComparison> both = compare_phases(predicted, measured, 5);
  REQUIRE(both.size() == 3);
  CHECK(both[1] == compared("step1.2.forward", peaks(2, 2), peaks(7, 2)));
  CHECK(both[2] == compared("step1.3.forward", peaks(3, 3), peaks(3, 3)));
}

TEST_CASE("confirmation: without an optimizer, an observer counts micro-batches on") {
  const std::vector<ObservedPhase> measured = observed_phases(
      {reported_phase("backward", 1, 2, 1, 1), reported_phase("forward", 1, 3, 2, 2),
       reported_phase("forward", 1, 5, 3, 3)},
      2, 2);
  REQUIRE(measured.size() == 3);
  CHECK(to_text(measured[0].name) == "step1.2.backward");
  CHECK(to_text(measured[1].name) == "step2.1.forward");
  CHECK(to_text(measured[2].name) == "evaluation");
}

TEST_CASE("confirmation: the peaks of a run are the highest of its phases, errors are relative") {
  const std::vector<PhaseComparison> phases = {compared("load", peaks(9, 20), peaks(10, 11)),
                                               compared("step1", peaks(8, 30), peaks(7, 12))};
  CHECK(predicted_peaks(phases) == peaks(9, 30));
  CHECK(measured_peaks(phases) == peaks(10, 12));
  CHECK(relative_error(Bytes{90}, Bytes{100}) == doctest::Approx(0.1));
  CHECK(relative_error(Bytes{0}, Bytes{0}) == 0);
  CHECK(relative_error(Bytes{1}, Bytes{0}) > 1e300);
}

}  // namespace headroom::check
