#include "gui/models/breakdown_model.h"

#include <QAbstractItemModelTester>
#include <QSignalSpy>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::kActivations;
using test::kGradients;
using test::kParameters;

std::shared_ptr<const cost::StepEstimate> shared(cost::StepEstimate estimate) {
  return std::make_shared<const cost::StepEstimate>(std::move(estimate));
}

}  // namespace

TEST_CASE("BreakdownModel: keeps Qt's rules when empty, filled, changed, reshaped and cleared") {
  BreakdownModel model;
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  CHECK(model.rowCount() == 0);
  model.setEstimate(shared(test::fake_estimate(1)));
  CHECK(model.rowCount() == 3);
  model.setEstimate(shared(test::fake_estimate(2)));
  cost::StepEstimate shorter = test::fake_estimate(1);
  shorter.timeline.phases.resize(1);
  model.setEstimate(shared(shorter));
  CHECK(model.rowCount() == 1);
  CHECK(model.peakRow() == 0);  // The estimate's own index is beyond what is left.
  model.setEstimate(nullptr);
  CHECK(model.rowCount() == 0);
  CHECK(model.capacity() == Bytes{0});
}

TEST_CASE("BreakdownModel: raw bytes to sort by, numbers in one unit to read") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(3)));
  const QModelIndex activations = model.index(2, kActivations);
  CHECK(activations.data(BreakdownModel::kBytesRole).toLongLong() == 3 * kGiB);
  CHECK(activations.data().toString() == QStringLiteral("3.00"));
  CHECK(model.scale().unit == QStringLiteral("GiB"));
  CHECK(model.index(0, kActivations).data().toString() == QStringLiteral("–"));
  CHECK(model.index(2, BreakdownModel::kPeakColumn).data().toString() == QStringLiteral("35.00"));
  CHECK(model.index(2, BreakdownModel::kReservedColumn).data().toString() ==
        QStringLiteral("36.00"));
  CHECK(model.index(2, BreakdownModel::kPhaseColumn).data().toString() ==
        QStringLiteral("step1.backward"));
}

TEST_CASE("BreakdownModel: a full sentence for screen readers, exact bytes in the tooltip") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(8)));
  const QModelIndex gradients = model.index(2, kGradients);
  // 16 of 16 + 8 + 16.
  CHECK(gradients.data(Qt::AccessibleTextRole).toString() ==
        QStringLiteral("step1.backward, gradients: 16.0\u00a0GiB, 40.0\u00a0% of this phase's peak "
                       "of 40.0\u00a0GiB"));
  CHECK(
      gradients.data(Qt::ToolTipRole).toString().contains(QStringLiteral("17,179,869,184 bytes")));
  CHECK(
      model.index(0, 0)
          .data(Qt::AccessibleTextRole)
          .toString()
          .contains(QStringLiteral("load: peak 16.0\u00a0GiB allocated, 17.0\u00a0GiB reserved")));
}

TEST_CASE("BreakdownModel: a column for each category that occurs, and for no other") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(1)));
  CHECK(model.columnCount() == BreakdownModel::kFirstCategoryColumn + 3);
  CHECK(model.headerData(kActivations, Qt::Horizontal, Qt::DisplayRole).toString() ==
        QStringLiteral("activations"));
  CHECK(model.headerData(kActivations, Qt::Horizontal, BreakdownModel::kCategoryRole).toInt() ==
        static_cast<int>(ir::TensorRole::kActivation));
  CHECK_FALSE(
      model.headerData(BreakdownModel::kPeakColumn, Qt::Horizontal, BreakdownModel::kCategoryRole)
          .isValid());
}

TEST_CASE("BreakdownModel: the categories of a row sum to its peak") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(5)));
  for (int row = 0; row < model.rowCount(); ++row) {
    qlonglong sum = 0;
    for (int column = BreakdownModel::kFirstCategoryColumn; column < model.columnCount();
         ++column) {
      sum += model.index(row, column).data(BreakdownModel::kBytesRole).toLongLong();
    }
    CHECK(sum == model.index(row, BreakdownModel::kPeakColumn)
                     .data(BreakdownModel::kBytesRole)
                     .toLongLong());
  }
}

TEST_CASE("BreakdownModel: a new answer of the same shape keeps what is selected") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(1)));
  const QPersistentModelIndex chosen(model.index(2, kActivations));
  const QSignalSpy reset(&model, &QAbstractItemModel::modelReset);
  const QSignalSpy changed(&model, &QAbstractItemModel::dataChanged);
  model.setEstimate(shared(test::fake_estimate(4)));
  CHECK(reset.count() == 0);
  CHECK(changed.count() == 1);
  REQUIRE(chosen.isValid());
  CHECK(chosen.data(BreakdownModel::kBytesRole).toLongLong() == 4 * kGiB);

  model.setEstimate(shared(test::fake_estimate(0)));  // No activations: a column less.
  CHECK(reset.count() == 1);
  CHECK_FALSE(chosen.isValid());
}

TEST_CASE("BreakdownModel: the scale covers the device and everything reserved") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(1)));
  CHECK(model.largest() == Bytes{80 * kGiB});
  model.setEstimate(shared(test::fake_estimate(100)));
  CHECK(model.largest() == Bytes{133 * kGiB});
  CHECK(model.peakRow() == 2);
}

TEST_CASE("BreakdownModel: numbers stand right, names left") {
  BreakdownModel model;
  model.setEstimate(shared(test::fake_estimate(1)));
  const auto alignment = [&](int column) {
    return model.index(0, column).data(Qt::TextAlignmentRole).value<Qt::Alignment>();
  };
  CHECK(alignment(BreakdownModel::kPhaseColumn).testFlag(Qt::AlignLeft));
  CHECK(alignment(BreakdownModel::kPeakColumn).testFlag(Qt::AlignRight));
  CHECK(alignment(kActivations).testFlag(Qt::AlignRight));
}

}  // namespace headroom::gui
