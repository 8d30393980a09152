// The kernels of CUDA, run on the host, against the CPU backend.
#include <string>

#include <doctest/doctest.h>

#include "tests/support/backends/twin.h"
#include "validators/cuda/emulation/emulated_backend.h"
#include "validators/executor/cpu/cpu_backend.h"

namespace headroom::exec {
namespace {

using cuda::emulation::emulated_backend;
using cuda::emulation::Order;

void check(void (*compare)(test::Twin&)) {
  test::Twin twin(exec::cpu_backend(), emulated_backend());
  compare(twin);
  CHECK(twin.differences().size() > 10);
  for (const test::Difference& difference : twin.differences()) {
    CAPTURE(difference.what);
    CHECK(difference.error <= 1);
  }
}

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

TEST_CASE("CUDA kernels on the host: elementwise, embedding and random numbers") {
  check(test::compare_elementwise);
  check_order(test::compare_elementwise);
}

TEST_CASE("CUDA kernels on the host: norms and sums of columns") {
  check(test::compare_norms);
  check_order(test::compare_norms);
}

TEST_CASE("CUDA kernels on the host: rotary embedding, softmax and fused attention") {
  check(test::compare_attention);
}

TEST_CASE("CUDA kernels on the host: fused attention has no race") {
  check_order(test::compare_attention_bf16);
}

TEST_CASE("CUDA kernels on the host: cross entropy") {
  check(test::compare_loss);
  check_order(test::compare_loss);
}

TEST_CASE("CUDA kernels on the host: routing and experts") {
  check(test::compare_experts);
  check_order(test::compare_experts);
}

TEST_CASE("CUDA kernels on the host: norms of gradients and AdamW") {
  check(test::compare_optimizer);
  check_order(test::compare_optimizer);
}

TEST_CASE("CUDA products: what cuBLASLt is asked for is what the CPU multiplies") {
  check(test::compare_products);
}

}  // namespace headroom::exec
