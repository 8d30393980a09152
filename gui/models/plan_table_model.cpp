#include "gui/models/plan_table_model.h"

#include <algorithm>
#include <utility>

#include "gui/models/words.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

bool is_plan_text(int column) {
  return column == PlanTableModel::kRuntimeColumn || column == PlanTableModel::kPlanColumn;
}

}  // namespace

QString plan_text(const ir::ParallelPlan& plan) {
  QString text = QString::fromStdString(ir::runtime_of(plan).describe(plan));
  const QString name = QString::fromStdString(plan.runtime);
  if (text.startsWith(name)) {
    text = text.mid(name.size());
  }
  while (text.startsWith(QLatin1Char(' ')) || text.startsWith(QLatin1Char(','))) {
    text.remove(0, 1);
  }
  return text;
}

void PlanTableModel::add(const plan::RatedPlan& rated, bool on_front) {
  const auto same =
      std::ranges::find_if(rows_, [&](const Row& row) { return row.rated.plan == rated.plan; });
  if (same != rows_.end()) {
    same->on_front = same->on_front || on_front;
    return;
  }
  rows_.push_back({.rated = rated,
                   .tokens_per_second = finder_->tokensPerSecond(rated),
                   .best = false,
                   .on_front = on_front});
}

void PlanTableModel::setResult(std::shared_ptr<const PlanFinder> finder,
                               const plan::PlanResult& result) {
  beginResetModel();
  finder_ = std::move(finder);
  rows_.clear();
  runtimes_.clear();
  if (result.best) {
    add(*result.best, false);
    rows_.front().best = true;
  }
  for (const plan::RatedPlan& rated : result.front) {
    add(rated, true);
  }
  for (const plan::ReplayedPlan& replayed : result.replayed) {
    if (!result.best || replayed.plan.number != result.best->number) {
      add(replayed.plan, false);
    }
  }
  for (const Row& row : rows_) {
    if (std::ranges::find(runtimes_, row.rated.plan.runtime) == runtimes_.end()) {
      runtimes_.push_back(row.rated.plan.runtime);
    }
  }
  endResetModel();
}

void PlanTableModel::clear() {
  beginResetModel();
  finder_ = nullptr;
  rows_.clear();
  runtimes_.clear();
  endResetModel();
}

std::size_t PlanTableModel::runtimeOf(const Row& row) const {
  return static_cast<std::size_t>(std::ranges::find(runtimes_, row.rated.plan.runtime) -
                                  runtimes_.begin());
}

Bytes PlanTableModel::capacity() const {
  return finder_ != nullptr ? finder_->capacity() : Bytes{0};
}

QString PlanTableModel::sentence(const Row& row) const {
  QString text =
      tr("%1, %2: %3 per step, %4 tokens/s, peak %5")
          .arg(QString::fromStdString(row.rated.plan.runtime), plan_text(row.rated.plan),
               time_text(row.rated.time.total()), QLocale().toString(row.tokens_per_second, 'f', 0),
               bytes_text(row.rated.peak));
  if (row.best) {
    text += tr(", the best plan");
  } else if (!rows_.empty() && rows_.front().best) {
    const Row& best = rows_.front();
    const double slower = row.rated.time.total().value() / best.rated.time.total().value() - 1;
    text += tr(", %1 % slower than the best plan").arg(QLocale().toString(100 * slower, 'f', 1));
  }
  return text;
}

int PlanTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int PlanTableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : +kColumns;
}

QString PlanTableModel::text(const Row& row, int column) const {
  switch (column) {
    case kRuntimeColumn:
      return QString::fromStdString(row.rated.plan.runtime);
    case kPlanColumn:
      return plan_text(row.rated.plan);
    case kStepColumn:
      return time_text(row.rated.time.total());
    case kTokensColumn:
      return QLocale().toString(row.tokens_per_second, 'f', 0);
    case kPeakColumn:
      return bytes_text(row.rated.peak);
    case kSpareColumn:
      return bytes_text(row.rated.capacity - row.rated.peak);
    case kGpusColumn:
      return QLocale().toString(static_cast<qlonglong>(row.rated.plan.world));
    default:
      return {};
  }
}

QVariant PlanTableModel::number(const Row& row, int column) const {
  switch (column) {
    case kStepColumn:
      return row.rated.time.total().value();
    case kTokensColumn:
      return row.tokens_per_second;
    case kPeakColumn:
      return static_cast<qlonglong>(row.rated.peak.value());
    case kSpareColumn:
      return static_cast<qlonglong>((row.rated.capacity - row.rated.peak).value());
    case kGpusColumn:
      return static_cast<qlonglong>(row.rated.plan.world);
    default:
      return text(row, column);
  }
}

QVariant PlanTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return text(row, index.column());
    case kSortRole:
      return number(row, index.column());
    case Qt::AccessibleTextRole:
    case Qt::ToolTipRole:
      return sentence(row);
    case Qt::TextAlignmentRole:
      return cell_alignment(!is_plan_text(index.column()));
    default:
      return {};
  }
}

QVariant PlanTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
    return {};
  }
  if (role == Qt::TextAlignmentRole) {
    return cell_alignment(!is_plan_text(section));
  }
  if (role != Qt::DisplayRole && role != Qt::AccessibleTextRole) {
    return {};
  }
  switch (section) {
    case kRuntimeColumn:
      return tr("runtime");
    case kPlanColumn:
      return tr("plan");
    case kStepColumn:
      return tr("step");
    case kTokensColumn:
      return tr("tokens/s");
    case kPeakColumn:
      return tr("peak");
    case kSpareColumn:
      return tr("to spare");
    case kGpusColumn:
      return tr("GPUs");
    default:
      return {};
  }
}

}  // namespace headroom::gui
