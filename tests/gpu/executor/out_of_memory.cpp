#include <string>

#include "tests/executor/random_executions.h"
#include "tests/gpu/executor/memory_checks.h"
#include "tests/gpu/executor/parts.h"
#include "tests/support/backends/checked_backend.h"
#include "validators/executor/device.h"

namespace headroom::test {
namespace {

/// A device that is full: what cuMemAlloc refuses is no failure of the call.
void fill_device(const HeadroomDeviceTable& table, Outcome& outcome) {
  HeadroomDevice* device = nullptr;
  char message[512] = "";
  const HeadroomOpen how{.ordinal = 0, .reserved = 0, .workspace_bytes = 0};
  if (table.open(&how, &device, message, sizeof message) != 0) {
    outcome.expect(false, message);
    return;
  }
  std::int64_t free_bytes = 0;
  std::int64_t total = 0;
  outcome.expect(table.memory_info(device, &free_bytes, &total) == 0 && free_bytes <= total,
                 "free and total memory");
  void* memory = &device;
  outcome.expect(table.memory_allocate(device, total + 1, &memory) == 0 && memory == nullptr,
                 "more than the device has is refused");
  const std::int64_t half = free_bytes / 4 * 3;
  void* first = nullptr;
  outcome.expect(table.memory_allocate(device, half, &first) == 0 && first != nullptr,
                 "three quarters of the device");
  outcome.expect(table.memory_allocate(device, half, &memory) == 0 && memory == nullptr,
                 "three quarters more are refused");
  outcome.expect(table.memory_free(device, first) == 0, "memory is freed");
  outcome.expect(table.memory_allocate(device, half, &first) == 0 && first != nullptr,
                 "freed memory is there again");
  outcome.expect(table.memory_free(device, first) == 0, "memory is freed again");
  // The device still works.
  outcome.expect(table.stream_synchronize(device, 0) == 0, "nothing is left of the refusals");
  table.close(device);
  outcome.expect(table.open(&how, &device, message, sizeof message) == 0, "it opens again");
  table.close(device);
  const HeadroomOpen far{.ordinal = 1000, .reserved = 0, .workspace_bytes = 0};
  outcome.expect(table.open(&far, &device, message, sizeof message) != 0 && device == nullptr &&
                     std::string(message).find("there is no GPU 1000") == 0,
                 std::string("a GPU that there is not: ") + message);
}

}  // namespace

void run_out_of_memory(const HeadroomDeviceTable& plugin, Outcome& outcome) {
  fill_device(plugin, outcome);
  const HeadroomDeviceTable& device = checked_backend(plugin);
  Random random(31);
  int failed = 0;
  for (int number = 0; number < 60; ++number) {
    exec::Execution execution = random_cuda_execution(random);
    execution.model.vocabulary *= 20;  // The larger head needs several segments.
    if (!exec::check_execution(execution)) {
      continue;
    }
    const Bytes most = highest_reserved(exec::predict_rank(execution, Bytes{64 * kGiB}).phases);
    const Bytes capacity{random.between(2 * kMiB, most.value())};
    const std::string name = "memory " + std::to_string(number);
    const Result<exec::RankRun> run = exec::run_rank(execution, device, 0, capacity);
    outcome.expect(run.has_value(), name + ": " + (run ? "" : to_text(run.error())));
    if (run) {
      expect_prediction(execution, *run, capacity, name, outcome);
      failed += run->out_of_memory ? 1 : 0;
    }
  }
  outcome.expect(failed > 10, "some runs are out of memory");
  std::printf("memory: %d runs out of memory at the predicted request\n", failed);
}

}  // namespace headroom::test
