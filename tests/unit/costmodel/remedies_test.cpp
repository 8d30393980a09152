#include "costmodel/remedies.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/layer_bound.h"
#include "costmodel/memory_floor.h"
#include "costmodel/wider_remedy.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/registry.h"
#include "tests/support/random.h"
#include "tests/support/random_plan.h"

namespace headroom::cost {
namespace {

/// A Llama of 37 million parameters: replays in a moment.
ir::ModelSpec eight_layers() {
  return ir::parse_hf_config(R"({"model_type": "llama", "hidden_size": 512, "vocab_size": 16000,
      "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8,
      "num_key_value_heads": 8, "max_position_embeddings": 2048})",
                             "small")
      .value();
}

DeviceSpec device_with(Bytes total) {
  DeviceSpec device;
  device.name = "test";
  device.total = total;
  device.traits = {.compute_major = 8, .compute_minor = 0, .multiprocessors = 108};
  return device;
}

ir::ParallelPlan usual_plan() {
  ir::ParallelPlan plan;
  plan.workload.micro_batch = 4;
  plan.workload.sequence = 512;
  return plan;
}

/// Remedies of `plan` on a device that lacks `missing` bytes.
Remedies remedies_for(const ir::ParallelPlan& plan, Bytes missing,
                      TreeWalk tree = TreeWalk::kAlways) {
  const ir::ModelSpec model = eight_layers();
  const DeviceSpec wide = device_with(Bytes{kGiB * 64});
  const StepEstimate whole = estimate(model, plan, wide).value();
  const Bytes budget = whole.peak_reserved + whole.outside_bytes - missing;
  const DeviceSpec device = device_with(budget);
  const StepEstimate found = estimate(model, plan, device).value();
  return find_remedies(
      {.model = model, .plan = plan, .device = device, .budget = Bytes{0}, .tree = tree}, found);
}

}  // namespace

TEST_CASE("with_change: Megatron's own form of a change, and none that it lacks") {
  const DeviceSpec device = device_with(Bytes{kGiB});
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 8;
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.tensor = 4};
  CHECK(megatron_of(*with_change(plan, Change::kSequenceParallel, device)).sequence_parallel);
  CHECK_FALSE(with_change(plan, Change::kSdpaAttention, device));
  CHECK(megatron_of(*with_change(plan, Change::kSelectiveRecompute, device)).recompute_modules.mlp);
  edit_megatron(plan).attention = ir::MegatronAttention::kUnfused;
  CHECK(megatron_of(*with_change(plan, Change::kSdpaAttention, device)).attention ==
        ir::MegatronAttention::kFused);
  ir::ParallelPlan wide = plan;
  wide.world = 8;
  wide.workload.accumulation = 3;
  const ir::ParallelPlan wider = *with_change(wide, Change::kMoreTensorParallel, device);
  CHECK(wider.mesh.tensor == 8);
  CHECK(megatron_of(wider).sequence_parallel);
  CHECK(wider.workload.accumulation == 6);  // Half as many ranks share the batch.
  CHECK_FALSE(with_change(wider, Change::kMoreTensorParallel, device));
  CHECK(megatron_of(*with_change(plan, Change::kZero1, device)).distributed_optimizer);
  CHECK(megatron_of(*with_change(plan, Change::kCheckpointing, device)).recompute ==
        ir::MegatronRecompute::kFullUniform);
  CHECK(with_change(plan, Change::kCheckpointing, device)->recompute == ir::Recompute::kNone);
  CHECK_FALSE(with_change(plan, Change::kZero3, device));
  CHECK_FALSE(with_change(plan, Change::kLora, device));
  // Megatron refuses layers on the host beside recomputation: the change takes its place.
  edit_megatron(plan).offloaded_layers = 4;
  for (const Change& change : {Change::kSelectiveRecompute, Change::kCheckpointing}) {
    CHECK(megatron_of(*with_change(plan, change, device)).offloaded_layers == 0);
  }
  plan.mesh.tensor = 1;
  CHECK_FALSE(with_change(plan, Change::kSequenceParallel, device));
}

TEST_CASE("find_remedies: mending changes come first, cheapest first, and mend when estimated") {
  const ir::ParallelPlan plan = usual_plan();
  const Remedies remedies = remedies_for(plan, Bytes{100 * kMiB});
  REQUIRE(remedies.cheapest.size() >= 3);
  CHECK(remedies.cheapest[0].verdict != Verdict::kDoesNotFit);
  for (std::size_t index = 1; index < 3; ++index) {
    const Remedy& before = remedies.cheapest[index - 1];
    const Remedy& after = remedies.cheapest[index];
    if (after.verdict != Verdict::kDoesNotFit) {
      CHECK(*std::ranges::max_element(before.changes) <= *std::ranges::max_element(after.changes));
    }
  }
  for (const Remedy& remedy : remedies.cheapest) {
    const StepEstimate again =
        estimate(eight_layers(), remedy.plan, device_with(Bytes{kGiB * 64})).value();
    CHECK(again.peak_reserved >= remedy.peak_allocated);
    CHECK(remedy.saved > Bytes{0});
  }
}

TEST_CASE("find_remedies: the same question has the same answer") {
  CHECK(remedies_for(usual_plan(), Bytes{100 * kMiB}) ==
        remedies_for(usual_plan(), Bytes{100 * kMiB}));
}

TEST_CASE("find_remedies: where no single change is enough, the tree's steps are combined") {
  // Activations of about 1 GiB are most of the plan; half of everything must go.
  ir::ParallelPlan plan = usual_plan();
  plan.precision = ir::Precision::kFp32;
  const ir::ModelSpec model = eight_layers();
  const StepEstimate whole = estimate(model, plan, device_with(Bytes{kGiB * 64})).value();
  const Remedies remedies = remedies_for(plan, Bytes{whole.peak_reserved.value() * 3 / 4});
  REQUIRE_FALSE(remedies.tree.empty());
  CHECK(remedies.tree.back().verdict != Verdict::kDoesNotFit);
  REQUIRE_FALSE(remedies.cheapest.empty());
  CHECK(remedies.cheapest.front().verdict != Verdict::kDoesNotFit);
  CHECK(remedies.cheapest.front().changes.size() > 1);
  for (std::size_t step = 0; step + 1 < remedies.tree.size(); ++step) {
    CHECK(remedies.tree[step].verdict == Verdict::kDoesNotFit);
    CHECK(remedies.tree[step].changes.size() < remedies.tree[step + 1].changes.size());
  }
}

TEST_CASE("find_remedies: what parameters and states alone rule out is not replayed") {
  const ir::ModelSpec model = eight_layers();
  ir::ParallelPlan plan = usual_plan();
  plan.precision = ir::Precision::kFp32;
  const DeviceSpec device = device_with(Bytes{950 * kMiB});  // 942 MiB are outside.
  const StepEstimate found = estimate(model, plan, device).value();
  const Remedies remedies =
      find_remedies({.model = model, .plan = plan, .device = device, .budget = Bytes{0}}, found);
  CHECK(remedies.replays <= 3);  // Offload of everything leaves nothing to rule it out.
  for (const Remedy& remedy : remedies.cheapest) {
    CHECK(remedy.verdict == Verdict::kDoesNotFit);
    CHECK_FALSE(remedy.ruled_out);
  }
  REQUIRE_FALSE(remedies.tree.empty());
  CHECK(remedies.tree.front().ruled_out);
  CHECK(remedies.least_gpus > 8);
}

TEST_CASE("find_remedies: bounds rule out without a replay, and what is listed is replayed") {
  const ir::ParallelPlan plan = usual_plan();
  for (const std::int64_t missing : {100, 700, 1'000}) {
    CAPTURE(missing);
    const Remedies slow = remedies_for(plan, Bytes{missing * kMiB});
    const Remedies fast = remedies_for(plan, Bytes{missing * kMiB}, TreeWalk::kNone);
    CHECK(fast.replays <= slow.replays);
    for (const Remedy& remedy : fast.cheapest) {
      CHECK_FALSE(remedy.estimated);
      const StepEstimate again =
          estimate(eight_layers(), remedy.plan, device_with(Bytes{kGiB * 64})).value();
      CHECK(remedy.peak_allocated == again.peak_allocated);
    }
    const auto mending = [](const Remedies& remedies) {
      std::vector<ir::ParallelPlan> plans;
      for (const Remedy& remedy : remedies.cheapest) {
        if (remedy.verdict != Verdict::kDoesNotFit) {
          plans.push_back(remedy.plan);
        }
      }
      return plans;
    };
    CHECK(mending(fast) == mending(slow));
  }
}

TEST_CASE("wider_remedies: a search that ran out of time says so") {
  const ir::ModelSpec model = eight_layers();
  const ir::ParallelPlan plan = usual_plan();
  const DeviceSpec device = device_with(Bytes{kMiB});
  const RemedyQuestion question{.model = model, .plan = plan, .device = device, .budget = Bytes{0}};
  CHECK(wider_remedies(question, 1, std::chrono::steady_clock::now() - std::chrono::seconds(1))
            .cut_short);
  CHECK_FALSE(wider_remedies(question, 1, std::chrono::steady_clock::now() + std::chrono::hours(1))
                  .cut_short);
}

TEST_CASE("with_change: a change that is made already, or does not apply, is none") {
  const DeviceSpec device = device_with(Bytes{kGiB});
  ir::ParallelPlan plan = usual_plan();
  CHECK_FALSE(with_change(plan, Change::kMixedPrecision, device));  // bf16 already.
  CHECK_FALSE(with_change(plan, Change::kZero2, device));           // One GPU.
  CHECK_FALSE(with_change(plan, Change::kSdpaAttention, device));
  plan.workload.micro_batch = 3;
  CHECK_FALSE(with_change(plan, Change::kSmallerMicroBatch, device));
  plan.recompute = ir::Recompute::kFull;
  CHECK_FALSE(with_change(plan, Change::kCheckpointing, device));
  plan.recompute_every = 2;
  CHECK(with_change(plan, Change::kCheckpointing, device)->recompute_every == 1);
}

TEST_CASE("with_change: a smaller micro-batch keeps the batch of a step") {
  ir::ParallelPlan plan = usual_plan();
  plan.workload.accumulation = 3;
  const auto halved = with_change(plan, Change::kSmallerMicroBatch, device_with(Bytes{kGiB}));
  REQUIRE(halved);
  CHECK(halved->workload.micro_batch == 2);
  CHECK(halved->workload.accumulation == 6);
}

TEST_CASE("with_change: a device without bf16 gets fp16 with loss scaling") {
  DeviceSpec device = device_with(Bytes{kGiB});
  device.bf16 = false;
  ir::ParallelPlan plan = usual_plan();
  plan.precision = ir::Precision::kFp32;
  CHECK(with_change(plan, Change::kMixedPrecision, device)->precision ==
        ir::Precision::kAutocastFp16);
  CHECK_FALSE(with_change(plan, Change::kPureBf16, device));
}

TEST_CASE("with_change: every change has words, a cost and a source") {
  ir::ParallelPlan plan = usual_plan();
  edit_megatron(plan) = {};
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    plan.runtime = runtime->name();
    CAPTURE(plan.runtime);
    const std::span<const ir::OwnChange> changes = runtime->changes(plan);
    CHECK(changes.size() > 1);
    CHECK(std::ranges::is_sorted(changes, {}, &ir::OwnChange::change));
    for (const ir::OwnChange& own : changes) {
      CHECK_FALSE(describe(own.change).empty());
      CHECK_FALSE(cost_of(own.change).empty());
      CHECK_FALSE(source_of(own.change).empty());
    }
  }
}

TEST_CASE("memory_floor: Adam in fp32 takes 16 bytes for each parameter, ZeRO-3 shares them") {
  // "7B, fp32 Adam: 28 + 28 + 28 + 28 GB" (Rajbhandari et al. 2020, section 3.1, for 16 bits).
  ir::ModelSpec model = eight_layers();
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kFp32;
  const Bytes parameters{memory_floor(model, plan).value() / 16};
  CHECK(memory_floor(model, plan) == 16 * parameters);
  plan.precision = ir::Precision::kBf16;
  CHECK(memory_floor(model, plan) == 8 * parameters);
  plan.optimizer.kind = ir::OptimizerKind::kSgd;
  CHECK(memory_floor(model, plan) == 4 * parameters);
  plan.lora = ir::LoraPlan{};
  CHECK(memory_floor(model, plan) == 2 * parameters);
}

TEST_CASE("property: memory_floor is never above the replayed peak") {
  const ir::ModelSpec model = eight_layers();
  const DeviceSpec device = device_with(Bytes{kGiB * 64});
  test::Random random = test::seeded_random(31);
  CAPTURE(random.seed());
  for (int round = 0; round < 60; ++round) {
    ir::ParallelPlan plan;
    plan.workload.micro_batch = random.between(1, 2);
    plan.workload.sequence = 64 * random.between(1, 4);
    plan.precision =
        random.pick<ir::Precision>({ir::Precision::kFp32, ir::Precision::kBf16,
                                    ir::Precision::kAutocastBf16, ir::Precision::kBf16Master});
    plan.optimizer.kind =
        random.pick<ir::OptimizerKind>({ir::OptimizerKind::kAdamW, ir::OptimizerKind::kSgd});
    plan.optimizer.form =
        random.pick<ir::OptimizerForm>({ir::OptimizerForm::kForeach, ir::OptimizerForm::kFused});
    if (random.chance(1, 3)) {
      plan.recompute = ir::Recompute::kFull;
    }
    if (random.chance(1, 2)) {
      plan.runtime = "deepspeed";
      plan.precision = ir::Precision::kBf16Master;
      plan.world = random.between(2, 8);
      edit_zero(plan) = ir::ZeroPlan{};
      edit_zero(plan).stage = static_cast<int>(random.between(0, 3));
    } else if (random.chance(1, 3)) {
      plan.lora = ir::LoraPlan{};
    }
    const auto found = estimate(model, plan, device);
    if (!found) {
      continue;  // The runtime does not offer this combination.
    }
    CAPTURE(round);
    CHECK(memory_floor(model, plan) <= found->peak_allocated);
  }
}

TEST_CASE("property: layer_bound is never above the replayed peak, and mostly near it") {
  test::Random random = test::seeded_random(32);
  CAPTURE(random.seed());
  const DeviceSpec device = device_with(Bytes{kGiB * 1024});
  int bounded = 0;
  int near = 0;
  for (int round = 0; round < 150; ++round) {
    ir::ModelSpec model = eight_layers();
    model.layers.resize(static_cast<std::size_t>(random.between(6, 24)));
    if (random.chance(1, 2)) {  // Every k-th layer slides.
      const auto period = static_cast<std::size_t>(random.between(2, 4));
      for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
        model.layers[layer].window =
            layer % period == 0 ? std::optional<std::int64_t>(128) : std::nullopt;
      }
    }
    ir::ParallelPlan plan = test::random_transformers_plan(random);
    plan.workload.micro_batch = random.between(1, 4);
    plan.workload.sequence = 32 * random.between(1, 8);
    plan.workload.accumulation = random.between(1, 3);
    plan.allocator = {};
    plan.loss = ir::LossKind::kHf;  // The others do not grow with the layers they stand beside.
    const auto found = estimate(model, plan, device);
    const std::optional<Bytes> bound = layer_bound(model, plan, device);
    if (!found || !bound) {
      continue;  // The runtime does not offer this combination, or the layers are too few.
    }
    ++bounded;
    CAPTURE(round);
    CHECK(*bound <= found->peak_allocated);
    // Where the peak of two layers is another moment than that of many, it is further below.
    near += static_cast<double>(bound->value()) >
                    0.9 * static_cast<double>(found->peak_allocated.value())
                ? 1
                : 0;
  }
  CHECK(bounded > 10);
  CHECK(near > bounded * 3 / 4);
}

TEST_CASE("layer_bound: none for few layers, two stacks or DeepSpeed's buckets") {
  const DeviceSpec device = device_with(Bytes{kGiB});
  ir::ModelSpec model = eight_layers();
  CHECK(layer_bound(model, usual_plan(), device));
  ir::ParallelPlan zero = usual_plan();
  zero.runtime = "deepspeed";
  zero.precision = ir::Precision::kBf16Master;
  edit_zero(zero) = ir::ZeroPlan{};
  CHECK_FALSE(layer_bound(model, zero, device));
  model.layers.resize(3);
  CHECK_FALSE(layer_bound(model, usual_plan(), device));
}

}  // namespace headroom::cost
