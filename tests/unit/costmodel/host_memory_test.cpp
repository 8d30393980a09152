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
#include "runtimes/megatron/plan.h"
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
  plan.workload.micro_batch = 4;
  plan.workload.sequence = 2048;
  plan.recompute = ir::Recompute::kFull;
  ir::ZeroPlan& zero = ir::edit_zero(plan);
  zero.stage = 2;
  zero.offload_optimizer = ir::OffloadDevice::kCpu;
  return plan;
}

ir::ModelSpec small_model() {
  return ir::load_model(test::kConfigs + "/models", "llama-3.2-1b").value();
}

/// One step of Megatron-Core after which a checkpoint is saved.
ir::ParallelPlan saving_plan() {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.workload.sequence = 128;
  plan.workload.steps = 1;
  plan.workload.checkpoint_save = true;
  ir::edit_megatron(plan) = {};
  return plan;
}

HostMemory memory_of_rank(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const auto program = ir::lower(model, plan, ir::Rank{0}, DeviceTraits{});
  REQUIRE(program);
  return host_memory(model, plan, std::nullopt, program.value());
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
  plan.workload.checkpoint_save = true;
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
  plan.workload.checkpoint_save = false;
  CHECK(bytes_of_use(host_memory(small_model(), plan, std::nullopt, {}), HostUse::kSaving) ==
        Bytes{0});
}

TEST_CASE("host memory: a run that resumes reads its states beside those that it holds") {
  ir::ParallelPlan plan = offloading_plan();
  plan.world = 4;
  const auto peak = [&] { return host_memory(small_model(), plan, std::nullopt, {}); };
  const Bytes before = peak().rank_bytes;
  plan.workload.resume = true;
  CHECK(peak().peak_span == HostSpan::kResuming);
  CHECK(peak().rank_bytes == before + Bytes{12 * kParameters / 4});
}

TEST_CASE("host memory: resuming on one GPU reads the states that the optimizer has") {
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kFp32;
  plan.workload.resume = true;
  const auto states = [&](ir::OptimizerPlan optimizer) {
    plan.optimizer = optimizer;
    Bytes bytes;
    for (const HostTerm& term : host_memory(small_model(), plan, std::nullopt, {}).terms) {
      bytes += term.span == HostSpan::kResuming ? term.bytes : Bytes{0};
    }
    return bytes;
  };
  CHECK(states({}) == Bytes{8 * kParameters});
  CHECK(states({.form = ir::OptimizerForm::kEightBit}) == Bytes{2 * kParameters});
  CHECK(states({.kind = ir::OptimizerKind::kLion}) == Bytes{4 * kParameters});
  CHECK(states({.kind = ir::OptimizerKind::kSgd}) == Bytes{0});
}

TEST_CASE("host memory: Megatron-Core's ranks share in saving the experts that they hold alike") {
  ir::ModelSpec model = small_model();
  model.moe = ir::MoeSpec{.experts = 4, .top_k = 2, .expert_ffn = 512};
  for (ir::LayerSpec& layer : model.layers) {
    layer.moe = true;
  }
  ir::ParallelPlan plan = saving_plan();
  plan.world = 4;
  const auto saved = [&] {
    Bytes requested;
    for (const HostTerm& term : memory_of_rank(model, plan).terms) {
      requested += term.use == HostUse::kSaving ? term.requested : Bytes{0};
    }
    return static_cast<double>(requested.value());
  };
  // With as many expert-parallel ranks as GPUs, a rank has a quarter of the experts for itself;
  // without, it writes a quarter of all of them.
  const double alike = saved();
  plan.mesh.expert = 4;
  CHECK(saved() == doctest::Approx(alike).epsilon(0.01));
}

TEST_CASE("host memory: torchtune gathers weights and states on rank 0, and reads them on all") {
  ir::ParallelPlan plan;
  plan.runtime = "torchtune";
  plan.precision = ir::Precision::kBf16;
  plan.world = 8;
  ir::edit_fsdp(plan) = {};
  const auto memory = [&] { return host_memory(small_model(), plan, std::nullopt, {}); };
  // Reordered weights of queries and keys: 16 layers of 2048 x (32 + 8) x 64 in bf16.
  CHECK(bytes_of_use(memory(), HostUse::kLoading) == Bytes{16LL * 2048 * 40 * 64 * 2});
  CHECK(bytes_of_use(memory(), HostUse::kSaving) == Bytes{0});
  plan.workload.checkpoint_save = true;
  CHECK(bytes_of_use(memory(), HostUse::kSaving) == Bytes{6 * kParameters});
  CHECK(memory().bytes == memory().ranks * memory().rank_bytes + Bytes{6 * kParameters});
  plan.workload.resume = true;
  CHECK(memory().peak_span == HostSpan::kResuming);
  CHECK(memory().rank_bytes == bytes_of_use(memory(), HostUse::kProcess) + Bytes{4 * kParameters});
  plan.precision = ir::Precision::kFp32;
  plan.workload.resume = false;
  CHECK(bytes_of_use(memory(), HostUse::kLoading) == Bytes{4 * kParameters});
}

TEST_CASE("host memory: FSDP's state dicts are shards of a rank, with version 1 whole on rank 0") {
  ir::ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = ir::Precision::kFp32;
  plan.world = 4;
  plan.workload.checkpoint_save = true;
  ir::edit_fsdp(plan) = {};
  const auto saved = [&] {
    return bytes_of_use(host_memory(small_model(), plan, std::nullopt, {}), HostUse::kSaving);
  };
  CHECK(saved() == Bytes{2 * 4 * kParameters / 4});
  plan.optimizer = {ir::OptimizerKind::kSgd, ir::OptimizerForm::kForeach, 0};
  CHECK(saved() == Bytes{4 * kParameters / 4});  // The weights, which come first.
  plan.optimizer = {};
  ir::edit_fsdp(plan).version = 1;
  CHECK(saved() == Bytes{2 * 4 * kParameters});
  ir::edit_fsdp(plan).version = 2;
  ir::edit_fsdp(plan).cpu_offload = true;
  CHECK(saved() == Bytes{0});
  plan.workload.resume = true;
  CHECK(host_memory(small_model(), plan, std::nullopt, {}).peak_span != HostSpan::kResuming);
}

TEST_CASE("host memory: LitGPT reads a run's checkpoint whole, and has four data loaders") {
  ir::ParallelPlan plan;
  plan.runtime = "litgpt";
  plan.precision = ir::Precision::kBf16;
  const auto memory = [&] { return host_memory(small_model(), plan, std::nullopt, {}); };
  CHECK(bytes_of_use(memory(), HostUse::kDataLoaders) == Bytes{4 * 434 * kMiB});
  CHECK(bytes_of_use(memory(), HostUse::kLoading) == Bytes{0});
  plan.workload.resume = true;
  CHECK(bytes_of_use(memory(), HostUse::kLoading) == Bytes{6 * kParameters});
}

TEST_CASE("host memory: Megatron-Core saves by way of pinned copies of all that a rank writes") {
  ir::ParallelPlan plan = saving_plan();
  const auto saved = [&] {
    const HostMemory memory = memory_of_rank(small_model(), plan);
    CHECK(memory.peak_span == HostSpan::kSaving);
    CHECK(memory.pinned >= bytes_of_use(memory, HostUse::kSaving));
    for (const HostTerm& term : memory.terms) {
      if (term.use == HostUse::kSaving) {
        CHECK(term.bytes > term.requested);
        return static_cast<double>(term.requested.value());
      }
    }
    return 0.0;
  };
  // 16-bit weights, fp32 weights and two moments.
  CHECK(saved() == doctest::Approx(14.0 * kParameters).epsilon(0.001));
  plan.world = 2;  // Each rank writes half.
  CHECK(saved() == doctest::Approx(7.0 * kParameters).epsilon(0.001));
  ir::edit_megatron(plan).distributed_optimizer = true;
  CHECK(saved() == doctest::Approx(7.0 * kParameters).epsilon(0.001));
  plan.workload.checkpoint_save = false;
  const auto program = ir::lower(small_model(), plan, ir::Rank{0}, DeviceTraits{});
  REQUIRE(program);
  CHECK(program->host.empty());
}

TEST_CASE("host memory: torchtitan's checkpoints are copied to the host a few tensors at a time") {
  ir::ParallelPlan plan;
  plan.runtime = "torchtitan";
  plan.precision = ir::Precision::kFp32;
  plan.world = 8;
  plan.workload.checkpoint_save = true;
  ir::edit_fsdp(plan) = {};
  const HostMemory memory = host_memory(small_model(), plan, std::nullopt, {});
  CHECK(bytes_of_use(memory, HostUse::kSaving) ==
        Bytes{10'000'000} + Bytes{128256LL * 2048 * 4 / 8});
  CHECK(bytes_of_use(memory, HostUse::kDataLoaders) == Bytes{0});
}

TEST_CASE("host memory: the verdict is the worse of the device's and the host's") {
  const ir::ModelSpec model = small_model();
  ir::ParallelPlan plan = offloading_plan();
  plan.workload.micro_batch = 1;
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
  CHECK(memory.least_margin() == Bytes{-1});
  memory.nvme = Bytes{0};
  CHECK(memory.least_margin() == Bytes{90});
  CHECK_FALSE(HostMemory{}.least_margin());
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
