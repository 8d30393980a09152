// What compiled blocks keep under a memory budget. Choices were written down from PyTorch 2.11's
// partitioner over torchtitan 0.2.2's TransformerBlock, peaks on rank 0 of eight (compute
// capability 9.0, 132 multiprocessors).

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/plan/work_range.h"
#include "runtimes/torch/min_cut.h"
#include "runtimes/torch/partitioner.h"
#include "runtimes/torch/peak_order.h"
#include "runtimes/torchtitan/kept_values.h"
#include "runtimes/torchtitan/memory_budget.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/event_text.h"
#include "tests/support/small_llama.h"
#include "tests/support/titan_plan.h"

namespace headroom::ir {
namespace {

using test::titan_model;

using torch::JointNode;
using torch::JointOp;
using torchtitan::BlockValue;
using torchtitan::kept_values;
using torchtitan::KeptValues;
using torchtitan::Sizes;
using Nodes = std::vector<std::size_t>;

Sizes narrow(std::int64_t kv_heads) {
  return {.batch = 1,
          .sequence = 1024,
          .hidden = 1024,
          .heads = 8,
          .kv_heads = kv_heads,
          .head_dim = 128,
          .ffn = 2816};
}

KeptValues kept(std::initializer_list<BlockValue> values) {
  KeptValues all;
  for (const BlockValue value : values) {
    all.add(value);
  }
  return all;
}

ParallelPlan under_budget(double budget) {
  TitanPlan titan;
  titan.compiled = true;
  titan.memory_budget = budget;
  return test::titan_plan(8, titan);
}

/// The key and the words of a refusal.
std::string refusal_of(const ParallelPlan& plan) {
  const auto program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  return program.error().key + ": " + program.error().got;
}

}  // namespace

TEST_CASE("minimum cut: of several, the one nearest to the sink") {
  using Side = std::vector<bool>;
  // source -3-> a -3-> b -3-> sink: any of the edges is a minimum cut.
  CHECK(torch::sink_side(
            {.vertices = 4, .source = 0, .sink = 3, .edges = {{0, 1, 3}, {1, 2, 3}, {2, 3, 3}}}) ==
        Side{false, false, false, true});
  // Two ways, of which the narrow one leaves the wide one open up to its last edge.
  CHECK(torch::sink_side({.vertices = 4,
                          .source = 0,
                          .sink = 3,
                          .edges = {{0, 1, 10}, {0, 2, 1}, {1, 3, 4}, {2, 3, 5}}}) ==
        Side{false, false, true, true});
}

TEST_CASE("partitioner: what is cheap is run again, what is dear is saved within the budget") {
  // x -> m1 = x w -> s = f(m1) -> m2 = s w -> f(m2), the result. Backward reads m1, s and m2.
  constexpr std::int64_t kArgument = 1000;
  constexpr std::int64_t kBytes = 10'000;
  const std::vector<JointNode> graph = {
      {.op = JointOp::kInput, .reads = {}, .bytes = kArgument},
      {.op = JointOp::kInput, .reads = {}, .bytes = kArgument, .is_parameter = true},
      {.op = JointOp::kIntensive, .reads = {0, 1}, .bytes = kBytes, .flops = 100},
      {.op = JointOp::kPointwise, .reads = {2}, .bytes = kBytes},
      {.op = JointOp::kIntensive, .reads = {3, 1}, .bytes = kBytes, .flops = 300},
      {.op = JointOp::kPointwise, .reads = {4}, .bytes = kBytes, .is_output = true},
      {.op = JointOp::kPointwise, .reads = {2}, .bytes = kBytes, .is_gradient = true},
      {.op = JointOp::kIntensive, .reads = {3}, .bytes = kBytes, .is_gradient = true},
      {.op = JointOp::kPointwise, .reads = {4}, .bytes = kBytes, .is_gradient = true}};
  const auto saved = [&graph](double budget) { return torch::saved_nodes(graph, budget); };
  CHECK((saved(0) == Nodes{0, 1}));  // Arguments alone.
  // f(m1) is written down for a product of backward: only the fastest choice saves it.
  CHECK((saved(1) == Nodes{2, 3, 4}));
  // A budget of one is what that saves beyond the arguments, 28000 bytes; both products are
  // (20000 - 2000) / 28000 of it, 64 %.
  CHECK((saved(0.65) == Nodes{2, 4}));
  CHECK((saved(0.64) == Nodes{0, 1, 4}));  // Each is 36 %: room for the dearer one.
  CHECK((saved(0.35) == Nodes{0, 1}));
}

TEST_CASE("memory budget: what a block of Llama 3 keeps") {
  using V = BlockValue;
  CHECK(kept_values(narrow(4), 0).value() == KeptValues{});
  CHECK(kept_values(narrow(4), 0.05).value() == kept({V::kTable, V::kKeys}));
  CHECK(kept_values(narrow(4), 0.3).value() == kept({V::kTable, V::kKeys, V::kAttended, V::kGate}));
  CHECK(
      kept_values(narrow(4), 0.65).value() ==
      kept({V::kConjugate, V::kQueries, V::kKeys, V::kAttended, V::kProjected, V::kGate, V::kUp}));
  const KeptValues aggressive = kept({V::kConjugate, V::kRstd1, V::kQueries, V::kKeys, V::kValues,
                                      V::kAttended, V::kProjected, V::kRstd2, V::kGate, V::kUp});
  CHECK(kept_values(narrow(4), 0.7).value() == aggressive);
  CHECK(kept_values(narrow(4), 0.95).value() == aggressive);
  KeptValues all = aggressive;
  for (const V value : {V::kNormed1, V::kNormed2, V::kActive}) {
    all.add(value);
  }
  CHECK(kept_values(narrow(4), 1).value() == all);
}

TEST_CASE("memory budget: small sums are kept only where fp32 run times still see them") {
  using V = BlockValue;
  // With as many heads of keys, nothing but the sums of the norms fits into a twentieth.
  CHECK(kept_values(narrow(8), 0.05).value() == kept({V::kTable, V::kRstd1, V::kRstd2}));
  // Beside attention's 4e9 operations their one gets lost: they are run again.
  CHECK(kept_values(narrow(8), 0.1).value() == kept({V::kTable, V::kAttended}));
}

TEST_CASE("memory budget: Qwen3 keeps products of heads, from which norms and rotations follow") {
  using V = BlockValue;
  Sizes sizes = narrow(4);
  sizes.norms_heads = true;
  sizes.ffn = 3072;
  CHECK(kept_values(sizes, 0.15).value() == kept({V::kQueryProduct, V::kAttended}));
  CHECK(kept_values(sizes, 0.65).value() ==
        kept({V::kRstd1, V::kQueryProduct, V::kKeyProduct, V::kValues, V::kQueryRstd, V::kKeyRstd,
              V::kAttended, V::kProjected, V::kRstd2, V::kGate, V::kUp}));
}

TEST_CASE("memory budget: the loss keeps both numbers of a row, one or none") {
  using torchtitan::loss_keeps;
  using torchtitan::LossKeeps;
  CHECK(loss_keeps(8192, 32000, 1) == LossKeeps{.greatest = true, .log_sum = true});
  CHECK(loss_keeps(8192, 32000, 0.9) == LossKeeps{.greatest = true, .log_sum = false});
  CHECK(loss_keeps(8192, 32000, 0.4) == LossKeeps{.greatest = false, .log_sum = false});
}

TEST_CASE("peak order: a product that frees more than it takes runs first") {
  // 0 makes a (8), 1 makes b (8), 2: c (1) of a, 3: d (1) of b, 4: the result of c and d. One after
  // the other a and b are never there together.
  const std::vector<torch::ScheduledNode> nodes = {{.reads = {}, .makes = {0}},
                                                   {.reads = {}, .makes = {1}},
                                                   {.reads = {0}, .makes = {2}},
                                                   {.reads = {1}, .makes = {3}},
                                                   {.reads = {2, 3}, .makes = {4}}};
  std::vector<torch::ScheduledBuffer> buffers(5);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::int64_t bytes = i < 2 ? 8 : 1;
    buffers[i] = {.made = bytes, .freed = bytes, .number = i, .is_output = i == 4};
  }
  CHECK(torch::peak_order(nodes, buffers) == Nodes{0, 2, 1, 3, 4});
  // Where that lowers no peak, nodes stay in the order in which they were made.
  for (torch::ScheduledBuffer& buffer : buffers) {
    buffer.made = 0;
    buffer.freed = 0;
  }
  CHECK(torch::peak_order(nodes, buffers) == Nodes{0, 1, 2, 3, 4});
}

TEST_CASE("memory budget: peaks of Llama 3 as recorded") {
  struct Row {
    double budget;
    std::int64_t batch;
    std::int64_t first;
    std::int64_t second;
  };
  constexpr Row kRows[] = {
      {0, 1, 369'994'752, 470'943'232},        {0.3, 1, 389'985'280, 490'933'760},
      {0.65, 1, 419'824'640, 520'773'120},     {1, 1, 452'879'360, 553'827'840},
      {0.05, 8, 1'307'877'376, 1'442'380'288}, {0.4, 8, 1'547'742'208, 1'682'245'120},
      {0.9, 8, 1'761'881'088, 1'896'384'000}};
  for (const Row& row : kRows) {
    CAPTURE(row.budget);
    ParallelPlan plan = under_budget(row.budget);
    plan.workload.micro_batch = row.batch;
    const std::int64_t rest = row.batch == 1 ? 269'521'920 : 269'579'264;
    test::check_phases(titan_model("llama"), plan,
                       {{"step1", rest, row.first}, {"step2", rest + 512, row.second}});
  }
}

TEST_CASE("memory budget: what backward makes again is recomputation") {
  const auto again = [](const ParallelPlan& plan) {
    const RankProgram program = lower(titan_model("llama"), plan, Rank{0}, DeviceTraits{}).value();
    return std::ranges::count(work_ranges(program), RangeKind::kRecomputation, &WorkRange::kind);
  };
  CHECK(again(under_budget(1)) == 0);
  CHECK(again(under_budget(0.5)) > 0);
  CHECK(again(under_budget(0)) > again(under_budget(0.5)));
  ParallelPlan selective = under_budget(1);
  edit_titan(selective).memory_budget.reset();
  edit_titan(selective).selective_operators = true;
  CHECK(again(selective) > 0);
}

TEST_CASE("memory budget: what keeps as much as no budget is the same program") {
  const ModelSpec spec =
      parse_hf_config(R"({"hidden_size": 4096, "num_hidden_layers": 2, "vocab_size": 32000,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "tie_word_embeddings": false, "intermediate_size": 11008, "model_type": "llama"})",
                      "two layers")
          .value();
  ParallelPlan plan = under_budget(1);
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 4096;
  ParallelPlan none = plan;
  edit_titan(none).memory_budget.reset();
  const RankProgram budget = lower(spec, plan, Rank{0}, DeviceTraits{}).value();
  const RankProgram plain = lower(spec, none, Rank{0}, DeviceTraits{}).value();
  CHECK(test::events_of(budget, "step2") == test::events_of(plain, "step2"));
  edit_titan(plan).memory_budget = 0;
  CHECK(test::events_of(lower(spec, plan, Rank{0}, DeviceTraits{}).value(), "step2") !=
        test::events_of(plain, "step2"));
}

TEST_CASE("memory budget: needs compiled blocks, products in 16 bits and no other checkpointing") {
  ParallelPlan plan = under_budget(0.5);
  edit_titan(plan).compiled = false;
  CHECK(refusal_of(plan) ==
        "titan: has memory-budget, which needs compiled: it is a setting of torch.compile");
  plan = under_budget(0.5);
  plan.recompute = Recompute::kFull;
  CHECK(refusal_of(plan) ==
        "titan: has memory-budget together with another kind of activation checkpointing");
  plan = under_budget(0.5);
  edit_titan(plan).selective_operators = true;
  CHECK(refusal_of(plan) ==
        "titan: has memory-budget together with another kind of activation checkpointing");
  plan = under_budget(0.5);
  edit_titan(plan).float8 = Float8Recipe::kTensorwise;
  CHECK(refusal_of(plan) == "titan: with memory-budget and float8 is not modelled");
  plan = under_budget(0.5);
  plan.runtime_version = "2.9";
  CHECK(refusal_of(plan) == "runtime-version: 2.9");
}

}  // namespace headroom::ir
