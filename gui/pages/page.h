#pragma once

#include <string>

#include <QWidget>

#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/what_if_command.h"

namespace headroom::gui {

/// One page of the window: a view of the newest answer. Its object name is what `--view` takes.
///
/// A page is told of answers only while it is visible, and of the newest one when it is shown.
class Page : public QWidget {
  Q_OBJECT

 public:
  Page(const QString& name, const QString& title, QWidget* parent = nullptr);

  /// The text of its tab.
  [[nodiscard]] const QString& title() const { return title_; }
  /// Shows an answer. What needs more than the estimate is computed on another thread; `settled` is
  /// emitted when it is shown.
  virtual void setAnswer(const Answer& answer) = 0;
  /// Does what the user would have to ask for first, before a picture is taken: the page of the
  /// search searches.
  virtual void prepare() {}
  /// Whether something is still being computed for what was set last.
  [[nodiscard]] virtual bool isBusy() const { return false; }

 Q_SIGNALS:
  /// Emitted when the page shows all of what was set last.
  void settled();
  /// Emitted when the user changes the scenario on the page.
  void edited(const headroom::gui::Scenario& after, const headroom::gui::Edit& edit);

 private:
  QString title_;
};

}  // namespace headroom::gui
