#include "gui/models/tensor_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gui/charts/timeline_data.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

// The internal id of an index: 0 for a row without a parent, else its parent's row plus 1.
constexpr quintptr kTopLevel = 0;

bool is_amount(int column) {
  return column == TensorModel::kSizeColumn || column == TensorModel::kShareColumn;
}

}  // namespace

TensorModel::TensorModel(QObject* parent) : QAbstractItemModel(parent) {}

void TensorModel::setMoment(std::shared_ptr<const cost::StepEstimate> estimate, std::size_t event) {
  beginResetModel();
  estimate_ = std::move(estimate);
  tensors_.clear();
  total_ = Bytes{0};
  if (estimate_ != nullptr) {
    tensors_ = alive_tensors(*estimate_, event);
    for (const AliveTensor& tensor : tensors_) {
      total_ += tensor.size;
    }
  }
  regroup();
  endResetModel();
}

void TensorModel::setGrouping(Grouping grouping) {
  beginResetModel();
  grouping_ = grouping;
  regroup();
  endResetModel();
}

void TensorModel::regroup() {
  std::map<QString, Group> by_name;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Group& group = by_name[groupName(tensors_[i])];
    group.order = groupOrder(tensors_[i]);
    group.size += tensors_[i].size;
    group.members.push_back(i);
  }
  groups_.clear();
  for (auto& [name, group] : by_name) {
    group.name = name;
    groups_.push_back(std::move(group));
  }
  std::ranges::stable_sort(groups_, std::ranges::greater{}, &Group::size);
}

QString TensorModel::groupName(const AliveTensor& tensor) const {
  switch (grouping_) {
    case Grouping::kNone:
      return {};
    case Grouping::kCategory:
      return role_name(tensor.role);
    case Grouping::kLayer:
      return layer_text(estimate_->program, tensor.site);
    case Grouping::kOperator:
      return operator_text(estimate_->program, tensor.site);
  }
  return {};
}

double TensorModel::groupOrder(const AliveTensor& tensor) const {
  if (grouping_ == Grouping::kLayer && tensor.site < estimate_->program.sites.size()) {
    return estimate_->program.sites[tensor.site].layer;
  }
  return static_cast<double>(tensor.role);
}

bool TensorModel::isGroup(const QModelIndex& index) const {
  return grouping_ != Grouping::kNone && index.internalId() == kTopLevel;
}

const AliveTensor& TensorModel::tensorAt(const QModelIndex& index) const {
  const auto row = static_cast<std::size_t>(index.row());
  if (grouping_ == Grouping::kNone) {
    return tensors_[row];
  }
  return tensors_[groups_[index.internalId() - 1].members[row]];
}

QModelIndex TensorModel::indexOf(ir::BlockId block) const {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<std::size_t>& members = groups_[group].members;
    for (std::size_t row = 0; row < members.size(); ++row) {
      if (tensors_[members[row]].block == block) {
        return createIndex(static_cast<int>(row), 0,
                           grouping_ == Grouping::kNone ? kTopLevel : group + 1);
      }
    }
  }
  return {};
}

QModelIndex TensorModel::index(int row, int column, const QModelIndex& parent) const {
  if (!hasIndex(row, column, parent)) {
    return {};
  }
  return createIndex(row, column,
                     parent.isValid() ? static_cast<quintptr>(parent.row()) + 1 : kTopLevel);
}

QModelIndex TensorModel::parent(const QModelIndex& child) const {
  if (!child.isValid() || child.internalId() == kTopLevel) {
    return {};
  }
  return createIndex(static_cast<int>(child.internalId() - 1), 0, kTopLevel);
}

int TensorModel::rowCount(const QModelIndex& parent) const {
  if (!parent.isValid()) {
    return static_cast<int>(grouping_ == Grouping::kNone ? tensors_.size() : groups_.size());
  }
  const bool has_rows = isGroup(parent) && parent.column() == 0;
  return has_rows ? static_cast<int>(groups_[static_cast<std::size_t>(parent.row())].members.size())
                  : 0;
}

int TensorModel::columnCount(const QModelIndex& /*parent*/) const {
  return kColumns;
}

QVariant TensorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  if (role == Qt::TextAlignmentRole) {
    return cell_alignment(is_amount(index.column()));
  }
  return isGroup(index)
             ? groupData(groups_[static_cast<std::size_t>(index.row())], index.column(), role)
             : tensorData(tensorAt(index), index.column(), role);
}

QVariant TensorModel::groupData(const Group& group, int column, int role) const {
  const QString count =
      group.members.size() == 1 ? tr("1 tensor") : tr("%L1 tensors").arg(group.members.size());
  switch (role) {
    case Qt::DisplayRole:
      switch (column) {
        case kNameColumn:
          return tr("%1 (%L2)").arg(group.name).arg(group.members.size());
        case kSizeColumn:
          return bytes_text(group.size);
        case kShareColumn:
          return share_text(group.size, total_);
        default:
          return {};
      }
    case kSortRole:
      return column == kSizeColumn || column == kShareColumn
                 ? QVariant(static_cast<qlonglong>(group.size.value()))
                 : (column == kNameColumn && grouping_ == Grouping::kOperator
                        ? QVariant(group.name)
                        : QVariant(group.order));
    case Qt::AccessibleTextRole:
      return tr("%1: %2 in %3").arg(group.name, bytes_text(group.size), count);
    case Qt::ToolTipRole:
      return tr("%1: %2 in %3\n%4")
          .arg(group.name, bytes_text(group.size), count, exact_text(group.size));
    case kCategoryRole:
      return grouping_ == Grouping::kCategory
                 ? QVariant(static_cast<int>(tensors_[group.members.front()].role))
                 : QVariant();
    default:
      return {};
  }
}

QString TensorModel::tensorText(const AliveTensor& tensor, int column) const {
  const ir::RankProgram& program = estimate_->program;
  switch (column) {
    case kNameColumn:
      return operator_text(program, tensor.site);
    case kLayerColumn:
      return tensor.site < program.sites.size() && program.sites[tensor.site].layer >= 0
                 ? QLocale().toString(program.sites[tensor.site].layer)
                 : QStringLiteral("–");
    case kCategoryColumn:
      return role_name(tensor.role);
    case kPhaseColumn:
      return program.phases.empty() ? QString()
                                    : QString::fromStdString(ir::to_text(
                                          program.phases[phase_of(program, tensor.born)].name));
    case kSizeColumn:
      return bytes_text(tensor.size);
    case kShareColumn:
      return share_text(tensor.size, total_);
    default:
      return {};
  }
}

QString TensorModel::sentence(const AliveTensor& tensor) const {
  return tr("%1, %2: %3 of %4, allocated in %5")
      .arg(operator_text(estimate_->program, tensor.site),
           layer_text(estimate_->program, tensor.site), bytes_text(tensor.size),
           role_name(tensor.role), tensorText(tensor, kPhaseColumn));
}

QVariant TensorModel::tensorData(const AliveTensor& tensor, int column, int role) const {
  switch (role) {
    case Qt::DisplayRole:
      return tensorText(tensor, column);
    case kSortRole:
      switch (column) {
        case kLayerColumn:
          return tensor.site < estimate_->program.sites.size()
                     ? estimate_->program.sites[tensor.site].layer
                     : -1;
        case kPhaseColumn:
          return static_cast<qulonglong>(tensor.born);
        case kSizeColumn:
        case kShareColumn:
          return static_cast<qlonglong>(tensor.size.value());
        default:
          return tensorText(tensor, column);
      }
    case Qt::AccessibleTextRole:
      return sentence(tensor);
    case Qt::ToolTipRole:
      return tr("%1\n%2 allocated for %3 requested")
          .arg(sentence(tensor), exact_text(tensor.size), exact_text(tensor.requested));
    case kBlockRole:
      return static_cast<quint32>(tensor.block);
    case kCategoryRole:
      return static_cast<int>(tensor.role);
    default:
      return {};
  }
}

QVariant TensorModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
    return {};
  }
  if (role == Qt::TextAlignmentRole) {
    return cell_alignment(is_amount(section));
  }
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) {
    return {};
  }
  switch (section) {
    case kNameColumn:
      return tr("allocated by");
    case kLayerColumn:
      return tr("layer");
    case kCategoryColumn:
      return tr("category");
    case kPhaseColumn:
      return tr("in phase");
    case kSizeColumn:
      return tr("size");
    default:
      return tr("share");
  }
}

}  // namespace headroom::gui
