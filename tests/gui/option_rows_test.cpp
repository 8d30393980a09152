#include "gui/models/option_rows.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "planner/space/all_axes.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"
#include "tests/gui/fake_estimate.h"
#include "tests/support/toy_framework.h"

namespace headroom::gui {
namespace {

const OptionRow& row_of(const std::vector<OptionGroup>& groups, const std::string& id) {
  for (const OptionGroup& group : groups) {
    for (const OptionRow& row : group.rows) {
      if (row.id == id) {
        return row;
      }
    }
  }
  FAIL("no row is " << id);
  return groups.front().rows.front();
}

}  // namespace

TEST_CASE("option rows: every option of every part is a row of the frameworks that read it") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    CAPTURE(runtime->name());
    const std::vector<OptionGroup> groups = option_groups(*runtime);
    std::set<std::string> ids;
    for (const OptionGroup& group : groups) {
      CHECK_FALSE(group.title.isEmpty());
      for (const OptionRow& row : group.rows) {
        CAPTURE(row.id);
        CHECK(ids.insert(row.id).second);
        CHECK_FALSE(row.label.isEmpty());
        CHECK_FALSE(row.help.isEmpty());
      }
    }
    std::size_t expected = ir::plan_options().fields.size() - 2;  // Framework and number of GPUs.
    expected += ir::optimizer_options().fields.size();
    for (const ir::PlanPart* const part : ir::plan_parts()) {
      const auto own = runtime->parts();
      if (part->runtime.empty() || std::ranges::find(own, part) != own.end()) {
        expected += part->fields.size();
      }
    }
    CHECK(ids.size() == expected);
  }
}

TEST_CASE("option rows: no two options of a group that are at hand have one label") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (const OptionGroup& group : option_groups(*runtime)) {
      std::set<QString> labels;
      for (const OptionRow& row : group.rows) {
        CAPTURE(row.id);
        CHECK(labels.insert(row.label).second);
      }
    }
  }
}

TEST_CASE("option rows: a framework that is added brings its options without code of the window") {
  const headroom::test::ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const std::vector<OptionGroup> groups = option_groups(toy);
  CHECK(row_of(groups, "toy.wheels").label == QStringLiteral("Wheels"));
}

TEST_CASE("option rows: what can be freed for the search is an axis of the search") {
  std::set<std::string> axes;
  for (const plan::Axis axis : plan::all_axes()) {
    axes.insert(std::string(plan::option_of(axis)));
  }
  std::size_t found = 0;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (const OptionGroup& group : option_groups(*runtime)) {
      for (const OptionRow& row : group.rows) {
        if (!row.axis.empty()) {
          CAPTURE(row.id);
          CHECK(axes.contains(row.axis));
          ++found;
        }
      }
    }
  }
  CHECK(found > 20);
  const std::vector<OptionGroup> groups = option_groups(*ir::find_runtime("transformers"));
  CHECK(row_of(groups, "plan.checkpointing").axis == "recompute");
  CHECK(row_of(groups, "plan.sequence").axis == "seq");
  CHECK(row_of(groups, "optimizer.kind").axis == "optimizer");
  CHECK(row_of(groups, "plan.keep_logits").axis.empty());
}

TEST_CASE("option rows: names become labels") {
  CHECK(words_of_name("reshard_after_forward") == QStringLiteral("Reshard after forward"));
  CHECK(words_of_name("fp8_param_gather") == QStringLiteral("FP8 param gather"));
}

TEST_CASE("option rows: help says what one types, and the framework's own name") {
  const std::vector<OptionGroup> groups = option_groups(*ir::find_runtime("megatron"));
  const OptionRow& row = row_of(groups, "megatron.tp");
  CHECK(row.label == QStringLiteral("Tensor parallel"));
  CHECK(row.help.contains(QStringLiteral("--megatron tp=N")));
  CHECK(row.help.contains(QStringLiteral("--tensor-model-parallel-size")));
  CHECK(row.axis == "tp");
  CHECK(row.words.contains(QStringLiteral("tensor")));
}

TEST_CASE("changes_between: names what differs, in both directions") {
  ir::ParallelPlan before;
  ir::ParallelPlan after;
  CHECK(changes_between(before, after).empty());
  after.workload.micro_batch = 4;
  after.workload.sequence = 8192;
  after.lora.emplace();
  const auto changes = changes_between(before, after);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0] == OptionChange{QStringLiteral("Micro-batch"), QStringLiteral("1\u00a0sequence"),
                                   QStringLiteral("4\u00a0sequences")});
  CHECK(changes[1].label == QStringLiteral("Sequence length"));
  CHECK(changes[2].after == QStringLiteral("yes"));
  CHECK(changes_between(after, before).size() == 3);
}

}  // namespace headroom::gui
