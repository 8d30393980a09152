#include "gui/views/verdict_header.h"

#include <doctest/doctest.h>
#include <QLabel>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

const QLabel* label_of(const VerdictHeader& header, const QString& text) {
  for (const QLabel* label : header.findChildren<QLabel*>()) {
    if (label->text() == text) {
      return label;
    }
  }
  FAIL("no label says " << text);
  return nullptr;
}

void show(VerdictHeader& header) {
  Appraisal appraisal;
  appraisal.estimate = test::fake_estimate();
  header.showAnswer(appraisal, default_scenario(), nullptr);
}

/// Whether the first and the last fact stand side by side.
bool share_a_row(const VerdictHeader& header) {
  return label_of(header, QStringLiteral("Peak reserved"))->y() ==
         label_of(header, QStringLiteral("Where"))->y();
}

}  // namespace

TEST_CASE("VerdictHeader: facts that do not fit side by side go below one another") {
  VerdictHeader header;
  show(header);
  const int em = header.fontMetrics().height();
  header.resize(em * 80, em * 20);
  header.show();
  CHECK(share_a_row(header));
  header.resize(em * 34, em * 20);
  CHECK(test::eventually([&] { return !share_a_row(header); }));
  header.resize(em * 80, em * 20);
  CHECK(test::eventually([&] { return share_a_row(header); }));
}

TEST_CASE("VerdictHeader: the facts ask for no width of their own") {
  VerdictHeader header;
  header.showProblem({.what = QStringLiteral("no"), .detail = QStringLiteral("fix: this\nnote")});
  const int without = header.minimumSizeHint().width();
  show(header);
  // Headlines differ in length, facts do not count.
  CHECK(header.minimumSizeHint().width() < without + header.fontMetrics().height() * 12);
}

TEST_CASE("problem_text: the first line says what, the others stay lines") {
  Error error = Error::invalid_input("a.json", "/k", "7", "8", "use 8");
  error.notes.emplace_back("also /x");
  const ProblemText text = problem_text(error);
  CHECK(text.what == QStringLiteral("a.json: /k: got 7, expected 8"));
  CHECK(text.detail == QStringLiteral("fix: use 8\nnote: also /x"));
}

}  // namespace headroom::gui
