#include "gui/main_window.h"

#include <utility>

#include <QApplication>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSaveFile>
#include <QScreen>
#include <QScrollArea>
#include <QScrollBar>
#include <QUrl>
#include <QVBoxLayout>

#include "gui/pages/evidence_page.h"
#include "gui/pages/layers_page.h"
#include "gui/pages/memory_page.h"
#include "gui/pages/page_book.h"
#include "gui/pages/search_page.h"
#include "gui/pages/time_page.h"
#include "gui/pages/timeline_page.h"
#include "gui/views/scenario_editor.h"
#include "gui/views/verdict_header.h"

namespace headroom::gui {
namespace {

constexpr std::chrono::milliseconds kPatience{300};

QScrollArea* scrolling(QWidget* contents) {
  auto* const area = new QScrollArea;
  area->setWidget(contents);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  area->setFocusPolicy(Qt::NoFocus);  // The controls inside take the keyboard focus.
  area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  area->setMinimumWidth(contents->minimumSizeHint().width() +
                        area->verticalScrollBar()->sizeHint().width());
  return area;
}

/// Lines of text that wrap and that can be copied.
QLabel* notes_label(const QStringList& notes) {
  auto* const label = new QLabel(notes.join(QLatin1Char('\n')));
  label->setObjectName(QStringLiteral("notes"));
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

}  // namespace

MainWindow::MainWindow(WindowSetup setup, QWidget* parent)
    : QMainWindow(parent),
      desktop_palette_(QApplication::palette()),
      models_(std::move(setup.models)),
      gpus_(std::move(setup.gpus)),
      config_dir_(std::move(setup.config_dir)),
      what_if_(std::move(setup.scenario)),
      worker_(std::move(setup.estimator)) {
  setAcceptDrops(true);
  buildContents(setup.notes);
  buildMenus();
  patience_.setSingleShot(true);
  patience_.setInterval(kPatience);
  connect(&patience_, &QTimer::timeout, this, [this] { header_->setBusy(true); });
  connect(&what_if_, &WhatIf::changed, this, &MainWindow::ask);
  connect(&worker_, &EstimateWorker::answered, this, &MainWindow::showAnswer);
  connect(editor_, &ScenarioEditor::edited, &what_if_, &WhatIf::change);
  connect(editor_, &ScenarioEditor::openRequested, this, &MainWindow::chooseModelFile);
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

void MainWindow::buildContents(const QStringList& notes) {
  editor_ = new ScenarioEditor({.models = &models_, .gpus = &gpus_});
  header_ = new VerdictHeader;
  pages_ = new PageBook;
  pages_->addPage(new MemoryPage);
  pages_->addPage(new TimelinePage);
  pages_->addPage(new LayersPage(config_dir_));
  pages_->addPage(new TimePage(config_dir_));
  pages_->addPage(new SearchPage(config_dir_));
  pages_->addPage(new EvidencePage(config_dir_));
  connect(pages_, &PageBook::edited, &what_if_, &WhatIf::change);

  auto* const right = new QWidget;
  auto* const column = new QVBoxLayout(right);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(fontMetrics().height());
  column->addWidget(header_);
  if (!notes.isEmpty()) {
    column->addWidget(notes_label(notes));
  }
  column->addWidget(pages_, 1);

  auto* const contents = new QWidget;
  auto* const row = new QHBoxLayout(contents);
  const int margin = fontMetrics().height();
  row->setContentsMargins(margin, margin, margin, margin);
  row->setSpacing(margin * 3 / 2);
  row->addWidget(scrolling(editor_));
  row->addWidget(right, 1);
  setCentralWidget(contents);
}

void MainWindow::buildMenus() {
  QMenu* const file = menuBar()->addMenu(tr("&File"));
  file->addAction(tr("&Open config.json…"), QKeySequence::Open, this, &MainWindow::chooseModelFile);
  file->addAction(tr("&Save picture…"), QKeySequence::Save, this, &MainWindow::choosePicture);
  file->addSeparator();
  file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);

  QMenu* const edit = menuBar()->addMenu(tr("&Edit"));
  QAction* const undo = what_if_.undoStack()->createUndoAction(this, tr("&Undo"));
  undo->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_Z));
  QAction* const redo = what_if_.undoStack()->createRedoAction(this, tr("&Redo"));
  redo->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z));
  edit->addAction(undo);
  edit->addAction(redo);
  edit->addSeparator();
  edit->addAction(tr("Re&set"), QKeySequence(Qt::CTRL | Qt::Key_R), &what_if_, &WhatIf::reset);

  addLooks(menuBar()->addMenu(tr("&View")));
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
  editor_->setScenario(scenario);
  nameWindow();
  patience_.start();
  worker_.ask(scenario);
}

void MainWindow::showAnswer(const Answer& answer) {
  patience_.stop();
  header_->setBusy(false);
  pages_->setAnswer(answer);
  if (answer.estimate != nullptr) {
    header_->showVerdict(*answer.estimate);
  } else {
    header_->showProblem(answer.error ? problem_text(*answer.error) : fault_text(answer.fault));
  }
  Q_EMIT answered(answer);
}

void MainWindow::openModel(const QString& path) {
  Scenario after = scenario();
  after.model = model_source(path.toStdString());
  what_if_.change(after, {.field = Field::kModel, .gesture = 0});
}

void MainWindow::chooseModelFile() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Open a config.json"), {},
                                                    tr("Models (*.json *.gguf)"));
  if (!path.isEmpty()) {
    openModel(path);
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

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  const QString path = dragged_path(event->mimeData());
  if (path.endsWith(QLatin1String(".json")) || path.endsWith(QLatin1String(".gguf")) ||
      QFileInfo(path).isDir()) {
    event->acceptProposedAction();
  }
}

void MainWindow::dropEvent(QDropEvent* event) {
  openModel(dragged_path(event->mimeData()));
  event->acceptProposedAction();
}

}  // namespace headroom::gui
