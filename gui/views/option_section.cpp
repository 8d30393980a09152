#include "gui/views/option_section.h"

#include <algorithm>

#include <QCheckBox>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include "gui/views/flat_toggle.h"

namespace headroom::gui {
OptionSection::OptionSection(const OptionGroup& group, const Probe& probe, QWidget* parent)
    : QWidget(parent), group_(group) {
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(fontMetrics().height() / 4);
  addHeader(column);
  for (const OptionRow& row : group_.rows) {
    auto* const control = new OptionControl(row, probe, this);
    control->hide();
    column->addWidget(control);
    controls_.push_back(control);
    connect(control, &OptionControl::edited, this,
            [this, control](const ir::JsonValue& value, qint64 gesture) {
              Q_EMIT edited(control->row(), value, gesture);
            });
    connect(control, &OptionControl::freeToggled, this, [this, control](bool free) {
      Q_EMIT freeToggled(QString::fromStdString(control->row().axis), free);
    });
  }
  more_ = new FlatToggle({}, this);
  more_->setObjectName(QStringLiteral("more"));
  connect(more_, &QToolButton::toggled, this, &OptionSection::arrange);
  column->addWidget(more_);
  setObjectName(QString::fromStdString(group_.id));
}

void OptionSection::addHeader(QVBoxLayout* column) {
  header_ = new FlatToggle(group_.title, this);
  header_->setChecked(true);
  header_->setObjectName(QStringLiteral("header"));
  header_->setAccessibleName(tr("Section %1").arg(group_.title));
  QFont bold = header_->font();
  bold.setBold(true);
  header_->setFont(bold);
  const bool at_hand =
      std::ranges::any_of(group_.rows, [](const OptionRow& row) { return row.field->at_hand; });
  if (!group_.switch_label.isEmpty()) {
    part_ = new QCheckBox(group_.switch_label, this);
    part_->setAccessibleName(group_.switch_label);
    connect(part_, &QCheckBox::toggled, this,
            [this](bool present) { Q_EMIT partToggled(group_.part, present); });
  } else if (!at_hand) {
    header_->setChecked(false);  // Nobody needs it at once.
  }
  connect(header_, &QToolButton::toggled, this, &OptionSection::arrange);
  column->addWidget(header_);
  if (part_ != nullptr) {
    column->addWidget(part_);
  }
}

void OptionSection::showPlan(const ir::ParallelPlan& plan) {
  present_ = group_.part->has(plan) || group_.part->always;
  // A plan without the part has none of its values; the defaults stand in their place.
  const ir::ParallelPlan& shown = present_ ? plan : group_.part->usual();
  if (part_ != nullptr) {
    const QSignalBlocker quiet(part_);
    part_->setChecked(present_);
  }
  for (OptionControl* const control : controls_) {
    if (control->isTouched() || !control->row().field->same(plan_, shown)) {
      control->showPlan(shown);
    }
    control->setEnabled(present_ || part_ == nullptr);
  }
  plan_ = shown;
  arrange();
}

void OptionSection::setApplies(bool applies) {
  if (applies != applies_) {
    applies_ = applies;
    arrange();
  }
}

void OptionSection::setFilter(const QStringList& words) {
  filter_ = words;
  arrange();
}

bool OptionSection::matches(const OptionRow& row) const {
  return std::ranges::all_of(filter_,
                             [&row](const QString& word) { return row.words.contains(word); });
}

bool OptionSection::hasMatches() const {
  return applies_ && (filter_.isEmpty() || std::ranges::any_of(controls_, [this](const auto* one) {
                        return matches(one->row());
                      }));
}

bool OptionSection::isShown(const OptionControl* control) const {
  if (!filter_.isEmpty()) {
    return matches(control->row());
  }
  const ir::OptionField& field = *control->row().field;
  if (part_ != nullptr && !present_) {
    return false;
  }
  const bool differs = !field.same(plan_, control->row().part->usual());
  return differs || (header_->isChecked() && (field.at_hand || more_->isChecked()));
}

void OptionSection::arrange() {
  const bool filtered = !filter_.isEmpty();
  std::size_t hidden = 0;
  for (OptionControl* const control : controls_) {
    const bool shown = isShown(control);
    control->setVisible(shown);
    hidden += shown ? 0 : 1;
  }
  if (part_ != nullptr) {
    part_->setVisible(header_->isChecked() && !filtered);
  }
  const bool absent = part_ != nullptr && !present_;
  const bool offers = header_->isChecked() && !filtered && !absent;
  more_->setVisible(offers && (hidden > 0 || more_->isChecked()));
  more_->setText(more_->isChecked() ? tr("fewer options")
                                    : tr("%n more option(s)", nullptr, static_cast<int>(hidden))
                                          .replace(QStringLiteral("(s)"),
                                                   hidden == 1 ? QString() : QStringLiteral("s")));
  more_->setAccessibleName(tr("%1: %2").arg(group_.title, more_->text()));
  // A part that the framework leaves out, such as that of several GPUs on one.
  const bool left_out = group_.of_framework && !present_ && !filtered;
  setVisible(hasMatches() && !left_out);
}

}  // namespace headroom::gui
