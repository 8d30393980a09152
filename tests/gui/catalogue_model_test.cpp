#include "gui/models/catalogue_model.h"

#include <QAbstractItemModelTester>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

ir::ModelTitle title(const std::string& name, std::int64_t parameters) {
  return {.name = name, .hf_id = "maker/" + name, .parameters = parameters};
}

}  // namespace

TEST_CASE("CatalogueModel: keeps Qt's rules") {
  CatalogueModel model(test::fake_setup().models);
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  CHECK(model.rowCount() == 2);
  CatalogueModel none({});
  const QAbstractItemModelTester empty(&none,
                                       QAbstractItemModelTester::FailureReportingMode::Fatal);
  CHECK(none.rowCount() == 0);
}

TEST_CASE("CatalogueModel: models show their size, sort by their count, and say both") {
  CatalogueModel model(entries_of(
      std::vector<ir::ModelTitle>{title("big", 8'030'261'248), title("small", 124'439'808)}));
  const QModelIndex size = model.index(0, CatalogueModel::kSizeColumn);
  CHECK(size.data().toString() == QStringLiteral("8.03\u00a0B"));
  CHECK(size.data(CatalogueModel::kAmountRole).toLongLong() == 8'030'261'248);
  CHECK(size.data(Qt::ToolTipRole).toString().contains(QStringLiteral("8,030,261,248 parameters")));
  CHECK(size.data(Qt::AccessibleTextRole).toString() ==
        QStringLiteral("big: maker/big, 8.03\u00a0B"));
  CHECK(model.index(1, CatalogueModel::kSizeColumn).data().toString() ==
        QStringLiteral("124\u00a0M"));
}

TEST_CASE("CatalogueModel: GPUs show what a process can see of them, not what the box says") {
  cost::DeviceSpec device;
  device.name = "a100-80gb";
  device.product = "NVIDIA A100-SXM4-80GB";
  device.nominal = Bytes{80'000'000'000};
  device.total = Bytes{84'974'501'888};
  CatalogueModel model(entries_of(std::vector<cost::DeviceSpec>{device}));
  CHECK(model.index(0, CatalogueModel::kSizeColumn).data().toString() ==
        QStringLiteral("79.1\u00a0GiB"));
  CHECK(model.index(0, CatalogueModel::kTitleColumn).data().toString() ==
        QStringLiteral("NVIDIA A100-SXM4-80GB"));
}

TEST_CASE("CatalogueModel: finds names in any case") {
  CatalogueModel model(entries_of(std::vector<std::string>{"gpt2", "llama-3.1-8b"}));
  CHECK(model.rowOf(QStringLiteral("Llama-3.1-8B")) == 1);
  CHECK(model.rowOf(QStringLiteral("llama")) == -1);
  CHECK(model.index(0, 0).data(Qt::AccessibleTextRole).toString() == QStringLiteral("gpt2"));
}

}  // namespace headroom::gui
