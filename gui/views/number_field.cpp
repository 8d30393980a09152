#include "gui/views/number_field.h"

#include <algorithm>
#include <bit>

#include <QHBoxLayout>
#include <QLocale>
#include <QSignalBlocker>
#include <QWheelEvent>

namespace headroom::gui {
namespace {

/// The largest usual value of any field. Larger numbers scroll.
constexpr int kWidest = 1'048'576;

/// A spin box whose arrows can double and halve the value.
class StepBox : public QSpinBox {
 public:
  StepBox(NumberField::Steps steps, QWidget* parent) : QSpinBox(parent), steps_(steps) {}

  void stepBy(int steps) override {
    if (steps_ == NumberField::Steps::kOne) {
      QSpinBox::stepBy(steps);
      return;
    }
    auto now = static_cast<unsigned>(value());
    for (; steps > 0; --steps) {  // To the next power of two from any value.
      now = std::max(std::bit_floor(now) * 2, 1U);
    }
    for (; steps < 0; ++steps) {
      now = std::bit_ceil(now) / 2;
    }
    setValue(static_cast<int>(
        std::clamp(now, static_cast<unsigned>(minimum()), static_cast<unsigned>(maximum()))));
  }

 protected:
  void wheelEvent(QWheelEvent* event) override {
    event->ignore();  // The panel scrolls; nobody changes a plan by scrolling.
  }

 private:
  NumberField::Steps steps_;
};

class StillSlider : public QSlider {
 public:
  using QSlider::QSlider;

 protected:
  void wheelEvent(QWheelEvent* event) override { event->ignore(); }
};

}  // namespace

NumberField::NumberField(const Range& range, const QString& accessible_name, QWidget* parent)
    : QWidget(parent),
      range_(range),
      slider_(new StillSlider(Qt::Horizontal, this)),
      spin_(new StepBox(range.steps, this)) {
  spin_->setRange(range.least, range.most);
  spin_->setKeyboardTracking(false);  // A half-typed number is no edit.
  spin_->setGroupSeparatorShown(true);
  spin_->setAlignment(Qt::AlignRight);
  spin_->setAccessibleName(accessible_name);
  slider_->setRange(positionOf(range.slider_least), positionOf(range.slider_most));
  slider_->setPageStep(range.steps == Steps::kOne ? 4 : 1);
  slider_->setAccessibleName(tr("%1, slider").arg(accessible_name));
  auto* const row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(slider_, 1);
  row->addWidget(spin_);
  fixWidth();
  setFocusProxy(spin_);
  connect(slider_, &QSlider::valueChanged, this,
          [this](int position) { announce(valueAt(position)); });
  connect(slider_, &QSlider::sliderPressed, this, [this] { ++gesture_; });
  connect(spin_, &QSpinBox::valueChanged, this, &NumberField::announce);
}

void NumberField::setUnit(const QString& unit) {
  unit_ = unit;
  show(spin_->value());
}

/// All fields have the same width, so that sliders and boxes are aligned.
void NumberField::fixWidth() {
  spin_->setFixedWidth(
      fontMetrics().horizontalAdvance(QLocale().toString(kWidest) + QStringLiteral(" tok")) +
      fontMetrics().height() * 2);
}

void NumberField::setValue(int value) {
  show(value);
}

void NumberField::show(int value) {
  const QSignalBlocker slider(slider_);
  const QSignalBlocker spin(spin_);
  slider_->setValue(positionOf(value));
  spin_->setValue(value);
  if (!unit_.isEmpty()) {
    const bool one = value == 1 && unit_.endsWith(QLatin1Char('s'));
    spin_->setSuffix(QChar(0x00a0) + (one ? unit_.chopped(1) : unit_));
  }
}

void NumberField::announce(int value) {
  if (!slider_->isSliderDown()) {
    ++gesture_;
  }
  show(value);
  Q_EMIT edited(value, gesture_);
}

int NumberField::positionOf(int value) const {
  if (range_.steps == Steps::kOne) {
    return value;
  }
  return static_cast<int>(std::bit_width(static_cast<unsigned>(value))) - 1;
}

int NumberField::valueAt(int position) const {
  if (range_.steps == Steps::kOne) {
    return position;
  }
  return position < 0 ? 0 : 1 << position;  // 0 is below 1 = 2^0.
}

}  // namespace headroom::gui
