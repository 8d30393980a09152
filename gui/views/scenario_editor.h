#pragma once

#include <functional>
#include <vector>

#include <QAbstractItemModel>
#include <QWidget>

#include "gui/models/catalogue_model.h"
#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if_command.h"
#include "runtimes/interface/plan_control.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLineEdit;

namespace headroom::gui {

class NumberField;

/// The controls of a scenario. The editor does not own the scenario: it announces edits, and shows
/// what it receives through `setScenario`.
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

 Q_SIGNALS:
  void edited(const headroom::gui::Scenario& after, const headroom::gui::Edit& edit);
  /// Emitted when the button beside the model is pressed.
  void openRequested();

 private:
  using Change = std::function<void(Scenario&)>;

  void addHardwareRows();
  /// Adds the controls that only some frameworks have.
  void addControlRows();
  /// Adds a combo box for a control with choices, otherwise a number field.
  QWidget* addControl(const ir::PlanControl& control, const QString& label);
  void addTrainingRows();
  void addBatchRows();
  void addAdapterRows();

  void addSection(const QString& title);
  void addRow(const QString& label, QWidget* control);
  QComboBox* addCatalogue(const QString& label, CatalogueModel* catalogue);
  void announce(const Edit& edit, const Change& change);
  void announceBudget();
  void markBudget();

  /// Adds a combo box of `Choice<T>`s. `make` returns them, `pick` reads the value from a scenario
  /// and `put` writes it.
  template <typename Choices, typename Pick, typename Put>
  QComboBox* addChoice(const Edit& edit, const QString& label, Choices make, Pick pick, Put put);
  template <typename Pick, typename Put>
  NumberField* addNumber(const Edit& edit, const QString& label, NumberField* control, Pick pick,
                         Put put);

  CatalogueModel* models_;
  CatalogueModel* gpus_;
  Scenario shown_;
  QFormLayout* form_;
  QLineEdit* budget_ = nullptr;
  std::vector<std::function<void(const Scenario&)>> show_;  ///< One function per control.
};

}  // namespace headroom::gui
