#pragma once

#include <memory>
#include <vector>

#include <QAbstractItemModel>

#include "gui/models/alive_tensors.h"
#include "gui/models/words.h"

namespace headroom::gui {

/// The property by which tensors are grouped.
enum class Grouping : std::uint8_t { kNone, kCategory, kLayer, kOperator };

/// The tensors alive at a moment as a tree: groups and their tensors, or the tensors alone.
class TensorModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Column {
    kNameColumn,
    kLayerColumn,
    kCategoryColumn,
    kPhaseColumn,
    kSizeColumn,
    kShareColumn,
    kColumns
  };
  enum Role {
    kSortRole = Qt::UserRole,  ///< A number, or the text of a name.
    kBlockRole,                ///< A tensor's block as a quint32; not valid for a group.
    kCategoryRole,             ///< A tensor's `ir::TensorRole` as an int.
  };

  explicit TensorModel(QObject* parent = nullptr);

  /// Shows the tensors that are alive after `event`; nothing if `estimate` is null.
  void setMoment(std::shared_ptr<const cost::StepEstimate> estimate, std::size_t event);
  void setGrouping(Grouping grouping);
  [[nodiscard]] Grouping grouping() const { return grouping_; }

  [[nodiscard]] const std::vector<AliveTensor>& tensors() const { return tensors_; }
  [[nodiscard]] Bytes total() const { return total_; }
  /// One group; without grouping, all tensors are in one group without a name.
  struct Group {
    QString name;
    double order = 0;  ///< The order of layers and categories.
    Bytes size;
    std::vector<std::size_t> members;  ///< Indices into `tensors`, largest first.
  };
  /// The groups, largest first.
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const std::shared_ptr<const cost::StepEstimate>& estimate() const {
    return estimate_;
  }
  /// One line about a tensor.
  [[nodiscard]] QString sentence(const AliveTensor& tensor) const;
  /// The index of a block's row; invalid if it is not alive.
  [[nodiscard]] QModelIndex indexOf(ir::BlockId block) const;

  [[nodiscard]] QModelIndex index(int row, int column,
                                  const QModelIndex& parent = {}) const override;
  [[nodiscard]] QModelIndex parent(const QModelIndex& child) const override;
  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

 private:
  void regroup();
  [[nodiscard]] QString groupName(const AliveTensor& tensor) const;
  [[nodiscard]] double groupOrder(const AliveTensor& tensor) const;
  [[nodiscard]] bool isGroup(const QModelIndex& index) const;
  [[nodiscard]] const AliveTensor& tensorAt(const QModelIndex& index) const;
  [[nodiscard]] QVariant groupData(const Group& group, int column, int role) const;
  [[nodiscard]] QVariant tensorData(const AliveTensor& tensor, int column, int role) const;
  [[nodiscard]] QString tensorText(const AliveTensor& tensor, int column) const;

  std::shared_ptr<const cost::StepEstimate> estimate_;
  std::vector<AliveTensor> tensors_;
  std::vector<Group> groups_;
  Bytes total_;
  Grouping grouping_ = Grouping::kCategory;
};

}  // namespace headroom::gui
