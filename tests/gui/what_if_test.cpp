#include "gui/whatif/what_if.h"

#include <QSignalSpy>

#include <doctest/doctest.h>

#include "runtimes/torch/ddp_plan.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::with_micro_batch;

}  // namespace

TEST_CASE("WhatIf: undo and redo walk through every edit") {
  WhatIf what_if(default_scenario());
  const Scenario first = what_if.scenario();
  what_if.change(with_micro_batch(first, 2), {.field = Field::kOption, .gesture = 0});
  what_if.change(with_micro_batch(first, 3), {.field = Field::kOption, .gesture = 0});
  CHECK(what_if.undoStack()->count() == 2);
  what_if.undoStack()->undo();
  CHECK(what_if.scenario() == with_micro_batch(first, 2));
  what_if.undoStack()->undo();
  CHECK(what_if.scenario() == first);
  what_if.undoStack()->redo();
  what_if.undoStack()->redo();
  CHECK(what_if.scenario() == with_micro_batch(first, 3));
}

TEST_CASE("WhatIf: another GPU leaves the node of a plan file and keeps its host's memory") {
  Scenario first = default_scenario();
  first.host = {.node = "dgx-a100", .memory = Bytes{kGiB}, .nvme = {}, .nvme_rate = {}};
  WhatIf what_if(first);
  what_if.change(with_micro_batch(first, 2), {.field = Field::kOption, .gesture = 0});
  CHECK(what_if.scenario().host == first.host);
  Scenario other = what_if.scenario();
  other.gpu = "h100-80gb";
  what_if.change(other, {.field = Field::kGpu, .gesture = 0});
  CHECK_FALSE(what_if.scenario().host.node);
  CHECK(what_if.scenario().host.memory == Bytes{kGiB});
  what_if.reset();
  CHECK(what_if.scenario().host == first.host);
}

TEST_CASE("WhatIf: edits of one gesture are one step of the stack") {
  WhatIf what_if(default_scenario());
  const Scenario first = what_if.scenario();
  for (int micro_batch = 2; micro_batch <= 9; ++micro_batch) {
    what_if.change(with_micro_batch(first, micro_batch), {.field = Field::kOption, .gesture = 7});
  }
  CHECK(what_if.undoStack()->count() == 1);
  CHECK(what_if.scenario().plan.workload.micro_batch == 9);
  what_if.undoStack()->undo();
  CHECK(what_if.scenario() == first);
}

TEST_CASE("WhatIf: options are steps of their own, named by their labels") {
  WhatIf what_if(default_scenario());
  const Scenario first = what_if.scenario();
  what_if.change(with_micro_batch(first, 2),
                 {.field = Field::kOption, .gesture = 1, .control = "megatron.tp"});
  what_if.change(with_micro_batch(first, 3), {.field = Field::kOption,
                                              .gesture = 1,
                                              .control = "fsdp.replicas",
                                              .text = QStringLiteral("Replicas")});
  CHECK(what_if.undoStack()->count() == 2);
  CHECK(what_if.undoStack()->undoText() == QStringLiteral("Replicas"));
}

TEST_CASE("WhatIf: another gesture or another field is another step") {
  WhatIf what_if(default_scenario());
  Scenario next = what_if.scenario();
  next.plan.workload.micro_batch = 2;
  what_if.change(next, {.field = Field::kOption, .gesture = 1});
  next.plan.workload.micro_batch = 3;
  what_if.change(next, {.field = Field::kOption, .gesture = 2});
  next.plan.workload.sequence = 4096;
  what_if.change(next, {.field = Field::kOption, .gesture = 2, .control = "plan.sequence"});
  CHECK(what_if.undoStack()->count() == 3);
}

TEST_CASE("WhatIf: a slider that comes back to where it started leaves no step") {
  WhatIf what_if(default_scenario());
  const Scenario first = what_if.scenario();
  what_if.change(with_micro_batch(first, 5), {.field = Field::kOption, .gesture = 1});
  what_if.change(first, {.field = Field::kOption, .gesture = 1});
  CHECK(what_if.undoStack()->count() == 0);
  CHECK(what_if.scenario() == first);
}

TEST_CASE("WhatIf: reset is an edit like any other") {
  WhatIf what_if(default_scenario());
  const Scenario edited = with_micro_batch(what_if.scenario(), 5);
  what_if.change(edited, {.field = Field::kOption, .gesture = 0});
  what_if.reset();
  CHECK(what_if.scenario() == default_scenario());
  what_if.undoStack()->undo();
  CHECK(what_if.scenario() == edited);
}

TEST_CASE("WhatIf: a change is settled, announced, and named in the undo menu") {
  WhatIf what_if(default_scenario());
  const QSignalSpy changed(&what_if, &WhatIf::changed);
  Scenario next = what_if.scenario();
  next.plan.world = 4;
  what_if.change(next, {.field = Field::kGpus, .gesture = 0});
  CHECK(has_ddp(what_if.scenario().plan));
  CHECK(changed.count() == 1);
  CHECK(what_if.undoStack()->undoText() == QStringLiteral("number of GPUs"));
}

TEST_CASE("WhatIf: what is settled away is announced, so that the editor shows the truth") {
  WhatIf what_if(default_scenario());
  const QSignalSpy changed(&what_if, &WhatIf::changed);
  Scenario next = what_if.scenario();
  next.plan.quant.emplace();  // Without LoRA: cannot be.
  what_if.change(next, {.field = Field::kOption, .gesture = 0});
  CHECK(what_if.scenario() == default_scenario());
  CHECK(what_if.undoStack()->count() == 0);
  CHECK(changed.count() == 1);
}

TEST_CASE("WhatIf: free axes belong to the session and are no steps") {
  WhatIf what_if(default_scenario());
  const QSignalSpy changed(&what_if, &WhatIf::freeAxesChanged);
  what_if.setFreeAxes({"tp", "micro-batch"});
  what_if.setFreeAxes({"tp", "micro-batch"});
  CHECK(changed.count() == 1);
  CHECK(what_if.freeAxes() == std::set<std::string>{"micro-batch", "tp"});
  CHECK(what_if.undoStack()->count() == 0);
}

TEST_CASE("field_name: every field has its own name") {
  QStringList names;
  for (int field = 0; field <= static_cast<int>(Field::kEverything); ++field) {
    names.append(field_name(static_cast<Field>(field)));
  }
  CHECK_FALSE(names.contains(QString()));
  CHECK(names.removeDuplicates() == 0);
}

}  // namespace headroom::gui
