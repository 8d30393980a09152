#include "validators/executor/rank.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "model_ir/base/check.h"
#include "validators/executor/recording_backend.h"

namespace headroom::exec {
namespace {

Groups shadow_groups(Device& device, const Division& division) {
  return {.tensor = std::make_unique<ShadowGroup>(device, division.tensor, division.tensor_rank()),
          .data = std::make_unique<ShadowGroup>(device, division.data, division.data_rank()),
          .pipeline = std::make_unique<ShadowGroup>(device, division.pipeline, division.stage())};
}

std::unique_ptr<Memory> make_memory(Device& device, const Execution& execution, Bytes capacity,
                                    Memory::Backing backing) {
  auto memory = std::make_unique<Memory>(device, execution.allocator, capacity, backing);
  if (backing == Memory::Backing::kWork) {
    record_work(device, *memory);
  }
  return memory;
}

}  // namespace

Rank::Rank(std::unique_ptr<Device> device, const Execution& execution, Groups groups,
           Bytes capacity, Memory::Backing backing)
    : device_(std::move(device)),
      memory_(make_memory(*device_, execution, capacity, backing)),
      groups_(groups.tensor == nullptr ? shadow_groups(*device_, execution.division)
                                       : std::move(groups)),
      context_(
          std::make_unique<Context>(Context{.device = *device_,
                                            .memory = *memory_,
                                            .groups = groups_,
                                            .types = execution.types,
                                            .workspace = {},
                                            .sequence_parallel = execution.sequence_parallel})),
      training_(std::make_unique<Training>(*context_, execution)),
      division_(execution.division),
      steps_(execution.steps) {}

void Rank::run() {
  training_->load();
  for (int step = 1; step <= steps_ && !device_->failed(); ++step) {
    const auto begin = std::chrono::steady_clock::now();
    training_->step(step);
    device_->run(&HeadroomDeviceTable::stream_synchronize, kComputeStream);
    if (device_->failed()) {
      return;
    }
    seconds_.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (training_->loss()) {
      losses_.push_back(*training_->loss());
    }
  }
}

Result<RankRun> run_rank(const Execution& execution, const HeadroomDeviceTable& backend,
                         int ordinal, Bytes capacity) {
  Result<std::unique_ptr<Device>> device = Device::open(backend, ordinal, execution.workspace);
  if (!device) {
    return std::move(device).error();
  }
  const HeadroomDeviceInfo info = device.value()->info();
  Rank rank(std::move(device).value(), execution, {}, capacity, Memory::Backing::kDevice);
  rank.run();
  RankRun run{.device = info,
              .phases = rank.memory().phases(),
              .out_of_memory = rank.memory().out_of_memory(),
              .losses = rank.losses(),
              .seconds = rank.seconds(),
              .gradient_norm = rank.training().gradient_norm(),
              .driver = Bytes{info.free_bytes} -
                        rank.memory().least_free().value_or(Bytes{info.free_bytes})};
  if (Status status = rank.device().status(); !status && !run.out_of_memory) {
    return std::move(status).error();
  }
  return run;
}

ir::RankProgram record_rank(const Execution& execution, Memory::Backing backing) {
  HEADROOM_ASSERT(backing != Memory::Backing::kDevice);
  Rank rank(Device::open(recording_backend(), 0, execution.workspace).value(), execution, {},
            kUnlimitedMemory, backing);
  rank.run();
  return rank.memory().program();
}

cost::MemoryTimeline predict_rank(const Execution& execution, Bytes capacity) {
  return cost::replay(record_rank(execution), execution.allocator, capacity);
}

}  // namespace headroom::exec
