#pragma once

#include <memory>
#include <vector>

#include <QAbstractTableModel>

#include "gui/whatif/plan_finder.h"

namespace headroom::gui {

/// The plans that a search has found. Table and scatter share it.
class PlanTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kRuntimeColumn,
    kStepColumn,
    kTokensColumn,
    kPeakColumn,
    kSpareColumn,
    kGpusColumn,
    kPlanColumn,
    kColumns
  };
  static constexpr int kSortRole = Qt::UserRole;  ///< A number, or the text of a name.

  using QAbstractTableModel::QAbstractTableModel;

  /// A plan of the result.
  struct Row {
    plan::RatedPlan rated;
    double tokens_per_second = 0;
    bool best = false;
    bool on_front = false;  ///< No other plan beats it in time, memory and GPUs at once.
  };
  /// Shows the plans of `result`: the best, the next ones, and the front, each once.
  void setResult(std::shared_ptr<const PlanFinder> finder, const plan::PlanResult& result);
  void clear();

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  /// The frameworks of the rows, in the order in which they occur.
  [[nodiscard]] const std::vector<std::string>& runtimes() const { return runtimes_; }
  /// The position of a row's framework in `runtimes`.
  [[nodiscard]] std::size_t runtimeOf(const Row& row) const;
  /// Bytes that the allocator may take; 0 without rows.
  [[nodiscard]] Bytes capacity() const;
  /// One sentence about a row.
  [[nodiscard]] QString sentence(const Row& row) const;

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

 private:
  void add(const plan::RatedPlan& rated, bool on_front);
  [[nodiscard]] QString text(const Row& row, int column) const;
  [[nodiscard]] QVariant number(const Row& row, int column) const;

  std::shared_ptr<const PlanFinder> finder_;
  std::vector<Row> rows_;
  std::vector<std::string> runtimes_;
};

/// The plan in one line without its framework's name: "tp 8 pp 4 dp 32, micro-batch 1 x 48".
[[nodiscard]] QString plan_text(const ir::ParallelPlan& plan);

}  // namespace headroom::gui
