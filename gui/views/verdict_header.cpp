#include "gui/views/verdict_header.h"

#include <algorithm>

#include <QEvent>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <QVBoxLayout>

namespace headroom::gui {
namespace {

constexpr int kLinesPerFact = 3;

QLabel* make_label(QWidget* parent, double size, QFont::Weight weight) {
  auto* const label = new QLabel(parent);
  QFont font = label->font();
  font.setPointSizeF(font.pointSizeF() * size);
  font.setWeight(weight);
  label->setFont(font);
  label->setTextFormat(Qt::PlainText);  // Names come from files.
  return label;
}

void paint_with(QLabel* label, const QColor& colour) {
  QPalette palette;  // Of one role: the others go on following the window.
  palette.setColor(QPalette::WindowText, colour);
  label->setPalette(palette);
}

/// A tick, an exclamation mark or a cross in the unit square.
QPainterPath glyph_of(cost::Verdict verdict) {
  QPainterPath path;
  switch (verdict) {
    case cost::Verdict::kFits:
      path.moveTo(0.28, 0.53);
      path.lineTo(0.44, 0.68);
      path.lineTo(0.73, 0.35);
      break;
    case cost::Verdict::kTight:
      path.moveTo(0.5, 0.25);
      path.lineTo(0.5, 0.56);
      path.moveTo(0.5, 0.74);
      path.lineTo(0.5, 0.745);
      break;
    case cost::Verdict::kDoesNotFit:
      path.moveTo(0.33, 0.33);
      path.lineTo(0.67, 0.67);
      path.moveTo(0.67, 0.33);
      path.lineTo(0.33, 0.67);
      break;
  }
  return path;
}

}  // namespace

VerdictHeader::VerdictHeader(QWidget* parent)
    : QFrame(parent),
      theme_(theme_of(palette())),
      headline_(make_label(this, 1.9, QFont::Bold)),
      margin_(make_label(this, 1.35, QFont::DemiBold)),
      basis_(make_label(this, 1.0, QFont::Normal)),
      busy_(make_label(this, 1.0, QFont::Normal)),
      facts_(new QGridLayout) {
  headline_->setObjectName(QStringLiteral("verdict"));
  margin_->setObjectName(QStringLiteral("margin"));
  basis_->setObjectName(QStringLiteral("basis"));
  busy_->setObjectName(QStringLiteral("busy"));
  basis_->setWordWrap(true);
  margin_->setWordWrap(true);
  const int unit = fontMetrics().height();
  auto* const words = new QVBoxLayout;
  words->setSpacing(0);
  words->addWidget(margin_);
  words->addWidget(basis_);
  auto* const top = new QHBoxLayout;
  top->setSpacing(unit * 3 / 2);
  // The glyph is painted where this space is.
  top->setContentsMargins(headline_->fontMetrics().height() + unit / 2, 0, 0, 0);
  top->addWidget(headline_);
  top->addLayout(words, 1);
  top->addWidget(busy_, 0, Qt::AlignTop);
  facts_->setHorizontalSpacing(unit * 2);
  facts_->setVerticalSpacing(1);
  auto* const all = new QVBoxLayout(this);
  all->setContentsMargins(unit, unit * 3 / 4, unit, unit * 3 / 4);
  all->setSpacing(unit * 3 / 4);
  all->addLayout(top);
  all->addLayout(facts_);
  headline_->setText(tr("…"));
  margin_->setText(tr("Calculating"));
  applyTheme();
}

void VerdictHeader::showVerdict(const cost::StepEstimate& estimate) {
  state_ = State::kVerdict;
  verdict_ = estimate.verdict;
  const VerdictText text = verdict_text(estimate);
  headline_->setText(text.headline);
  margin_->setText(text.margin);
  basis_->setText(text.basis);
  setAccessibleName(text.sentence);
  showFacts(text.facts);
  applyTheme();
}

void VerdictHeader::showProblem(const QString& what, const QString& detail) {
  state_ = State::kProblem;
  headline_->setText(tr("No answer"));
  margin_->setText(what);
  basis_->setText(detail);
  setAccessibleName(tr("No answer: %1. %2").arg(what, detail));
  showFacts({});
  applyTheme();
}

void VerdictHeader::setBusy(bool busy) {
  busy_->setText(busy ? tr("calculating…") : QString());
}

void VerdictHeader::showFacts(const std::vector<Fact>& facts) {
  while (fact_labels_.size() < facts.size() * kLinesPerFact) {
    const auto column = static_cast<int>(fact_labels_.size() / kLinesPerFact);
    for (int line = 0; line < kLinesPerFact; ++line) {
      QLabel* const label =
          make_label(this, line == 1 ? 1.1 : 0.92, line == 1 ? QFont::DemiBold : QFont::Normal);
      label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
      facts_->addWidget(label, line, column);
      fact_labels_.push_back(label);
    }
  }
  for (std::size_t i = 0; i < fact_labels_.size(); ++i) {
    const std::size_t fact = i / kLinesPerFact;
    QLabel* const label = fact_labels_[i];
    label->setVisible(fact < facts.size());
    if (fact < facts.size()) {
      const std::array<const QString*, kLinesPerFact> lines = {
          &facts[fact].caption, &facts[fact].value, &facts[fact].detail};
      label->setText(*lines.at(i % kLinesPerFact));
      label->setToolTip(facts[fact].tip);
      label->setWordWrap(fact + 1 == facts.size());
    }
  }
  // The last one says where, in the longest words: it takes the room that is left.
  for (int column = 0; column < facts_->columnCount(); ++column) {
    facts_->setColumnStretch(column, column + 1 == static_cast<int>(facts.size()) ? 1 : 0);
  }
}

void VerdictHeader::changeEvent(QEvent* event) {
  QFrame::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    applyTheme();
  }
}

void VerdictHeader::applyTheme() {
  theme_ = theme_of(palette());
  const QColor quiet = readable(theme_.quiet_text, tint(), 4.5);
  paint_with(headline_, accent());
  paint_with(margin_, theme_.text);
  paint_with(basis_, quiet);
  paint_with(busy_, quiet);
  for (std::size_t i = 0; i < fact_labels_.size(); ++i) {
    paint_with(fact_labels_[i], i % kLinesPerFact == 1 ? theme_.text : quiet);
  }
  update();
}

QColor VerdictHeader::accent() const {
  switch (state_) {
    case State::kWaiting:
      return theme_.quiet_text;
    case State::kVerdict:
      return theme_.verdict.at(static_cast<std::size_t>(verdict_));
    case State::kProblem:
      return theme_.verdict.at(static_cast<std::size_t>(cost::Verdict::kTight));
  }
  return theme_.text;
}

QColor VerdictHeader::tint() const {
  switch (state_) {
    case State::kWaiting:
      return palette().color(QPalette::Base);
    case State::kVerdict:
      return theme_.verdict_tint.at(static_cast<std::size_t>(verdict_));
    case State::kProblem:
      return theme_.verdict_tint.at(static_cast<std::size_t>(cost::Verdict::kTight));
  }
  return palette().color(QPalette::Base);
}

void VerdictHeader::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const qreal unit = fontMetrics().height();
  const QRectF frame = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
  QPainterPath card;
  card.addRoundedRect(frame, unit / 3, unit / 3);
  painter.fillPath(card, tint());
  painter.setClipPath(card);
  painter.fillRect(QRectF(frame.left(), frame.top(), unit / 3, frame.height()), accent());
  painter.setClipping(false);
  if (state_ == State::kWaiting) {
    return;
  }
  const qreal side = headline_->fontMetrics().height() * 0.9;
  const QRectF disc(unit, headline_->geometry().center().y() - side / 2, side, side);
  painter.setPen(Qt::NoPen);
  painter.setBrush(accent());
  painter.drawEllipse(disc);
  painter.translate(disc.topLeft());
  painter.scale(side, side);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(tint(), 0.11, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPath(glyph_of(state_ == State::kVerdict ? verdict_ : cost::Verdict::kTight));
}

}  // namespace headroom::gui
