#include <algorithm>
#include <cmath>
#include <string>

#include "tests/executor/executions.h"
#include "tests/executor/random_executions.h"
#include "tests/gpu/executor/memory_checks.h"
#include "tests/gpu/executor/parts.h"
#include "tests/support/backends/checked_backend.h"

namespace headroom::test {
namespace {

/// The relative tolerance of losses. Sums of the CPU are in fp64 and are rounded once.
double tolerance_of(const exec::Types& types) {
  return types.compute == ir::DType::kFp32 ? 1e-4 : 3e-2;
}

bool is_near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), 1e-3);
}

}  // namespace

void run_training(const HeadroomDeviceTable& plugin, Outcome& outcome) {
  const HeadroomDeviceTable& device = checked_backend(plugin);
  Random random(24);
  int compared = 0;
  for (int number = 0; number < 60; ++number) {
    const exec::Execution execution = random_cuda_execution(random);
    if (!exec::check_execution(execution)) {
      continue;
    }
    const std::string name = "training " + std::to_string(number);
    const Bytes capacity{8 * kGiB};
    const Result<exec::RankRun> measured = exec::run_rank(execution, device, 0, capacity);
    outcome.expect(measured.has_value(), name + ": " + (measured ? "" : to_text(measured.error())));
    if (!measured) {
      continue;
    }
    expect_prediction(execution, *measured, capacity, name, outcome);
    if (measured->device.can_compute == 0) {
      continue;
    }
    const Result<exec::RankRun> reference =
        exec::run_rank(execution, exec::cpu_backend(), 0, capacity);
    outcome.expect(reference && reference->losses.size() == measured->losses.size(),
                   name + ": as many losses");
    const double tolerance = tolerance_of(execution.types);
    for (std::size_t step = 0; reference && step < measured->losses.size(); ++step) {
      outcome.expect(is_near(reference->losses[step], measured->losses[step], tolerance),
                     name + ": loss " + std::to_string(measured->losses[step]) + ", the CPU has " +
                         std::to_string(reference->losses[step]));
    }
    if (reference && reference->gradient_norm && measured->gradient_norm) {
      outcome.expect(is_near(*reference->gradient_norm, *measured->gradient_norm, 3 * tolerance),
                     name + ": norm of gradients " + std::to_string(*measured->gradient_norm) +
                         ", the CPU has " + std::to_string(*reference->gradient_norm));
    }
    ++compared;
  }
  std::printf("training: %d small models compared with the CPU\n", compared);
}

}  // namespace headroom::test
