#include "gui/pages/compare_page.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/charts/timeline_chart.h"
#include "gui/pages/page_parts.h"
#include "gui/theme/palette.h"

namespace headroom::gui {
namespace {

/// Colours differences by whether they are better, and puts an arrow before them, so that colour is
/// not all that says so.
class DifferenceDelegate : public RoomyDelegate {
 public:
  using RoomyDelegate::RoomyDelegate;

  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    RoomyDelegate::initStyleOption(option, index);
    const int better = index.data(CompareModel::kBetterRole).toInt();
    if (index.column() != CompareModel::kDifferenceColumn || better == 0) {
      return;
    }
    const Theme theme = theme_of(option->palette);
    const QColor colour = theme.verdict.at(better > 0 ? 0 : 2);
    option->palette.setColor(QPalette::Text, colour);
    option->text = (better > 0 ? QStringLiteral("✓ ") : QStringLiteral("✗ ")) + option->text;
  }
};

}  // namespace

ComparePage::ComparePage(QWidget* parent) : Page(QStringLiteral("compare"), tr("Compare"), parent) {
  auto* const column = new QVBoxLayout(this);
  auto* const row = new QHBoxLayout;
  what_ = quiet_label();
  pin_ = new QPushButton(tr("Pin this scenario"), this);
  pin_->setAutoDefault(false);
  restore_ = new QPushButton(tr("Restore pinned scenario"), this);
  restore_->setAutoDefault(false);
  restore_->setToolTip(tr("Goes back to the pinned scenario; can be undone"));
  row->addWidget(what_, 1);
  row->addWidget(restore_);
  row->addWidget(pin_);
  column->addLayout(row);
  table_ = new QTableView(this);
  dress(table_);
  table_->setModel(&model_);
  table_->setItemDelegate(new DifferenceDelegate(table_));
  table_->setAccessibleName(tr("Figures and options, pinned and now"));
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  chart_ = new TimelineChart;
  chart_->setAccessibleName(tr("Memory of the run over its events, pinned and now"));
  parts_ = new QSplitter(Qt::Vertical, this);
  parts_->setChildrenCollapsible(false);
  parts_->addWidget(chart_);
  parts_->addWidget(table_);
  column->addWidget(parts_, 1);
  column->addStretch(0);
  connect(&job_, &NewestJob::finished, this, &Page::settled);
  connect(&job_, &NewestJob::failed, this, &Page::settled);
  connect(restore_, &QPushButton::clicked, this, &ComparePage::restoreRequested);
  refresh();
}

void ComparePage::setAnswer(const Answer& answer) {
  now_ = answer.appraisal == nullptr
             ? std::nullopt
             : std::optional(Pinned{.scenario = answer.scenario, .appraisal = answer.appraisal});
  refresh();
  replay();
}

void ComparePage::setPinned(const std::optional<Pinned>& pinned) {
  pinned_ = pinned;
  pinned_timeline_ = nullptr;
  refresh();
  replay();
}

void ComparePage::replay() {
  if (!pinned_ || !now_) {
    job_.cancel();
    chart_->setPinned(nullptr);
    chart_->setData(nullptr);
    Q_EMIT settled();
    return;
  }
  job_.run([this, pinned = *pinned_, now = *now_,
            before = pinned_timeline_](const std::stop_token& stop) -> NewestJob::Delivery {
    auto old = before != nullptr ? before : timeline_of(pinned, stop);
    auto present = timeline_of(now, stop);
    return [this, old = std::move(old), present = std::move(present)] {
      pinned_timeline_ = old;
      chart_->setPinned(old);
      chart_->setData(present);
    };
  });
}

void ComparePage::setPinAction(QAction* action) {
  connect(pin_, &QPushButton::clicked, action, &QAction::trigger);
}

void ComparePage::refresh() {
  model_.compare(pinned_, now_);
  restore_->setVisible(pinned_.has_value());
  parts_->setVisible(pinned_.has_value());
  if (!pinned_) {
    pin_->setText(tr("Pin this scenario"));
    what_->setText(
        tr("Pin a scenario, then change it: every figure shows the difference, and this page lists "
           "what changed and lays the pinned timeline over the new one."));
    return;
  }
  pin_->setText(tr("Unpin"));
  what_->setText(tr("Pinned: %1 on %2, %3")
                     .arg(QString::fromStdString(pinned_->scenario.model.text),
                          QString::fromStdString(pinned_->scenario.gpu),
                          QString::fromStdString(pinned_->scenario.plan.runtime)));
}

}  // namespace headroom::gui
