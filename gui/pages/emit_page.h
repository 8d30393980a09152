#pragma once

#include <optional>

#include "gui/pages/page.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QPushButton;

namespace headroom::gui {

/// The page with everything that starts the plan: the configuration file of its framework, how the
/// framework is started, and the command that asks the same question.
class EmitPage : public Page {
  Q_OBJECT

 public:
  explicit EmitPage(QWidget* parent = nullptr);

  void setAnswer(const Answer& answer) override;

  /// The command that answers what the window shows; empty without an answer.
  [[nodiscard]] QString command() const;
  /// The file's text; empty if the framework has none, or if the plan is refused.
  [[nodiscard]] QString configuration() const;
  /// Saves the file. Returns the reason if that failed, else an empty string.
  [[nodiscard]] QString saveConfiguration(const QString& path) const;

 private:
  /// A title with a button that copies, above a text that cannot be edited.
  QPlainTextEdit* addText(const QString& title, const QString& copied, int lines);
  void refresh();
  /// Shows the file's text and its buttons, or leaves their room to the launch command.
  void showFile(bool present);
  void chooseFile();

  std::optional<Answer> answer_;
  QComboBox* format_ = nullptr;
  QLabel* problem_ = nullptr;
  QPushButton* save_ = nullptr;
  QPushButton* copy_ = nullptr;  ///< The button for the file.
  int launch_height_ = 0;
  QPlainTextEdit* file_ = nullptr;
  QPlainTextEdit* launch_ = nullptr;
  QPlainTextEdit* command_ = nullptr;
};

}  // namespace headroom::gui
