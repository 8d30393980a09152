#include "gui/main_window.h"

#include <utility>

#include <QApplication>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSaveFile>
#include <QScreen>
#include <QScrollArea>
#include <QScrollBar>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QUrl>
#include <QVBoxLayout>

#include "gui/views/breakdown_view.h"
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

/// A delegate that adds padding to cells, so that columns of numbers are distinguishable.
class RoomyDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem& option,
                               const QModelIndex& index) const override {
    const int em = option.fontMetrics.height();
    return QStyledItemDelegate::sizeHint(option, index) + QSize(em, em / 4);
  }
};

QLabel* section_title(const QString& text) {
  auto* const label = new QLabel(text);
  QFont bold = label->font();
  bold.setBold(true);
  label->setFont(bold);
  return label;
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
  table_ = makeTable();
  bars_ = new BreakdownView(&breakdown_, table_->selectionModel());

  auto* const table_part = new QWidget;
  auto* const table_column = new QVBoxLayout(table_part);
  table_column->setContentsMargins(0, 0, 0, 0);
  table_title_ = section_title(tr("The same in numbers"));
  table_column->addWidget(table_title_);
  table_column->addWidget(table_, 1);

  auto* const bars_part = new QWidget;
  auto* const bars_column = new QVBoxLayout(bars_part);
  bars_column->setContentsMargins(0, 0, 0, 0);
  bars_column->addWidget(section_title(tr("Peak of each phase, by category")));
  bars_column->addWidget(bars_, 1);

  pictures_ = new QSplitter(Qt::Vertical);
  pictures_->setChildrenCollapsible(false);
  pictures_->addWidget(bars_part);
  pictures_->addWidget(table_part);
  pictures_->setStretchFactor(0, 3);
  pictures_->setStretchFactor(1, 2);

  auto* const right = new QWidget;
  auto* const column = new QVBoxLayout(right);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(fontMetrics().height());
  column->addWidget(header_);
  if (!notes.isEmpty()) {
    column->addWidget(notes_label(notes));
  }
  column->addWidget(pictures_, 1);

  auto* const contents = new QWidget;
  auto* const row = new QHBoxLayout(contents);
  const int margin = fontMetrics().height();
  row->setContentsMargins(margin, margin, margin, margin);
  row->setSpacing(margin * 3 / 2);
  row->addWidget(scrolling(editor_));
  row->addWidget(right, 1);
  setCentralWidget(contents);
}

QTableView* MainWindow::makeTable() {
  auto* const table = new QTableView;
  table->setModel(&breakdown_);
  table->setItemDelegate(new RoomyDelegate(table));
  table->setAccessibleName(tr("Peak of each phase, by category, as a table"));
  table->setAlternatingRowColors(true);
  table->setShowGrid(false);
  table->setFrameShape(QFrame::NoFrame);
  table->setSelectionMode(QAbstractItemView::SingleSelection);
  table->setWordWrap(false);
  table->setTabKeyNavigation(false);  // Tab leaves the table; arrow keys move inside.
  table->verticalHeader()->hide();
  table->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table->horizontalHeader()->setHighlightSections(false);
  return table;
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
  breakdown_.setEstimate(answer.estimate);
  table_title_->setText(answer.estimate != nullptr
                            ? tr("The same in numbers, %1").arg(breakdown_.scale().unit)
                            : tr("The same in numbers"));
  if (answer.estimate != nullptr) {
    header_->showVerdict(*answer.estimate);
    shareRoomOnce();
  } else {
    header_->showProblem(answer.error ? problem_text(*answer.error) : fault_text(answer.fault));
  }
  Q_EMIT answered(answer);
}

void MainWindow::shareRoomOnce() {
  if (room_is_shared_) {
    return;  // The user's layout stays from now on.
  }
  room_is_shared_ = true;
  const int title = table_title_->sizeHint().height() + table_title_->fontMetrics().height();
  const int rows = table_->verticalHeader()->length() + table_->horizontalHeader()->height() +
                   table_->horizontalScrollBar()->sizeHint().height();
  pictures_->setSizes({title + bars_->sizeHint().height(), title + rows});
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
