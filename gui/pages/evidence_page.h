#pragma once

#include <memory>
#include <string>
#include <vector>

#include <QSortFilterProxyModel>

#include "gui/models/evidence.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QLabel;
class QTableView;

namespace headroom::gui {

class ErrorChart;

/// The quality of the predictions for the scenario's framework: the errors of all its measured
/// runs, and the runs nearest to the scenario, predicted anew.
class EvidencePage : public Page {
  Q_OBJECT

 public:
  explicit EvidencePage(std::string config_dir, QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override { return job_.isBusy(); }

  [[nodiscard]] const EvidenceModel& evidence() const { return evidence_; }

 private:
  using Rows = std::vector<check::MeasuredRow>;
  void showErrors(const std::string& runtime);
  void showNearest(std::vector<EvidenceRow> rows, const QString& problem);

  std::string config_dir_;
  std::shared_ptr<const Rows> measured_;  ///< Read once.
  EvidenceModel evidence_;
  QSortFilterProxyModel rows_;
  QLabel* summary_ = nullptr;
  QLabel* nearest_title_ = nullptr;
  ErrorChart* errors_ = nullptr;
  QTableView* table_ = nullptr;
  NewestJob job_;
};

}  // namespace headroom::gui
