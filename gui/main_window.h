#pragma once

#include <memory>

#include <QActionGroup>
#include <QMainWindow>
#include <QStringList>
#include <QTimer>

#include "gui/models/breakdown_model.h"
#include "gui/models/catalogue_model.h"
#include "gui/theme/palette.h"
#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if.h"

class QLabel;
class QSplitter;
class QTableView;

namespace headroom::gui {

class BreakdownView;
class ScenarioEditor;
class VerdictHeader;

/// What the window is constructed with. Tests can replace the estimator.
struct WindowSetup {
  Scenario scenario;
  Estimator estimator;
  std::vector<CatalogueEntry> models;
  std::vector<CatalogueEntry> gpus;
  QStringList notes{};  ///< What the user is to know of the scenario, as sentences.
};

/// The what-if window, with controls on the left and the answer on the right.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(WindowSetup setup, QWidget* parent = nullptr);

  /// Opens the config.json at `path`, or in the folder `path`, as the model.
  void openModel(const QString& path);
  /// Saves a picture of the window as PNG. Returns the reason if that failed, else an empty string.
  [[nodiscard]] QString savePicture(const QString& path);
  void setLook(Look look);

  [[nodiscard]] const Scenario& scenario() const { return what_if_.scenario(); }

 Q_SIGNALS:
  /// Emitted when the newest request has been answered and the window shows the answer.
  void answered(const headroom::gui::Answer& answer);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void buildMenus();
  void addLooks(QMenu* menu);
  void buildContents(const QStringList& notes);
  [[nodiscard]] QTableView* makeTable();
  [[nodiscard]] QSize usualSize() const;
  void nameWindow();
  void ask(const Scenario& scenario);
  void showAnswer(const Answer& answer);
  /// Divides the room between chart and table, once, as the first answer needs it.
  void shareRoomOnce();
  void chooseModelFile();
  void choosePicture();

  QPalette desktop_palette_;
  CatalogueModel models_;
  CatalogueModel gpus_;
  BreakdownModel breakdown_;
  WhatIf what_if_;
  EstimateWorker worker_;
  QActionGroup looks_{this};
  QTimer patience_;  ///< When it expires, the window says that it is computing.
  ScenarioEditor* editor_ = nullptr;
  VerdictHeader* header_ = nullptr;
  QSplitter* pictures_ = nullptr;
  bool room_is_shared_ = false;
  QTableView* table_ = nullptr;
  QLabel* table_title_ = nullptr;
  BreakdownView* bars_ = nullptr;
};

}  // namespace headroom::gui
