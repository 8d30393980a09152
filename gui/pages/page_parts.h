#pragma once

#include <QLabel>
#include <QModelIndex>
#include <QSize>
#include <QString>
#include <QStyleOptionViewItem>
#include <QStyledItemDelegate>

class QAbstractItemView;
class QTableView;
class QTreeView;
class QWidget;

namespace headroom::gui {

/// The title of a part of a page.
[[nodiscard]] QLabel* section_title(const QString& text);

/// A part of a page: `contents` below their title.
[[nodiscard]] QWidget* with_title(QLabel* title, QWidget* contents);

/// A line of text that is quieter than its surroundings, wraps and can be copied.
[[nodiscard]] QLabel* quiet_label();

/// A delegate that adds padding to cells, so that columns of numbers are distinguishable.
class RoomyDelegate : public QStyledItemDelegate {
  Q_OBJECT

 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem& option,
                               const QModelIndex& index) const override;
};

/// Gives a table or a tree the look and the keys that all of the window's have: whole rows, arrow
/// keys inside, Tab leaves it.
void dress(QTableView* table);
void dress(QTreeView* tree);

}  // namespace headroom::gui
