#include "gui/views/remedy_bar.h"

#include <algorithm>

#include <QHBoxLayout>
#include <QLabel>
#include <QStyleOptionButton>
#include <QStylePainter>
#include <QTextLayout>
#include <QVBoxLayout>

#include "gui/theme/palette.h"

namespace headroom::gui {
namespace {

constexpr int kButtons = 3;

/// `text` in at most two lines of `width`; the second is elided.
QStringList two_lines(const QString& text, const QFont& font, int width) {
  QTextLayout layout(text, font);
  layout.beginLayout();
  QTextLine first = layout.createLine();
  first.setLineWidth(width);
  layout.endLayout();
  const int end = first.textLength();
  const QString rest = text.mid(end).trimmed();
  QStringList lines = {text.left(end).trimmed()};
  if (!rest.isEmpty()) {
    lines.append(QFontMetrics(font).elidedText(rest, Qt::ElideRight, width));
  }
  return lines;
}

}  // namespace

RemedyButton::RemedyButton(QWidget* parent) : QPushButton(parent) {
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  setAutoDefault(false);
  setAccessibleName(tr("A change that helps"));
}

void RemedyButton::showRemedy(const RemedyText& text) {
  title_ = text.title;
  outcome_ = text.outcome;
  setToolTip(text.title + QLatin1Char('\n') + text.outcome + QStringLiteral("\n\n") + text.tip);
  setAccessibleName(tr("Apply: %1").arg(text.title));
  setAccessibleDescription(text.outcome + QLatin1Char('\n') + text.tip);
  update();
}

QSize RemedyButton::sizeHint() const {
  return {fontMetrics().height() * 12, fontMetrics().height() * 4};
}

QSize RemedyButton::minimumSizeHint() const {
  return {fontMetrics().height() * 8, fontMetrics().height() * 4};
}

void RemedyButton::paintEvent(QPaintEvent* /*event*/) {
  QStylePainter painter(this);
  QStyleOptionButton option;
  initStyleOption(&option);
  option.text.clear();
  painter.drawControl(QStyle::CE_PushButton, option);
  const int line = fontMetrics().height();
  const QRect inside = rect().adjusted(line * 2 / 3, line / 2, -line * 2 / 3, -line / 3);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  painter.setFont(bold);
  painter.setPen(
      palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, QPalette::ButtonText));
  int top = inside.top();
  for (const QString& text : two_lines(title_, bold, inside.width())) {
    painter.drawText(QRect(inside.left(), top, inside.width(), line),
                     Qt::AlignLeft | Qt::AlignVCenter, text);
    top += line;
  }
  painter.setFont(font());
  painter.setPen(
      readable(theme_of(palette()).quiet_text, {palette().color(QPalette::Button), kTextContrast}));
  painter.drawText(QRect(inside.left(), inside.bottom() - line, inside.width(), line),
                   Qt::AlignLeft | Qt::AlignVCenter,
                   fontMetrics().elidedText(outcome_, Qt::ElideRight, inside.width()));
}

RemedyBar::RemedyBar(QWidget* parent)
    : QWidget(parent), headline_(new QLabel(this)), row_(new QHBoxLayout) {
  setObjectName(QStringLiteral("remedies"));
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(fontMetrics().height() / 4);
  headline_->setObjectName(QStringLiteral("remedies headline"));
  column->addWidget(headline_);
  column->addLayout(row_);
  row_->setSpacing(fontMetrics().height() / 2);
  for (int at = 0; at < kButtons; ++at) {
    auto* const button = new RemedyButton(this);
    button->setShortcut(QKeySequence(Qt::ALT | static_cast<Qt::Key>(Qt::Key_1 + at)));
    button->setObjectName(QStringLiteral("remedy %1").arg(at + 1));
    row_->addWidget(button, 1);
    buttons_.push_back(button);
    connect(button, &QPushButton::clicked, this, [this, at] {
      if (static_cast<std::size_t>(at) < remedies_.size()) {
        // A copy: what is shown changes while the change is made.
        const RemedyText remedy = remedies_[static_cast<std::size_t>(at)];
        Q_EMIT chosen(remedy);
      }
    });
  }
  clear();
}

void RemedyBar::showRemedies(const RemedyTexts& texts) {
  remedies_ = texts.remedies;
  headline_->setText(texts.headline);
  for (std::size_t at = 0; at < buttons_.size(); ++at) {
    buttons_[at]->setVisible(at < remedies_.size());
    if (at < remedies_.size()) {
      buttons_[at]->showRemedy(remedies_[at]);
    }
  }
  setVisible(true);
}

void RemedyBar::showSearching() {
  remedies_.clear();
  headline_->setText(tr("Looking for changes that help…"));
  for (RemedyButton* const button : buttons_) {
    button->setVisible(false);
  }
  setVisible(true);
}

void RemedyBar::clear() {
  remedies_.clear();
  setVisible(false);
}

}  // namespace headroom::gui
