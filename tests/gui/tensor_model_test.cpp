#include "gui/models/tensor_model.h"

#include <QAbstractItemModelTester>

#include <doctest/doctest.h>

#include "gui/charts/treemap.h"
#include "tests/gui/fake_estimate.h"
#include "tests/gui/real_answer.h"

namespace headroom::gui {
namespace {

std::size_t peak_event() {
  return test::small_timeline()->history.whole().peak;
}

}  // namespace

TEST_CASE("alive_tensors: their sizes add up to what is allocated") {
  const auto data = test::small_timeline();
  for (const std::size_t event : {std::size_t{0}, data->history.size() / 2, peak_event()}) {
    Bytes sum;
    Bytes last{std::int64_t{1} << 60};
    for (const AliveTensor& tensor : alive_tensors(*data->estimate, event)) {
      sum += tensor.size;
      CHECK(tensor.size <= last);
      last = tensor.size;
    }
    CHECK(sum == data->history.allocated(event));
  }
}

TEST_CASE("TensorModel: is a sound model under every grouping") {
  TensorModel model;
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  for (const Grouping grouping :
       {Grouping::kNone, Grouping::kCategory, Grouping::kLayer, Grouping::kOperator}) {
    model.setGrouping(grouping);
    model.setMoment(test::small_answer().estimate, peak_event());
    int rows = grouping == Grouping::kNone ? model.rowCount() : 0;
    qlonglong bytes = 0;
    for (int row = 0; row < model.rowCount(); ++row) {
      const QModelIndex index = model.index(row, TensorModel::kSizeColumn);
      bytes += index.data(TensorModel::kSortRole).toLongLong();
      rows += grouping == Grouping::kNone ? 0 : model.rowCount(model.index(row, 0));
      CHECK_FALSE(index.data(Qt::AccessibleTextRole).toString().isEmpty());
    }
    CHECK(rows == static_cast<int>(model.tensors().size()));
    CHECK(Bytes{bytes} == model.total());
  }
  model.setMoment(nullptr, 0);
  CHECK(model.rowCount() == 0);
}

TEST_CASE("TensorModel: finds the row of a block") {
  TensorModel model;
  model.setMoment(test::small_answer().estimate, peak_event());
  const ir::BlockId block = model.tensors()[3].block;
  const QModelIndex index = model.indexOf(block);
  REQUIRE(index.isValid());
  CHECK(index.parent().isValid());
  CHECK(index.data(TensorModel::kBlockRole).toUInt() == block);
}

TEST_CASE("squarified: areas are in proportion, within the area, and do not overlap") {
  const std::vector<double> sizes = {6, 6, 4, 3, 2, 2, 1};  // The paper's example, figure 3.
  const QRectF area(10, 20, 600, 400);
  const std::vector<QRectF> tiles = squarified(sizes, area);
  REQUIRE(tiles.size() == sizes.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    CHECK(tiles[i].width() * tiles[i].height() ==
          doctest::Approx(sizes[i] / 24 * area.width() * area.height()));
    CHECK(area.adjusted(-1e-6, -1e-6, 1e-6, 1e-6).contains(tiles[i]));
    for (std::size_t j = 0; j < i; ++j) {
      const QRectF shared = tiles[i].intersected(tiles[j]);
      CHECK(shared.width() * shared.height() == doctest::Approx(0).epsilon(1e-6));
    }
  }
  CHECK(tiles[0].size() == QSizeF(300, 200));
}

TEST_CASE("TreemapChart: a click chooses the tensor under the mouse") {
  TensorModel model;
  TreemapChart chart(&model);
  chart.setPalette(palette_of(Look::kLight, {}));
  chart.resize(600, 300);
  chart.show();
  model.setMoment(test::small_answer().estimate, peak_event());
  CHECK(test::has_colours(chart, 20));
  quint32 chosen = 0;
  QObject::connect(&chart, &TreemapChart::chosen, &chart, [&](quint32 block) { chosen = block; });
  const QPoint place(200, 150);
  const AliveTensor* const tensor = chart.tensorAt(place);
  REQUIRE(tensor != nullptr);
  QTest::mouseClick(&chart, Qt::LeftButton, {}, place);
  CHECK(chosen == tensor->block);
  QTest::keyClick(&chart, Qt::Key_Right);
  CHECK(chosen != tensor->block);
}

}  // namespace headroom::gui
