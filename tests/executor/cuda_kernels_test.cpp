// The kernels of CUDA, run on the host, against the CPU backend.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/backends/twin.h"
#include "tests/support/random.h"
#include "validators/cuda/calls/guarded_table.h"
#include "validators/cuda/emulation/emulated_backend.h"
#include "validators/executor/cpu/cpu_backend.h"

namespace headroom::exec {
namespace {

using cuda::emulation::emulated_backend;

void check(void (*compare)(test::Twin&)) {
  test::Twin twin(exec::cpu_backend(), emulated_backend());
  compare(twin);
  CHECK(twin.differences().size() > 10);
  for (const test::Difference& difference : twin.differences()) {
    CAPTURE(difference.what);
    CHECK(difference.error <= 1);
  }
}

}  // namespace

TEST_CASE("CUDA kernels on the host: elementwise, embedding and random numbers") {
  check(test::compare_elementwise);
}

TEST_CASE("CUDA kernels on the host: norms and sums of columns") {
  check(test::compare_norms);
}

TEST_CASE("CUDA kernels on the host: rotary embedding, softmax and fused attention") {
  // The types differ in what they round, and not in what they access.
  check(test::kSanitized ? test::compare_attention_bf16 : test::compare_attention);
}

TEST_CASE("CUDA kernels on the host: cross entropy") {
  check(test::compare_loss);
}

TEST_CASE("CUDA kernels on the host: routing and experts") {
  check(test::compare_experts);
}

TEST_CASE("CUDA kernels on the host: routers whose logits are no numbers choose distinct experts") {
  constexpr std::int64_t kExperts = 40;  // More than a warp has lanes.
  constexpr std::int64_t kChosen = 3;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  // Rows of logits: NaN, inf and -inf everywhere; one of each; -inf in all places but two.
  std::vector<std::vector<double>> rows(7, std::vector<double>(kExperts, 0.5));
  std::fill(rows[0].begin(), rows[0].end(), kNan);
  std::fill(rows[1].begin(), rows[1].end(), kInfinite);
  std::fill(rows[2].begin(), rows[2].end(), -kInfinite);
  rows[3][7] = kNan;
  rows[4][39] = kInfinite;
  rows[5][0] = -kInfinite;
  std::fill(rows[6].begin(), rows[6].end(), -kInfinite);
  rows[6][33] = 1;
  rows[6][5] = 1;
  std::vector<double> logits;
  for (const std::vector<double>& row : rows) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const auto tokens = static_cast<std::int64_t>(rows.size());
  test::Twin twin(exec::cpu_backend(), emulated_backend());
  for (const std::int32_t normalise : {0, 1}) {
    const test::Twins in = twin.values(HEADROOM_FP32, logits);
    const test::Twins probabilities = twin.output(HEADROOM_FP32, tokens * kExperts);
    const test::Twins weights = twin.output(HEADROOM_FP32, tokens * kChosen);
    const test::Twins experts = twin.output(HEADROOM_INT32, tokens * kChosen);
    twin.run([&](const HeadroomDeviceTable& table, HeadroomDevice* d, const test::Twin::At& at) {
      return table.route(d, 0, at(probabilities), at(weights),
                         static_cast<std::int32_t*>(at(experts)), at(in), HEADROOM_FP32, tokens,
                         kExperts, kChosen, normalise);
    });
    const std::vector<double> chosen = twin.numbers(experts, 1);
    CHECK(chosen == twin.numbers(experts, 0));
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::set<double> distinct;
      for (std::int64_t j = 0; j < kChosen; ++j) {
        const double expert = chosen[static_cast<std::size_t>(t * kChosen + j)];
        CHECK(expert >= 0);
        CHECK(expert < kExperts);
        distinct.insert(expert);
      }
      CHECK(distinct.size() == kChosen);
    }
    const std::vector<double> reference = twin.numbers(weights, 0);
    const std::vector<double> computed = twin.numbers(weights, 1);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      CAPTURE(i);
      CHECK(std::isnan(reference[i]) == std::isnan(computed[i]));
      CHECK((std::isnan(reference[i]) || computed[i] == doctest::Approx(reference[i])));
    }
    twin.end();
  }
}

TEST_CASE("CUDA's table of functions: no exception crosses the interface") {
  HeadroomDeviceTable faulty = cpu_backend();
  faulty.clear = [](HeadroomDevice*, HeadroomStream, void*, std::int64_t) -> std::int32_t {
    throw std::bad_alloc();
  };
  faulty.open = [](const HeadroomOpen* how, HeadroomDevice** device, char* message,
                   std::int64_t message_size) -> std::int32_t {
    if (how->ordinal > 0) {
      throw std::length_error("too long");
    }
    return cpu_backend().open(how, device, message, message_size);
  };
  const HeadroomDeviceTable table = cuda::guarded_table(faulty);
  HeadroomDevice* device = nullptr;
  std::array<char, 200> message{};
  const auto open = [&](std::int32_t ordinal) {
    const HeadroomOpen how{.ordinal = ordinal, .reserved = 0, .workspace_bytes = 0};
    return table.open(&how, &device, message.data(), message.size());
  };
  CHECK(open(1) == 1);
  CHECK(device == nullptr);
  CHECK(std::string(message.data()).find("the device library") != std::string::npos);
  REQUIRE(open(0) == 0);
  CHECK(table.clear(device, 0, nullptr, 8) == 1);
  CHECK(std::string(table.last_error(device)).find("the device library") != std::string::npos);
  std::int64_t free_bytes = 0;
  std::int64_t total = 0;
  CHECK(table.memory_info(device, &free_bytes, &total) == 0);
  CHECK(total > 0);
  table.close(device);
}

TEST_CASE("CUDA kernels on the host: norms of gradients and AdamW") {
  check(test::compare_optimizer);
}

TEST_CASE("CUDA products: what cuBLASLt is asked for is what the CPU multiplies") {
  check(test::compare_products);
}

}  // namespace headroom::exec
