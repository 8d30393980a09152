#include "gui/pages/memory_page.h"

#include <utility>

#include <QHeaderView>
#include <QScrollBar>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/pages/page_parts.h"
#include "gui/views/breakdown_view.h"

namespace headroom::gui {
namespace {

QSplitter* beside(QWidget* left, QWidget* right) {
  auto* const pair = new QSplitter(Qt::Horizontal);
  pair->setChildrenCollapsible(false);
  pair->addWidget(left);
  pair->addWidget(right);
  return pair;
}

}  // namespace

MemoryPage::MemoryPage(QWidget* parent) : Page(QStringLiteral("memory"), tr("Memory"), parent) {
  build(phases_, tr("Peak of each phase, by category"),
        tr("Memory at the peak of each phase, by category"));
  phases_.table->setObjectName(QStringLiteral("phase table"));
  phases_.bars->setObjectName(QStringLiteral("phase bars"));
  build(stages_, tr("Peak of each pipeline stage, by category"),
        tr("Memory at the peak of each pipeline stage, by category"));
  stages_.model.setRowTitle(tr("stage"));
  parts_ = new QSplitter(Qt::Vertical);
  parts_->setChildrenCollapsible(false);
  parts_->addWidget(beside(phases_.bars_part, stages_.bars_part));
  parts_->addWidget(beside(phases_.table_part, stages_.table_part));
  parts_->setStretchFactor(0, 3);
  parts_->setStretchFactor(1, 2);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(parts_);
  showStages(nullptr);
  connect(&stage_job_, &NewestJob::finished, this, &Page::settled);
  connect(&stage_job_, &NewestJob::failed, this, [this] {
    showStages(nullptr);
    Q_EMIT settled();
  });
}

void MemoryPage::build(Breakdown& breakdown, const QString& title, const QString& name) {
  breakdown.table = new QTableView;
  breakdown.table->setModel(&breakdown.model);
  dress(breakdown.table);
  breakdown.table->setAccessibleName(tr("%1, as a table").arg(title));
  breakdown.bars = new BreakdownView(&breakdown.model, breakdown.table->selectionModel());
  breakdown.bars->setAccessibleName(name);
  breakdown.table_title = section_title({});
  breakdown.bars_part = with_title(section_title(title), breakdown.bars);
  breakdown.table_part = with_title(breakdown.table_title, breakdown.table);
}

void MemoryPage::setAnswer(const Answer& answer) {
  phases_.model.setEstimate(answer.estimate);
  phases_.table_title->setText(answer.estimate != nullptr
                                   ? tr("The same in numbers, %1").arg(phases_.model.scale().unit)
                                   : tr("The same in numbers"));
  if (answer.estimate != nullptr) {
    shareRoomOnce();
  }
  if (!has_stages(answer)) {
    stage_job_.cancel();
    showStages(nullptr);
    return;
  }
  stage_job_.run([this, answer](const std::stop_token& stop) -> NewestJob::Delivery {
    Result<std::shared_ptr<const StageMemory>> found = stage_memory(answer, stop);
    if (!found || stop.stop_requested()) {
      return [this] { showStages(nullptr); };
    }
    return [this, stages = std::move(found).value()] { showStages(stages.get()); };
  });
}

void MemoryPage::showStages(const StageMemory* stages) {
  stages_.model.setEstimate(stages != nullptr ? stages->peaks : nullptr,
                            stages != nullptr ? stages->names : QStringList());
  stages_.table_title->setText(tr("The same in numbers, %1").arg(stages_.model.scale().unit));
  stages_.bars_part->setVisible(stages != nullptr);
  stages_.table_part->setVisible(stages != nullptr);
}

void MemoryPage::shareRoomOnce() {
  if (room_is_shared_) {
    return;  // The user's layout stays from now on.
  }
  room_is_shared_ = true;
  const QTableView& table = *phases_.table;
  const int title =
      phases_.table_title->sizeHint().height() + phases_.table_title->fontMetrics().height();
  const int rows = table.verticalHeader()->length() + table.horizontalHeader()->height() +
                   table.horizontalScrollBar()->sizeHint().height();
  parts_->setSizes({title + phases_.bars->sizeHint().height(), title + rows});
}

}  // namespace headroom::gui
