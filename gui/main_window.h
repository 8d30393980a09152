#pragma once

#include <memory>

#include <QActionGroup>
#include <QMainWindow>
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

/// What the window is made with. The estimator is a seam: tests put their own in.
struct WindowSetup {
  Scenario scenario;
  Estimator estimator;
  std::vector<CatalogueEntry> models;
  std::vector<CatalogueEntry> gpus;
};

/// The what-if window: controls on the left, the answer on the right.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(WindowSetup setup, QWidget* parent = nullptr);

  /// Makes the config.json at `path`, or the one in the folder `path`, the model.
  void openModel(const QString& path);
  /// Writes the window as it looks now as a PNG; the reason if that failed, else nothing.
  [[nodiscard]] QString savePicture(const QString& path);
  void setLook(Look look);

  [[nodiscard]] const Scenario& scenario() const { return what_if_.scenario(); }

 Q_SIGNALS:
  /// The newest question has its answer, and the window shows it.
  void answered(const headroom::gui::Answer& answer);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void buildMenus();
  void addLooks(QMenu* menu);
  void buildContents();
  [[nodiscard]] QTableView* makeTable();
  [[nodiscard]] QSize usualSize() const;
  void nameWindow();
  void ask(const Scenario& scenario);
  void showAnswer(const Answer& answer);
  /// Gives chart and table the room that the first answer needs.
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
  QTimer patience_;  ///< Runs out when an answer is slow enough to be worth a word.
  ScenarioEditor* editor_ = nullptr;
  VerdictHeader* header_ = nullptr;
  QSplitter* pictures_ = nullptr;
  bool room_is_shared_ = false;
  QTableView* table_ = nullptr;
  QLabel* table_title_ = nullptr;
  BreakdownView* bars_ = nullptr;
};

}  // namespace headroom::gui
