#include "tests/gpu/executor/parts.h"
#include "tests/support/backends/checked_backend.h"
#include "tests/support/backends/twin.h"
#include "validators/executor/cpu/cpu_backend.h"

namespace headroom::test {

void run_kernels(const HeadroomDeviceTable& plugin, Outcome& outcome) {
  {
    Twin twin(exec::cpu_backend(), checked_backend(plugin));
    compare_all_functions(twin);
    std::printf("kernels: %lld calls on %s (%s), %zu outputs compared with the CPU\n",
                static_cast<long long>(checked_calls().kernels), twin.info().name,
                twin.info().libraries, twin.differences().size());
    outcome.expect(checked_calls().kernels > 300, "all kernels ran");
    for (const Difference& difference : twin.differences()) {
      outcome.expect(difference.error <= 1, difference.what + " is " +
                                                std::to_string(difference.error) +
                                                " times the tolerance away from the CPU");
    }
  }
  // Matrix products are cuBLASLt's; the others have one order of sums.
  Twin again(plugin, plugin);
  again.tolerate(0);
  compare_elementwise(again);
  compare_norms(again);
  compare_attention(again);
  compare_loss(again);
  compare_experts(again);
  compare_optimizer(again);
  for (const Difference& difference : again.differences()) {
    outcome.expect(difference.error == 0, difference.what + " differs between two runs");
  }
}

}  // namespace headroom::test
