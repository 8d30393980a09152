#include "costmodel/host_memory.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

/// A training process on an H200 (torch 2.11, CUDA 13.0, DeepSpeed 0.19.8) had 68,200 MiB resident,
/// 66,499 MiB of which are its tensors on the host with the blocks of the pinned allocator: the
/// rest is Python, the libraries, the CUDA context and NCCL.
constexpr Bytes kProcess{1'701 * kMiB};
constexpr std::string_view kProcessSource =
    "resident memory of a DeepSpeed process on an H200 less its tensors, "
    "tests/measured/gpu_h200.jsonl.gz, gpu/ds/3b-z2-offload";

constexpr std::int64_t kUsualDevices = 8;

bool is_held_in(const ir::HostTerm& term, ir::HostSpan span) {
  using ir::HostSpan;
  switch (term.span) {
    case HostSpan::kWholeRun:
      return true;
    case HostSpan::kTraining:
      return span != HostSpan::kLoading;
    case HostSpan::kLoading:
    case HostSpan::kResuming:
    case HostSpan::kSaving:
      return span == term.span;
  }
  return true;
}

/// Bytes that the node, a rank of it, and its page-locked memory hold in one span.
struct Held {
  Bytes node;
  Bytes rank;
  Bytes pinned;
};

Held held_in(const HostMemory& memory, ir::HostSpan span) {
  Held held;
  for (const ir::HostTerm& term : memory.terms) {
    if (term.reclaimable || !is_held_in(term, span)) {
      continue;
    }
    const Bytes all = (term.once ? 1 : memory.ranks) * term.bytes;
    held.node += all;
    held.rank += term.once ? Bytes{0} : term.bytes;
    held.pinned += term.pinned ? all : Bytes{0};
  }
  return held;
}

void find_peak(HostMemory& memory) {
  using ir::HostSpan;
  bool first = true;
  for (const HostSpan span :
       {HostSpan::kTraining, HostSpan::kLoading, HostSpan::kResuming, HostSpan::kSaving}) {
    const Held held = held_in(memory, span);
    if (first || held.node > memory.bytes) {
      memory.peak_span = span;
      memory.bytes = held.node;
      memory.rank_bytes = held.rank;
      memory.pinned = held.pinned;
    }
    first = false;
  }
}

}  // namespace

Bytes memory_of(const HostSpec& host, std::int64_t ranks) {
  return (host.memory_per_rank ? ranks : 1) * host.memory;
}

HostMemory host_memory(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                       const std::optional<HostSpec>& host, const ir::RankProgram& program) {
  HostMemory memory;
  const std::int64_t devices = host ? host->devices : kUsualDevices;
  memory.ranks = std::clamp<std::int64_t>(plan.world, 1, devices);
  memory.terms.push_back({.use = ir::HostUse::kProcess,
                          .span = ir::HostSpan::kWholeRun,
                          .requested = kProcess,
                          .bytes = kProcess,
                          .source = kProcessSource});
  std::ranges::copy(program.host, std::back_inserter(memory.terms));
  std::ranges::move(ir::runtime_of(plan).host_terms(model, plan), std::back_inserter(memory.terms));
  std::erase_if(memory.terms, [](const ir::HostTerm& term) { return term.bytes == Bytes{0}; });
  memory.nvme = memory.ranks * Bytes{program.nvme_bytes};
  find_peak(memory);
  if (host) {
    memory.capacity = memory_of(*host, memory.ranks);
    memory.nvme_capacity = host->nvme;
  }
  return memory;
}

HostMemory host_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                      const std::optional<HostSpec>& host) {
  ir::RankProgram program;
  const Bytes held = ir::runtime_of(plan).held_on_host(model, plan);
  hold_on_host(program, ir::HostUse::kOptimizerStates, ir::HostPages::kPageable, held.value());
  return host_memory(model, plan, host, program);
}

}  // namespace headroom::cost
