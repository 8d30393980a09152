#pragma once

#include <memory>

#include <QActionGroup>
#include <QMainWindow>
#include <QStringList>
#include <QTimer>

#include "gui/models/catalogue_model.h"
#include "gui/theme/palette.h"
#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if.h"

class QLabel;

namespace headroom::gui {

class PageBook;
class ScenarioEditor;
class VerdictHeader;

/// What the window is constructed with. Tests can replace the estimator.
struct WindowSetup {
  Scenario scenario;
  Estimator estimator;
  std::vector<CatalogueEntry> models;
  std::vector<CatalogueEntry> gpus;
  QStringList notes{};       ///< What the user is to know of the scenario, as sentences.
  std::string config_dir{};  ///< The catalogue's folder; empty: pages that need it say so.
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

  /// The pages below the verdict; `PageBook::openPage` chooses one by its object name.
  [[nodiscard]] PageBook* pages() const { return pages_; }
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
  [[nodiscard]] QSize usualSize() const;
  void nameWindow();
  void ask(const Scenario& scenario);
  void showAnswer(const Answer& answer);
  void chooseModelFile();
  void choosePicture();

  QPalette desktop_palette_;
  CatalogueModel models_;
  CatalogueModel gpus_;
  std::string config_dir_;
  WhatIf what_if_;
  EstimateWorker worker_;
  QActionGroup looks_{this};
  QTimer patience_;  ///< When it expires, the window says that it is computing.
  ScenarioEditor* editor_ = nullptr;
  VerdictHeader* header_ = nullptr;
  PageBook* pages_ = nullptr;
};

}  // namespace headroom::gui
