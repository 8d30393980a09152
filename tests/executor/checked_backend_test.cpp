#include <array>
#include <string>

#include <doctest/doctest.h>

#include "tests/executor/random_executions.h"
#include "tests/support/backends/checked_backend.h"

namespace headroom::exec {
namespace {

/// A checked CPU with 1,000 elements of fp32 on it.
struct Opened {
  const HeadroomDeviceTable& table = test::checked_backend(exec::cpu_backend());
  HeadroomDevice* device = nullptr;
  void* memory = nullptr;
  Opened() {
    std::array<char, 64> message{};
    const HeadroomOpen how{};
    REQUIRE(table.open(&how, &device, message.data(), message.size()) == 0);
    REQUIRE(table.memory_allocate(device, 4000, &memory) == 0);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    table.memory_free(device, memory);
    table.close(device);
  }
  [[nodiscard]] std::string error() const { return table.last_error(device); }
};

}  // namespace

TEST_CASE("checked backend: memory outside an allocation is found") {
  const Opened opened;
  const auto& [table, device, memory] = opened;
  CHECK(table.fill(device, 0, memory, HEADROOM_FP32, 1000, 1) == 0);
  CHECK(table.fill(device, 0, memory, HEADROOM_FP32, 1001, 1) != 0);
  CHECK(opened.error() ==
        "fill uses 4004 bytes that are not inside one live allocation of the device");
  auto* const second = static_cast<float*>(memory) + 1;
  CHECK(table.scale(device, 0, second, HEADROOM_FP32, 999, 2) == 0);
  CHECK(table.scale(device, 0, second, HEADROOM_FP32, 1000, 2) != 0);
  CHECK(table.add(device, 0, memory, memory, second - 2, HEADROOM_FP32, 10) != 0);
  CHECK(table.add_bias(device, 0, memory, 100, memory, HEADROOM_FP32, 10, 100) == 0);
  CHECK(table.add_bias(device, 0, memory, 101, memory, HEADROOM_FP32, 10, 100) != 0);
  // The host side of a copy is page-locked memory.
  std::array<float, 4> host{};
  CHECK(table.copy(device, 0, host.data(), memory, 16, HEADROOM_DEVICE_TO_HOST) != 0);
  CHECK(opened.error() ==
        "copy uses 16 bytes that are not inside one live allocation of page-locked memory");
  CHECK(table.memory_free(device, second) != 0);
}

TEST_CASE("checked backend: streams and events are those that there are") {
  const Opened opened;
  const auto& [table, device, memory] = opened;
  CHECK(table.clear(device, 1, memory, 16) != 0);
  HeadroomStream stream = 0;
  REQUIRE(table.stream_create(device, &stream) == 0);
  CHECK(table.clear(device, stream, memory, 16) == 0);
  CHECK(table.fill(device, stream, memory, HEADROOM_FP32, 1, 1) != 0);
  CHECK(opened.error() == "fill is a kernel that does not run on stream 0");
  HeadroomEvent event = 0;
  REQUIRE(table.event_create(device, &event) == 0);
  CHECK(table.event_wait(device, event, 0) != 0);
  CHECK(table.event_record(device, event, stream) == 0);
  CHECK(table.event_wait(device, event, 0) == 0);
  CHECK(table.event_destroy(device, event) == 0);
  CHECK(table.event_record(device, event, stream) != 0);
}

TEST_CASE("checked backend: the executor uses live memory alone") {
  test::Random random = test::seeded_random(3);
  for (int number = 0; number < 40; ++number) {
    CAPTURE(number);
    const exec::Execution execution = test::random_cuda_execution(random);
    if (!exec::check_execution(execution)) {
      continue;
    }
    const HeadroomDeviceTable& table = test::checked_backend(exec::cpu_backend());
    const Result<exec::RankRun> run = exec::run_rank(execution, table, 0, Bytes{kGiB});
    CAPTURE(run.has_value() ? std::string() : to_text(run.error()));
    REQUIRE(run);
    CHECK(test::checked_calls().kernels > 50);
    CHECK(test::checked_calls().pointers > 100);
  }
}

}  // namespace headroom::exec
