#pragma once

#include <QLocale>
#include <QString>

#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::gui {

/// "activations", in the language of the window.
[[nodiscard]] QString role_name(ir::TensorRole role);

/// Bytes for people, in IEC units: "62.4 GiB".
[[nodiscard]] QString bytes_text(Bytes bytes, const QLocale& locale = QLocale());
/// "67,044,900,864 bytes".
[[nodiscard]] QString exact_text(Bytes bytes, const QLocale& locale = QLocale());
/// "15.3 %"; nothing for a whole of 0.
[[nodiscard]] QString share_text(Bytes part, Bytes whole, const QLocale& locale = QLocale());

/// A length of time: "994 ms", "12.3 s".
[[nodiscard]] QString time_text(Seconds time, const QLocale& locale = QLocale());

/// One unit for a whole table or axis, so that its numbers compare at a glance.
struct ByteScale {
  QString unit;
  std::int64_t factor = 1;
  friend bool operator==(const ByteScale&, const ByteScale&) = default;
};
/// The largest unit in which `largest` is at least 1.
[[nodiscard]] ByteScale scale_for(Bytes largest);
/// The number alone, two decimals; something below 0.01 is not shown as nothing.
[[nodiscard]] QString scaled_text(Bytes bytes, const ByteScale& scale,
                                  const QLocale& locale = QLocale());

/// What `parse_bytes` reads back as exactly `bytes`, as short as possible: "70GiB", "80GB".
[[nodiscard]] QString typed_text(Bytes bytes);

}  // namespace headroom::gui
