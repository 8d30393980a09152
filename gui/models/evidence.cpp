#include "gui/models/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "gui/models/words.h"
#include "gui/whatif/estimator.h"
#include "model_ir/spec/param_count.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/row_plan.h"
#include "validators/measured/row_reader.h"
#include "validators/measured/runtime_tools.h"
#include "validators/measured/score.h"

namespace headroom::gui {
namespace {

double doublings(std::int64_t one, std::int64_t other) {
  return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(1, one)) /
                            static_cast<double>(std::max<std::int64_t>(1, other))));
}

std::int64_t parameters_of(const ir::ModelSpec& model) {
  return ir::count_parameters(model).total();
}

double distance_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                   const ir::ModelSpec& other, const ir::ParallelPlan& of) {
  constexpr double kOtherChoice = 2;
  const auto apart = [](bool same) { return same ? 0.0 : kOtherChoice; };
  return doublings(parameters_of(model), parameters_of(other)) +
         doublings(static_cast<std::int64_t>(model.layers.size()),
                   static_cast<std::int64_t>(other.layers.size())) +
         doublings(model.hidden, other.hidden) +
         doublings(plan.workload.sequence, of.workload.sequence) +
         doublings(plan.workload.micro_batch, of.workload.micro_batch) +
         doublings(plan.world, of.world) + apart(plan.precision == of.precision) +
         apart(plan.optimizer == of.optimizer) + apart(plan.recompute == of.recompute) +
         apart(plan.lora.has_value() == of.lora.has_value());
}

/// Model and plan of a row, if the program understands all of it.
struct RowSetting {
  ir::ModelSpec model;
  ir::ParallelPlan plan;
};
std::optional<RowSetting> setting_of(const check::MeasuredRow& row,
                                     const check::ScoreTools& tools) {
  if (row.form == check::RowForm::kCase) {
    check::Planned planned = check::plan_of_case(row);
    auto* const setting = std::get_if<ir::RunSetting>(&planned);
    return setting == nullptr ? std::nullopt
                              : std::optional(RowSetting{.model = std::move(setting->model),
                                                         .plan = std::move(setting->plan)});
  }
  check::PublishedPlanned planned = check::plan_of_published(row, tools);
  auto* const setting = std::get_if<check::PublishedSetting>(&planned);
  return setting == nullptr ? std::nullopt
                            : std::optional(RowSetting{.model = std::move(setting->run.model),
                                                       .plan = std::move(setting->run.plan)});
}

std::optional<cost::Measurand> measurand_of_metric(check::Metric metric) {
  switch (metric) {
    case check::Metric::kPeakAllocated:
      return cost::Measurand::kPeakAllocated;
    case check::Metric::kPeakReserved:
      return cost::Measurand::kPeakReserved;
    case check::Metric::kStepTime:
      return cost::Measurand::kStepTime;
    default:
      return std::nullopt;
  }
}

/// Sets what is compared: the largest reserved peak, else the largest allocated one, else the time.
void add_comparison(const check::Scoring& scoring, EvidenceRow& row) {
  constexpr std::array<cost::Measurand, 3> kOrder = {
      cost::Measurand::kPeakReserved, cost::Measurand::kPeakAllocated, cost::Measurand::kStepTime};
  for (const cost::Measurand wanted : kOrder) {
    for (const check::Score& score : scoring.scores) {
      if (measurand_of_metric(score.metric) == wanted) {
        row.measurand = wanted;
        row.measured = std::max(row.measured, score.measured);
        row.predicted = std::max(row.predicted, score.predicted);
      }
    }
    if (row.measurand) {
      return;
    }
  }
}

bool is_figure(int column) {
  return column >= EvidenceModel::kMeasuredColumn && column <= EvidenceModel::kErrorColumn;
}

QString count_text(std::int64_t count) {
  constexpr double kMillion = 1e6;
  constexpr double kBillion = 1e9;
  const auto value = static_cast<double>(count);
  return value >= kBillion
             ? EvidenceModel::tr("%1 B").arg(QLocale().toString(value / kBillion, 'f', 1))
             : EvidenceModel::tr("%1 M").arg(QLocale().toString(value / kMillion, 'f', 0));
}

}  // namespace

std::optional<std::string> measured_folder(const std::string& config_dir) {
  const std::filesystem::path beside = std::filesystem::path(config_dir).parent_path();
  std::error_code fault;
  for (const std::filesystem::path& folder : {beside / "measured", beside / "tests" / "measured"}) {
    if (!config_dir.empty() && std::filesystem::is_directory(folder, fault)) {
      return folder.string();
    }
  }
  return std::nullopt;
}

Result<std::vector<check::MeasuredRow>> read_measured(const std::string& folder) {
  return check::read_rows(folder);
}

Result<std::vector<EvidenceRow>> nearest_evidence(const std::string& config_dir,
                                                  const Scenario& scenario,
                                                  std::span<const check::MeasuredRow> rows,
                                                  std::size_t count, const std::stop_token& stop) {
  const Result<ir::ModelSpec> model = load_source(config_dir, scenario.model);
  if (!model) {
    return model.error();
  }
  const check::ScoreTools tools = check::runtime_tools(
      [&config_dir](const std::string& name) { return cost::load_device(config_dir, name); },
      [&config_dir](const cost::DeviceSpec& device) {
        return cost::load_machine(config_dir, device);
      });
  const std::string runtime = cost::residual_runtime(scenario.plan);
  struct Candidate {
    double distance = 0;
    const check::MeasuredRow* row = nullptr;
    EvidenceRow shown{};
  };
  std::vector<Candidate> candidates;
  for (const check::MeasuredRow& row : rows) {
    if (stop.stop_requested()) {
      return std::vector<EvidenceRow>();
    }
    if (row.out_of_memory || check::labels_of(row).runtime != runtime) {
      continue;
    }
    const std::optional<RowSetting> setting = setting_of(row, tools);
    if (!setting) {
      continue;
    }
    const double distance = distance_of(*model, scenario.plan, setting->model, setting->plan);
    candidates.push_back(
        {.distance = distance,
         .row = &row,
         .shown = {.source = row.source,
                   .id = row.id,
                   .on_gpu = row.on_gpu || row.form == check::RowForm::kPublished,
                   .parameters = parameters_of(setting->model),
                   .layers = static_cast<std::int64_t>(setting->model.layers.size()),
                   .hidden = setting->model.hidden,
                   .sequence = setting->plan.workload.sequence,
                   .micro_batch = setting->plan.workload.micro_batch,
                   .world = setting->plan.world,
                   .measurand = {},
                   .distance = distance}});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::distance);
  std::vector<EvidenceRow> nearest;
  for (Candidate& candidate : candidates) {
    if (nearest.size() >= count || stop.stop_requested()) {
      break;
    }
    add_comparison(check::score_row(*candidate.row, tools), candidate.shown);
    if (candidate.shown.measurand) {
      nearest.push_back(std::move(candidate.shown));
    }
  }
  return nearest;
}

QString error_text(double error) {
  constexpr double kExact = 5e-7;  // Less is no different byte in any of the measured runs.
  if (std::abs(error) < kExact) {
    return EvidenceModel::tr("exact");
  }
  constexpr double kShown = 5e-5;  // Less would be shown as 0.00 %.
  if (std::abs(error) < kShown) {
    return EvidenceModel::tr("< 0.01 %");
  }
  const QString number = QLocale().toString(100 * error, 'f', std::abs(error) < 0.0095 ? 2 : 1);
  return (error > 0 ? QStringLiteral("+") : QString()) + number + QChar(QChar::Nbsp) +
         QLatin1Char('%');
}

void EvidenceModel::setRows(std::vector<EvidenceRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int EvidenceModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int EvidenceModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : +kColumns;
}

QString EvidenceModel::text(const EvidenceRow& row, int column) {
  const bool time = row.measurand == cost::Measurand::kStepTime;
  const auto value = [time](double number) {
    return time ? time_text(Seconds{number / 1e3})
                : bytes_text(Bytes{static_cast<std::int64_t>(number)});
  };
  switch (column) {
    case kSourceColumn:
      return QString::fromStdString(row.source);
    case kRunColumn:
      return QString::fromStdString(row.id);
    case kModelColumn:
      return tr("%1, %2 layers of %3")
          .arg(count_text(row.parameters))
          .arg(row.layers)
          .arg(row.hidden);
    case kBatchColumn:
      return tr("%1 × %2 on %3").arg(row.micro_batch).arg(row.sequence).arg(row.world);
    case kWhereColumn:
      return row.on_gpu ? tr("GPU") : tr("accounting device");
    case kWhatColumn:
      return time ? tr("step time")
                  : (row.measurand == cost::Measurand::kPeakReserved ? tr("peak reserved")
                                                                     : tr("peak allocated"));
    case kMeasuredColumn:
      return value(row.measured);
    case kPredictedColumn:
      return value(row.predicted);
    case kErrorColumn:
      return error_text(row.error());
    default:
      return {};
  }
}

QVariant EvidenceModel::number(const EvidenceRow& row, int column) {
  switch (column) {
    case kModelColumn:
      return static_cast<qlonglong>(row.parameters);
    case kBatchColumn:
      return static_cast<qlonglong>(row.micro_batch * row.sequence);
    case kMeasuredColumn:
      return row.measured;
    case kPredictedColumn:
      return row.predicted;
    case kErrorColumn:
      return std::abs(row.error());
    default:
      return text(row, column);
  }
}

QVariant EvidenceModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  const EvidenceRow& row = rows_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return text(row, index.column());
    case kSortRole:
      return number(row, index.column());
    case Qt::AccessibleTextRole:
    case Qt::ToolTipRole:
      return tr("%1, %2: %3 measured %4, predicted %5, error %6")
          .arg(text(row, kSourceColumn), text(row, kRunColumn), text(row, kWhatColumn),
               text(row, kMeasuredColumn), text(row, kPredictedColumn), text(row, kErrorColumn));
    case Qt::TextAlignmentRole:
      return cell_alignment(is_figure(index.column()));
    default:
      return {};
  }
}

QVariant EvidenceModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
    return {};
  }
  if (role == Qt::TextAlignmentRole) {
    return cell_alignment(is_figure(section));
  }
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) {
    return {};
  }
  const std::array<QString, kColumns> names = {tr("source"),
                                               tr("measured"),
                                               tr("predicted"),
                                               tr("error"),
                                               tr("what"),
                                               tr("model"),
                                               tr("micro-batch × sequence on GPUs"),
                                               tr("recorded"),
                                               tr("run")};
  return names.at(static_cast<std::size_t>(section));
}

}  // namespace headroom::gui
