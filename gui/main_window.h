#pragma once

#include <memory>
#include <optional>

#include <QAction>
#include <QActionGroup>
#include <QMainWindow>
#include <QStringList>
#include <QTimer>

#include "gui/models/catalogue_model.h"
#include "gui/models/compare_model.h"
#include "gui/models/remedy_text.h"
#include "gui/theme/palette.h"
#include "gui/whatif/estimate_worker.h"
#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if.h"

class QLabel;
class QMenu;

namespace headroom::gui {

class ComparePage;
class EmitPage;
class PageBook;
class SearchPage;
class TimelinePage;
class ScenarioEditor;
class VerdictHeader;

/// The parts with which the window is constructed. Tests can replace the estimators.
struct WindowSetup {
  Scenario scenario;
  Estimator estimator;
  std::vector<CatalogueEntry> models;
  std::vector<CatalogueEntry> gpus;
  QStringList notes{};       ///< Remarks on the scenario for the user, as sentences.
  std::string config_dir{};  ///< The catalogue's folder; empty: pages that need it say so.
  Estimator remedies{};      ///< Changes that help a plan that does not fit; may be empty.
  QString settings{};        ///< File of what is remembered; empty: nothing is.
};

/// The what-if window, with controls on the left and the answer on the right.
class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(WindowSetup setup, QWidget* parent = nullptr);

  /// Opens a model, a plan, a recorded program or a configuration of a framework (`open_file`).
  /// Returns the reason if that failed, else an empty string.
  [[nodiscard]] QString openPath(const QString& path);
  /// Saves the scenario as a plan file. Returns the reason if that failed, else an empty string.
  [[nodiscard]] QString savePlan(const QString& path);
  /// Saves a picture of the window as PNG. Returns the reason if that failed, else an empty string.
  [[nodiscard]] QString savePicture(const QString& path);
  void setLook(Look look);
  /// Pins the present scenario and its answer, or releases what is pinned.
  void setPinned(bool pinned);

  /// The pages below the verdict; `PageBook::openPage` chooses one by its object name.
  [[nodiscard]] PageBook* pages() const { return pages_; }
  [[nodiscard]] const Scenario& scenario() const { return what_if_.scenario(); }
  [[nodiscard]] WhatIf& whatIf() { return what_if_; }

 Q_SIGNALS:
  /// Emitted when the newest request has been answered and the window shows the answer.
  void answered(const headroom::gui::Answer& answer);
  /// Emitted when the header shows figures of the present scenario, or why there are none.
  void figuresShown();
  /// Emitted when changes that help are shown, or when there are none to look for.
  void remediesShown();

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void buildMenus();
  void buildFileMenu();
  void buildEditMenu();
  void addLooks(QMenu* menu);
  void buildContents();
  void connectParts();
  [[nodiscard]] QSize usualSize() const;
  void nameWindow();
  void ask(const Scenario& scenario);
  void showAnswer(const Answer& answer);
  void showRemedies(const Answer& answer);
  void lookForRemedies(const Answer& answer);
  void showFigures(const Appraisal& appraisal, const Scenario& scenario);
  void showProblem(const Answer& answer);
  void showNotes(const QStringList& notes);
  /// Says what a reader of an answer about a recorded program should know.
  void showRemarks(const Answer& answer);
  void applyRemedy(const RemedyText& remedy);
  void chooseFile();
  void choosePlan();
  void choosePicture();
  void copyCommand();
  void restorePinned();
  void openAndTell(const QString& path);
  /// Puts `path` at the front of the recent files.
  void remember(const QString& path);
  void fillRecent();

  QPalette desktop_palette_;
  std::string config_dir_;
  QString settings_;
  CatalogueModel models_;
  CatalogueModel gpus_;
  WhatIf what_if_;
  EstimateWorker worker_;
  std::unique_ptr<EstimateWorker> remedies_;  ///< Null if nobody looks for changes.
  std::optional<Answer> answer_;              ///< The newest one.
  std::optional<Pinned> pinned_;
  QActionGroup looks_{this};
  QTimer remedies_due_;  ///< When it expires, changes that help are looked for.
  QTimer patience_;      ///< When it expires, the window says that it is computing.
  ScenarioEditor* editor_ = nullptr;
  VerdictHeader* header_ = nullptr;
  QLabel* notes_ = nullptr;
  PageBook* pages_ = nullptr;
  SearchPage* search_ = nullptr;
  TimelinePage* timeline_ = nullptr;
  ComparePage* compare_ = nullptr;
  EmitPage* emit_ = nullptr;
  QMenu* recent_ = nullptr;
  bool notes_are_remarks_ = false;  ///< The notes are about a recorded program.
  QAction* pin_ = nullptr;
};

}  // namespace headroom::gui
