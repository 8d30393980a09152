#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/interface/option_json.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtune/plan.h"
#include "tests/support/random_options.h"
#include "tests/support/random_plan.h"

namespace headroom::ir {
namespace {

/// A plan with every part, and a random value of every option.
ParallelPlan any_plan(test::Random& random) {
  ParallelPlan plan;
  test::randomise(random, plan_options().fields.subspan(1), plan);
  test::randomise(random, optimizer_options().fields, plan);
  for (const PlanPart* const part : plan_parts()) {
    part->add(plan);
    test::randomise(random, part->fields, plan);
  }
  return plan;
}

/// Members of a plan's parts. A new member makes a line of these fail to compile: it needs a row in
/// its table, and a name here.
std::size_t members(const ZeroPlan& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B,
               C, D, E, F] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r,
                                             s, t, u, v, w, x, y, z, A, B, C, D, E, F))>;
}
std::size_t members(const DdpPlan& part) {
  const auto& [a, b, c] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c))>;
}
std::size_t members(const FsdpPlan& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l))>;
}
std::size_t members(const MegatronPlan& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B,
               C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r,
                                             s, t, u, v, w, x, y, z, A, B, C, D, E, F, G, H, I, J,
                                             K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z))>;
}
std::size_t members(const TitanPlan& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m))>;
}
std::size_t members(const TunePlan& part) {
  const auto& [a, b, c] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c))>;
}
std::size_t members(const LoraPlan& part) {
  const auto& [a, b, c, d, e, f] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f))>;
}
std::size_t members(const QuantPlan& part) {
  const auto& [a, b, c] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c))>;
}
std::size_t members(const GenerationPlan& part) {
  const auto& [a, b] = part;
  return std::tuple_size_v<decltype(std::tie(a, b))>;
}
std::size_t members(const OptimizerPlan& part) {
  const auto& [a, b, c] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c))>;
}
std::size_t members(const AllocatorSettings& part) {
  const auto& [a, b, c, d, e, f] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f))>;
}
std::size_t members(const Workload& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l))>;
}
std::size_t members(const ParallelPlan& part) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = part;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r,
                                             s))>;
}

const PlanPart& part_named(std::string_view name) {
  for (const PlanPart* const part : plan_parts()) {
    if (part->name == name) {
      return *part;
    }
  }
  REQUIRE(false);
  return plan_options();
}

}  // namespace

TEST_CASE("options: every member of a plan's parts has a row in its table") {
  CHECK(members(ZeroPlan{}) == part_named("zero").fields.size());
  CHECK(members(DdpPlan{}) == part_named("ddp").fields.size());
  // Besides, they have rows for degrees of the mesh: replicas, and tp, pp, cp, ep, etp.
  CHECK(members(FsdpPlan{}) + 1 == part_named("fsdp").fields.size());
  CHECK(members(MegatronPlan{}) + 5 == part_named("megatron").fields.size());
  CHECK(members(TitanPlan{}) + 5 == part_named("titan").fields.size());
  CHECK(members(TunePlan{}) == part_named("tune").fields.size());
  CHECK(members(LoraPlan{}) == part_named("lora").fields.size());
  CHECK(members(QuantPlan{}) == part_named("quant").fields.size());
  CHECK(members(GenerationPlan{}) == part_named("generation").fields.size());
  CHECK(members(OptimizerPlan{}) == optimizer_options().fields.size());
  // Where segments lie is the driver's, not an option.
  CHECK(members(AllocatorSettings{}) == part_named("allocator").fields.size() + 1);
  // Three members are one row (checkpointing). The optimizer and the other common parts have tables
  // of their own, and frameworks bring those of `own` and the rows for the degrees of `mesh`.
  const std::size_t common = plan_parts().size() - framework_parts().size();
  // The workload is one member, and its members have rows of their own.
  CHECK(members(ParallelPlan{}) - 1 + members(Workload{}) ==
        plan_options().fields.size() + 5 + common);
}

TEST_CASE("property: a plan with random values of all options reads back from its JSON") {
  test::Random random = test::seeded_random(61);
  CAPTURE(random.seed());
  for (int round = 0; round < 200; ++round) {
    const ParallelPlan plan = any_plan(random);
    const std::string text = to_pretty_json(plan_to_json(plan));
    CAPTURE(text);
    const Result<ParallelPlan> again = parse_plan(text, "plan.json");
    REQUIRE(again);
    CHECK(*again == plan);
  }
}

TEST_CASE("property: parts with the same value of every option are equal") {
  test::Random random = test::seeded_random(62);
  CAPTURE(random.seed());
  for (int round = 0; round < 100; ++round) {
    const ParallelPlan one = any_plan(random);
    for (const PlanPart* const part : plan_parts()) {
      CAPTURE(part->name);
      // Every option is taken over, one by one, into a plan of other values.
      ParallelPlan other = any_plan(random);
      for (const OptionField& field : part->fields) {
        CAPTURE(field.name);
        CHECK(field.set(other, field.get(one)));
        CHECK(field.same(other, one));
      }
      CHECK(same_options(part->fields, one, other));
      ParallelPlan with_part = one;
      part->drop(with_part);
      part->add(with_part);
      for (const OptionField& field : part->fields) {
        field.set(with_part, field.get(other));
      }
      CHECK(with_part == one);
    }
  }
}

TEST_CASE("options: one option that differs makes parts differ") {
  test::Random random = test::seeded_random(63);
  CAPTURE(random.seed());
  ParallelPlan plan = any_plan(random);
  for (const PlanPart* const part : plan_parts()) {
    for (const OptionField& field : part->fields) {
      CAPTURE(field.name);
      ParallelPlan other = plan;
      JsonValue value;
      do {
        value = test::random_value(random, field);
      } while (to_json(value) == to_json(field.get(plan)));
      REQUIRE(field.set(other, value));
      CHECK_FALSE(other == plan);
      CHECK_FALSE(same_options(part->fields, plan, other));
    }
  }
}

TEST_CASE("options: tables are complete, and no name in them means two things") {
  std::set<std::string> part_names;
  for (const PlanPart* const part : plan_parts()) {
    CAPTURE(part->name);
    CHECK(part_names.insert(std::string(part->name)).second);
    CHECK(part->title.ends_with('.'));
    std::set<std::string> names;
    std::set<std::string> own;
    for (const OptionField& field : part->fields) {
      CAPTURE(field.name);
      CHECK(names.insert(std::string(field.name)).second);
      CHECK((field.own.name.empty() || own.insert(std::string(field.own.name)).second));
      CHECK(field.help.ends_with('.'));
      CHECK(accepts(field, field.get(part->usual())));
    }
  }
}

TEST_CASE("options: what is out of range or unknown is refused, and nothing changes") {
  const OptionField& stage = *find_field(part_named("zero").fields, "stage");
  CHECK_FALSE(accepts(stage, JsonValue{std::int64_t{4}}));
  CHECK_FALSE(accepts(stage, JsonValue{"3"}));
  CHECK_FALSE(accepts(stage, JsonValue{}));
  CHECK(wanted_of(stage) == "a whole number from 0 to 3");
  const OptionField& modules = *find_field(part_named("megatron").fields, "offload_modules");
  const JsonValue unknown{JsonValue::Array{JsonValue{"core_atn"}}};
  CHECK_FALSE(accepts(modules, unknown));
  CHECK(suggestion_of(modules, unknown) == "use 'core_attn'");
  const OptionField& bits = *find_field(part_named("quant").fields, "bits");
  CHECK_FALSE(accepts(bits, JsonValue{std::int64_t{5}}));
  ParallelPlan plan;
  edit_megatron(plan);
  CHECK_FALSE(modules.set(plan, unknown));
  CHECK(megatron_of(plan) == MegatronPlan{});
}

TEST_CASE("options: a part that the framework does not read is refused by its option") {
  for (const Runtime* const runtime : runtimes()) {
    for (const PlanPart* const part : framework_parts()) {
      CAPTURE(runtime->name());
      CAPTURE(part->name);
      ParallelPlan plan;
      plan.runtime = runtime->name();
      part->add(plan);
      const std::span<const PlanPart* const> own = runtime->parts();
      const bool reads = std::find(own.begin(), own.end(), part) != own.end();
      const Status status = refuse_foreign_parts(plan);
      CHECK(status.has_value() == reads);
      if (!status) {
        CHECK(status.error().key == part->option);
        CHECK(to_text(status.error()).find("is not supported with --runtime " + plan.runtime) !=
              std::string::npos);
      }
    }
  }
}

}  // namespace headroom::ir
