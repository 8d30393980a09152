#include "gui/main_window.h"

#include <array>
#include <utility>

#include <QApplication>
#include <QClipboard>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSaveFile>
#include <QScreen>
#include <QSettings>
#include <QUrl>
#include <QVBoxLayout>

#include "gui/models/words.h"
#include "gui/pages/compare_page.h"
#include "gui/pages/emit_page.h"
#include "gui/pages/evidence_page.h"
#include "gui/pages/layers_page.h"
#include "gui/pages/memory_page.h"
#include "gui/pages/page_book.h"
#include "gui/pages/search_page.h"
#include "gui/pages/time_page.h"
#include "gui/pages/timeline_page.h"
#include "gui/views/remedy_bar.h"
#include "gui/views/scenario_editor.h"
#include "gui/views/verdict_header.h"
#include "gui/whatif/open_file.h"
#include "gui/whatif/plan_document.h"
#include "validators/dryrun/program_question.h"

namespace headroom::gui {
namespace {

constexpr std::chrono::milliseconds kPatience{300};
/// Remedies are looked for after no change for this long: they would slow the answers to a slider
/// that is being dragged.
constexpr std::chrono::milliseconds kRest{100};
constexpr qsizetype kRecentFiles = 8;

/// Lines of text that wrap and that can be copied.
QLabel* notes_label() {
  auto* const label = new QLabel;
  label->setObjectName(QStringLiteral("notes"));
  label->setAccessibleName(MainWindow::tr("Notes"));
  label->setTextFormat(Qt::PlainText);  // Names come from files.
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  label->setWordWrap(true);
  return label;
}

/// The path of a local file or folder if exactly one is dragged; else empty.
QString dragged_path(const QMimeData* data) {
  const QList<QUrl> urls = data->urls();
  return urls.size() == 1 ? urls.front().toLocalFile() : QString();
}

QString reason_of(const Error& error) {
  return QString::fromStdString(to_text(error)).trimmed();
}

}  // namespace

MainWindow::MainWindow(WindowSetup setup, QWidget* parent)
    : QMainWindow(parent),
      desktop_palette_(QApplication::palette()),
      config_dir_(std::move(setup.config_dir)),
      settings_(std::move(setup.settings)),
      models_(std::move(setup.models)),
      gpus_(std::move(setup.gpus)),
      what_if_(std::move(setup.scenario)),
      worker_(std::move(setup.estimator)),
      remedies_(setup.remedies ? std::make_unique<EstimateWorker>(std::move(setup.remedies))
                               : nullptr) {
  setAcceptDrops(true);
  buildContents();
  buildMenus();
  connectParts();
  showNotes(setup.notes);
  patience_.setSingleShot(true);
  patience_.setInterval(kPatience);
  remedies_due_.setSingleShot(true);
  remedies_due_.setInterval(kRest);
  editor_->setScenario(scenario());
  nameWindow();
  worker_.ask(scenario(), EstimateWorker::Urgency::kNow);
  resize(usualSize());
}

QSize MainWindow::usualSize() const {
  const int em = fontMetrics().height();
  const QSize wanted(em * 100, em * 60);
  // An offscreen screen has no real size, so it does not limit the window.
  const bool seen = QGuiApplication::platformName() != QLatin1String("offscreen");
  return seen ? wanted.boundedTo(screen()->availableSize() * 0.95) : wanted;
}

void MainWindow::buildContents() {
  editor_ = new ScenarioEditor({.models = &models_, .gpus = &gpus_});
  header_ = new VerdictHeader;
  notes_ = notes_label();
  pages_ = new PageBook;
  pages_->addPage(new MemoryPage);
  timeline_ = new TimelinePage;
  pages_->addPage(timeline_);
  pages_->addPage(new LayersPage(config_dir_));
  pages_->addPage(new TimePage(config_dir_));
  search_ = new SearchPage(config_dir_);
  pages_->addPage(search_);
  compare_ = new ComparePage;
  emit_ = new EmitPage;
  pages_->addPage(compare_);
  pages_->addPage(new EvidencePage(config_dir_));
  pages_->addPage(emit_);

  auto* const right = new QWidget;
  auto* const column = new QVBoxLayout(right);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(fontMetrics().height() * 2 / 3);
  column->addWidget(header_);
  column->addWidget(notes_);
  column->addWidget(pages_, 1);

  auto* const contents = new QWidget;
  auto* const row = new QHBoxLayout(contents);
  const int margin = fontMetrics().height();
  row->setContentsMargins(margin, margin, margin, margin);
  row->setSpacing(margin);
  row->addWidget(editor_);
  row->addWidget(right, 1);
  setCentralWidget(contents);
}

void MainWindow::connectParts() {
  connect(&patience_, &QTimer::timeout, this, [this] { header_->setBusy(true); });
  connect(&what_if_, &WhatIf::changed, this, &MainWindow::ask);
  connect(&what_if_, &WhatIf::freeAxesChanged, this, [this] {
    editor_->setFreeAxes(what_if_.freeAxes());
    search_->setFreeAxes(what_if_.freeAxes());
  });
  connect(&worker_, &EstimateWorker::answered, this, &MainWindow::showAnswer);
  if (remedies_ != nullptr) {
    connect(&remedies_due_, &QTimer::timeout, this,
            [this] { remedies_->ask(answer_->scenario, EstimateWorker::Urgency::kNow); });
    connect(remedies_.get(), &EstimateWorker::answered, this, &MainWindow::showRemedies);
  }
  connect(editor_, &ScenarioEditor::edited, &what_if_, &WhatIf::change);
  connect(editor_, &ScenarioEditor::freeAxesEdited, &what_if_, &WhatIf::setFreeAxes);
  connect(editor_, &ScenarioEditor::openRequested, this, &MainWindow::chooseFile);
  connect(pages_, &PageBook::edited, &what_if_, &WhatIf::change);
  connect(header_->remedies(), &RemedyBar::chosen, this, &MainWindow::applyRemedy);
  connect(compare_, &ComparePage::restoreRequested, this, &MainWindow::restorePinned);
  compare_->setPinAction(pin_);
}

void MainWindow::buildMenus() {
  buildFileMenu();
  buildEditMenu();
  addLooks(menuBar()->addMenu(tr("&View")));
}

void MainWindow::buildFileMenu() {
  QMenu* const file = menuBar()->addMenu(tr("&File"));
  file->addAction(tr("&Open…"), QKeySequence::Open, this, &MainWindow::chooseFile)
      ->setToolTip(
          tr("A model, a plan file, a recorded program or the configuration of a framework"));
  recent_ = file->addMenu(tr("Open &recent"));
  connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fillRecent);
  file->addAction(tr("&Save plan…"), QKeySequence::Save, this, &MainWindow::choosePlan);
  file->addAction(tr("Save pi&cture…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S), this,
                  &MainWindow::choosePicture);
  file->addSeparator();
  file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);
  fillRecent();
}

void MainWindow::buildEditMenu() {
  QMenu* const edit = menuBar()->addMenu(tr("&Edit"));
  QAction* const undo = what_if_.undoStack()->createUndoAction(this, tr("&Undo"));
  undo->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_Z));
  QAction* const redo = what_if_.undoStack()->createRedoAction(this, tr("&Redo"));
  redo->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z));
  edit->addAction(undo);
  edit->addAction(redo);
  edit->addSeparator();
  pin_ = edit->addAction(tr("&Pin scenario"));
  pin_->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_D));
  pin_->setCheckable(true);
  pin_->setToolTip(tr("Every figure then shows its difference from this scenario"));
  connect(pin_, &QAction::triggered, this, &MainWindow::setPinned);
  edit->addAction(tr("&Copy command"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C), this,
                  &MainWindow::copyCommand);
  edit->addAction(tr("&Find an option"), QKeySequence::Find, editor_, &ScenarioEditor::focusFilter);
  edit->addSeparator();
  edit->addAction(tr("Re&set"), QKeySequence(Qt::CTRL | Qt::Key_R), &what_if_, &WhatIf::reset);
}

void MainWindow::addLooks(QMenu* menu) {
  const std::array<std::pair<Look, QString>, 3> looks = {
      {{Look::kDesktop, tr("&Desktop's colours")},
       {Look::kLight, tr("&Light")},
       {Look::kDark, tr("D&ark")}}};
  for (const auto& [look, name] : looks) {
    QAction* const action = menu->addAction(name);
    action->setCheckable(true);
    action->setChecked(look == Look::kDesktop);
    looks_.addAction(action);
    connect(action, &QAction::triggered, this, [this, chosen = look] { setLook(chosen); });
  }
}

void MainWindow::nameWindow() {
  setWindowTitle(tr("%1 on %2 – Headroom")
                     .arg(QString::fromStdString(scenario().model.text),
                          QString::fromStdString(scenario().gpu)));
}

void MainWindow::setLook(Look look) {
  const QPalette palette = palette_of(look, desktop_palette_);
  QApplication::setPalette(palette);  // For menus, dialogs and tooltips.
  setPalette(look == Look::kDesktop ? QPalette() : palette);
}

void MainWindow::ask(const Scenario& scenario) {
  remedies_due_.stop();
  if (remedies_ != nullptr) {
    remedies_->cancel();
  }
  worker_.ask(scenario);  // First, so that it is at work while the panel is painted.
  editor_->setScenario(scenario);
  nameWindow();
  patience_.start();
}

void MainWindow::showFigures(const Appraisal& appraisal, const Scenario& scenario) {
  header_->showAnswer(appraisal, scenario, pinned_ ? &*pinned_ : nullptr);
  const cost::StepEstimate& estimate = appraisal.estimate;
  editor_->showUsable(tr("%1 of %2 for the allocator")
                          .arg(bytes_text(estimate.capacity), bytes_text(estimate.device_total)));
  Q_EMIT figuresShown();
}

void MainWindow::showAnswer(const Answer& answer) {
  patience_.stop();
  header_->setBusy(false);
  answer_ = answer;
  if (answer.appraisal != nullptr) {
    showFigures(*answer.appraisal, answer.scenario);
    editor_->setGrounds(answer.appraisal->grounds);
    showRemarks(answer);
  } else {
    showProblem(answer);
  }
  editor_->showRefusal(answer.error);
  pages_->setAnswer(answer);
  Q_EMIT answered(answer);
  lookForRemedies(answer);
}

void MainWindow::showProblem(const Answer& answer) {
  header_->showProblem(answer.error ? problem_text(*answer.error) : fault_text(answer.fault));
  editor_->showRefusal(answer.error);
  Q_EMIT figuresShown();
}

void MainWindow::lookForRemedies(const Answer& answer) {
  const bool wanted =
      answer.estimate != nullptr && answer.estimate->verdict != cost::Verdict::kFits;
  if (!wanted || remedies_ == nullptr) {
    header_->remedies()->clear();
    Q_EMIT remediesShown();
    return;
  }
  header_->remedies()->showSearching();
  remedies_due_.start();
}

void MainWindow::showRemedies(const Answer& answer) {
  if (!answer_ || answer_->estimate == nullptr || !(answer.scenario == answer_->scenario)) {
    return;
  }
  if (answer.appraisal != nullptr && answer.appraisal->remedies) {
    header_->remedies()->showRemedies(
        remedy_texts(*answer.appraisal->remedies, answer.scenario, *answer_->estimate));
  } else {
    header_->remedies()->clear();
  }
  Q_EMIT remediesShown();
}

void MainWindow::applyRemedy(const RemedyText& remedy) {
  Scenario after = scenario();
  after.plan = remedy.plan;
  what_if_.change(after, {.field = Field::kPlan, .text = remedy.title});
}

void MainWindow::setPinned(bool pinned) {
  const bool possible = answer_ && answer_->appraisal != nullptr;
  pinned_ =
      pinned && possible
          ? std::optional(Pinned{.scenario = answer_->scenario, .appraisal = answer_->appraisal})
          : std::nullopt;
  pin_->setChecked(pinned_.has_value());
  compare_->setPinned(pinned_);
  timeline_->setPinned(pinned_);
  if (possible) {
    showFigures(*answer_->appraisal, answer_->scenario);
  }
}

void MainWindow::restorePinned() {
  if (pinned_) {
    const Scenario before = pinned_->scenario;
    what_if_.change(before,
                    {.field = Field::kEverything, .text = tr("go back to what was pinned")});
  }
}

void MainWindow::copyCommand() {
  if (answer_ && answer_->appraisal != nullptr && answer_->appraisal->grounds != nullptr) {
    QGuiApplication::clipboard()->setText(
        fit_command(answer_->scenario, answer_->appraisal->grounds->model));
  }
}

void MainWindow::showNotes(const QStringList& notes) {
  notes_->setText(notes.join(QLatin1Char('\n')));
  notes_->setVisible(!notes.isEmpty());
  notes_are_remarks_ = false;
}

void MainWindow::showRemarks(const Answer& answer) {
  const std::shared_ptr<const Grounds>& grounds = answer.appraisal->grounds;
  if (grounds == nullptr || grounds->program == nullptr) {
    if (notes_are_remarks_) {
      showNotes({});
    }
    return;
  }
  const check::RecordedProgram& program = *grounds->program;
  QStringList command;
  for (const std::string& word : program.command) {
    command.append(QString::fromStdString(word));
  }
  QStringList notes = {tr("Recorded: %1, rank %2 of %3, on %4")
                           .arg(command.join(QLatin1Char(' ')), QString::number(program.rank),
                                QString::number(program.ranks),
                                QString::fromStdString(program.device.name))};
  for (const std::string& remark :
       check::recording_remarks(program, grounds->device, replayed_settings(answer.scenario))) {
    notes.append(QString::fromStdString(remark));
  }
  showNotes(notes);
  notes_are_remarks_ = true;
}

QString MainWindow::openPath(const QString& path) {
  Result<Opened> opened = open_file(config_dir_, path.toStdString(), scenario());
  if (!opened) {
    return reason_of(opened.error());
  }
  showNotes(opened->notes);
  what_if_.change(opened->scenario, opened->edit);
  remember(path);
  return {};
}

void MainWindow::openAndTell(const QString& path) {
  if (const QString reason = openPath(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Open"), reason);
  }
}

void MainWindow::chooseFile() {
  const QString path = QFileDialog::getOpenFileName(
      this, tr("Open a model, a plan, a program or a configuration"), {},
      tr("Models, plans, programs and configurations (*.json *.gz *.gguf *.safetensors *.toml "
         "*.yaml *.yml);;All files (*)"));
  if (!path.isEmpty()) {
    openAndTell(path);
  }
}

QString MainWindow::savePlan(const QString& path) {
  if (const Status written = write_plan_file(path, scenario()); !written) {
    return reason_of(written.error());
  }
  remember(path);
  return {};
}

void MainWindow::choosePlan() {
  const QString path = QFileDialog::getSaveFileName(
      this, tr("Save plan"), QStringLiteral("plan.json"), tr("Plans (*.json)"));
  if (path.isEmpty()) {
    return;
  }
  if (const QString reason = savePlan(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Save plan"), reason);
  }
}

void MainWindow::choosePicture() {
  const QString path = QFileDialog::getSaveFileName(
      this, tr("Save picture"), QStringLiteral("headroom.png"), tr("PNG images (*.png)"));
  if (path.isEmpty()) {
    return;
  }
  if (const QString reason = savePicture(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Save picture"), reason);
  }
}

QString MainWindow::savePicture(const QString& path) {
  const QPixmap picture = grab();
  QSaveFile file(path);  // Writes the whole file or nothing.
  if (!file.open(QIODevice::WriteOnly) || !picture.save(&file, "PNG") || !file.commit()) {
    return tr("%1: %2").arg(path, file.errorString());
  }
  return {};
}

void MainWindow::remember(const QString& path) {
  if (settings_.isEmpty()) {
    return;
  }
  QSettings settings(settings_, QSettings::IniFormat);
  QStringList files = settings.value(QStringLiteral("recent")).toStringList();
  const QString whole = QFileInfo(path).absoluteFilePath();
  files.removeAll(whole);
  files.prepend(whole);
  settings.setValue(QStringLiteral("recent"), files.mid(0, kRecentFiles));
  fillRecent();
}

void MainWindow::fillRecent() {
  recent_->clear();
  QStringList files;
  if (!settings_.isEmpty()) {
    files =
        QSettings(settings_, QSettings::IniFormat).value(QStringLiteral("recent")).toStringList();
  }
  for (const QString& path : files) {
    recent_->addAction(QString(path).replace(QLatin1Char('&'), QStringLiteral("&&")), this,
                       [this, path] { openAndTell(path); });
  }
  recent_->setEnabled(!files.isEmpty());
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (const QFileInfo file(dragged_path(event->mimeData()));
      !file.filePath().isEmpty() && file.exists()) {
    event->acceptProposedAction();
  }
}

void MainWindow::dropEvent(QDropEvent* event) {
  event->acceptProposedAction();
  openAndTell(dragged_path(event->mimeData()));
}

}  // namespace headroom::gui
