// Whole training steps with the kernels of CUDA, run on the host, against the CPU backend.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "tests/executor/random_executions.h"
#include "tests/support/backends/checked_backend.h"
#include "validators/cuda/emulation/emulated_backend.h"

namespace headroom::exec {
TEST_CASE("CUDA kernels on the host: training steps have the CPU's losses and norms") {
  test::Random random = test::seeded_random(24);
  int compared = 0;
  double furthest = 0;
  const int wanted = test::kSanitized ? 2 : 12;
  for (int number = 0; compared < wanted; ++number) {
    REQUIRE(number < 1000);
    CAPTURE(number);
    Execution execution = test::random_cuda_execution(random);
    if (!check_execution(execution)) {
      continue;
    }
    const Bytes capacity{kGiB};
    const Result<RankRun> cpu = run_rank(execution, cpu_backend(), 0, capacity);
    const Result<RankRun> cuda =
        run_rank(execution, cuda::emulation::emulated_backend(), 0, capacity);
    REQUIRE(cpu);
    CAPTURE(cuda.has_value() ? std::string() : to_text(cuda.error()));
    REQUIRE(cuda);
    // Operands are rounded alike; sums are fp32 here and fp64 there.
    const double tolerance = execution.types.compute == ir::DType::kFp32 ? 2e-5 : 2e-2;
    REQUIRE(cuda->losses.size() == cpu->losses.size());
    for (std::size_t step = 0; step < cpu->losses.size(); ++step) {
      CHECK(cuda->losses[step] == doctest::Approx(cpu->losses[step]).epsilon(tolerance));
      furthest = std::max(furthest, std::abs(cuda->losses[step] - cpu->losses[step]) / tolerance);
    }
    REQUIRE(cuda->gradient_norm.has_value() == cpu->gradient_norm.has_value());
    if (cpu->gradient_norm) {
      CHECK(*cuda->gradient_norm == doctest::Approx(*cpu->gradient_norm).epsilon(3 * tolerance));
    }
    ++compared;
  }
  CHECK(furthest > 0);  // The two are not one.
}

}  // namespace headroom::exec
