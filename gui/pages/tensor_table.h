#pragma once

#include <QSortFilterProxyModel>
#include <QWidget>

#include "gui/models/tensor_model.h"

class QComboBox;
class QLineEdit;
class QTreeView;

namespace headroom::gui {

/// The tensors of a `TensorModel` in a tree that can be sorted, searched and grouped.
class TensorTable : public QWidget {
  Q_OBJECT

 public:
  /// A model that goes before the table leaves it empty.
  explicit TensorTable(TensorModel* model, QWidget* parent = nullptr);

  /// Makes the row of a tensor the current one.
  void choose(ir::BlockId block);

 Q_SIGNALS:
  void chosen(quint32 block);

 private:
  void groupBy(int choice);
  void search(const QString& text);

  TensorModel* model_;
  QSortFilterProxyModel rows_;
  QTreeView* tree_ = nullptr;
};

}  // namespace headroom::gui
