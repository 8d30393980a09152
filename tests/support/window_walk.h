#pragma once

#include <algorithm>
#include <vector>

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLatin1String>
#include <QSlider>
#include <QSpinBox>
#include <QToolButton>
#include <QWidget>

#include "tests/support/random.h"

namespace headroom::test {

/// A control that a walk can turn: visible, enabled, and none of the catalogues, whose entries are
/// other models and GPUs.
inline std::vector<QWidget*> turnable_controls(QWidget& panel) {
  std::vector<QWidget*> controls;
  for (QWidget* const widget : panel.findChildren<QWidget*>()) {
    const bool kind = qobject_cast<QComboBox*>(widget) != nullptr ||
                      qobject_cast<QCheckBox*>(widget) != nullptr ||
                      qobject_cast<QSpinBox*>(widget) != nullptr ||
                      qobject_cast<QSlider*>(widget) != nullptr ||
                      qobject_cast<QDoubleSpinBox*>(widget) != nullptr ||
                      (qobject_cast<QToolButton*>(widget) != nullptr &&
                       qobject_cast<QToolButton*>(widget)->isCheckable());
    const bool catalogue = widget->objectName() == QLatin1String("model") ||
                           widget->objectName() == QLatin1String("gpu");
    if (kind && !catalogue && widget->isEnabled() && widget->isVisibleTo(&panel)) {
      controls.push_back(widget);
    }
  }
  return controls;
}

/// Turns a control to a random value, as a user could.
inline void turn(QWidget* control, Random& random) {
  if (auto* const list = qobject_cast<QComboBox*>(control)) {
    const int row = static_cast<int>(random.between(0, list->count() - 1));
    list->setCurrentIndex(row);
    if (list->isEditable()) {
      Q_EMIT list->activated(row);
    }
  } else if (auto* const box = qobject_cast<QCheckBox*>(control)) {
    box->click();
  } else if (auto* const slider = qobject_cast<QSlider*>(control)) {
    slider->setValue(static_cast<int>(random.between(slider->minimum(), slider->maximum())));
  } else if (auto* const spin = qobject_cast<QSpinBox*>(control)) {
    spin->stepBy(random.chance(1, 2) ? 1 : -1);
  } else if (auto* const share = qobject_cast<QDoubleSpinBox*>(control)) {
    share->stepBy(random.chance(1, 2) ? 1 : -1);
  } else if (auto* const button = qobject_cast<QToolButton*>(control)) {
    button->click();
  }
}

}  // namespace headroom::test
