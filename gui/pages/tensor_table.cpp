#include "gui/pages/tensor_table.h"

#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QTreeView>
#include <QVBoxLayout>

#include "gui/pages/page_parts.h"

namespace headroom::gui {

TensorTable::TensorTable(TensorModel* model, QWidget* parent) : QWidget(parent), model_(model) {
  rows_.setSourceModel(model);
  rows_.setSortRole(TensorModel::kSortRole);
  rows_.setFilterKeyColumn(-1);
  rows_.setFilterCaseSensitivity(Qt::CaseInsensitive);
  rows_.setRecursiveFilteringEnabled(true);

  auto* const grouping = new QComboBox;
  grouping->addItems({tr("no groups"), tr("category"), tr("layer"), tr("operator")});
  grouping->setCurrentIndex(static_cast<int>(model->grouping()));
  grouping->setAccessibleName(tr("Group tensors by"));
  connect(grouping, &QComboBox::currentIndexChanged, this, &TensorTable::groupBy);
  auto* const grouping_label = new QLabel(tr("&Group by"));
  grouping_label->setBuddy(grouping);

  auto* const filter = new QLineEdit;
  filter->setPlaceholderText(tr("Search: operator, layer, category, phase"));
  filter->setClearButtonEnabled(true);
  filter->setAccessibleName(tr("Search tensors"));
  connect(filter, &QLineEdit::textChanged, this, &TensorTable::search);

  tree_ = new QTreeView;
  tree_->setModel(&rows_);
  // A page's models go before its widgets, and the tree must not ask for rows of a model that is
  // gone.
  connect(model, &QObject::destroyed, tree_, [tree = tree_] { tree->setModel(nullptr); });
  dress(tree_);
  tree_->setAccessibleName(tr("Tensors alive at the chosen moment"));
  tree_->setSortingEnabled(true);
  tree_->sortByColumn(TensorModel::kSizeColumn, Qt::DescendingOrder);
  tree_->header()->setStretchLastSection(false);
  tree_->header()->setSectionResizeMode(TensorModel::kNameColumn, QHeaderView::Stretch);
  for (int column = 1; column < TensorModel::kColumns; ++column) {
    tree_->header()->setSectionResizeMode(column, QHeaderView::ResizeToContents);
  }
  connect(tree_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this](const QModelIndex& current) {
            const QVariant block = current.data(TensorModel::kBlockRole);
            if (block.isValid()) {
              Q_EMIT chosen(block.toUInt());
            }
          });

  auto* const row = new QHBoxLayout;
  row->addWidget(grouping_label);
  row->addWidget(grouping);
  row->addWidget(filter, 1);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addLayout(row);
  column->addWidget(tree_, 1);
}

void TensorTable::groupBy(int choice) {
  model_->setGrouping(static_cast<Grouping>(choice));
  tree_->setRootIsDecorated(choice != static_cast<int>(Grouping::kNone));
}

void TensorTable::search(const QString& text) {
  rows_.setFilterFixedString(text);
  if (!text.isEmpty()) {
    tree_->expandAll();
  }
}

void TensorTable::choose(ir::BlockId block) {
  const QModelIndex row = rows_.mapFromSource(model_->indexOf(block));
  if (row.isValid()) {
    const QSignalBlocker quiet(this);
    tree_->setCurrentIndex(row);
    tree_->scrollTo(row);
  }
}

}  // namespace headroom::gui
