#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "tests/executor/executions.h"
#include "tests/support/executor_types.h"
#include "tests/support/random.h"
#include "validators/executor/recording_backend.h"

namespace headroom::exec {
namespace {

Types random_types(test::Random& random) {
  using ir::DType;
  return random.pick<Types>({{},
                             {.parameter = DType::kFp64,
                              .compute = DType::kFp64,
                              .gradient = DType::kFp64,
                              .state = DType::kFp64},
                             test::with_masters(DType::kBf16),
                             test::with_masters(DType::kFp16),
                             {.compute = DType::kBf16},
                             test::with_small_states(DType::kBf16),
                             {.state = DType::kUInt8}});
}

Execution random_execution(test::Random& random) {
  const auto layers = static_cast<std::size_t>(random.between(1, 4));
  ir::ModelSpec model =
      random.between(0, 2) == 0 ? test::tiny_gpt2(layers) : test::tiny_model(layers);
  if (random.between(0, 3) == 0) {
    model = test::with_experts(model, random.between(0, 1) == 1);
    model.mlp_bias = false;
  }
  model.vocabulary = random.between(30, 3000);
  Execution execution = test::tiny_execution(model);
  execution.types = random_types(random);
  execution.micro_batch = random.between(1, 3);
  execution.sequence = random.between(1, 16);
  execution.accumulation = random.between(1, 3);
  execution.steps = 2;
  execution.flash = random.between(0, 1) == 1;
  execution.chunked_loss = random.between(0, 1) == 1;
  for (ir::RecomputedParts& layer : execution.layers) {
    layer = {.layer = random.between(0, 2) == 0,
             .attention = random.between(0, 1) == 1,
             .mlp = random.between(0, 2) == 0};
  }
  execution.division.tensor = random.pick<int>({1, 1, 2});
  execution.sequence_parallel = execution.division.tensor == 2 &&
                                model.position == ir::PositionKind::kRope &&
                                execution.micro_batch * execution.sequence % 2 == 0;
  execution.division.data = random.pick<int>({1, 2, 3, 8});
  execution.division.pipeline =
      model.tied_embeddings ? 1 : static_cast<int>(random.between(1, static_cast<int>(layers)));
  execution.division.rank = static_cast<int>(random.between(0, execution.division.world() - 1));
  execution.units = {.zero_stage = static_cast<int>(random.between(0, 3)),
                     .parameters_on_host = random.between(0, 3) == 0,
                     .states_on_host = random.between(0, 3) == 0};
  execution.units.parameters_on_host &=
      execution.units.zero_stage == 3 || execution.division.data == 1;
  execution.activations_on_host = random.between(0, 2) == 0;
  if (random.between(0, 1) == 1) {
    execution.clip_norm = 1;
  }
  execution.workspace = Bytes{random.between(0, 3) * 1'500'000};
  return execution;
}

Bytes highest_reserved(const cost::MemoryTimeline& timeline) {
  Bytes most;
  for (const cost::PhaseMemory& phase : timeline.phases) {
    most = std::max(most, phase.peak_reserved);
  }
  return most;
}

/// The CPU, with a fault at one of its allocations.
struct FaultyMemory {
  int faulty_call = 0;  ///< Counts from 1.
  int calls = 0;
  int held = 0;
  int freed_after_fault = 0;
};
FaultyMemory faulty_memory;

HeadroomDeviceTable faulty_backend() {
  HeadroomDeviceTable table = cpu_backend();
  table.memory_allocate = [](HeadroomDevice* d, std::int64_t bytes, void** memory) {
    if (++faulty_memory.calls >= faulty_memory.faulty_call) {
      *memory = nullptr;
      return std::int32_t{1};
    }
    ++faulty_memory.held;
    return cpu_backend().memory_allocate(d, bytes, memory);
  };
  table.memory_free = [](HeadroomDevice* d, void* memory) {
    --faulty_memory.held;
    faulty_memory.freed_after_fault += faulty_memory.calls >= faulty_memory.faulty_call ? 1 : 0;
    return cpu_backend().memory_free(d, memory);
  };
  table.last_error = [](HeadroomDevice*) { return "cuMemAlloc failed: the GPU fell off the bus"; };
  return table;
}

}  // namespace

TEST_CASE("executor's memory: a fault of the device is not out of memory, and no segment leaks") {
  const HeadroomDeviceTable backend = faulty_backend();
  Execution execution = test::tiny_execution(test::tiny_model(2));
  execution.model.vocabulary = 40'000;
  faulty_memory = {.faulty_call = 1'000'000};
  REQUIRE(run_rank(execution, backend, 0, Bytes{64 * kGiB}));
  const int calls = faulty_memory.calls;
  REQUIRE(calls > 3);
  for (int call = 1; call <= calls; ++call) {
    CAPTURE(call);
    faulty_memory = {.faulty_call = call};
    const Result<RankRun> run = run_rank(execution, backend, 0, Bytes{64 * kGiB});
    REQUIRE_FALSE(run);
    CHECK(run.error().code == ErrorCode::kEnvironment);
    CHECK(to_text(run.error()).find("fell off the bus") != std::string::npos);
    CHECK(faulty_memory.held == 0);
    CHECK(faulty_memory.freed_after_fault == call - 1);
  }
}

TEST_CASE("executor's memory: a cached segment is given back to a device that has failed") {
  const HeadroomDeviceTable backend = faulty_backend();
  faulty_memory = {.faulty_call = 2};
  {
    std::unique_ptr<Device> device = Device::open(backend, 0, Bytes{0}).value();
    Memory memory(*device, ir::AllocatorSettings{}, Bytes{64 * kGiB}, Memory::Backing::kDevice);
    const Block block = memory.allocate(30 * kMiB, ir::TensorRole::kTemporary);
    REQUIRE(block.address != nullptr);
    memory.free(block);
    CHECK(faulty_memory.held == 1);
    // The allocator gives its cache back before it asks again.
    CHECK(memory.allocate(100 * kMiB, ir::TensorRole::kTemporary).address == nullptr);
    CHECK(device->failed());
    CHECK_FALSE(memory.out_of_memory());
  }
  CHECK(faulty_memory.held == 0);
}

TEST_CASE(
    "executor's memory: measured on the CPU equals the recorded program's replay, to the byte") {
  test::Random random(24);
  int compared = 0;
  const int count = test::kSanitized ? 30 : 300;
  for (int number = 0; number < count; ++number) {
    CAPTURE(number);
    const Execution execution = random_execution(random);
    REQUIRE(check_execution(execution));
    const Result<RankRun> measured = run_rank(execution, cpu_backend(), 0, Bytes{64 * kGiB});
    REQUIRE(measured);
    REQUIRE_FALSE(measured->out_of_memory);
    const cost::MemoryTimeline predicted = predict_rank(execution, Bytes{1} * (64 * kGiB));
    REQUIRE(measured->phases.size() == predicted.phases.size());
    Bytes reserved;
    for (std::size_t phase = 0; phase < predicted.phases.size(); ++phase) {
      const cost::PhaseMemory& real = measured->phases[phase];
      const cost::PhaseMemory& model = predicted.phases[phase];
      CHECK(real.name == model.name);
      CHECK(real.peak_allocated == model.peak_allocated);
      CHECK(real.peak_reserved == model.peak_reserved);
      CHECK(real.allocated_after == model.allocated_after);
      CHECK(real.peak_requested == model.peak_requested);
      CHECK(real.at_peak == model.at_peak);
      reserved = std::max(reserved, real.peak_reserved);
    }
    CHECK(measured->driver == reserved);  // The CPU's driver takes nothing for itself.
    compared += 1;
  }
  CHECK(compared == count);
}

TEST_CASE("executor's memory: what is recorded is what a backend would be asked for") {
  // The same code runs; the two differ in what the device does. A kernel that allocated, or a size
  // that depended on data, would show in the events.
  test::Random random(7);
  for (int number = 0; number < 20; ++number) {
    const Execution execution = random_execution(random);
    const std::unique_ptr<Rank> rank = test::cpu_rank(execution);
    rank->run();
    const ir::RankProgram real = rank->memory().program();
    const ir::RankProgram recorded = record_rank(execution);
    REQUIRE(real.events.size() == recorded.events.size());
    for (std::size_t event = 0; event < real.events.size(); ++event) {
      CHECK(real.events[event].kind == recorded.events[event].kind);
      CHECK(real.events[event].bytes == recorded.events[event].bytes);
      CHECK(real.events[event].block == recorded.events[event].block);
    }
    CHECK(real.host_bytes == recorded.host_bytes);
  }
}

TEST_CASE("executor's memory: a step leaves what it found") {
  test::Random random(11);
  for (int number = 0; number < 40; ++number) {
    Execution execution = random_execution(random);
    execution.steps = 3;
    const cost::MemoryTimeline timeline = predict_rank(execution, Bytes{1} * (64 * kGiB));
    const Bytes loaded = timeline.phases.front().allocated_after;
    CHECK(timeline.phases.back().allocated_after == loaded);
  }
}

TEST_CASE("executor's memory: on too small a device, both sides fail at the same request") {
  test::Random random(31);
  int failed = 0;
  for (int number = 0; number < 80; ++number) {
    CAPTURE(number);
    Execution execution = random_execution(random);
    execution.model.vocabulary *= 20;  // The larger head needs several segments.
    execution.allocator.segments =
        random.pick<ir::SegmentPlaces>({ir::SegmentPlaces::kDriver, ir::SegmentPlaces::kRising});
    const Bytes most = highest_reserved(predict_rank(execution, Bytes{64 * kGiB}));
    const Bytes capacity = random.chance(1, 2) ? Bytes{random.between(2 * kMiB, most.value())}
                                               : most - Bytes{2 * kMiB};
    const cost::MemoryTimeline predicted = predict_rank(execution, capacity);
    const Result<RankRun> measured = run_rank(execution, cpu_backend(), 0, capacity);
    REQUIRE(measured);
    REQUIRE(measured->out_of_memory.has_value() == predicted.out_of_memory.has_value());
    if (predicted.out_of_memory) {
      ++failed;
      CHECK(measured->out_of_memory->event == predicted.out_of_memory->event);
      CHECK(measured->out_of_memory->phase == predicted.out_of_memory->phase);
      CHECK(measured->out_of_memory->requested == predicted.out_of_memory->requested);
      CHECK(measured->out_of_memory->reserved == predicted.out_of_memory->reserved);
    }
  }
  CHECK(failed > 10);
}

TEST_CASE("executor's memory: segments that are released and opened again hold data") {
  test::Random random(57);
  int retried = 0;
  for (int number = 0; number < 4000 && retried < 2; ++number) {
    CAPTURE(number);
    Execution execution = random_execution(random);
    execution.model.vocabulary *= 40;
    execution.sequence *= 6;
    execution.accumulation = 1;
    execution.micro_batch = 1;
    if (!check_execution(execution)) {
      continue;
    }
    const Bytes most = highest_reserved(predict_rank(execution, Bytes{64 * kGiB}));
    const Bytes capacity = most - Bytes{random.between(1, 12) * 2 * kMiB};
    const cost::MemoryTimeline predicted = predict_rank(execution, capacity);
    if (predicted.out_of_memory || predicted.phases.back().retries == 0) {
      continue;
    }
    ++retried;
    const Result<RankRun> measured = run_rank(execution, cpu_backend(), 0, capacity);
    REQUIRE(measured);
    REQUIRE_FALSE(measured->out_of_memory);
    CHECK(measured->phases.back().retries == predicted.phases.back().retries);
    CHECK(measured->phases.back().peak_reserved == predicted.phases.back().peak_reserved);
    const Result<RankRun> roomy = run_rank(execution, cpu_backend(), 0, Bytes{64 * kGiB});
    REQUIRE(roomy);
    CHECK(measured->losses == roomy->losses);
  }
  CHECK(retried > 0);
}

TEST_CASE("executor's memory: running out of memory is a result with the request that failed") {
  Execution execution = test::tiny_execution(test::tiny_model(2));
  const Bytes enough = predict_rank(execution, Bytes{64 * kGiB}).phases.back().peak_reserved;
  CHECK_FALSE(predict_rank(execution, enough).out_of_memory);
  const cost::MemoryTimeline small = predict_rank(execution, Bytes{2 * kMiB - 1});
  REQUIRE(small.out_of_memory);

  std::unique_ptr<Device> device = Device::open(cpu_backend(), 0, execution.workspace).value();
  Rank rank(std::move(device), execution, Groups{}, Bytes{2 * kMiB - 1}, Memory::Backing::kDevice);
  rank.run();
  REQUIRE(rank.memory().out_of_memory());
  CHECK(rank.memory().out_of_memory()->event == small.out_of_memory->event);
  CHECK_FALSE(rank.device().status());
}

}  // namespace headroom::exec
