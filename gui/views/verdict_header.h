#pragma once

#include <span>
#include <vector>

#include <QFrame>

#include "gui/models/verdict_text.h"
#include "gui/theme/palette.h"

class QGridLayout;
class QLabel;

namespace headroom::gui {

class CapacityGauge;
class RemedyBar;

/// The answer at a glance: verdict and margin, then figures in as few rows as the width permits. If
/// there is no answer, the reason.
class VerdictHeader : public QFrame {
  Q_OBJECT

 public:
  explicit VerdictHeader(QWidget* parent = nullptr);

  /// Shows an answer, and how it differs from a pinned one.
  void showAnswer(const Appraisal& appraisal, const Scenario& scenario, const Pinned* pinned);
  void showProblem(const ProblemText& text);
  /// Shows that a newer answer is being computed, until that answer is shown.
  void setBusy(bool busy);
  /// Changes that help; `RemedyBar::chosen` announces the one that the user wants.
  [[nodiscard]] RemedyBar* remedies() { return remedies_; }

 protected:
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  enum class State : std::uint8_t { kWaiting, kVerdict, kProblem };

  void showFacts(const std::vector<Fact>& facts);
  void addFactLabels();
  [[nodiscard]] std::span<QLabel* const> linesOf(int fact) const;
  void arrangeFacts();
  [[nodiscard]] int factColumns(int room) const;
  void applyTheme();
  [[nodiscard]] QColor accent() const;
  [[nodiscard]] QColor tint() const;

  State state_ = State::kWaiting;
  cost::Verdict verdict_ = cost::Verdict::kFits;
  Theme theme_;
  QLabel* headline_;
  QLabel* margin_;
  QLabel* basis_;
  QLabel* busy_;
  QWidget* facts_box_;  ///< Requests no width: what does not fit beside goes below.
  QGridLayout* facts_;
  CapacityGauge* gauge_;
  RemedyBar* remedies_;
  std::vector<QLabel*> fact_labels_;  ///< Three labels per fact.
  int shown_facts_ = 0;
  int columns_ = 0;
};

}  // namespace headroom::gui
