#include "costmodel/host_memory.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "planner/evaluate/lowered_plan.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"
#include "tests/support/configs.h"
#include "tests/support/model_of.h"
#include "tests/support/random.h"

/// The host's memory of random plans, which is a closed form over what their programs record.
namespace headroom::cost {
namespace {

constexpr int kDevices = 8;

ir::ModelSpec host_model(test::Random& random) {
  return test::model_of(
      random.chance(1, 2)
          ? R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 704,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
        "vocab_size": 1000, "max_position_embeddings": 4096})"
          : R"({"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4096, "num_local_experts": 4,
        "num_experts_per_tok": 2})");
}

ir::ParallelPlan host_training(test::Random& random, const char* runtime) {
  ir::ParallelPlan plan;
  plan.runtime = runtime;
  plan.workload.sequence = 64;
  plan.world = std::int64_t{1} << random.between(0, 3);
  plan.workload.checkpoint_save = random.chance(1, 2);
  plan.workload.resume = random.chance(1, 2);
  plan.precision = random.chance(1, 2) ? ir::Precision::kFp32 : ir::Precision::kBf16;
  return plan;
}

ir::ParallelPlan host_zero_plan(test::Random& random) {
  ir::ParallelPlan plan = host_training(random, "deepspeed");
  plan.precision = ir::Precision::kBf16Master;
  edit_zero(plan).stage = static_cast<int>(random.between(1, 3));
  return plan;
}

ir::ParallelPlan host_fsdp_plan(test::Random& random) {
  ir::ParallelPlan plan = host_training(random, "fsdp");
  plan.world = std::int64_t{1} << random.between(1, 3);
  edit_fsdp(plan).version = 2;
  return plan;
}

ir::ParallelPlan host_megatron_plan(test::Random& random) {
  ir::ParallelPlan plan = host_training(random, "megatron");
  plan.precision = ir::Precision::kBf16Master;
  edit_megatron(plan).distributed_optimizer = random.chance(1, 2);
  return plan;
}

ir::ParallelPlan host_plan(test::Random& random) {
  switch (random.between(0, 5)) {
    case 0:
      return host_zero_plan(random);
    case 1:
      return host_fsdp_plan(random);
    case 2:
      return host_megatron_plan(random);
    case 3: {
      ir::ParallelPlan plan = host_training(random, "torchtune");
      if (plan.world > 1) {
        edit_fsdp(plan) = {};
      }
      return plan;
    }
    case 4: {
      ir::ParallelPlan plan = host_training(random, "torchtitan");
      edit_fsdp(plan) = {};
      return plan;
    }
    default:
      return host_training(random, "transformers");
  }
}

/// The plan with its optimizer, or its shards, on the host; nothing where the framework has no such
/// option.
std::optional<ir::ParallelPlan> host_offloaded(ir::ParallelPlan plan) {
  if (plan.runtime == "deepspeed") {
    edit_zero(plan).offload_optimizer = ir::OffloadDevice::kCpu;
  } else if (plan.runtime == "fsdp") {
    edit_fsdp(plan).cpu_offload = true;
  } else if (plan.runtime == "megatron" && megatron_of(plan).distributed_optimizer) {
    edit_megatron(plan).precision_aware = true;
    edit_megatron(plan).optimizer_offload = 1;
  } else {
    return std::nullopt;
  }
  return plan;
}

/// Does `check` with random plans and their programs. A program that is refused is left out.
void for_each_host_plan(std::uint64_t seed,
                        const std::function<void(const ir::ModelSpec&, const ir::ParallelPlan&,
                                                 const ir::RankProgram&)>& check) {
  MESSAGE("seed ", seed);
  test::Random random(seed);
  int checked = 0;
  for (int i = 0; i < 60; ++i) {
    const ir::ModelSpec model = host_model(random);
    const ir::ParallelPlan plan = host_plan(random);
    const auto program = ir::lower(model, plan, ir::Rank{0}, DeviceTraits{});
    if (!program) {
      continue;
    }
    CAPTURE(ir::to_json(ir::plan_to_json(plan)));
    check(model, plan, program.value());
    ++checked;
  }
  CHECK(checked > 20);
}

HostSpec host_node(int devices) {
  HostSpec host;
  host.memory = Bytes{1024 * kGiB};
  host.devices = devices;
  return host;
}

}  // namespace

TEST_CASE("host memory: a node holds the sum over its ranks, and what is held once") {
  for_each_host_plan(20261124, [](const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  const ir::RankProgram& program) {
    const HostMemory node = host_memory(model, plan, host_node(kDevices), program);
    CHECK(node.ranks == plan.world);
    Bytes rank;
    Bytes once;
    for (const ir::HostTerm& term : node.terms) {
      CHECK(term.bytes >= Bytes{0});
      const bool whole = term.span == ir::HostSpan::kWholeRun;
      const bool trained = term.span == ir::HostSpan::kTraining;
      const bool counts = whole || term.span == node.peak_span ||
                          (trained && node.peak_span != ir::HostSpan::kLoading);
      if (!term.reclaimable && counts) {
        (term.once ? once : rank) += term.bytes;
      }
    }
    CHECK(node.rank_bytes == rank);
    CHECK(node.bytes == node.ranks * rank + once);
    CHECK(node.pinned <= node.bytes);
    CHECK(host_floor(model, plan, host_node(kDevices)).bytes <= node.bytes);
  });
}

TEST_CASE("host memory: a node with more of the ranks holds no less") {
  for_each_host_plan(20261125, [](const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  const ir::RankProgram& program) {
    Bytes before;
    for (int devices = 1; devices <= kDevices; ++devices) {
      const HostMemory node = host_memory(model, plan, host_node(devices), program);
      CHECK(node.bytes >= before);
      before = node.bytes;
    }
  });
}

TEST_CASE("host memory: a search that lowers plans whole finds the bytes of the estimate") {
  DeviceSpec device = load_device(test::kConfigs, "h100-80gb").value();
  const Machine machine = load_machine(test::kConfigs, device).value();
  device.host = host_node(kDevices);
  std::uint64_t number = 0;
  for_each_host_plan(20261127, [&](const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                   const ir::RankProgram& /*program*/) {
    plan::LoweredRecords records;
    plan::LoweredPlans plans(model, device, machine, records);
    const auto found = plans.of(plan, number++);
    const auto asked = estimate(model, plan, device);
    REQUIRE(found.has_value() == asked.has_value());
    if (!found) {
      return;
    }
    CHECK(found->host == asked->host.bytes);
    CHECK(found->host_capacity == *asked->host.capacity);
    CHECK(found->host_fits == asked->host.fits());
  });
}

TEST_CASE("host memory: offloading never makes a node hold less") {
  for_each_host_plan(20261126, [](const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  const ir::RankProgram& program) {
    const std::optional<ir::ParallelPlan> more = host_offloaded(plan);
    const auto lowered =
        more ? ir::lower(model, *more, ir::Rank{0}, DeviceTraits{}) : Result(program);
    if (!more || !lowered) {
      return;
    }
    ir::ParallelPlan trains = plan;
    ir::ParallelPlan offloads = *more;
    trains.workload.checkpoint_save = trains.workload.resume = offloads.workload.checkpoint_save =
        offloads.workload.resume = false;
    const HostMemory here = host_memory(model, trains, host_node(kDevices), program);
    const HostMemory there = host_memory(model, offloads, host_node(kDevices), *lowered);
    CHECK(there.bytes >= here.bytes);
    CHECK(there.pinned >= here.pinned);
  });
}

}  // namespace headroom::cost
