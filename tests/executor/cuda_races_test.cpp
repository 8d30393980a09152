// Two orders of the threads, for every kernel of CUDA: a race shows as other bits. Sanitized builds
// leave this out, since it accesses the same memory as the comparison with the CPU backend.
#include <doctest/doctest.h>

#include "tests/support/backends/twin.h"
#include "validators/cuda/emulation/emulated_backend.h"

namespace headroom::exec {
namespace {

using cuda::emulation::emulated_backend;
using cuda::emulation::Order;

/// Threads in the opposite order compute the same bits: no two of them race.
void check_order(void (*compare)(test::Twin&)) {
  test::Twin twin(emulated_backend(), emulated_backend(), [](int side) {
    cuda::emulation::set_order(side == 0 ? Order::kAscending : Order::kDescending);
  });
  twin.tolerate(0);
  compare(twin);
  cuda::emulation::set_order(Order::kAscending);
  for (const test::Difference& difference : twin.differences()) {
    CAPTURE(difference.what);
    CHECK(difference.error == 0);
  }
}

}  // namespace

TEST_CASE("CUDA kernels on the host: elementwise kernels and embeddings have no race") {
  check_order(test::compare_elementwise);
}

TEST_CASE("CUDA kernels on the host: norms and sums of columns have no race") {
  check_order(test::compare_norms);
}

TEST_CASE("CUDA kernels on the host: fused attention has no race") {
  check_order(test::compare_attention_bf16);
}

TEST_CASE("CUDA kernels on the host: cross entropy has no race") {
  check_order(test::compare_loss);
}

TEST_CASE("CUDA kernels on the host: routing and experts have no race") {
  check_order(test::compare_experts);
}

TEST_CASE("CUDA kernels on the host: norms of gradients and AdamW have no race") {
  check_order(test::compare_optimizer);
}

}  // namespace headroom::exec
