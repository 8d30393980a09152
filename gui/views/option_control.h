#pragma once

#include <functional>

#include <QString>
#include <QWidget>

#include "gui/models/option_rows.h"
#include "model_ir/json/json_value.h"

class QLabel;
class QToolButton;

namespace headroom::gui {

/// Says why a value cannot be chosen; empty if it can.
using Probe = std::function<QString(const OptionRow& row, const ir::JsonValue& value)>;

/// The label and the control of one option: a check box, a list, a number with a slider, or a text,
/// as the option's row in its table says. Below them stands why the present value is refused.
class OptionControl : public QWidget {
  Q_OBJECT

 public:
  /// Keeps a reference to the tables only. `probe` may be empty.
  OptionControl(const OptionRow& row, Probe probe, QWidget* parent = nullptr);

  [[nodiscard]] const OptionRow& row() const { return row_; }

  /// Shows the option's value in `plan` without emitting a signal.
  void showPlan(const ir::ParallelPlan& plan);
  /// Whether the user has turned the control, or a reason is shown, since `showPlan`.
  [[nodiscard]] bool isTouched() const { return touched_; }
  /// Shows why the value is refused; empty: it is not.
  void showRefusal(const QString& reason);
  /// Marks a switch that cannot be turned, with the reason. Lists mark their values when they open.
  void markImpossible();
  void showFree(bool free);

 Q_SIGNALS:
  /// The user chose `value`. `gesture` stays the same while a slider is held; otherwise it is 0.
  void edited(const headroom::ir::JsonValue& value, qint64 gesture);
  void freeToggled(bool free);

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void addSwitch();
  void addChoices();
  void addExamples();
  void addNames();
  void addNumber();
  void addShare();
  void addText();
  [[nodiscard]] QWidget* makeEditor();
  void announce(const ir::JsonValue& value, qint64 gesture = 0);
  void applyTheme();
  void elideLabel();

  OptionRow row_;
  Probe probe_;
  ir::JsonValue value_;  ///< The value that is shown.
  QLabel* label_ = nullptr;
  QLabel* refusal_ = nullptr;
  QToolButton* free_ = nullptr;
  QWidget* editor_ = nullptr;
  std::function<void(const ir::JsonValue&)> show_;
  QString impossible_;
  bool touched_ = true;  ///< Nothing has been shown yet.
};

}  // namespace headroom::gui
