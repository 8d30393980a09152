#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>

#include <QSortFilterProxyModel>

#include "gui/models/plan_table_model.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;
class QTableView;

namespace headroom::gui {

class ScatterChart;

/// Searches plans that do what the scenario does, and shows those found as a table and as a
/// scatter. A double click loads a plan; "Why not?" explains why a plan is not the best.
class SearchPage : public Page {
  Q_OBJECT

 public:
  explicit SearchPage(std::string config_dir, QWidget* parent = nullptr);
  ~SearchPage() override;
  void setAnswer(const Answer& answer) override;
  void prepare() override { startSearch(); }
  [[nodiscard]] bool isBusy() const override { return search_.isBusy(); }

  [[nodiscard]] const PlanTableModel& plans() const { return plans_; }
  /// The axes that the search may choose; none: all of them.
  void setFreeAxes(const std::set<std::string>& axes) { free_axes_ = axes; }
  void startSearch();
  /// Ends the search; the best plans so far are shown.
  void endSearch();

 private:
  struct Found {
    std::shared_ptr<PlanFinder> finder;
    plan::PlanResult result;
  };
  [[nodiscard]] QWidget* makeToolBar();
  [[nodiscard]] QWidget* makeResults();
  void showProgress(const plan::SearchProgress& now);
  void showFound(std::shared_ptr<Found> found);
  void showProblem(const QString& reason);
  void setSearching(bool searching);
  void showPresent();
  void choose(int row);
  void load(int row);
  void explain();
  [[nodiscard]] int chosenRow() const;
  [[nodiscard]] QString resultText(const plan::PlanResult& result) const;

  std::string config_dir_;
  std::set<std::string> free_axes_;
  Answer answer_;
  std::shared_ptr<Found> found_;
  std::shared_ptr<std::atomic<bool>> ended_;  ///< Set to end the running search.
  PlanTableModel plans_;
  QSortFilterProxyModel rows_;
  QComboBox* frameworks_ = nullptr;
  QComboBox* objective_ = nullptr;
  QPushButton* start_ = nullptr;
  QPushButton* stop_ = nullptr;
  QPushButton* load_ = nullptr;
  QPushButton* why_ = nullptr;
  QProgressBar* bar_ = nullptr;
  QLabel* status_ = nullptr;
  QLabel* detail_ = nullptr;
  QTableView* table_ = nullptr;
  ScatterChart* scatter_ = nullptr;
  NewestJob search_;
  NewestJob explanation_;
};

}  // namespace headroom::gui
