#include "gui/models/words.h"

#include <array>
#include <cmath>

#include <QCoreApplication>

namespace headroom::gui {
namespace {

constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

const char* untranslated_role(ir::TensorRole role) {
  switch (role) {
    case ir::TensorRole::kParameter:
      return QT_TRANSLATE_NOOP("TensorRole", "parameters");
    case ir::TensorRole::kGradient:
      return QT_TRANSLATE_NOOP("TensorRole", "gradients");
    case ir::TensorRole::kOptimizerState:
      return QT_TRANSLATE_NOOP("TensorRole", "optimizer states");
    case ir::TensorRole::kMasterParameter:
      return QT_TRANSLATE_NOOP("TensorRole", "master parameters");
    case ir::TensorRole::kActivation:
      return QT_TRANSLATE_NOOP("TensorRole", "activations");
    case ir::TensorRole::kLogits:
      return QT_TRANSLATE_NOOP("TensorRole", "logits and loss");
    case ir::TensorRole::kTemporary:
      return QT_TRANSLATE_NOOP("TensorRole", "temporaries");
    case ir::TensorRole::kCommunication:
      return QT_TRANSLATE_NOOP("TensorRole", "communication");
    case ir::TensorRole::kWorkspace:
      return QT_TRANSLATE_NOOP("TensorRole", "workspaces");
    case ir::TensorRole::kBuffer:
      return QT_TRANSLATE_NOOP("TensorRole", "buffers");
    case ir::TensorRole::kInput:
      return QT_TRANSLATE_NOOP("TensorRole", "inputs");
  }
  return "";
}

}  // namespace

QString text_of(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

QString role_name(ir::TensorRole role) {
  return QCoreApplication::translate("TensorRole", untranslated_role(role));
}

// Takes the digits of headroom::to_text, so that window and terminal show the same.
QString bytes_text(Bytes bytes, const QLocale& locale) {
  const QString text = QString::fromStdString(to_text(bytes));
  const QString number = text.section(QLatin1Char(' '), 0, 0);
  const auto decimals = static_cast<int>(number.section(QLatin1Char('.'), 1).size());
  return locale.toString(number.toDouble(), 'f', decimals) + QChar(QChar::Nbsp) +
         text.section(QLatin1Char(' '), 1);
}

QString exact_text(Bytes bytes, const QLocale& locale) {
  return QCoreApplication::translate("Bytes", "%1 bytes")
      .arg(locale.toString(static_cast<qlonglong>(bytes.value())));
}

QString share_text(Bytes part, Bytes whole, const QLocale& locale) {
  if (whole == Bytes{0}) {
    return {};
  }
  const double share = static_cast<double>(part.value()) / static_cast<double>(whole.value());
  return locale.toString(100 * share, 'f', 1) + QChar(QChar::Nbsp) + locale.percent();
}

QString time_text(Seconds time, const QLocale& locale) {
  const double milliseconds = time.value() * 1e3;
  const bool seconds = milliseconds >= 1e4;
  const double number = seconds ? time.value() : milliseconds;
  const int decimals = number < 100 ? 1 : 0;
  return locale.toString(number, 'f', decimals) + QChar(0x00A0) +
         (seconds ? QStringLiteral("s") : QStringLiteral("ms"));
}

ByteScale scale_for(Bytes largest) {
  ByteScale scale{.unit = QLatin1String(kUnits.front()), .factor = 1};
  for (std::size_t step = 1; step < kUnits.size() && largest.value() / 1024 >= scale.factor;
       ++step) {
    scale = {.unit = QLatin1String(kUnits.at(step)), .factor = scale.factor * 1024};
  }
  return scale;
}

QString scaled_text(Bytes bytes, const ByteScale& scale, const QLocale& locale) {
  if (scale.factor == 1) {
    return locale.toString(static_cast<qlonglong>(bytes.value()));
  }
  const double value = static_cast<double>(bytes.value()) / static_cast<double>(scale.factor);
  if (bytes > Bytes{0} && value < 0.01) {
    return QLatin1Char('<') + locale.toString(0.01, 'f', 2);
  }
  return locale.toString(value, 'f', 2);
}

QString typed_text(Bytes bytes) {
  struct Unit {
    const char* name;
    std::int64_t factor;
  };
  constexpr std::array<Unit, 4> kTyped = {
      {{"GiB", kGiB}, {"GB", 1'000'000'000}, {"MiB", kMiB}, {"MB", 1'000'000}}};
  for (const Unit& unit : kTyped) {
    if (bytes != Bytes{0} && bytes.value() % unit.factor == 0) {
      return QString::number(bytes.value() / unit.factor) + QLatin1String(unit.name);
    }
  }
  return QString::number(bytes.value());
}

QVariant cell_alignment(bool is_figure) {
  const Qt::Alignment side = is_figure ? Qt::AlignRight : Qt::AlignLeft;
  return QVariant::fromValue(Qt::AlignVCenter | side);
}

}  // namespace headroom::gui
