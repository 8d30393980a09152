#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/random_plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

/// Calls and bytes by operation and ranks.
using Collectives =
    std::map<std::pair<CollectiveKind, std::int64_t>, std::pair<std::int64_t, std::int64_t>>;

/// What a phase comes to, added up item by item and not as the counters are.
struct NaiveSum {
  double flops = 0;
  std::int64_t gemms = 0;
  std::int64_t kernels = 0;
  std::int64_t traffic = 0;
  std::map<CopyKind, std::int64_t> copies;
  Collectives collectives;
};

void add(const WorkShape& shape, NaiveSum& sum) {
  if (const auto* gemm = std::get_if<GemmShape>(&shape)) {
    const bool grouped = gemm->batch == GemmBatch::kGrouped;
    sum.kernels += grouped ? 1 : 0;
    sum.gemms += grouped ? 0 : 1;
    const std::int64_t products = gemm->m * gemm->n * gemm->k * gemm->count;
    sum.flops += grouped ? 0.0 : 2.0 * static_cast<double>(products);
  } else if (const auto* traffic = std::get_if<TrafficShape>(&shape)) {
    sum.kernels += traffic->launches;
    sum.traffic += traffic->bytes;
  } else if (const auto* collective = std::get_if<CollectiveShape>(&shape)) {
    const RankGroup& group = collective->group;
    auto& [calls, bytes] = sum.collectives[{collective->kind, group.size * group.outer_size}];
    ++calls;
    bytes += collective->bytes;
  } else if (const auto* copy = std::get_if<CopyShape>(&shape)) {
    sum.copies[copy->kind] += copy->bytes;
  } else {
    ++sum.kernels;  // Attention.
  }
}

void check_counters(const DeviceWork& work, const Phase& phase) {
  CAPTURE(to_text(phase.name));
  NaiveSum sum;
  for (std::size_t item = phase.first_item; item < phase.end_item; ++item) {
    if (work.items[item].kind == WorkItem::Kind::kRun) {
      add(work.shapes.at(work.items[item].index), sum);
    }
  }
  CHECK(sum.flops == phase.work.gemm_flops);
  CHECK(sum.gemms == phase.work.gemms);
  CHECK(sum.kernels == phase.work.kernels);
  CHECK(sum.traffic == phase.work.traffic_bytes);
  CHECK(sum.copies[CopyKind::kHostToDevice] == phase.work.host_to_device_bytes);
  CHECK(sum.copies[CopyKind::kDeviceToHost] == phase.work.device_to_host_bytes);
  CHECK(sum.copies[CopyKind::kDeviceToDevice] == phase.work.device_to_device_bytes);
  Collectives counted;
  for (const Work::Collective& each : phase.work.collectives) {
    counted[{each.kind, each.ranks}] = {each.calls, each.bytes};
  }
  CHECK(counted == sum.collectives);
}

/// Items belong to one phase each, and name shapes and marks that exist; no one waits for a mark
/// that is recorded later.
void check_items(const RankProgram& program) {
  std::size_t next = 0;
  for (const Phase& phase : program.phases) {
    CHECK(phase.first_item == next);
    next = phase.end_item;
    for (std::size_t item = phase.first_item; item < phase.end_item; ++item) {
      CHECK(program.work.items[item].event >= phase.begin);
      CHECK(program.work.items[item].event <= phase.end);
      CHECK(program.work.items[item].site < program.sites.size());
    }
  }
  CHECK(next == program.work.items.size());
  std::set<std::uint32_t> recorded;
  for (const WorkItem& item : program.work.items) {
    switch (item.kind) {
      case WorkItem::Kind::kRun:
        CHECK(item.index < program.work.shapes.size());
        break;
      case WorkItem::Kind::kRecord:
        CHECK(item.index < program.work.marks);
        CHECK(recorded.insert(item.index).second);
        break;
      case WorkItem::Kind::kWait:
      case WorkItem::Kind::kHost:
        CHECK(recorded.contains(item.index));
        break;
    }
  }
  for (std::size_t one = 0; one < program.work.shapes.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      CHECK(!(program.work.shapes[one] == program.work.shapes[other]));
    }
  }
}

void check_plan_work(const ParallelPlan& plan) {
  const ModelSpec model = test::small_llama();
  if (!check_plan(model, plan)) {
    return;
  }
  const Result<RankProgram> program = lower(model, plan, Rank{0}, DeviceTraits{});
  if (!program) {
    return;  // Refused by name.
  }
  for (const Phase& phase : program.value().phases) {
    check_counters(program.value().work, phase);
  }
  check_items(program.value());
}

/// Small enough to lower hundreds of them.
ParallelPlan shortened(ParallelPlan plan) {
  plan.workload.accumulation = 1 + plan.workload.accumulation % 2;
  plan.workload.steps = 1 + plan.workload.steps % 2;
  return plan;
}

}  // namespace

TEST_CASE("device work: the counters of a phase are the sums over its items") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    test::Random random(seed);
    CAPTURE(random.seed());
    check_plan_work(shortened(test::random_plan(random)));
  }
}

TEST_CASE("device work: the counters of sharded models are the sums over their items") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::Random random(seed);
    CAPTURE(random.seed());
    ParallelPlan plan = shortened(test::random_training(random));
    plan.runtime = "fsdp";
    plan.precision = Precision::kFp32;
    plan.world = 8;
    edit_fsdp(plan) = FsdpPlan{};
    plan.mesh.replicas = random.pick<std::int64_t>({1, 2});
    edit_fsdp(plan).reshard_after_forward = random.chance(1, 2);
    edit_fsdp(plan).cpu_offload = random.chance(1, 4);
    check_plan_work(plan);
  }
}

}  // namespace headroom::ir
