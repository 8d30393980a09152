#include "gui/pages/page_parts.h"

#include <QHeaderView>
#include <QTableView>
#include <QTreeView>
#include <QVBoxLayout>

namespace headroom::gui {
namespace {

void dress_view(QAbstractItemView* view) {
  view->setItemDelegate(new RoomyDelegate(view));
  view->setAlternatingRowColors(true);
  view->setFrameShape(QFrame::NoFrame);
  view->setSelectionMode(QAbstractItemView::SingleSelection);
  view->setTabKeyNavigation(false);  // Tab leaves the view; arrow keys move inside.
}

}  // namespace

QLabel* section_title(const QString& text) {
  auto* const label = new QLabel(text);
  QFont bold = label->font();
  bold.setBold(true);
  label->setFont(bold);
  return label;
}

QWidget* with_title(QLabel* title, QWidget* contents) {
  auto* const part = new QWidget;
  auto* const column = new QVBoxLayout(part);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(title);
  column->addWidget(contents, 1);
  return part;
}

QLabel* quiet_label() {
  auto* const label = new QLabel;
  label->setTextFormat(Qt::PlainText);  // Names come from files.
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  label->setFocusPolicy(Qt::NoFocus);  // Selecting by the mouse does not need it.
  label->setWordWrap(true);
  return label;
}

QSize RoomyDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const int em = option.fontMetrics.height();
  return QStyledItemDelegate::sizeHint(option, index) + QSize(em, em / 4);
}

void dress(QTableView* table) {
  dress_view(table);
  table->setShowGrid(false);
  table->setWordWrap(false);
  table->verticalHeader()->hide();
  table->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  table->horizontalHeader()->setHighlightSections(false);
}

void dress(QTreeView* tree) {
  dress_view(tree);
  tree->setUniformRowHeights(true);
  tree->setSelectionBehavior(QAbstractItemView::SelectRows);
  tree->setAllColumnsShowFocus(true);
}

}  // namespace headroom::gui
