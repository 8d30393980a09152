// What modules under --offload-modules save goes to the host and comes back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/activation_offload.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/streams.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/offloading_plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

using test::kLlamaHidden;
using test::kLlamaLayers;
using test::kOffloadingTokens;
using test::refused_by_check;
using test::small_llama_program;

/// Queries, and what attention makes of them. Keys and values have a quarter of the heads: 2^19
/// elements, too few to leave.
constexpr std::int64_t kQueries = 2 * kOffloadingTokens * kLlamaHidden;

ParallelPlan offloading_modules(const MegatronOffload& modules, std::int64_t pipeline = 1) {
  return test::offloading_plan({.offload_modules = modules}, pipeline);
}

const Work& work_of(const RankProgram& program, const std::string& name) {
  const auto found = std::ranges::find(program.phases, parse_phase_name(name), &Phase::name);
  REQUIRE(found != program.phases.end());
  return found->work;
}

/// Bytes of copies of a kind on each stream.
std::map<StreamId, std::int64_t> copied(const RankProgram& program, CopyKind kind) {
  std::map<StreamId, std::int64_t> bytes;
  for (const WorkItem& item : program.work.items) {
    const auto* const copy = item.kind == WorkItem::Kind::kRun
                                 ? std::get_if<CopyShape>(&program.work.shapes[item.index])
                                 : nullptr;
    if (copy != nullptr && copy->kind == kind) {
      bytes[item.stream] += copy->bytes;
    }
  }
  return bytes;
}

ModelSpec mixture_of_four() {
  return parse_hf_config(R"({"model_type": "mixtral", "hidden_size": 1024,
    "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 1000, "num_local_experts": 4,
    "num_experts_per_tok": 2, "max_position_embeddings": 4096, "sliding_window": null})",
                         "mixture")
      .value();
}

}  // namespace

TEST_CASE("megatron offload: attention's queries leave, what it makes only with the projection") {
  const auto kept = [](const MegatronOffload& modules) {
    return test::alive_at_loss(small_llama_program(offloading_modules(modules)));
  };
  const std::int64_t all = kept({});
  // The projection keeps what attention makes, so only queries are gone.
  CHECK(all - kept({.core_attention = true}) == kLlamaLayers * kQueries);
  CHECK(all - kept({.core_attention = true, .attention_projection = true}) ==
        kLlamaLayers * 2 * kQueries);
}

TEST_CASE("megatron offload: the last group stays from the second step on") {
  const RankProgram program = small_llama_program(offloading_modules({.core_attention = true}));
  const Work& first = work_of(program, "step1.forward_backward");
  CHECK(first.device_to_host_bytes == kLlamaLayers * 2 * kQueries);
  CHECK(first.host_to_device_bytes == kLlamaLayers * 2 * kQueries);
  const Work& second = work_of(program, "step2.forward_backward");
  CHECK(second.device_to_host_bytes == (kLlamaLayers - 1) * 2 * kQueries);
  CHECK(second.host_to_device_bytes == (kLlamaLayers - 1) * 2 * kQueries);
}

TEST_CASE("megatron offload: a pipeline's first stage keeps its first pass") {
  // One layer a stage, 1F1B: passes 1, 2 and 3 run forward before the backward ahead of theirs.
  ParallelPlan plan = offloading_modules({.core_attention = true}, 2);
  plan.workload.accumulation = 4;
  const RankProgram program = small_llama_program(plan);
  CHECK(work_of(program, "step1.forward_backward").device_to_host_bytes == 4 * 2 * kQueries);
  CHECK(work_of(program, "step2.forward_backward").device_to_host_bytes == 3 * 2 * kQueries);
}

TEST_CASE("megatron offload: copies have streams of their own, but for what backward waits for") {
  const RankProgram program = small_llama_program(offloading_modules({.core_attention = true}));
  using Bytes = std::map<StreamId, std::int64_t>;
  CHECK(copied(program, CopyKind::kDeviceToHost) == Bytes{{kOffloadStream, 3 * 2 * kQueries}});
  // In the first step backward begins with a group that is away, and each of those behind it is
  // what the one before has just fetched.
  CHECK(copied(program, CopyKind::kHostToDevice) ==
        Bytes{{StreamId{0}, kLlamaLayers * 2 * kQueries}, {kReloadStream, 2 * kQueries}});
}

TEST_CASE("megatron offload: the host keeps as much as was away at once") {
  CHECK(small_llama_program(offloading_modules({})).host_bytes == 0);
  CHECK(small_llama_program(offloading_modules({.core_attention = true})).host_bytes ==
        kLlamaLayers * 2 * kQueries);
  ParallelPlan plan = offloading_modules({.core_attention = true});
  plan.workload.accumulation = 3;  // One pass after the other.
  CHECK(small_llama_program(plan).host_bytes == kLlamaLayers * 2 * kQueries);
}

TEST_CASE("megatron offload: pinned memory comes in powers of two and serves again") {
  torch::Eager eager{DeviceTraits{}};
  PinnedMemory memory(eager);
  memory.take(12 << 20);
  CHECK(eager.program().host_bytes == 16 << 20);
  memory.give_back(12 << 20);
  memory.take(9 << 20);  // The same block.
  CHECK(eager.program().host_bytes == 16 << 20);
  memory.take(16 << 20);
  CHECK(eager.program().host_bytes == 32 << 20);
}

TEST_CASE("megatron offload: a leaf that wants a gradient is copied and stays") {
  torch::Eager eager{DeviceTraits{}};
  const ModelSpec model = test::small_llama();
  const ParallelPlan plan = offloading_modules({.core_attention = true});
  const Context context{
      .eager = eager, .spec = model, .plan = plan, .megatron = megatron_of(plan), .grid = {}};
  PinnedMemory memory(eager);
  HostTensors pool(memory);
  OffloadGroup group(context, &MegatronOffload::core_attention, memory, pool);
  const auto let_go = [&eager] {
    return std::ranges::count(eager.program().events, EventKind::kLetGo, &Event::kind);
  };
  const auto pack = [&](bool wants_gradient) {
    torch::Tensor saved =
        eager.empty({kOffloadingTokens, kLlamaHidden}, DType::kBf16, TensorRole::kActivation);
    saved->requires_grad = wants_gradient;
    torch::Tensor kept;
    const std::size_t slot = group.pack(eager, saved, kept);
    CHECK_FALSE(kept.defined());
    return slot;
  };
  pack(false);
  const std::size_t leaf = pack(true);
  group.offload();
  CHECK(eager.program().host_bytes == 2 * kQueries);
  CHECK(let_go() == 1);
  group.forget(leaf);
  CHECK(let_go() == 2);
}

TEST_CASE("megatron offload: small tensors stay") {
  ParallelPlan plan = offloading_modules({.core_attention = true});
  edit_megatron(plan).least_offloaded = kOffloadingTokens * kLlamaHidden + 1;
  const RankProgram program = small_llama_program(plan);
  CHECK(program.host_bytes == 0);
  CHECK(copied(program, CopyKind::kDeviceToHost).empty());
}

TEST_CASE("megatron offload: what is not there, runs again or breaks off is refused by name") {
  const auto with = [](const MegatronOffload& modules, auto change) {
    ParallelPlan plan = offloading_modules(modules);
    change(edit_megatron(plan));
    return plan;
  };
  const auto as_is = [](MegatronPlan&) {};
  const ModelSpec llama = test::small_llama();
  CHECK(refused_by_check(llama, with({.core_attention = true}, as_is)).empty());
  CHECK(refused_by_check(llama, with({.attention_projection = true}, as_is)) ==
        "offload-modules=attn_proj");
  CHECK(refused_by_check(llama, with({.attention_norm = true}, as_is)) ==
        "offload-modules=attn_norm");
  CHECK(refused_by_check(llama, with({.mlp_norm = true}, as_is)) ==
        "offload-modules=mlp_norm, expert_fc1 or moe_act");
  CHECK(refused_by_check(llama, with({}, [](MegatronPlan& plan) { plan.least_offloaded = 1; })) ==
        "min-offloaded-tensor-size");
  CHECK(refused_by_check(llama, with({.core_attention = true}, [](MegatronPlan& plan) {
                           plan.recompute = MegatronRecompute::kFullUniform;
                         })) == "offload-modules with recompute=uniform or block");
  CHECK(refused_by_check(llama, with({.core_attention = true}, [](MegatronPlan& plan) {
                           plan.attention = MegatronAttention::kUnfused;
                         })) == "offload-modules=core_attn with attention=unfused");
  CHECK(refused_by_check(
            llama, with({.qkv_linear = true}, [](MegatronPlan& plan) {
              plan.fp8 = MegatronFp8::kTensorwise;
            })) == "offload-modules=qkv_linear, attn_proj or expert_fc1 with fp8-recipe");
  CHECK(refused_by_check(mixture_of_four(), with({.expert_up = true}, [](MegatronPlan& plan) {
                           plan.grouped_gemm = false;
                         })) == "offload-modules=expert_fc1 or moe_act with grouped-gemm=no");
  CHECK(refused_by_check(llama, with({}, [](MegatronPlan& plan) { plan.fp8_parameters = true; })) ==
        "fp8-param-gather without fp8-recipe");
}

}  // namespace headroom::ir::megatron
