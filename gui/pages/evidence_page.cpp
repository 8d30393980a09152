#include "gui/pages/evidence_page.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/charts/error_chart.h"
#include "gui/models/verdict_text.h"
#include "gui/pages/page_parts.h"

namespace headroom::gui {
namespace {

constexpr std::size_t kNearest = 25;

/// "1,240 measured runs in 8 sources: 92 % of the peaks exact, ...".
QString errors_text(const std::string& runtime, const std::vector<cost::ResidualSet>& sets) {
  std::size_t runs = 0;
  std::size_t exact = 0;
  double worst = 0;
  for (const cost::ResidualSet& set : sets) {
    if (set.measurand == cost::Measurand::kStepTime) {
      continue;
    }
    for (const double error : set.errors) {
      ++runs;
      exact += std::abs(error) < 5e-7 ? 1U : 0U;
      worst = std::abs(error) > std::abs(worst) ? error : worst;
    }
  }
  if (runs == 0) {
    return EvidencePage::tr("No measured peaks of %1 are known.")
        .arg(QString::fromStdString(runtime));
  }
  return EvidencePage::tr(
             "%1: %L2 measured peaks, %3 % predicted to the byte, largest error %4. "
             "Squares are runs on GPUs. Circles are runs of the real framework on an accounting "
             "device, which counts memory and computes nothing.")
      .arg(QString::fromStdString(runtime))
      .arg(runs)
      .arg(QLocale().toString(100.0 * static_cast<double>(exact) / static_cast<double>(runs), 'f',
                              1),
           error_text(worst));
}

}  // namespace

EvidencePage::EvidencePage(std::string config_dir, QWidget* parent)
    : Page(QStringLiteral("evidence"), tr("Evidence"), parent), config_dir_(std::move(config_dir)) {
  summary_ = quiet_label();
  errors_ = new ErrorChart;
  rows_.setSourceModel(&evidence_);
  rows_.setSortRole(EvidenceModel::kSortRole);
  table_ = new QTableView;
  table_->setModel(&rows_);
  dress(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSortingEnabled(true);
  table_->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);  // Nearest first.
  table_->setAccessibleName(tr("Measured runs nearest to the scenario"));
  nearest_title_ = section_title({});

  auto* const lower = new QWidget;
  auto* const lower_column = new QVBoxLayout(lower);
  lower_column->setContentsMargins(0, 0, 0, 0);
  lower_column->addWidget(nearest_title_);
  lower_column->addWidget(table_, 1);
  auto* const parts = new QSplitter(Qt::Vertical);
  parts->setChildrenCollapsible(false);
  parts->addWidget(errors_);
  parts->addWidget(lower);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(summary_);
  column->addWidget(parts, 1);
  connect(&job_, &NewestJob::finished, this, &Page::settled);
  connect(&job_, &NewestJob::failed, this, [this](const QString& fault) {
    showNearest({}, fault);
    Q_EMIT settled();
  });
}

void EvidencePage::showErrors(const std::string& runtime) {
  std::vector<cost::ResidualSet> own;
  if (auto all = cost::read_residuals(config_dir_ + "/accuracy/residuals.json")) {
    for (cost::ResidualSet& set : all.value()) {
      if (set.runtime == runtime) {
        // The file has what the measurement adds to the prediction; the page says, like the table,
        // how far the prediction is from the measurement.
        std::ranges::transform(set.errors, set.errors.begin(),
                               [](double added) { return 1 / (1 + added) - 1; });
        std::ranges::sort(set.errors);
        own.push_back(std::move(set));
      }
    }
  }
  summary_->setText(errors_text(runtime, own));
  errors_->setErrors(std::move(own));
}

void EvidencePage::setAnswer(const Answer& answer) {
  showErrors(cost::residual_runtime(answer.scenario.plan));
  const std::optional<std::string> folder = measured_folder(config_dir_);
  if (!folder) {
    job_.cancel();
    showNearest({}, tr("The measured runs are not installed"));
    return;
  }
  if (evidence_.rowCount() == 0) {
    nearest_title_->setText(tr("Predicting the measured runs nearest to the scenario…"));
  }
  job_.run([this, config_dir = config_dir_, scenario = answer.scenario, folder = *folder,
            known = measured_](const std::stop_token& stop) -> NewestJob::Delivery {
    std::shared_ptr<const Rows> measured = known;
    if (measured == nullptr) {
      Result<Rows> rows = read_measured(folder);
      if (!rows) {
        const QString reason = problem_text(rows.error()).what;
        return [this, reason] { showNearest({}, reason); };
      }
      measured = std::make_shared<const Rows>(std::move(rows).value());
    }
    Result<std::vector<EvidenceRow>> nearest =
        nearest_evidence(config_dir, scenario, *measured, kNearest, stop);
    if (!nearest) {
      const QString reason = problem_text(nearest.error()).what;
      return [this, measured, reason] {
        measured_ = measured;
        showNearest({}, reason);
      };
    }
    return [this, measured, rows = std::move(nearest).value()] {
      measured_ = measured;
      showNearest(rows, {});
    };
  });
}

void EvidencePage::showNearest(std::vector<EvidenceRow> rows, const QString& problem) {
  nearest_title_->setText(!problem.isEmpty() ? problem
                          : rows.empty()
                              ? tr("No measured run of this framework can be compared")
                              : tr("Measured runs nearest to the scenario, predicted now"));
  evidence_.setRows(std::move(rows));
}

}  // namespace headroom::gui
