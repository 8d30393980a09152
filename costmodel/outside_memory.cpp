#include "costmodel/outside_memory.h"

#include <algorithm>
#include <utility>

#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

constexpr Bytes kContext{481 * kMiB};       // 0.47 GiB
constexpr Bytes kContextBound{717 * kMiB};  // 0.70 GiB
constexpr std::string_view kContextSource =
    "stas00/ml-engineering training/performance: 0.47 GiB on an A100 with torch 2.1 and lazy "
    "loading; 0.55 to 0.71 GiB on newer machines";

constexpr Bytes kLazyKernels{461 * kMiB};       // 0.45 GiB
constexpr Bytes kLazyKernelsBound{614 * kMiB};  // 0.60 GiB
constexpr std::string_view kLazyKernelsSource =
    "stas00/ml-engineering training/performance: eager loading 0.92 GiB less lazy loading 0.47 "
    "GiB, A100, torch 2.1";

// 119 processes trained on an H100 (tests/measured/gpu_h100.jsonl.gz, `outside_pytorch`): 82 took
// 787283968 bytes, 5 took 789381120, and 26 with cuDNN's attention took 804061184; the context
// alone takes 552402944. With an NCCL communicator of one rank, four took 1378680832 and two
// 1380777984.
constexpr Bytes kHopperContext{552'402'944};
constexpr Bytes kHopperKernels{251'658'240};
constexpr Bytes kHopperNccl{591'396'864};
constexpr std::string_view kHopperSource =
    "cudaMemGetInfo on an H100 SXM (driver 580.159, CUDA 13.0, torch 2.11), "
    "tests/measured/gpu_h100.jsonl.gz";

// Both were measured with tensor-parallel inference, whose ranks also have one communicator each.
constexpr Bytes kNcclTwoRanks{342 * kMiB};
constexpr Bytes kNcclMoreRanks{392 * kMiB};
constexpr Bytes kNcclBound{1485 * kMiB};  // 1.45 GiB
constexpr std::string_view kNcclSource =
    "ai-dynamo/aiconfigurator systems/*.yaml, nccl_mem: 342 MiB for 2 ranks, 392 MiB for 4 or 8; "
    "stas00/ml-engineering saw 1.45 GiB";

constexpr std::string_view kNvlsSource =
    "NVIDIA/nccl 2.30 src/transport/nvls.cc: channels * 2 * 8 * 128 KiB * local ranks";

constexpr std::int64_t kRanksPerNode = 8;

bool is_hopper(const DeviceSpec& device) {
  return device.traits.compute_major == 9 && device.traits.compute_minor == 0 &&
         !device.traits.rocm;
}

OutsideTerm context_term(const DeviceSpec& device) {
  if (is_hopper(device)) {
    return {.name = "CUDA context",
            .bytes = kHopperContext,
            .bound = kContextBound,
            .basis = Basis::kMeasured,
            .source = std::string(kHopperSource)};
  }
  const bool as_measured = device.traits.compute_major == 8 && device.traits.compute_minor == 0;
  return {.name = "CUDA context",
          .bytes = kContext,
          .bound = kContextBound,
          .basis = as_measured ? Basis::kMeasured : Basis::kAssumed,
          .source = std::string(kContextSource)};
}

OutsideTerm kernels_term(const DeviceSpec& device) {
  const bool hopper = is_hopper(device);
  return {.name = "kernels loaded on first use",
          .bytes = hopper ? kHopperKernels : kLazyKernels,
          .bound = kLazyKernelsBound,
          .basis = hopper ? Basis::kMeasured : Basis::kDerived,
          .source = std::string(hopper ? kHopperSource : kLazyKernelsSource)};
}

OutsideTerm nccl_term(std::int64_t ranks, const DeviceSpec& device) {
  if (is_hopper(device)) {
    return {.name = "NCCL communicator",
            .bytes = kHopperNccl,
            .bound = kNcclBound,
            .basis = Basis::kMeasured,
            .source = std::string(kHopperSource) + ", NCCL 2.28.9, of one rank"};
  }
  return {.name = "NCCL communicator",
          .bytes = ranks == 2 ? kNcclTwoRanks : kNcclMoreRanks,
          .bound = kNcclBound,
          .basis = device.traits.rocm ? Basis::kAssumed : Basis::kMeasured,
          .source = std::string(kNcclSource)};
}

/// NCCL uses NVLink SHARP for all-reduce among more than four GPUs of one node if a switch connects
/// the GPUs. Source: NVIDIA/nccl src/transport/nvls.cc (channels), src/graph/tuning.cc.
bool uses_nvls(const ir::ParallelPlan& plan, const DeviceSpec& device) {
  return ir::runtime_of(plan).has_all_reduce(plan) && device.traits.compute_major >= 9 &&
         plan.world > 4 && device.link.rfind("nvlink", 0) == 0;
}

OutsideTerm nvls_term(const ir::ParallelPlan& plan, const DeviceSpec& device) {
  const std::int64_t channels = device.traits.compute_major == 9 ? 16 : 32;
  const std::int64_t heads = std::min(plan.world, kRanksPerNode);
  const Bytes bytes{channels * 2 * 8 * 128 * kKiB * heads};
  return {.name = "NCCL NVLink SHARP buffers",
          .bytes = bytes,
          .bound = bytes,
          .basis = Basis::kDerived,
          .source = std::string(kNvlsSource)};
}

}  // namespace

std::vector<OutsideTerm> process_terms(const DeviceSpec& device, std::int64_t ranks) {
  std::vector<OutsideTerm> terms = {context_term(device), kernels_term(device)};
  if (ranks > 1) {
    terms.push_back(nccl_term(ranks, device));
  }
  return terms;
}

std::vector<OutsideTerm> outside_terms(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                       const DeviceSpec& device) {
  std::vector<OutsideTerm> terms = process_terms(device, plan.world);
  if (plan.world > 1 && uses_nvls(plan, device)) {
    terms.push_back(nvls_term(plan, device));
  }
  for (OutsideTerm& own : ir::runtime_of(plan).outside_terms(model, plan)) {
    terms.push_back(std::move(own));
  }
  return terms;
}

Bytes total_of(const std::vector<OutsideTerm>& terms) {
  Bytes sum;
  for (const OutsideTerm& term : terms) {
    sum += term.bytes;
  }
  return sum;
}

}  // namespace headroom::cost
