#include "tests/gui/fake_estimate.h"

#include <utility>

namespace headroom::gui::test {
namespace {

Bytes gib(std::int64_t count) {
  return count * Bytes{kGiB};
}

cost::PhaseMemory phase(const std::string& name, Bytes parameters, Bytes activations,
                        Bytes gradients) {
  cost::PhaseMemory memory;
  memory.name = ir::parse_phase_name(name);
  memory.at_peak.at(static_cast<std::size_t>(ir::TensorRole::kParameter)) = parameters;
  memory.at_peak.at(static_cast<std::size_t>(ir::TensorRole::kActivation)) = activations;
  memory.at_peak.at(static_cast<std::size_t>(ir::TensorRole::kGradient)) = gradients;
  memory.peak_allocated = parameters + activations + gradients;
  memory.peak_reserved = memory.peak_allocated + gib(1);
  return memory;
}

}  // namespace

cost::StepEstimate fake_estimate(std::int64_t micro_batch) {
  cost::StepEstimate estimate;
  estimate.timeline.phases = {phase("load", gib(16), gib(0), gib(0)),
                              phase("step1.forward", gib(16), gib(micro_batch), gib(0)),
                              phase("step1.backward", gib(16), gib(micro_batch), gib(16))};
  estimate.timeline.peak_phase = 2;
  estimate.device_total = gib(80);
  cost::OutsideTerm context;
  context.name = "CUDA context";
  context.bytes = gib(1);
  context.bound = gib(2);
  context.basis = cost::Basis::kMeasured;
  context.source = "a ruler";
  estimate.outside = {context};
  estimate.outside_bytes = gib(1);
  estimate.capacity = gib(79);
  const cost::PhaseMemory& peak = estimate.timeline.phases.back();
  estimate.peak_allocated = peak.peak_allocated;
  estimate.peak_reserved = peak.peak_reserved;
  estimate.margin = estimate.capacity - estimate.peak_reserved;
  estimate.peak_by_role = peak.at_peak;
  estimate.peak_phase = peak.name;
  estimate.peak_moment = "step 1, backward, layer 31: silu";
  estimate.verdict = estimate.margin < Bytes{0} ? cost::Verdict::kDoesNotFit : cost::Verdict::kFits;
  return estimate;
}

Result<Appraisal> answer(const Scenario& scenario) {
  Appraisal appraisal;
  appraisal.estimate = fake_estimate(scenario.plan.workload.micro_batch);
  return appraisal;
}

Scenario with_micro_batch(Scenario scenario, std::int64_t micro_batch) {
  scenario.plan.workload.micro_batch = micro_batch;
  return scenario;
}

WindowSetup setup_with(Estimator estimator) {
  return {.scenario = default_scenario(),
          .estimator = std::move(estimator),
          .models = {{.name = QStringLiteral("llama-3.1-8b"),
                      .title = QStringLiteral("meta-llama/Llama-3.1-8B"),
                      .size = QStringLiteral("8.03 B"),
                      .amount = 8'030'261'248,
                      .exact = QStringLiteral("8,030,261,248 parameters")},
                     {.name = QStringLiteral("gpt2"),
                      .title = QStringLiteral("openai-community/gpt2"),
                      .size = QStringLiteral("124 M"),
                      .amount = 124'439'808,
                      .exact = QStringLiteral("124,439,808 parameters")}},
          .gpus = {{.name = QStringLiteral("a100-80gb"),
                    .title = QStringLiteral("NVIDIA A100-SXM4-80GB"),
                    .size = QStringLiteral("79.1 GiB"),
                    .amount = 84'974'501'888,
                    .exact = QStringLiteral("84,974,501,888 bytes")},
                   {.name = QStringLiteral("h100-80gb"),
                    .title = QStringLiteral("NVIDIA H100 80GB HBM3"),
                    .size = QStringLiteral("79.2 GiB"),
                    .amount = 85'021'294'592,
                    .exact = QStringLiteral("85,021,294,592 bytes")}}};
}

WindowSetup fake_setup() {
  return setup_with(
      [](const Scenario& scenario, const std::stop_token& /*stop*/) { return answer(scenario); });
}

}  // namespace headroom::gui::test
