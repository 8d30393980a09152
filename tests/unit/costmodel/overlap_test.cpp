// What the runtimes say of streams and marks, laid out: which communication runs beside the
// computation, and what waits for it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/time/stream_replay.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/registry.h"
#include "runtimes/torch/ddp_plan.h"

namespace headroom::ir {
namespace {

/// Eight layers, H 256, F 512, 4 heads, V 512.
ModelSpec deep_llama() {
  return parse_hf_config(R"({"hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 512, "tie_word_embeddings": false, "max_position_embeddings": 4096,
    "model_type": "llama"})",
                         "deep")
      .value();
}

ParallelPlan eight_rank_plan(const std::string& runtime, Precision precision) {
  ParallelPlan plan;
  plan.runtime = runtime;
  plan.precision = precision;
  plan.workload.sequence = 128;
  plan.world = 8;
  plan.workload.steps = 2;
  return plan;
}

/// A program whose kernels take one second each and whose collectives take `collective`.
struct Replayed {
  Replayed(const ParallelPlan& plan, double collective)
      : program(lower(deep_llama(), plan, Rank{0}, DeviceTraits{}).value()) {
    for (const WorkShape& shape : program.work.shapes) {
      durations.emplace_back(std::holds_alternative<CollectiveShape>(shape) ? collective : 1.0);
    }
    line = cost::replay_streams(program.work, {.durations = durations, .launch = Seconds{1e-6}});
  }

  [[nodiscard]] const Phase& phase(const std::string& name) const {
    const auto found = std::find_if(program.phases.begin(), program.phases.end(),
                                    [&](const Phase& each) { return to_text(each.name) == name; });
    REQUIRE(found != program.phases.end());
    return *found;
  }
  /// Items of a phase that run collectives of one kind, of more than a few bytes.
  [[nodiscard]] std::vector<std::size_t> collectives(const std::string& name,
                                                     CollectiveKind kind) const {
    std::vector<std::size_t> found;
    for (std::size_t i = phase(name).first_item; i < phase(name).end_item; ++i) {
      const WorkItem& item = program.work.items[i];
      const auto* shape = item.kind == WorkItem::Kind::kRun
                              ? std::get_if<CollectiveShape>(&program.work.shapes[item.index])
                              : nullptr;
      if (shape != nullptr && shape->kind == kind && shape->bytes > 64) {
        found.push_back(i);
      }
    }
    return found;
  }
  /// Whether the compute stream runs something while item `index` does.
  [[nodiscard]] bool overlapped(std::size_t index) const {
    for (std::size_t i = 0; i < program.work.items.size(); ++i) {
      const WorkItem& item = program.work.items[i];
      if (item.kind == WorkItem::Kind::kRun && item.stream == 0 &&
          line.begin[i] < line.end[index] && line.begin[index] < line.end[i]) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] std::size_t count_overlapped(const std::vector<std::size_t>& items) const {
    return static_cast<std::size_t>(std::count_if(
        items.begin(), items.end(), [this](std::size_t item) { return overlapped(item); }));
  }

  RankProgram program;
  std::vector<Seconds> durations;
  cost::StreamTimeline line;
};

}  // namespace

TEST_CASE("overlap: FSDP2 gathers the next layer while one computes, but not the first") {
  ParallelPlan plan = eight_rank_plan("fsdp", Precision::kFp32);
  edit_fsdp(plan) = FsdpPlan{};
  const Replayed replayed(plan, 5);
  // Root and 8 layers. The root's gather and the first layer's have nothing to hide behind but the
  // embedding; in forward the host runs ahead and issues the gathers of the others early.
  const auto forward = replayed.collectives("step2.forward", CollectiveKind::kAllGather);
  CHECK(forward.size() == 9);
  CHECK(replayed.count_overlapped(forward) >= 7);
  const auto backward = replayed.collectives("step2.backward", CollectiveKind::kAllGather);
  CHECK(replayed.count_overlapped(backward) >= 7);
  const auto reductions = replayed.collectives("step2.backward", CollectiveKind::kReduceScatter);
  CHECK(reductions.size() == 9);
  CHECK(replayed.count_overlapped(reductions) >= 7);
}

TEST_CASE("overlap: a gather of FSDP2 ends before the layer that wants it begins") {
  ParallelPlan plan = eight_rank_plan("fsdp", Precision::kFp32);
  edit_fsdp(plan) = FsdpPlan{};
  const Replayed quick(plan, 5);
  const Replayed slow(plan, 500);
  // Each of the layers' gathers is exposed almost wholly: two buffers at most are under way.
  CHECK(slow.line.total.value() - quick.line.total.value() > 2 * 16 * 400);
}

TEST_CASE("overlap: DDP reduces a bucket while the gradients of the next are made") {
  ParallelPlan plan = eight_rank_plan("transformers", Precision::kFp32);
  edit_ddp(plan) = DdpPlan{.gradient_as_bucket_view = false, .bucket_cap_bytes = 2 * kMiB};
  const Replayed replayed(plan, 5);
  const auto buckets = replayed.collectives("step2.backward", CollectiveKind::kAllReduce);
  REQUIRE(buckets.size() > 4);
  CHECK(replayed.count_overlapped(buckets) >= buckets.size() - 1);
  CHECK(!replayed.overlapped(buckets.back()));  // The last has nothing behind it.
  // The optimizer waits for all of them.
  const std::size_t first = replayed.phase("step2.optimizer").first_item;
  CHECK(replayed.line.begin[first] >= replayed.line.end[buckets.back()]);
}

TEST_CASE("overlap: ZeRO stage 3 fetches ahead along its trace") {
  ParallelPlan plan = eight_rank_plan("deepspeed", Precision::kBf16Master);
  edit_zero(plan) = ZeroPlan{};
  edit_zero(plan).stage = 3;
  edit_zero(plan).param_persistence_threshold = 0;
  edit_zero(plan).prefetch_bucket_size = 400'000;
  edit_zero(plan).overlap_comm = true;
  const Replayed ahead(plan, 5);
  const auto gathers = ahead.collectives("step2.forward", CollectiveKind::kAllGather);
  CHECK(ahead.count_overlapped(gathers) > gathers.size() / 2);
  edit_zero(plan).prefetch_bucket_size = 0;
  const Replayed late(plan, 5);
  CHECK(late.collectives("step2.forward", CollectiveKind::kAllGather).size() > gathers.size());
}

TEST_CASE("overlap: Megatron's reductions of gradients run beside backward only where asked") {
  ParallelPlan plan = eight_rank_plan("megatron", Precision::kBf16Master);
  edit_megatron(plan) = MegatronPlan{};
  edit_megatron(plan).distributed_optimizer = true;
  edit_megatron(plan).overlap_grad_reduce = true;
  const Replayed beside(plan, 5);
  edit_megatron(plan).overlap_grad_reduce = false;
  const Replayed after(plan, 5);
  const auto reductions =
      beside.collectives("step2.forward_backward", CollectiveKind::kReduceScatter);
  REQUIRE(!reductions.empty());
  for (const std::size_t item : reductions) {
    CHECK(beside.program.work.items[item].stream != 0);
  }
  for (const std::size_t item :
       after.collectives("step2.forward_backward", CollectiveKind::kReduceScatter)) {
    CHECK(after.program.work.items[item].stream == 0);
  }
}

}  // namespace headroom::ir
