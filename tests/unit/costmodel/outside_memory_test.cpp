#include "costmodel/outside_memory.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/megatron/plan.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace headroom::cost {
namespace {

DeviceSpec device_of(int major, int minor, const char* link) {
  DeviceSpec device;
  device.traits = {.compute_major = major, .compute_minor = minor, .multiprocessors = 100};
  device.link = link;
  return device;
}

ir::ModelSpec model_of(std::int64_t heads, std::int64_t head_dim) {
  ir::ModelSpec model;
  model.heads = heads;
  model.head_dim = head_dim;
  return model;
}

const OutsideTerm* find(const std::vector<OutsideTerm>& terms, std::string_view name) {
  const auto found = std::find_if(terms.begin(), terms.end(), [name](const OutsideTerm& term) {
    return term.name.find(name) != std::string::npos;
  });
  return found == terms.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("outside_terms: one GPU of compute capability 8.0 has context and kernels alone") {
  const auto terms =
      outside_terms(model_of(32, 128), ir::ParallelPlan{}, device_of(8, 0, "nvlink3"));
  REQUIRE(terms.size() == 2);
  CHECK(terms[0].bytes == Bytes{481 * kMiB});  // 0.47 GiB
  CHECK(terms[0].basis == Basis::kMeasured);
  CHECK(terms[1].bytes == Bytes{461 * kMiB});  // 0.92 GiB - 0.47 GiB
  CHECK(total_of(terms) == Bytes{942 * kMiB});
}

TEST_CASE("outside_terms: every term names its source and a bound not below its bytes") {
  ir::ParallelPlan plan;
  plan.world = 8;
  const auto terms = outside_terms(model_of(32, 128), plan, device_of(9, 0, "nvlink4"));
  CHECK(terms.size() == 4);
  for (const OutsideTerm& term : terms) {
    CAPTURE(term.name);
    CHECK_FALSE(term.source.empty());
    CHECK(term.bound >= term.bytes);
    CHECK(term.bytes > Bytes{0});
  }
}

TEST_CASE("outside_terms: two ranks hold a smaller communicator than eight") {
  ir::ParallelPlan plan;
  const DeviceSpec device = device_of(8, 0, "nvlink3");
  plan.world = 2;
  CHECK(find(outside_terms(model_of(1, 1), plan, device), "NCCL")->bytes == Bytes{342 * kMiB});
  plan.world = 8;
  CHECK(find(outside_terms(model_of(1, 1), plan, device), "NCCL")->bytes == Bytes{392 * kMiB});
}

TEST_CASE("outside_terms: NVLink SHARP buffers need Hopper, a switch, and all-reduce") {
  ir::ParallelPlan plan;
  plan.world = 8;
  const auto sharp = [&](const DeviceSpec& device) {
    return find(outside_terms(model_of(1, 1), plan, device), "SHARP");
  };
  // 16 channels * 2 * 8 * 128 KiB * 8 ranks = 256 MiB.
  const auto terms = outside_terms(model_of(1, 1), plan, device_of(9, 0, "nvlink4"));
  REQUIRE(find(terms, "SHARP") != nullptr);
  CHECK(find(terms, "SHARP")->bytes == Bytes{256 * kMiB});
  CHECK(sharp(device_of(9, 0, "pcie5-x16")) == nullptr);
  CHECK(sharp(device_of(8, 0, "nvlink3")) == nullptr);
  plan.runtime = "deepspeed";
  edit_zero(plan) = ir::ZeroPlan{};
  edit_zero(plan).stage = 3;
  CHECK(sharp(device_of(9, 0, "nvlink4")) == nullptr);
}

// deepseek-ai/DeepEP hybrid-ep: tokens of 16 ranks with scales and their shares of the 64 experts
// of a node, and the map; once sent and once received for the one other node, and back.
TEST_CASE("outside_terms: HybridEP has room for the tokens of all ranks that share experts") {
  ir::ModelSpec model = model_of(2, 128);
  model.moe = ir::MoeSpec{.experts = 128, .top_k = 8, .expert_ffn = 768};
  model.hidden = 2048;
  ir::ParallelPlan plan;
  plan.world = 16;
  plan.workload.sequence = 4096;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{.dispatcher = ir::MegatronDispatcher::kHybridEp};
  plan.mesh = {.expert = 16};
  const auto terms = outside_terms(model, plan, device_of(9, 0, "nvlink4"));
  const OutsideTerm* const buffers = find(terms, "HybridEP");
  REQUIRE(buffers != nullptr);
  const std::int64_t tokens = 16 * 4096;
  const std::int64_t all = tokens * (4096 + 64 + 4 * 64 + 128);
  const std::int64_t sent = 4096 * (4096 + 64 + 4 * 128);
  const std::int64_t received = 4096 * (4096 + 64 + 4 * 64 + 2 * (4096 + 4 * 64));
  CHECK(buffers->bytes == Bytes{all + sent + received});
  edit_megatron(plan).dispatcher = ir::MegatronDispatcher::kAllToAll;
  CHECK(find(outside_terms(model, plan, device_of(9, 0, "nvlink4")), "HybridEP") == nullptr);
}

TEST_CASE("outside_terms: on Hopper they are what training processes took of an H100") {
  const auto terms =
      outside_terms(model_of(32, 128), ir::ParallelPlan{}, device_of(9, 0, "nvlink4"));
  REQUIRE(terms.size() == 2);
  CHECK(total_of(terms) == Bytes{804'061'184});  // With cuDNN's attention kernels.
  CHECK(terms[0].basis == Basis::kMeasured);
  CHECK(terms[1].basis == Basis::kMeasured);
}

}  // namespace headroom::cost
