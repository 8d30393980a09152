#pragma once

#include <memory>

#include <QAbstractTableModel>

#include "gui/charts/time_data.h"

namespace headroom::gui {

/// The operators of a step: time, share, rates, and what limits them. Table and roofline share it.
class OperatorModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kNameColumn,
    kTimeColumn,
    kShareColumn,
    kFlopsColumn,
    kBandwidthColumn,
    kRoofColumn,
    kCallsColumn,
    kPartColumn,
    kColumns
  };
  static constexpr int kSortRole = Qt::UserRole;  ///< A number, or the text of a name.

  using QAbstractTableModel::QAbstractTableModel;

  void setTimes(std::shared_ptr<const TimeData> data);
  [[nodiscard]] const std::shared_ptr<const TimeData>& timeData() const { return data_; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

 private:
  [[nodiscard]] QString text(const cost::OperatorTime& one, int column) const;
  [[nodiscard]] QVariant number(const cost::OperatorTime& one, int column) const;
  [[nodiscard]] QString sentence(const cost::OperatorTime& one) const;

  std::shared_ptr<const TimeData> data_;
};

/// "linear", "linear (backward)".
[[nodiscard]] QString operator_name_text(const cost::OperatorTime& one);
/// FLOPs per second and bytes per second of the operator's own time; 0 without time.
[[nodiscard]] double flops_rate(const cost::OperatorTime& one);
[[nodiscard]] double bytes_rate(const cost::OperatorTime& one);
/// The share of what the roofline allows at the operator's intensity; 0 for communication.
[[nodiscard]] double roof_share(const cost::OperatorTime& one, const Roofs& roofs);

}  // namespace headroom::gui
