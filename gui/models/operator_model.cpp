#include "gui/models/operator_model.h"

#include <algorithm>
#include <utility>

#include "gui/charts/part_style.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

double whole_time(const TimeData& data) {
  double sum = 0;
  for (const cost::OperatorTime& one : data.operators) {
    sum += one.time.value();
  }
  return sum;
}

bool is_words(int column) {
  return column == OperatorModel::kNameColumn || column == OperatorModel::kPartColumn;
}

QString rate_text(double rate, double unit) {
  return rate > 0 ? QLocale().toString(rate / unit, 'f', rate / unit < 10 ? 1 : 0)
                  : QStringLiteral("–");
}

}  // namespace

QString operator_name_text(const cost::OperatorTime& one) {
  const QString name =
      one.name.empty() ? OperatorModel::tr("other") : QString::fromStdString(one.name);
  return one.backward ? OperatorModel::tr("%1 (backward)").arg(name) : name;
}

double flops_rate(const cost::OperatorTime& one) {
  return one.time > Seconds{} ? one.flops / one.time.value() : 0;
}

double bytes_rate(const cost::OperatorTime& one) {
  return one.time > Seconds{} ? one.bytes / one.time.value() : 0;
}

double roof_share(const cost::OperatorTime& one, const Roofs& roofs) {
  if (one.time <= Seconds{} || one.bytes <= 0 || roofs.bytes_per_second <= 0 ||
      roofs.flops_per_second <= 0) {
    return 0;
  }
  const double least =
      std::max(one.bytes / roofs.bytes_per_second, one.flops / roofs.flops_per_second);
  return least / one.time.value();
}

void OperatorModel::setTimes(std::shared_ptr<const TimeData> data) {
  beginResetModel();
  data_ = std::move(data);
  endResetModel();
}

int OperatorModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() || data_ == nullptr ? 0 : static_cast<int>(data_->operators.size());
}

int OperatorModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : +kColumns;
}

QString OperatorModel::text(const cost::OperatorTime& one, int column) const {
  switch (column) {
    case kNameColumn:
      return operator_name_text(one);
    case kPartColumn:
      return part_name(one.part);
    case kCallsColumn:
      return QLocale().toString(static_cast<qlonglong>(one.items));
    case kTimeColumn:
      return QLocale().toString(one.time.value() * 1e3, 'f', 2);
    case kShareColumn:
      return QLocale().toString(100 * one.time.value() / std::max(whole_time(*data_), 1e-12), 'f',
                                1);
    case kFlopsColumn:
      return rate_text(flops_rate(one), kTera);
    case kBandwidthColumn:
      return rate_text(bytes_rate(one), kGiga);
    case kRoofColumn: {
      const double share = roof_share(one, data_->roofs);
      return share > 0 ? QLocale().toString(100 * share, 'f', 0) : QStringLiteral("–");
    }
    default:
      return {};
  }
}

QVariant OperatorModel::number(const cost::OperatorTime& one, int column) const {
  switch (column) {
    case kCallsColumn:
      return static_cast<qlonglong>(one.items);
    case kTimeColumn:
    case kShareColumn:
      return one.time.value();
    case kFlopsColumn:
      return flops_rate(one);
    case kBandwidthColumn:
      return bytes_rate(one);
    case kRoofColumn:
      return roof_share(one, data_->roofs);
    default:
      return text(one, column);
  }
}

QString OperatorModel::sentence(const cost::OperatorTime& one) const {
  return tr("%1: %2 in %L3 calls, %4")
      .arg(operator_name_text(one), time_text(one.time))
      .arg(one.items)
      .arg(part_name(one.part));
}

QVariant OperatorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  const cost::OperatorTime& one = data_->operators[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return text(one, index.column());
    case kSortRole:
      return number(one, index.column());
    case Qt::AccessibleTextRole:
    case Qt::ToolTipRole:
      return sentence(one);
    case Qt::TextAlignmentRole:
      return cell_alignment(!is_words(index.column()));
    default:
      return {};
  }
}

QVariant OperatorModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
    return {};
  }
  if (role == Qt::TextAlignmentRole) {
    return cell_alignment(!is_words(section));
  }
  if (role == Qt::ToolTipRole && section == kRoofColumn) {
    return tr(
        "The shortest time that memory bandwidth and arithmetic allow, as a share of the "
        "operator's time");
  }
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) {
    return {};
  }
  switch (section) {
    case kNameColumn:
      return tr("operator");
    case kPartColumn:
      return tr("part of the step");
    case kCallsColumn:
      return tr("calls");
    case kTimeColumn:
      return tr("time, ms");
    case kShareColumn:
      return tr("share, %");
    case kFlopsColumn:
      return tr("TFLOP/s");
    case kBandwidthColumn:
      return tr("GB/s");
    case kRoofColumn:
      return tr("of roof, %");
    default:
      return {};
  }
}

}  // namespace headroom::gui
