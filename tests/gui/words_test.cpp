#include "gui/models/words.h"

#include <array>

#include <doctest/doctest.h>

#include "model_ir/base/units.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

constexpr std::array<std::int64_t, 12> kSizes = {0,           1,           511,
                                                 1023,        1024,        10'239,
                                                 kMiB - 1,    999 * kMiB,  84'974'501'888,
                                                 kGiB * 1023, kGiB * 1024, (std::int64_t{1} << 60)};

}  // namespace

TEST_CASE("bytes_text: shows the digits that the command line shows") {
  for (const std::int64_t size : kSizes) {
    const QString text = bytes_text(Bytes{size}, QLocale::c());
    CHECK(QString(text).replace(QChar(QChar::Nbsp), QLatin1Char(' ')).toStdString() ==
          to_text(Bytes{size}));
  }
}

TEST_CASE("bytes_text: writes numbers as the locale does, and never breaks before the unit") {
  const QLocale german(QLocale::German);
  CHECK(bytes_text(Bytes{kGiB * 3 / 2}, german) == QStringLiteral("1,50\u00a0GiB"));
  CHECK(exact_text(Bytes{1'234'567}, german) == QStringLiteral("1.234.567 bytes"));
}

TEST_CASE("share_text: a share of nothing says nothing") {
  CHECK(share_text(Bytes{1}, Bytes{8}, QLocale::c()) == QStringLiteral("12.5\u00a0%"));
  CHECK(share_text(Bytes{1}, Bytes{0}, QLocale::c()).isEmpty());
}

TEST_CASE("scale_for: the largest unit that leaves at least 1") {
  CHECK(scale_for(Bytes{0}) == ByteScale{QStringLiteral("B"), 1});
  CHECK(scale_for(Bytes{1023}) == ByteScale{QStringLiteral("B"), 1});
  CHECK(scale_for(Bytes{1024}) == ByteScale{QStringLiteral("KiB"), 1024});
  CHECK(scale_for(Bytes{kGiB - 1}) == ByteScale{QStringLiteral("MiB"), kMiB});
  CHECK(scale_for(Bytes{kGiB}) == ByteScale{QStringLiteral("GiB"), kGiB});
  CHECK(scale_for(Bytes{std::int64_t{1} << 60}).unit == QStringLiteral("TiB"));
}

TEST_CASE("scaled_text: something small does not look like nothing") {
  const ByteScale gib{QStringLiteral("GiB"), kGiB};
  CHECK(scaled_text(Bytes{3 * kGiB / 2}, gib, QLocale::c()) == QStringLiteral("1.50"));
  CHECK(scaled_text(Bytes{512}, gib, QLocale::c()) == QStringLiteral("<0.01"));
  CHECK(scaled_text(Bytes{0}, gib, QLocale::c()) == QStringLiteral("0.00"));
  CHECK(scaled_text(Bytes{512}, {QStringLiteral("B"), 1}, QLocale::c()) == QStringLiteral("512"));
}

TEST_CASE("property: typed_text parses back to the same bytes") {
  for (const std::int64_t size : kSizes) {
    const QString text = typed_text(Bytes{size});
    CAPTURE(text);
    CHECK(parse_bytes(text.toStdString()) == Bytes{size});
  }
  CHECK(typed_text(Bytes{70 * kGiB}) == QStringLiteral("70GiB"));
  CHECK(typed_text(Bytes{80'000'000'000}) == QStringLiteral("80GB"));
}

TEST_CASE("role_name: says what the command line says, and no two roles are called alike") {
  QStringList names;
  for (int role = 0; role < ir::kTensorRoleCount; ++role) {
    const auto which = static_cast<ir::TensorRole>(role);
    CHECK(role_name(which).toStdString() == name_of(which));
    names.append(role_name(which));
  }
  CHECK(names.removeDuplicates() == 0);
}

}  // namespace headroom::gui
