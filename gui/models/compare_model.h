#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QAbstractTableModel>
#include <QString>

#include "gui/whatif/estimate_worker.h"

namespace headroom::gui {

/// A scenario and its answer, as they were pinned.
struct Pinned {
  Scenario scenario;
  std::shared_ptr<const Appraisal> appraisal;
};

/// A figure of two answers.
struct FigureChange {
  QString name;
  QString before;
  QString after;
  QString difference;  ///< Empty if there is none, or if a side is missing.
  int better = 0;      ///< 1: the newer one is better, -1: worse, 0: neither.
};

/// The figures of two answers side by side, those that both lack left out.
[[nodiscard]] std::vector<FigureChange> figure_changes(const Scenario& before_scenario,
                                                       const Appraisal& before,
                                                       const Scenario& after_scenario,
                                                       const Appraisal& after);

/// "−3.2 GiB", "+1.5 GiB"; empty if both are the same as shown.
[[nodiscard]] QString bytes_difference(Bytes before, Bytes after);

/// The changes since a scenario was pinned: first the figures, then the options.
class CompareModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kNameColumn, kPinnedColumn, kNowColumn, kDifferenceColumn, kColumnCount };
  enum Role {
    kBetterRole = Qt::UserRole,  ///< `FigureChange::better`.
    kOptionRole,                 ///< Whether the row is an option of the plan.
  };

  explicit CompareModel(QObject* parent = nullptr);

  /// Compares `now` with `pinned`; nothing is shown if one of them is missing.
  void compare(const std::optional<Pinned>& pinned, const std::optional<Pinned>& now);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

 private:
  struct Row {
    FigureChange figure;
    bool is_option = false;
  };
  std::vector<Row> rows_;
};

}  // namespace headroom::gui
