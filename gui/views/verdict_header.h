#pragma once

#include <vector>

#include <QFrame>

#include "gui/models/verdict_text.h"
#include "gui/theme/palette.h"

class QGridLayout;
class QLabel;

namespace headroom::gui {

/// The answer at a glance: verdict and margin, then a row of figures. Or why there is none.
class VerdictHeader : public QFrame {
  Q_OBJECT

 public:
  explicit VerdictHeader(QWidget* parent = nullptr);

  void showVerdict(const cost::StepEstimate& estimate);
  /// `what` in a line, `detail` below it.
  void showProblem(const QString& what, const QString& detail);
  /// Says that a newer answer is on its way; the next answer takes it back.
  void setBusy(bool busy);

 protected:
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  enum class State : std::uint8_t { kWaiting, kVerdict, kProblem };

  void showFacts(const std::vector<Fact>& facts);
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
  QGridLayout* facts_;
  std::vector<QLabel*> fact_labels_;
};

}  // namespace headroom::gui
