#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QAbstractTableModel>

#include "costmodel/estimate.h"
#include "gui/models/words.h"

namespace headroom::gui {

/// The peak of each phase by category: a row per phase, a column per category that occurs.
/// Chart and table show this one model.
class BreakdownModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kPhaseColumn, kPeakColumn, kReservedColumn, kFirstCategoryColumn };
  enum Role {
    kBytesRole = Qt::UserRole,  ///< qlonglong, exact: what to sort by and to draw.
    kCategoryRole,              ///< Of a header: `ir::TensorRole` of its column as an int.
  };

  explicit BreakdownModel(QObject* parent = nullptr);

  /// Shows `estimate`, or nothing if null. Selections survive when phases and categories stay.
  void setEstimate(std::shared_ptr<const cost::StepEstimate> estimate);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

  /// Unit of every number that is displayed.
  [[nodiscard]] const ByteScale& scale() const { return scale_; }
  /// What the allocator may reserve; 0 without an estimate.
  [[nodiscard]] Bytes capacity() const;
  /// Capacity and everything outside the allocator.
  [[nodiscard]] Bytes deviceTotal() const;
  /// Largest number in the table, or the device's total if that is larger.
  [[nodiscard]] Bytes largest() const;
  /// Row of the phase in which the whole program peaks.
  [[nodiscard]] std::optional<int> peakRow() const;

 private:
  [[nodiscard]] Bytes bytesAt(int row, int column) const;
  [[nodiscard]] QString sentence(int row, int column) const;
  [[nodiscard]] QString columnTitle(int column) const;
  [[nodiscard]] const cost::PhaseMemory& phase(int row) const;

  std::shared_ptr<const cost::StepEstimate> estimate_;
  std::vector<ir::TensorRole> categories_;
  ByteScale scale_;
};

}  // namespace headroom::gui
