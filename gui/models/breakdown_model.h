#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QAbstractTableModel>
#include <QStringList>

#include "costmodel/estimate.h"
#include "gui/models/words.h"

namespace headroom::gui {

/// The peak of each phase by category, with a row per phase and a column per category that occurs.
/// Chart and table share this model. Rows can be something else than phases, such as the stages of
/// a pipeline; they are then phases with names of their own.
class BreakdownModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kPhaseColumn, kPeakColumn, kReservedColumn, kFirstCategoryColumn };
  enum Role {
    kBytesRole = Qt::UserRole,  ///< qlonglong, exact; for sorting and drawing.
    kCategoryRole,              ///< For a header: `ir::TensorRole` of its column as an int.
  };

  explicit BreakdownModel(QObject* parent = nullptr);

  /// The word above the names of the rows; by default "phase".
  void setRowTitle(const QString& title) { row_title_ = title; }

  /// Shows `estimate`, or nothing if it is null. Selections survive if phases and categories are
  /// the same.
  /// `names` replaces the names of the phases; empty: they keep them.
  void setEstimate(std::shared_ptr<const cost::StepEstimate> estimate, QStringList names = {});

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

  /// Unit of every number that is displayed.
  [[nodiscard]] const ByteScale& scale() const { return scale_; }
  /// Bytes that the allocator may reserve; 0 without an estimate.
  [[nodiscard]] Bytes capacity() const;
  /// Capacity plus everything outside the allocator.
  [[nodiscard]] Bytes deviceTotal() const;
  /// The larger of the largest number in the table and the device's total.
  [[nodiscard]] Bytes largest() const;
  /// Row of the phase that has the peak of the whole program.
  [[nodiscard]] std::optional<int> peakRow() const;

 private:
  [[nodiscard]] Bytes bytesAt(int row, int column) const;
  [[nodiscard]] QString sentence(int row, int column) const;
  [[nodiscard]] QString columnTitle(int column) const;
  [[nodiscard]] QString rowName(int row) const;
  [[nodiscard]] const cost::PhaseMemory& phase(int row) const;

  QString row_title_;
  QStringList names_;
  std::shared_ptr<const cost::StepEstimate> estimate_;
  std::vector<ir::TensorRole> categories_;
  ByteScale scale_;
};

}  // namespace headroom::gui
