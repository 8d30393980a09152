#include "gui/whatif/what_if.h"

#include <string>
#include <utility>

#include <QCoreApplication>

namespace headroom::gui {
namespace {

const char* untranslated_field(Field field) {
  switch (field) {
    case Field::kModel:
      return QT_TRANSLATE_NOOP("Field", "model");
    case Field::kGpu:
      return QT_TRANSLATE_NOOP("Field", "GPU");
    case Field::kGpus:
      return QT_TRANSLATE_NOOP("Field", "number of GPUs");
    case Field::kBudget:
      return QT_TRANSLATE_NOOP("Field", "budget");
    case Field::kHost:
      return QT_TRANSLATE_NOOP("Field", "host");
    case Field::kCosts:
      return QT_TRANSLATE_NOOP("Field", "costs");
    case Field::kRuntime:
      return QT_TRANSLATE_NOOP("Field", "framework");
    case Field::kOption:
      return QT_TRANSLATE_NOOP("Field", "option");
    case Field::kPart:
      return QT_TRANSLATE_NOOP("Field", "part of the plan");
    case Field::kPlan:
      return QT_TRANSLATE_NOOP("Field", "plan");
    case Field::kEverything:
      return QT_TRANSLATE_NOOP("Field", "reset");
  }
  return "";
}

}  // namespace

QString field_name(Field field) {
  return QCoreApplication::translate("Field", untranslated_field(field));
}

WhatIf::WhatIf(Scenario initial, QObject* parent)
    : QObject(parent), initial_(settled(std::move(initial))), scenario_(initial_) {}

void WhatIf::change(const Scenario& after, const Edit& edit) {
  Scenario next = settled(after);
  if (next.gpu != scenario_.gpu && next.host == scenario_.host) {
    next.host.node.reset();  // It holds the other GPU.
  }
  if (next == scenario_) {
    // Settling may have undone the edit. The editor must then show the old value again.
    Q_EMIT changed(scenario_);
    return;
  }
  auto* const command = new WhatIfCommand(scenario_, std::move(next), edit,
                                          [this](const Scenario& scenario) { apply(scenario); });
  command->setText(edit.text.isEmpty() ? field_name(edit.field) : edit.text);
  undo_.push(command);  // The stack owns it and applies it.
}

void WhatIf::setFreeAxes(std::set<std::string> axes) {
  if (axes != free_axes_) {
    free_axes_ = std::move(axes);
    Q_EMIT freeAxesChanged();
  }
}

void WhatIf::reset() {
  change(initial_, {.field = Field::kEverything, .gesture = 0});
}

void WhatIf::apply(const Scenario& scenario) {
  scenario_ = scenario;
  Q_EMIT changed(scenario_);
}

}  // namespace headroom::gui
