#include "gui/models/breakdown_model.h"

#include <algorithm>
#include <utility>

#include "gui/models/words.h"

namespace headroom::gui {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::vector<ir::TensorRole> categories_of(const cost::StepEstimate& estimate) {
  std::vector<ir::TensorRole> found;
  for (int i = 0; i < ir::kTensorRoleCount; ++i) {
    const auto& phases = estimate.timeline.phases;
    const bool occurs = std::any_of(
        phases.begin(), phases.end(),
        [i](const cost::PhaseMemory& phase) { return phase.at_peak.at(at(i)) != Bytes{0}; });
    if (occurs) {
      found.push_back(static_cast<ir::TensorRole>(i));
    }
  }
  return found;
}

bool same_phases(const cost::StepEstimate& a, const cost::StepEstimate& b) {
  const auto& first = a.timeline.phases;
  const auto& second = b.timeline.phases;
  return std::equal(
      first.begin(), first.end(), second.begin(), second.end(),
      [](const cost::PhaseMemory& x, const cost::PhaseMemory& y) { return x.name == y.name; });
}

}  // namespace

BreakdownModel::BreakdownModel(QObject* parent) : QAbstractTableModel(parent) {}

void BreakdownModel::setEstimate(std::shared_ptr<const cost::StepEstimate> estimate,
                                 QStringList names) {
  std::vector<ir::TensorRole> categories;
  if (estimate != nullptr) {
    categories = categories_of(*estimate);
  }
  const bool keeps_shape = estimate_ != nullptr && estimate != nullptr &&
                           categories == categories_ && names == names_ &&
                           same_phases(*estimate_, *estimate);
  if (!keeps_shape) {
    beginResetModel();
  }
  estimate_ = std::move(estimate);
  names_ = std::move(names);
  categories_ = std::move(categories);
  scale_ = scale_for(largest());
  if (!keeps_shape) {
    endResetModel();
  } else if (rowCount() > 0) {
    Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);  // The unit may have changed.
  }
}

int BreakdownModel::rowCount(const QModelIndex& parent) const {
  if (parent.isValid() || estimate_ == nullptr) {
    return 0;
  }
  return static_cast<int>(estimate_->timeline.phases.size());
}

int BreakdownModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kFirstCategoryColumn + static_cast<int>(categories_.size());
}

QVariant BreakdownModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  const int row = index.row();
  const int column = index.column();
  const bool is_name = column == kPhaseColumn;
  switch (role) {
    case Qt::DisplayRole:
      return is_name
                 ? rowName(row)
                 : (bytesAt(row, column) == Bytes{0} ? QStringLiteral("–")
                                                     : scaled_text(bytesAt(row, column), scale_));
    case kBytesRole:
      // Phases are sorted in the order of the program.
      return is_name ? QVariant(row)
                     : QVariant(static_cast<qlonglong>(bytesAt(row, column).value()));
    case Qt::AccessibleTextRole:
      return sentence(row, column);
    case Qt::ToolTipRole:
      return is_name ? sentence(row, column)
                     : sentence(row, column) + QLatin1Char('\n') + exact_text(bytesAt(row, column));
    case Qt::TextAlignmentRole:
      return cell_alignment(!is_name);
    default:
      return {};
  }
}

QVariant BreakdownModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= columnCount()) {
    return {};
  }
  switch (role) {
    case Qt::DisplayRole:
    case Qt::AccessibleTextRole:
      return columnTitle(section);
    case Qt::TextAlignmentRole:
      return cell_alignment(section != kPhaseColumn);
    case kCategoryRole:
      return section < kFirstCategoryColumn
                 ? QVariant()
                 : QVariant(static_cast<int>(categories_[at(section - kFirstCategoryColumn)]));
    default:
      return {};
  }
}

Bytes BreakdownModel::capacity() const {
  return estimate_ ? estimate_->capacity : Bytes{0};
}

Bytes BreakdownModel::deviceTotal() const {
  return estimate_ ? estimate_->device_total : Bytes{0};
}

Bytes BreakdownModel::largest() const {
  Bytes most = deviceTotal();
  for (int row = 0; row < rowCount(); ++row) {
    most = std::max({most, phase(row).peak_reserved, phase(row).peak_allocated});
  }
  return most;
}

std::optional<int> BreakdownModel::peakRow() const {
  if (rowCount() == 0) {
    return std::nullopt;
  }
  return std::min(static_cast<int>(estimate_->timeline.peak_phase), rowCount() - 1);
}

Bytes BreakdownModel::bytesAt(int row, int column) const {
  switch (column) {
    case kPhaseColumn:
      return Bytes{0};
    case kPeakColumn:
      return phase(row).peak_allocated;
    case kReservedColumn:
      return phase(row).peak_reserved;
    default:
      return phase(row).at_peak.at(
          at(static_cast<int>(categories_[at(column - kFirstCategoryColumn)])));
  }
}

QString BreakdownModel::sentence(int row, int column) const {
  const QString name = rowName(row);
  const Bytes bytes = bytesAt(row, column);
  const Bytes peak = phase(row).peak_allocated;
  switch (column) {
    case kPhaseColumn:
      return tr("%1: peak %2 allocated, %3 reserved")
          .arg(name, bytes_text(peak), bytes_text(phase(row).peak_reserved));
    case kPeakColumn:
      return tr("%1: %2 allocated at the peak, %3 of the capacity of %4")
          .arg(name, bytes_text(bytes), share_text(bytes, capacity()), bytes_text(capacity()));
    case kReservedColumn:
      return tr("%1: %2 reserved at most, %3 of the capacity of %4")
          .arg(name, bytes_text(bytes), share_text(bytes, capacity()), bytes_text(capacity()));
    default:
      return tr("%1, %2: %3, %4 of this phase's peak of %5")
          .arg(name, columnTitle(column), bytes_text(bytes), share_text(bytes, peak),
               bytes_text(peak));
  }
}

QString BreakdownModel::columnTitle(int column) const {
  switch (column) {
    case kPhaseColumn:
      return row_title_.isEmpty() ? tr("phase") : row_title_;
    case kPeakColumn:
      return tr("allocated");
    case kReservedColumn:
      return tr("reserved");
    default:
      return role_name(categories_[at(column - kFirstCategoryColumn)]);
  }
}

QString BreakdownModel::rowName(int row) const {
  return row < names_.size() ? names_[row] : QString::fromStdString(to_text(phase(row).name));
}

const cost::PhaseMemory& BreakdownModel::phase(int row) const {
  return estimate_->timeline.phases[at(row)];
}

}  // namespace headroom::gui
