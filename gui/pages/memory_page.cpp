#include "gui/pages/memory_page.h"

#include <QHeaderView>
#include <QScrollBar>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/pages/page_parts.h"
#include "gui/views/breakdown_view.h"

namespace headroom::gui {

MemoryPage::MemoryPage(QWidget* parent) : Page(QStringLiteral("memory"), tr("Memory"), parent) {
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

  parts_ = new QSplitter(Qt::Vertical);
  parts_->setChildrenCollapsible(false);
  parts_->addWidget(bars_part);
  parts_->addWidget(table_part);
  parts_->setStretchFactor(0, 3);
  parts_->setStretchFactor(1, 2);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(parts_);
}

QTableView* MemoryPage::makeTable() {
  auto* const table = new QTableView;
  table->setModel(&breakdown_);
  dress(table);
  table->setAccessibleName(tr("Peak of each phase, by category, as a table"));
  return table;
}

void MemoryPage::setAnswer(const Answer& answer) {
  breakdown_.setEstimate(answer.estimate);
  table_title_->setText(answer.estimate != nullptr
                            ? tr("The same in numbers, %1").arg(breakdown_.scale().unit)
                            : tr("The same in numbers"));
  if (answer.estimate != nullptr) {
    shareRoomOnce();
  }
}

void MemoryPage::shareRoomOnce() {
  if (room_is_shared_) {
    return;  // The user's layout stays from now on.
  }
  room_is_shared_ = true;
  const int title = table_title_->sizeHint().height() + table_title_->fontMetrics().height();
  const int rows = table_->verticalHeader()->length() + table_->horizontalHeader()->height() +
                   table_->horizontalScrollBar()->sizeHint().height();
  parts_->setSizes({title + bars_->sizeHint().height(), title + rows});
}

}  // namespace headroom::gui
