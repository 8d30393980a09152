#pragma once

#include <cstdint>

#include <QSlider>
#include <QSpinBox>
#include <QWidget>

namespace headroom::gui {

/// A field for a whole number, with a slider for usual values and a spin box for any value.
class NumberField : public QWidget {
  Q_OBJECT

 public:
  enum class Steps : std::uint8_t { kOne, kPowersOfTwo };
  struct Range {
    int least = 1;
    int most = 1;
    int slider_least = 1;
    int slider_most = 1;
    Steps steps = Steps::kOne;  ///< Steps of the slider and of the box's arrows.
  };

  NumberField(const Range& range, const QString& accessible_name, QWidget* parent = nullptr);

  [[nodiscard]] int value() const { return spin_->value(); }
  /// Shows `value` without emitting a signal.
  void setValue(int value);
  /// Shows `unit` behind the number.
  void setUnit(const QString& unit);

  [[nodiscard]] QSpinBox* spin() { return spin_; }
  [[nodiscard]] QSlider* slider() { return slider_; }

 Q_SIGNALS:
  /// The user chose `value`. `gesture` stays the same while a slider is held.
  void edited(int value, qint64 gesture);

 private:
  void show(int value);
  void fixWidth();
  void announce(int value);
  [[nodiscard]] int positionOf(int value) const;
  [[nodiscard]] int valueAt(int position) const;

  Range range_;
  QString unit_;
  QSlider* slider_;
  QSpinBox* spin_;
  qint64 gesture_ = 0;
};

}  // namespace headroom::gui
