#include "runtimes/deepspeed/wrapper.h"

#include <vector>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp.h"

namespace headroom::ir::deepspeed {

void EngineState::hold_offloaded(HostUse use, HostPages pages, std::int64_t bytes) const {
  if (zero.offload_optimizer == OffloadDevice::kNvme) {
    eager.program().nvme_bytes += bytes;
  } else {
    hold_on_host(eager.program(), use, pages, bytes);
  }
}

void EngineState::empty_cache() const {
  RankProgram& program = eager.program();
  const std::uint32_t site = program.events.empty() ? 0 : program.events.back().site;
  program.events.push_back({.kind = EventKind::kEmptyCache, .site = site});
}

std::int64_t EngineState::allocated() const {
  constexpr std::int64_t kBlock = 512;
  const RankProgram& program = eager.program();
  std::vector<std::int64_t> sizes(program.blocks);
  std::int64_t total = 0;
  for (const Event& event : program.events) {
    if (event.kind == EventKind::kAllocate) {
      sizes[event.block] = align_up(event.bytes, kBlock);
      total += sizes[event.block];
    } else if (event.kind == EventKind::kFree) {
      total -= sizes[event.block];
    }
  }
  return total;
}

void EngineState::count_all_gather(std::int64_t elements, DType dtype) const {
  if (plan.world > 1) {
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                              .bytes = bytes_of(elements, dtype).value(),
                              .group = {.size = plan.world}});
  }
}

void EngineState::step_on_host(std::int64_t elements, DType dtype) const {
  // Gradient, master and moments are read in fp32; master, moments and a 16-bit copy are written.
  const auto moments = static_cast<std::int64_t>(moment_count(plan.optimizer));
  const std::int64_t wide = (2 + moments) + (1 + moments);
  eager.host_wait(eager.record_mark(eager.stream()));
  if (zero.offload_optimizer == OffloadDevice::kNvme) {  // What is stepped comes and goes.
    eager.run(CopyShape{.kind = CopyKind::kNvme,
                        .bytes = bytes_of(wide * elements, DType::kFp32).value()});
  }
  eager.run(CopyShape{.kind = CopyKind::kHostWork,
                      .bytes = bytes_of(wide * elements, DType::kFp32).value() +
                               bytes_of(elements, dtype).value()});
  const std::int64_t narrow = bytes_of(elements, dtype).value();
  if (zero.offload_param == OffloadDevice::kNvme) {  // Parameters are written back.
    eager.run(CopyShape{.kind = CopyKind::kNvme, .bytes = narrow});
  }
  eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = narrow});
}

std::int64_t partition_elements(std::int64_t elements, std::int64_t ranks) {
  return align_up(elements, 2 * ranks) / ranks;
}

bool swaps_out(OffloadDevice device, Bytes bytes) {
  return device == OffloadDevice::kNvme && bytes >= Bytes{kMiB};
}

std::size_t moment_count(const OptimizerPlan& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kNone:
      return 0;
    case OptimizerKind::kSgd:
      return optimizer.momentum > 0 ? 1 : 0;
    case OptimizerKind::kLion:
    case OptimizerKind::kMuon:
      return 1;
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdafactorTorch:
      break;
  }
  return 2;
}

}  // namespace headroom::ir::deepspeed
