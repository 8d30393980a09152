#include "costmodel/host_memory.h"

#include <cstdint>
#include <numeric>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "model_ir/spec/model_catalogue.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/registry.h"
#include "tests/support/configs.h"

namespace headroom::cost {
namespace {

using ir::HostPages;
using ir::HostSpan;
using ir::HostTerm;
using ir::HostUse;

constexpr std::int64_t kParameters = 1'235'814'400;  ///< Parameters of `small_model`.

DeviceSpec device_in(const char* name, HostSpec host) {
  DeviceSpec device = load_device(test::kConfigs, name).value();
  device.host = std::move(host);
  return device;
}

/// The plan of tests/measured/gpu_h200.jsonl.gz, gpu/ds/3b-z2-offload.
ir::ParallelPlan offloading_plan() {
  ir::ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = ir::Precision::kBf16Master;
  plan.micro_batch = 4;
  plan.sequence = 2048;
  plan.recompute = ir::Recompute::kFull;
  ir::ZeroPlan& zero = ir::edit_zero(plan);
  zero.stage = 2;
  zero.offload_optimizer = ir::OffloadDevice::kCpu;
  return plan;
}

ir::ModelSpec small_model() {
  return ir::load_model(test::kConfigs + "/models", "llama-3.2-1b").value();
}

Bytes bytes_of_use(const HostMemory& memory, HostUse use) {
  return std::accumulate(
      memory.terms.begin(), memory.terms.end(), Bytes{0},
      [use](Bytes sum, const HostTerm& term) { return term.use == use ? sum + term.bytes : sum; });
}

}  // namespace

TEST_CASE("host memory: PyTorch's pinned allocator takes the next power of two") {
  CHECK(ir::pinned_block(0) == 0);
  CHECK(ir::pinned_block(4096) == 4096);
  CHECK(ir::pinned_block(4097) == 8192);
  std::vector<HostTerm> terms;
  const HostTerm parameters{
      .use = HostUse::kParameters, .requested = {}, .bytes = {}, .source = {}};
  ir::add_to(terms, parameters, HostPages::kPinnedBlock, 5 * kGiB);
  ir::add_to(terms, parameters, HostPages::kPinnedBlock, 3 * kGiB);
  ir::add_to(terms, parameters, HostPages::kPageable, 3 * kGiB);
  REQUIRE(terms.size() == 2);
  CHECK(terms[0].requested == Bytes{8 * kGiB});
  CHECK(terms[0].bytes == Bytes{12 * kGiB});
  CHECK(terms[1].bytes == Bytes{3 * kGiB});
  ir::add_to(terms, parameters, HostPages::kPinnedBlock, -5 * kGiB);
  CHECK(terms[0].requested == Bytes{3 * kGiB});
  CHECK(terms[0].bytes == Bytes{4 * kGiB});
}

TEST_CASE("host memory: a process that offloads takes what was resident on an H200") {
  // host_rss_mib is 68,200. Without powers of two it would be 58,000 MiB.
  const ir::ModelSpec model = ir::load_model(test::kConfigs + "/models", "llama-3.2-3b").value();
  const DeviceSpec device = load_device(test::kConfigs, "h200").value();
  const StepEstimate found = estimate(model, offloading_plan(), device).value();
  const double mib = static_cast<double>(found.host.bytes.value()) / kMiB;
  CHECK(mib == doctest::Approx(68'200).epsilon(0.001));
  CHECK(bytes_of_use(found.host, HostUse::kMasterParameters) == Bytes{16 * kGiB});
  CHECK(bytes_of_use(found.host, HostUse::kGradients) == Bytes{16 * kGiB});
  CHECK(bytes_of_use(found.host, HostUse::kOptimizerStates) == Bytes{8 * 3'212'749'824});
  CHECK_FALSE(found.host.capacity);
  CHECK(found.verdict == found.device_verdict);
}

TEST_CASE("host memory: a node holds what its ranks hold, and no more ranks than it has devices") {
  ir::ParallelPlan plan = offloading_plan();
  ir::RankProgram program;
  hold_on_host(program, HostUse::kOptimizerStates, HostPages::kPageable, 10 * kGiB);
  HostSpec host;
  host.memory = Bytes{100 * kGiB};
  host.devices = 4;
  plan.world = 16;
  const HostMemory memory = host_memory(small_model(), plan, host, program);
  CHECK(memory.ranks == 4);
  CHECK(memory.bytes == 4 * memory.rank_bytes);
  CHECK(memory.rank_bytes == Bytes{10 * kGiB} + bytes_of_use(memory, HostUse::kProcess));
  CHECK(memory.fits());
  plan.world = 2;
  CHECK(host_memory(small_model(), plan, host, program).ranks == 2);
}

TEST_CASE("host memory: the peak is that of loading where fp32 copies are larger than training") {
  ir::ParallelPlan plan;
  plan.world = 2;
  plan.precision = ir::Precision::kFp32;
  const HostMemory memory = host_memory(small_model(), plan, std::nullopt, {});
  CHECK(memory.peak_span == HostSpan::kLoading);
  CHECK(bytes_of_use(memory, HostUse::kLoading) == Bytes{4 * kParameters});
  // The mapped file is shown and does not count.
  CHECK(bytes_of_use(memory, HostUse::kPageCache) == Bytes{2 * kParameters});
  CHECK(memory.rank_bytes ==
        bytes_of_use(memory, HostUse::kProcess) + bytes_of_use(memory, HostUse::kLoading));
  plan.precision = ir::Precision::kBf16;
  CHECK(bytes_of_use(host_memory(small_model(), plan, std::nullopt, {}), HostUse::kLoading) ==
        Bytes{0});
}

TEST_CASE("host memory: saving gathers all weights at ZeRO stage 3, else a file of them") {
  ir::ParallelPlan plan = offloading_plan();
  plan.checkpoint_save = true;
  const auto copies = [&](int stage, const char* name) {
    ir::edit_zero(plan).stage = stage;
    const ir::ModelSpec model = ir::load_model(test::kConfigs + "/models", name).value();
    const HostMemory memory = host_memory(model, plan, std::nullopt, {});
    CHECK(memory.peak_span == HostSpan::kSaving);
    return bytes_of_use(memory, HostUse::kSaving);
  };
  CHECK(copies(3, "llama-3.2-1b") == Bytes{2 * kParameters});
  CHECK(copies(2, "llama-3.2-1b") == Bytes{2 * kParameters});
  CHECK(copies(2, "llama-3.1-70b") == Bytes{50'000'000'000});
  CHECK(copies(3, "llama-3.1-70b") > Bytes{140'000'000'000});
  plan.checkpoint_save = false;
  CHECK(bytes_of_use(host_memory(small_model(), plan, std::nullopt, {}), HostUse::kSaving) ==
        Bytes{0});
}

TEST_CASE("host memory: a run that resumes reads its states beside those that it holds") {
  ir::ParallelPlan plan = offloading_plan();
  plan.world = 4;
  const auto peak = [&] { return host_memory(small_model(), plan, std::nullopt, {}); };
  const Bytes before = peak().rank_bytes;
  plan.resume = true;
  CHECK(peak().peak_span == HostSpan::kResuming);
  CHECK(peak().rank_bytes == before + Bytes{12 * kParameters / 4});
}

TEST_CASE("host memory: the verdict is the worse of the device's and the host's") {
  const ir::ModelSpec model = small_model();
  ir::ParallelPlan plan = offloading_plan();
  plan.micro_batch = 1;
  const auto verdict_in = [&](std::int64_t gib) {
    HostSpec host;
    host.memory = Bytes{gib * kGiB};
    return estimate(model, plan, device_in("h100-80gb", host)).value();
  };
  const StepEstimate enough = verdict_in(128);
  CHECK(enough.verdict == Verdict::kFits);
  const StepEstimate little = verdict_in(16);
  CHECK(little.device_verdict == Verdict::kFits);
  CHECK(little.host_verdict == Verdict::kDoesNotFit);
  CHECK(little.verdict == Verdict::kDoesNotFit);
  CHECK(little.host.margin() < Bytes{0});
  CHECK(little.host.bytes == enough.host.bytes);
  const std::int64_t just = ceil_div(enough.host.bytes.value(), kGiB);
  CHECK(verdict_in(just).verdict == Verdict::kTight);
}

TEST_CASE("host memory: FSDP's offload pins shards and gradients, and holds pageable moments") {
  ir::ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = ir::Precision::kFp32;
  plan.world = 4;
  for (const int version : {1, 2}) {
    ir::FsdpPlan& fsdp = ir::edit_fsdp(plan);
    fsdp.version = version;
    fsdp.cpu_offload = true;
    const ir::RankProgram program =
        ir::lower(small_model(), plan, ir::Rank{0}, DeviceTraits{}).value();
    const std::int64_t shard = kParameters / 4;
    CHECK(static_cast<double>(program.host_bytes) ==
          doctest::Approx(static_cast<double>(16 * shard)).epsilon(0.002));
    for (const HostTerm& term : program.host) {
      CHECK(term.pinned == (term.use != HostUse::kOptimizerStates));
      CHECK((term.bytes > term.requested) == term.pinned);
    }
  }
}

TEST_CASE("host memory: drives that are too small are no answer") {
  HostMemory memory;
  memory.capacity = Bytes{100};
  memory.bytes = Bytes{10};
  memory.nvme = Bytes{200};
  CHECK(memory.fits());  // Nobody knows how large they are.
  memory.nvme_capacity = Bytes{199};
  CHECK_FALSE(memory.fits());
}

TEST_CASE("host: a node's host is the catalogue's, a tray's of a rack, or assumed") {
  const auto host_in = [](const char* device, std::optional<std::string> node = std::nullopt) {
    const DeviceSpec bare = load_device(test::kConfigs, device).value();
    return *with_host(test::kConfigs, bare, node).value().host;
  };
  const HostSpec dgx = host_in("a100-80gb");
  CHECK(dgx.node == "dgx-a100");
  CHECK(dgx.memory == Bytes{2048 * kGiB});
  CHECK(memory_of(dgx, 8) == Bytes{2048 * kGiB});
  CHECK(dgx.cores == 128);
  CHECK(dgx.note.empty());
  CHECK(host_in("a100-80gb", "aws-p4de-24xlarge").memory == Bytes{1152 * kGiB});
  const HostSpec tray = host_in("gb200");
  CHECK(tray.devices == 4);
  CHECK(tray.memory == Bytes{960'000'000'000});
  const HostSpec desktop = host_in("rtx-4090");
  CHECK(desktop.node.empty());
  CHECK(memory_of(desktop, 1) == Bytes{64 * kGiB});
  CHECK(memory_of(desktop, 8) == Bytes{512 * kGiB});
  CHECK_FALSE(desktop.note.empty());
  CHECK_FALSE(with_host(test::kConfigs, load_device(test::kConfigs, "h200").value(), "dgx-a100"));
}

}  // namespace headroom::cost
