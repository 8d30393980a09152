// What whole layers under --cpu-offloading-num-layers save goes to the host and comes back.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/layer_offload.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/offloading_plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

using test::kLlamaFfn;
using test::kLlamaHeadDim;
using test::kLlamaHeads;
using test::kLlamaHidden;
using test::kLlamaKvHeads;
using test::kOffloadingTokens;
using test::refused_by_check;

constexpr std::int64_t kFourLayers = 4;

ModelSpec four_layers() {
  return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 32000, "tie_word_embeddings": false, "max_position_embeddings": 4096,
    "model_type": "llama"})",
                         "four layers")
      .value();
}

ParallelPlan offloading_layers(std::int64_t layers) {
  return test::offloading_plan({.offloaded_layers = layers});
}

RankProgram four_layer_program(const ParallelPlan& plan) {
  return lower(four_layers(), plan, Rank{0}, DeviceTraits{}).value();
}

/// Tensors that one layer saves and nobody else holds, in bytes.
std::vector<std::int64_t> own_tensors() {
  const std::int64_t stream = 2 * kOffloadingTokens * kLlamaHidden;
  const std::int64_t keys = 2 * kOffloadingTokens * kLlamaKvHeads * kLlamaHeadDim;
  const std::int64_t deviation = 4 * kOffloadingTokens;
  return {stream,  // The layer's input,
          stream,
          deviation,  // its norm,
          stream,
          keys,
          keys,    // queries, keys and values,
          stream,  // attention's result, which its projection saves, too,
          4 * kOffloadingTokens * kLlamaHeads,  // logarithms of its sums,
          16,                                   // and its random state;
          stream,                               // the MLP's input,
          stream,
          deviation,                              // its norm,
          2 * 2 * kOffloadingTokens * kLlamaFfn,  // what its first product gives,
          2 * kOffloadingTokens * kLlamaFfn};     // and what its second one takes.
}

/// Those that the process keeps: rotary angles in fp32, and cu_seqlens.
constexpr std::int64_t kAngles = 4 * kOffloadingTokens * kLlamaHeadDim;
constexpr std::int64_t kLengths = 4 * 2;

std::int64_t own_bytes() {
  std::int64_t bytes = 0;
  for (const std::int64_t each : own_tensors()) {
    bytes += each;
  }
  return bytes;
}

const Phase& phase_named(const RankProgram& program, const std::string& name) {
  const auto found = std::ranges::find(program.phases, parse_phase_name(name), &Phase::name);
  REQUIRE(found != program.phases.end());
  return *found;
}

/// Bytes alive where the forward of a layer first allocates.
std::int64_t alive_before(const RankProgram& program, std::int32_t layer) {
  std::vector<std::int64_t> sizes(program.blocks, 0);
  std::int64_t bytes = 0;
  for (const Event& event : program.events) {
    if (event.kind == EventKind::kAllocate) {
      const Site& site = program.sites[event.site];
      if (site.layer == layer && event.role != TensorRole::kParameter) {
        break;
      }
      sizes[event.block] = event.bytes;
      bytes += event.bytes;
    } else if (event.kind == EventKind::kFree) {
      bytes -= sizes[event.block];
    }
  }
  return bytes;
}

/// Layers whose backward was about to run where something came back in the first step.
std::vector<std::int32_t> returns_beside(const RankProgram& program) {
  const Phase& phase = phase_named(program, "step1.forward_backward");
  std::vector<std::int32_t> layers;
  for (std::size_t i = phase.first_item; i < phase.end_item; ++i) {
    const WorkItem& item = program.work.items[i];
    const auto* const copy = item.kind == WorkItem::Kind::kRun
                                 ? std::get_if<CopyShape>(&program.work.shapes[item.index])
                                 : nullptr;
    if (copy != nullptr && copy->kind == CopyKind::kHostToDevice && item.stream == kOffloadStream) {
      const std::int32_t layer = program.sites[item.site].layer;
      if (layers.empty() || layers.back() != layer) {
        layers.push_back(layer);
      }
    }
  }
  return layers;
}

/// An offloaded layer of a process of its own.
struct Alone {
  torch::Eager eager{DeviceTraits{}};
  ModelSpec model = four_layers();
  ParallelPlan plan = offloading_layers(1);
  Context context{
      .eager = eager, .spec = model, .plan = plan, .megatron = megatron_of(plan), .grid = {}};
  PinnedMemory pinned{eager};
  OffloadedLayer layer{context, pinned};

  [[nodiscard]] torch::Tensor tensor(bool wants_gradient) {
    torch::Tensor made =
        eager.empty({kOffloadingTokens, kLlamaHidden}, DType::kBf16, TensorRole::kActivation);
    made->requires_grad = wants_gradient;
    return made;
  }
  /// Where the layer has it; it must not stay with the operator.
  [[nodiscard]] std::size_t pack(const torch::Tensor& saved) {
    torch::Tensor kept;
    const std::size_t slot = layer.pack(eager, saved, kept);
    CHECK_FALSE(kept.defined());
    return slot;
  }
  [[nodiscard]] std::int64_t allocations() {
    return std::ranges::count(eager.program().events, EventKind::kAllocate, &Event::kind);
  }
  [[nodiscard]] std::int64_t frees() {
    return std::ranges::count(eager.program().events, EventKind::kFree, &Event::kind);
  }
};

}  // namespace

TEST_CASE("megatron layer offload: what the first layers save is gone at the loss") {
  const auto kept = [](std::int64_t layers) {
    return test::alive_at_loss(four_layer_program(offloading_layers(layers)));
  };
  CHECK(kept(1) - kept(2) == own_bytes());
  CHECK(kept(2) - kept(3) == own_bytes());
}

TEST_CASE("megatron layer offload: every layer is copied once for each micro-batch and back") {
  ParallelPlan plan = offloading_layers(2);
  plan.workload.accumulation = 3;
  const RankProgram program = four_layer_program(plan);
  const Work& work = phase_named(program, "step2.forward_backward").work;
  const std::int64_t bytes = 3 * 2 * (own_bytes() + kAngles + kLengths);
  CHECK(work.device_to_host_bytes == bytes);
  CHECK(work.host_to_device_bytes == bytes);
  for (const WorkItem& item : program.work.items) {
    if (item.kind == WorkItem::Kind::kRun &&
        std::holds_alternative<CopyShape>(program.work.shapes[item.index])) {
      CHECK(item.stream == kOffloadStream);
    }
  }
}

TEST_CASE("megatron layer offload: in 8 bits what is multiplied leaves in them, weights stay") {
  ParallelPlan plan = offloading_layers(1);
  edit_megatron(plan).fp8 = MegatronFp8::kTensorwise;
  DeviceTraits device;
  device.compute_major = 9;
  device.compute_minor = 0;
  const RankProgram program = lower(four_layers(), plan, Rank{0}, device).value();
  // Both norms and what the MLP's second product takes, with a scale each.
  const std::int64_t less =
      2 * kOffloadingTokens * kLlamaHidden + kOffloadingTokens * kLlamaFfn - 3 * 4;
  CHECK(phase_named(program, "step2.forward_backward").work.device_to_host_bytes ==
        own_bytes() - less + kAngles + kLengths);
}

TEST_CASE("megatron layer offload: the host keeps powers of two for the layers that are away") {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> tensors = own_tensors();
  tensors.insert(tensors.end(), {kAngles, kLengths});
  for (const std::int64_t bytes : tensors) {
    blocks += static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  }
  CHECK(four_layer_program(offloading_layers(0)).host_bytes == 0);
  CHECK(four_layer_program(offloading_layers(1)).host_bytes == blocks);
  ParallelPlan plan = offloading_layers(3);
  plan.workload.accumulation = 2;  // The second pass takes the first one's.
  CHECK(four_layer_program(plan).host_bytes == 3 * blocks);
}

TEST_CASE("megatron layer offload: a layer leaves before as many run as stay") {
  const auto alive = [](std::int64_t offloaded, std::int32_t layer) {
    return alive_before(four_layer_program(offloading_layers(offloaded)), layer);
  };
  // Three of four: each layer is let go of where the next one begins.
  CHECK(alive(2, 2) - alive(3, 2) == own_bytes());
  CHECK(alive(2, 3) - alive(3, 3) == own_bytes());
  // One of four: where the last one does. What the first layer takes has a name in the model, too.
  CHECK(alive(0, 2) == alive(1, 2));
  CHECK(alive(0, 3) - alive(1, 3) == own_bytes() - 2 * kOffloadingTokens * kLlamaHidden);
}

TEST_CASE("megatron layer offload: a layer comes back beside the backward of one behind it") {
  using Layers = std::vector<std::int32_t>;
  CHECK(returns_beside(four_layer_program(offloading_layers(1))) == Layers{2});
  CHECK(returns_beside(four_layer_program(offloading_layers(2))) == Layers{2, 1});
  // No other is left: beside its own.
  CHECK(returns_beside(four_layer_program(offloading_layers(3))) == Layers{2, 1, 0});
}

TEST_CASE("megatron layer offload: a storage is copied once, for whoever saves it") {
  Alone alone;
  const torch::Tensor saved = alone.tensor(true);
  const std::size_t first = alone.pack(saved);
  const std::size_t second =
      alone.pack(alone.eager.alias(saved, {kOffloadingTokens * kLlamaHidden}, /*tracked=*/true));
  alone.layer.send();
  CHECK(alone.eager.program().host_bytes == 2 * kOffloadingTokens * kLlamaHidden);
  alone.layer.release();
  const std::int64_t before = alone.allocations();
  alone.layer.fetch();
  CHECK(alone.allocations() == before + 1);
  const torch::Tensor one = alone.layer.unpack(alone.eager, first);
  const torch::Tensor other = alone.layer.unpack(alone.eager, second);
  CHECK(one->storage == other->storage);
  CHECK(one->storage != saved->storage);
  CHECK(other.shape() == torch::Shape{kOffloadingTokens * kLlamaHidden});
}

TEST_CASE("megatron layer offload: the layer holds what it saved until its backward is over") {
  Alone alone;
  const std::size_t wanting = alone.pack(alone.tensor(true));
  const std::size_t other = alone.pack(alone.tensor(false));
  // What wants a gradient is handed out as a copy: clearing that frees nothing.
  alone.eager.move_storage(alone.layer.unpack(alone.eager, wanting), {});
  CHECK(alone.frees() == 0);
  alone.eager.move_storage(alone.layer.unpack(alone.eager, other), {});
  CHECK(alone.frees() == 1);
  alone.layer.forget(wanting);
  CHECK(alone.frees() == 1);
  alone.layer.clear();
  CHECK(alone.frees() == 2);
}

TEST_CASE("megatron layer offload: parameters, parts and other orders stay on the device") {
  Alone alone;
  const auto stays = [&alone](const torch::Tensor& saved) {
    torch::Tensor kept;
    static_cast<void>(alone.layer.pack(alone.eager, saved, kept));
    return kept.defined();
  };
  const torch::Tensor whole = alone.tensor(false);
  const torch::Tensor part = alone.eager.alias(whole, {kOffloadingTokens, kLlamaHidden / 2}, true);
  CHECK(stays(alone.eager.parameter({kLlamaHidden, kLlamaHidden}, DType::kBf16, true)));
  CHECK(stays(part));
  alone.layer.save_as(SavedForm::kStaying, {});
  CHECK(stays(whole));
  alone.layer.save_as(SavedForm::kWhole, {});
  CHECK_FALSE(stays(part));
  alone.layer.send();
  CHECK(alone.eager.program().host_bytes == 2 * kOffloadingTokens * kLlamaHidden);
}

TEST_CASE("megatron layer offload: experts' tokens come back in a piece for each") {
  Alone alone;
  alone.layer.save_as(SavedForm::kPieces, {512, 512, 1024});
  static_cast<void>(alone.pack(alone.tensor(true)));
  alone.layer.send();
  CHECK(alone.eager.program().host_bytes == 2 * kOffloadingTokens * kLlamaHidden);
  alone.layer.release();
  CHECK(alone.frees() == 1);
  alone.layer.fetch();
  CHECK(alone.allocations() == 1 + 3);
  alone.layer.clear();
  CHECK(alone.frees() == 1 + 3);
  // The host's blocks are free again.
  alone.layer.save_as(SavedForm::kPieces, {512, 512, 1024});
  static_cast<void>(alone.pack(alone.tensor(true)));
  alone.layer.send();
  CHECK(alone.eager.program().host_bytes == 2 * kOffloadingTokens * kLlamaHidden);
}

TEST_CASE("megatron layer offload: Megatron-Core's refusals, by name") {
  const auto with = [](std::int64_t layers, auto change) {
    ParallelPlan plan = offloading_layers(layers);
    change(plan);
    return plan;
  };
  const auto as_is = [](ParallelPlan&) {};
  CHECK(refused_by_check(four_layers(), with(kFourLayers - 1, as_is)).empty());
  CHECK(refused_by_check(four_layers(), with(kFourLayers, as_is)) == "cpu-offloading-num-layers=4");
  CHECK(refused_by_check(four_layers(), with(1, [](ParallelPlan& plan) {
                           plan.mesh.pipeline = plan.world = 2;
                         })) == "cpu-offloading-num-layers=1 with pp=2");
  CHECK(refused_by_check(four_layers(), with(1, [](ParallelPlan& plan) {
                           edit_megatron(plan).recompute = MegatronRecompute::kSelective;
                         })) == "cpu-offloading-num-layers=1 with recompute=selective");
  CHECK(refused_by_check(four_layers(), with(1, [](ParallelPlan& plan) {
                           edit_megatron(plan).offload_modules.core_attention = true;
                         })) == "cpu-offloading-num-layers=1 with offload-modules");
  const ParallelPlan one_by_one =
      with(1, [](ParallelPlan& plan) { edit_megatron(plan).grouped_gemm = false; });
  ModelSpec mixture = four_layers();
  mixture.moe = MoeSpec{.experts = 4, .top_k = 2, .expert_ffn = kLlamaFfn};
  const Status status = check_plan(mixture, one_by_one);
  REQUIRE_FALSE(status);
  CHECK(status.error().got == "cpu-offloading-num-layers=1 with grouped-gemm=no");
}

}  // namespace headroom::ir::megatron
