#include "gui/models/compare_model.h"

#include <cmath>
#include <string>
#include <utility>

#include <QCoreApplication>
#include <QLocale>

#include "gui/models/option_rows.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

QString compare_words(const char* text) {
  return QCoreApplication::translate("Compare", text);
}

QString signed_text(bool negative, const QString& amount) {
  return (negative ? QChar(0x2212) : QChar(u'+')) + amount;
}

/// The direction in which a figure is better.
enum class Wish { kLess, kMore };

FigureChange of_bytes(const char* name, Bytes before, Bytes after, Wish wish) {
  FigureChange change{.name = compare_words(name),
                      .before = bytes_text(before),
                      .after = bytes_text(after),
                      .difference = bytes_difference(before, after)};
  if (!change.difference.isEmpty()) {
    change.better = (after > before) == (wish == Wish::kMore) ? 1 : -1;
  }
  return change;
}

/// The form in which a number that is no size is shown.
using Shown = QString (*)(double);

QString plain(double number) {
  return QLocale().toString(number, 'f', 0);
}
QString percent(double share) {
  return QLocale().toString(100 * share, 'f', 1) + QStringLiteral("\u00a0%");
}
QString seconds(double time) {
  return time_text(Seconds{time});
}
QString days(double number) {
  return QLocale().toString(number, 'f', 1);
}

std::optional<FigureChange> of_number(const char* name, const std::optional<double>& before,
                                      const std::optional<double>& after, Wish wish, Shown shown) {
  if (!before && !after) {
    return std::nullopt;
  }
  const QString none = compare_words("none");
  FigureChange change{.name = compare_words(name),
                      .before = before ? shown(*before) : none,
                      .after = after ? shown(*after) : none,
                      .difference = {}};
  if (before && after && change.before != change.after) {
    change.difference = signed_text(*after < *before, shown(std::abs(*after - *before)));
    if (*before > 0 && shown != percent) {
      const double ratio = *after / *before - 1;
      change.difference +=
          compare_words(" (%1)").arg(signed_text(ratio < 0, percent(std::abs(ratio))));
    }
    change.better = (*after > *before) == (wish == Wish::kMore) ? 1 : -1;
  }
  return change;
}

QString verdict_of(const Appraisal& appraisal) {
  const std::string words(
      cost::verdict_words(appraisal.estimate.verdict, appraisal.estimate.chance));
  return QCoreApplication::translate("Verdict", words.c_str());
}

std::optional<double> total_of(const Appraisal& appraisal) {
  const auto& time = appraisal.estimate.time;
  return time ? std::optional(time->total.value()) : std::nullopt;
}
std::optional<double> rate_of(const Appraisal& appraisal) {
  const auto& time = appraisal.estimate.time;
  return time ? std::optional(time->tokens_per_second_per_gpu()) : std::nullopt;
}
std::optional<double> use_of(const Appraisal& appraisal) {
  const auto& time = appraisal.estimate.time;
  return time ? time->mfu() : std::nullopt;
}

cost::RunFigures run_of(const Scenario& scenario, const Appraisal& appraisal) {
  if (!appraisal.estimate.time) {
    return {};
  }
  return cost::run_figures(*appraisal.estimate.time, {.dollars_per_gpu_hour = scenario.price,
                                                      .watts_per_gpu = std::nullopt,
                                                      .tokens = scenario.tokens});
}

}  // namespace

QString bytes_difference(Bytes before, Bytes after) {
  if (before == after) {
    return {};
  }
  return signed_text(after < before, bytes_text(after < before ? before - after : after - before));
}

std::vector<FigureChange> figure_changes(const Scenario& before_scenario, const Appraisal& before,
                                         const Scenario& after_scenario, const Appraisal& after) {
  const cost::StepEstimate& old = before.estimate;
  const cost::StepEstimate& now = after.estimate;
  std::vector<FigureChange> changes;
  FigureChange verdict{.name = compare_words("Verdict"),
                       .before = verdict_of(before),
                       .after = verdict_of(after),
                       .difference = {}};
  if (verdict.before != verdict.after) {
    verdict.better = now.verdict < old.verdict ? 1 : (now.verdict > old.verdict ? -1 : 0);
    verdict.difference = verdict.better > 0   ? compare_words("better")
                         : verdict.better < 0 ? compare_words("worse")
                                              : QString();
  }
  changes.push_back(verdict);
  changes.push_back(of_bytes("Peak reserved", old.peak_reserved, now.peak_reserved, Wish::kLess));
  changes.push_back(
      of_bytes("Peak allocated", old.peak_allocated, now.peak_allocated, Wish::kLess));
  changes.push_back(of_bytes("Margin", old.margin, now.margin, Wish::kMore));
  changes.push_back(
      of_bytes("Outside the allocator", old.outside_bytes, now.outside_bytes, Wish::kLess));
  if (old.host.bytes > Bytes{0} || now.host.bytes > Bytes{0}) {
    changes.push_back(of_bytes("Host memory", old.host.bytes, now.host.bytes, Wish::kLess));
  }
  const cost::RunFigures old_run = run_of(before_scenario, before);
  const cost::RunFigures new_run = run_of(after_scenario, after);
  for (const std::optional<FigureChange>& change :
       {of_number("Chance to fit", old.chance, now.chance, Wish::kMore, percent),
        of_number("Step time", total_of(before), total_of(after), Wish::kLess, seconds),
        of_number("Tokens/s/GPU", rate_of(before), rate_of(after), Wish::kMore, plain),
        of_number("MFU", use_of(before), use_of(after), Wish::kMore, percent),
        of_number("Days", old_run.days, new_run.days, Wish::kLess, days),
        of_number("Dollars", old_run.dollars, new_run.dollars, Wish::kLess, plain)}) {
    if (change) {
      changes.push_back(*change);
    }
  }
  return changes;
}

CompareModel::CompareModel(QObject* parent) : QAbstractTableModel(parent) {}

void CompareModel::compare(const std::optional<Pinned>& pinned, const std::optional<Pinned>& now) {
  beginResetModel();
  rows_.clear();
  if (pinned && now && pinned->appraisal != nullptr && now->appraisal != nullptr) {
    for (FigureChange& figure :
         figure_changes(pinned->scenario, *pinned->appraisal, now->scenario, *now->appraisal)) {
      rows_.push_back({.figure = std::move(figure)});
    }
    const auto add = [this](const QString& name, const QString& before, const QString& after) {
      if (before != after) {
        rows_.push_back(
            {.figure = {.name = name, .before = before, .after = after, .difference = {}},
             .is_option = true});
      }
    };
    add(compare_words("Model"), QString::fromStdString(pinned->scenario.model.text),
        QString::fromStdString(now->scenario.model.text));
    add(compare_words("GPU"), QString::fromStdString(pinned->scenario.gpu),
        QString::fromStdString(now->scenario.gpu));
    for (const OptionChange& change : changes_between(pinned->scenario.plan, now->scenario.plan)) {
      add(change.label, change.before, change.after);
    }
  }
  endResetModel();
}

int CompareModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int CompareModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kColumnCount;
}

QVariant CompareModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) {
    return {};
  }
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      switch (index.column()) {
        case kNameColumn:
          return row.figure.name;
        case kPinnedColumn:
          return row.figure.before;
        case kNowColumn:
          return row.figure.after;
        case kDifferenceColumn:
          return row.is_option ? compare_words("changed") : row.figure.difference;
        default:
          return {};
      }
    case Qt::AccessibleTextRole:
      return compare_words("%1: pinned %2, now %3")
          .arg(row.figure.name, row.figure.before, row.figure.after);
    case Qt::TextAlignmentRole:
      return cell_alignment(index.column() != kNameColumn);
    case kBetterRole:
      return row.figure.better;
    case kOptionRole:
      return row.is_option;
    default:
      return {};
  }
}

QVariant CompareModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) {
    return {};
  }
  switch (section) {
    case kPinnedColumn:
      return compare_words("Pinned");
    case kNowColumn:
      return compare_words("Now");
    case kDifferenceColumn:
      return compare_words("Difference");
    default:
      return QString();
  }
}

}  // namespace headroom::gui
