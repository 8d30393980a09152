#include "gui/views/verdict_header.h"

#include <algorithm>
#include <array>

#include <QEvent>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <QVBoxLayout>

#include "gui/views/capacity_gauge.h"
#include "gui/views/remedy_bar.h"

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
  QPalette palette;  // Sets one role; the others follow the window.
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
      facts_box_(new QWidget(this)),
      facts_(new QGridLayout(facts_box_)),
      gauge_(new CapacityGauge(this)),
      remedies_(new RemedyBar(this)) {
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
  // The glyph is painted in this space.
  top->setContentsMargins(headline_->fontMetrics().height() + unit / 2, 0, 0, 0);
  top->addWidget(headline_);
  top->addLayout(words, 1);
  top->addWidget(busy_, 0, Qt::AlignTop);
  facts_box_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  facts_->setContentsMargins(0, 0, 0, 0);
  facts_->setHorizontalSpacing(unit * 2);
  facts_->setVerticalSpacing(1);
  auto* const all = new QVBoxLayout(this);
  all->setContentsMargins(unit, unit * 3 / 4, unit, unit * 3 / 4);
  all->setSpacing(unit * 3 / 4);
  all->addLayout(top);
  all->addWidget(gauge_);
  all->addWidget(facts_box_);
  all->addWidget(remedies_);
  headline_->setText(tr("…"));
  margin_->setText(tr("Calculating"));
  applyTheme();
}

void VerdictHeader::showAnswer(const Appraisal& appraisal, const Scenario& scenario,
                               const Pinned* pinned) {
  const cost::StepEstimate& estimate = appraisal.estimate;
  state_ = State::kVerdict;
  // What the words call a "no" has the colour of a "no".
  verdict_ = cost::is_yes(estimate.verdict, estimate.chance) ? estimate.verdict
                                                             : cost::Verdict::kDoesNotFit;
  const VerdictText text = verdict_text(appraisal, scenario, pinned);
  headline_->setText(text.headline);
  margin_->setText(text.margin);
  basis_->setText(text.basis);
  setAccessibleName(text.sentence);
  showFacts(text.facts);
  applyTheme();
  const bool compares = pinned != nullptr && pinned->appraisal != nullptr;
  gauge_->show(estimate, accent(), compares ? pinned->appraisal->estimate.peak_reserved : Bytes{0});
  gauge_->setVisible(true);
}

void VerdictHeader::showProblem(const ProblemText& text) {
  state_ = State::kProblem;
  headline_->setText(tr("No answer"));
  margin_->setText(text.what);
  basis_->setText(text.detail);
  setAccessibleName(tr("No answer: %1. %2").arg(text.what, text.detail));
  gauge_->setVisible(false);
  remedies_->clear();
  showFacts({});
  applyTheme();
}

void VerdictHeader::setBusy(bool busy) {
  busy_->setText(busy ? tr("calculating…") : QString());
}

void VerdictHeader::addFactLabels() {
  for (int line = 0; line < kLinesPerFact; ++line) {
    QLabel* const label =
        make_label(facts_box_, line == 1 ? 1.1 : 0.92, line == 1 ? QFont::DemiBold : QFont::Normal);
    label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    fact_labels_.push_back(label);
  }
}

void VerdictHeader::showFacts(const std::vector<Fact>& facts) {
  while (fact_labels_.size() < facts.size() * kLinesPerFact) {
    addFactLabels();
  }
  for (std::size_t i = 0; i < fact_labels_.size(); ++i) {
    const std::size_t fact = i / kLinesPerFact;
    QLabel* const label = fact_labels_[i];
    label->setVisible(fact < facts.size());
    if (fact < facts.size()) {
      const Fact& shown = facts[fact];
      const std::array<QString, kLinesPerFact> lines = {
          shown.caption, shown.value,
          shown.change.isEmpty() ? shown.detail : tr("pinned: %1").arg(shown.change)};
      label->setText(lines.at(i % kLinesPerFact));
      label->setToolTip(shown.change.isEmpty() ? shown.tip
                                               : shown.detail + QLatin1Char('\n') + shown.tip);
      // Only the last fact wraps, because its detail is the longest: it says where the peak is.
      label->setWordWrap(fact + 1 == facts.size());
    }
  }
  facts_box_->setVisible(!facts.empty());
  shown_facts_ = static_cast<int>(facts.size());
  columns_ = 0;
  arrangeFacts();
}

std::span<QLabel* const> VerdictHeader::linesOf(int fact) const {
  return std::span(fact_labels_)
      .subspan(static_cast<std::size_t>(fact) * kLinesPerFact, kLinesPerFact);
}

/// As many columns as fit side by side. The last fact wraps, so that its width is limited.
int VerdictHeader::factColumns(int room) const {
  std::vector<int> widths;
  widths.reserve(static_cast<std::size_t>(shown_facts_));
  for (int fact = 0; fact < shown_facts_; ++fact) {
    int width = 0;
    for (const QLabel* const label : linesOf(fact)) {
      width = std::max(width, label->fontMetrics().horizontalAdvance(label->text()));
    }
    widths.push_back(fact + 1 == shown_facts_ ? std::min(width, fontMetrics().height() * 12)
                                              : width);
  }
  for (int columns = shown_facts_; columns > 1; --columns) {
    int needed = facts_->horizontalSpacing() * (columns - 1);
    for (int column = 0; column < columns; ++column) {
      int widest = 0;
      for (int fact = column; fact < shown_facts_; fact += columns) {
        widest = std::max(widest, widths[static_cast<std::size_t>(fact)]);
      }
      needed += widest;
    }
    if (needed <= room) {
      return columns;
    }
  }
  return 1;
}

void VerdictHeader::arrangeFacts() {
  const QMargins margins = layout()->contentsMargins();
  const int columns = factColumns(width() - margins.left() - margins.right());
  if (columns == columns_ || shown_facts_ == 0) {
    return;
  }
  columns_ = columns;
  constexpr int kRows = kLinesPerFact + 1;  // One empty.
  for (int fact = 0; fact < shown_facts_; ++fact) {
    int row = fact / columns * kRows;
    for (QLabel* const label : linesOf(fact)) {
      facts_->removeWidget(label);
      facts_->addWidget(label, row++, fact % columns);
    }
  }
  for (int row = 0; row < facts_->rowCount(); ++row) {
    const bool air = row % kRows == kLinesPerFact && row / kRows < (shown_facts_ - 1) / columns;
    facts_->setRowMinimumHeight(row, air ? fontMetrics().height() / 3 : 0);
  }
  for (int column = 0; column < facts_->columnCount(); ++column) {
    facts_->setColumnStretch(column, column + 1 == columns ? 1 : 0);
  }
}

void VerdictHeader::resizeEvent(QResizeEvent* event) {
  QFrame::resizeEvent(event);
  arrangeFacts();
}

void VerdictHeader::changeEvent(QEvent* event) {
  QFrame::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    applyTheme();
  }
}

void VerdictHeader::applyTheme() {
  theme_ = theme_of(palette());
  const QColor quiet = readable(theme_.quiet_text, {tint(), kTextContrast});
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
