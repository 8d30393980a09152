#pragma once

#include <string_view>

#include <QLocale>
#include <QString>
#include <QVariant>

#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::gui {

/// UTF-8 of the libraries below, as it is.
[[nodiscard]] QString text_of(std::string_view text);

/// "activations", in the language of the user interface.
[[nodiscard]] QString role_name(ir::TensorRole role);

/// Bytes in IEC units, rounded for display: "62.4 GiB".
[[nodiscard]] QString bytes_text(Bytes bytes, const QLocale& locale = QLocale());
/// "67,044,900,864 bytes".
[[nodiscard]] QString exact_text(Bytes bytes, const QLocale& locale = QLocale());
/// "15.3 %"; empty if `whole` is 0.
[[nodiscard]] QString share_text(Bytes part, Bytes whole, const QLocale& locale = QLocale());

/// A length of time: "994 ms", "12.3 s".
[[nodiscard]] QString time_text(Seconds time, const QLocale& locale = QLocale());

/// One unit for a whole table or axis, so that its numbers are easy to compare.
struct ByteScale {
  QString unit;
  std::int64_t factor = 1;
  friend bool operator==(const ByteScale&, const ByteScale&) = default;
};
/// The largest unit in which `largest` is at least 1.
[[nodiscard]] ByteScale scale_for(Bytes largest);
/// The number without unit, with two decimals. A positive value below 0.01 is not shown as 0.
[[nodiscard]] QString scaled_text(Bytes bytes, const ByteScale& scale,
                                  const QLocale& locale = QLocale());

/// The alignment of a cell of a table, as data of Qt::TextAlignmentRole: figures are on the right,
/// words on the left.
[[nodiscard]] QVariant cell_alignment(bool is_figure);

/// The shortest text that `parse_bytes` reads as exactly `bytes`: "70GiB", "80GB".
[[nodiscard]] QString typed_text(Bytes bytes);

}  // namespace headroom::gui
