#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <QTimer>
#include <QWidget>

#include "gui/models/catalogue_model.h"
#include "gui/views/option_control.h"
#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if_command.h"

class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QScrollArea;
class QVBoxLayout;

namespace headroom::gui {

class OptionSection;

/// The controls of a scenario: model and hardware, then every option of the framework, from the
/// tables of its parts. The editor does not own the scenario: it announces edits, and shows what it
/// receives through `setScenario`.
class ScenarioEditor : public QWidget {
  Q_OBJECT

 public:
  /// Not owned; they must outlive the editor.
  struct Catalogues {
    CatalogueModel* models = nullptr;
    CatalogueModel* gpus = nullptr;
  };

  explicit ScenarioEditor(const Catalogues& catalogues, QWidget* parent = nullptr);

  /// Shows `scenario` without emitting a signal.
  void setScenario(const Scenario& scenario);
  void setFreeAxes(const std::set<std::string>& axes);
  /// Takes what an answer was made of, so that impossible values can be found.
  void setGrounds(std::shared_ptr<const Grounds> grounds);
  /// Shows an error of the input at the option that it names; nothing: there is no error.
  void showRefusal(const std::optional<Error>& error);
  /// Shows how much memory the GPU has for the allocator; empty: it is not known.
  void showUsable(const QString& text);
  void focusFilter();

 Q_SIGNALS:
  void edited(const headroom::gui::Scenario& after, const headroom::gui::Edit& edit);
  void freeAxesEdited(const std::set<std::string>& axes);
  /// Emitted when the button beside the model is pressed.
  void openRequested();

 private:
  using Change = std::function<void(Scenario&)>;

  void addHardware(QVBoxLayout* column);
  void addModelRows(QFormLayout* form);
  void addGpuRows(QFormLayout* form);
  void addRuntimeRow(QFormLayout* form);
  /// Lines for the host and for costs, which are seldom needed.
  void addSiteRows(QVBoxLayout* column);
  void rebuildSections();
  void filterChanged(const QString& text);
  void markImpossible();
  [[nodiscard]] QString whyNot(const OptionRow& row, const ir::JsonValue& value) const;

  void addRow(QFormLayout* form, const QString& label, QWidget* control);
  QComboBox* addCatalogue(QFormLayout* form, const QString& label, CatalogueModel* catalogue);
  /// A line of text that may be empty. `read` returns false for a text that it does not understand.
  QLineEdit* addText(QFormLayout* form, const QString& label, const Edit& edit,
                     std::function<QString(const Scenario&)> text,
                     std::function<bool(Scenario&, const std::string&)> read);
  void announce(const Edit& edit, const Change& change);

  CatalogueModel* models_;
  CatalogueModel* gpus_;
  Scenario shown_;
  std::set<std::string> free_;
  std::shared_ptr<const Grounds> grounds_;
  std::string runtime_;  ///< The framework of the sections.
  QLineEdit* filter_ = nullptr;
  QLabel* usable_ = nullptr;
  QLabel* no_match_ = nullptr;
  QWidget* hardware_ = nullptr;
  QScrollArea* area_ = nullptr;
  QVBoxLayout* options_ = nullptr;
  QTimer idle_;  ///< Marks impossible values once nothing else is to be done.
  std::vector<OptionSection*> sections_;
  /// Hides the row of `control` while a recorded program is shown.
  void showForPlansOnly(QFormLayout* form, QWidget* control);

  std::vector<std::function<void(const Scenario&)>> show_;  ///< One function per fixed control.
};

}  // namespace headroom::gui
