#include "gui/views/option_control.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <QAction>
#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QMenu>
#include <QPainter>
#include <QPainterPath>
#include <QPixmapCache>
#include <QSignalBlocker>
#include <QStandardItemModel>
#include <QToolButton>
#include <QWheelEvent>

#include "gui/models/words.h"
#include "gui/theme/palette.h"
#include "gui/views/number_field.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/typed/option_text.h"

namespace headroom::gui {
namespace {

using ir::JsonValue;
using ir::OptionField;
using ir::OptionKind;

constexpr auto kMostInBox = static_cast<std::int64_t>(std::numeric_limits<int>::max());

bool same_value(const JsonValue& one, const JsonValue& other) {
  return ir::to_json(one) == ir::to_json(other);
}

/// A list that asks, each time it opens, which of its values cannot be chosen.
class ProbingBox : public QComboBox {
 public:
  using QComboBox::QComboBox;

  std::function<QString(int row)> probe;

  void showPopup() override {
    auto* const items = qobject_cast<QStandardItemModel*>(model());
    for (int at = 0; items != nullptr && probe && at < items->rowCount(); ++at) {
      QStandardItem* const item = items->item(at);
      const QString reason = at == currentIndex() ? QString() : probe(at);
      // Still enabled: the reason is a tooltip, which a disabled item does not show everywhere.
      item->setData(reason.isEmpty()
                        ? QVariant()
                        : QVariant(palette().brush(QPalette::Disabled, QPalette::Text)),
                    Qt::ForegroundRole);
      item->setToolTip(reason);
      item->setData(reason.isEmpty() ? QVariant() : tr("impossible: %1").arg(reason),
                    Qt::AccessibleDescriptionRole);
      const QString plain = item->data(Qt::UserRole).toString();
      item->setText(reason.isEmpty() || plain.isEmpty() ? plain
                                                        : tr("%1  (impossible)").arg(plain));
    }
    QComboBox::showPopup();
  }

  void hidePopup() override {
    QComboBox::hidePopup();
    auto* const items = qobject_cast<QStandardItemModel*>(model());
    for (int at = 0; items != nullptr && at < items->rowCount(); ++at) {
      const QString plain = items->item(at)->data(Qt::UserRole).toString();
      items->item(at)->setText(plain);
      items->item(at)->setData({}, Qt::ForegroundRole);
    }
  }

  void add(const QString& text) {
    addItem(text);
    setItemData(count() - 1, text, Qt::UserRole);
  }

 protected:
  void wheelEvent(QWheelEvent* event) override {
    event->ignore();  // The panel scrolls; nobody changes a plan by scrolling.
  }
};

/// A padlock, open if the axis is free. All controls share the same few pictures: Qt keeps an entry
/// for every new one that was painted.
QIcon padlock(bool open, const QColor& colour, int side) {
  const QString key =
      QStringLiteral("headroom-padlock-%1-%2-%3")
          .arg(open ? QLatin1String("open") : QLatin1String("closed"), colour.name(QColor::HexArgb))
          .arg(side);
  QPixmap pixmap;
  if (QPixmapCache::find(key, &pixmap)) {
    return pixmap;
  }
  pixmap = QPixmap(side * 2, side * 2);
  pixmap.setDevicePixelRatio(2);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  const qreal unit = side;
  painter.setPen(QPen(colour, unit / 10));
  QPainterPath shackle;
  const QRectF arc(unit * 0.32, unit * (open ? 0.06 : 0.14), unit * 0.36, unit * 0.46);
  shackle.moveTo(arc.left(), unit * 0.5);
  shackle.lineTo(arc.left(), arc.center().y());
  shackle.arcTo(arc, 180, -180);
  if (!open) {
    shackle.lineTo(arc.right(), unit * 0.5);
  }
  painter.drawPath(shackle);
  painter.setBrush(open ? QBrush(Qt::NoBrush) : QBrush(colour));
  painter.drawRoundedRect(QRectF(unit * 0.22, unit * 0.48, unit * 0.56, unit * 0.4), unit / 14,
                          unit / 14);
  painter.end();
  QPixmapCache::insert(key, pixmap);
  return pixmap;
}

QString plain_text(const OptionField& field, const JsonValue& value) {
  if (value.is_null()) {
    return {};
  }
  if (field.kind == OptionKind::kWhole) {
    return QLocale().toString(static_cast<qlonglong>(*value.as_integer()));
  }
  if (field.kind == OptionKind::kReal) {
    return QLocale().toString(*value.as_number(), 'g', 10);
  }
  if (field.kind == OptionKind::kBytes) {
    return typed_text(Bytes{*value.as_integer()});
  }
  return QString::fromStdString(ir::value_text(field, value));
}

/// The value that a user means by `text`; nothing if it is none of the option's values.
std::optional<JsonValue> value_in(const OptionField& field, const QString& text) {
  const QString trimmed = text.trimmed();
  if (trimmed.isEmpty() && field.optional) {
    return JsonValue{};
  }
  if (field.kind == OptionKind::kWhole || field.kind == OptionKind::kReal) {
    bool read = false;
    JsonValue value;
    if (field.kind == OptionKind::kWhole) {
      value = JsonValue{static_cast<std::int64_t>(QLocale().toLongLong(trimmed, &read))};
    } else {
      value = JsonValue{QLocale().toDouble(trimmed, &read)};
    }
    return read && ir::accepts(field, value) ? std::optional(value) : std::nullopt;
  }
  Result<JsonValue> value = ir::parse_value(field, field.option, trimmed.toStdString());
  return value ? std::optional(std::move(value).value()) : std::nullopt;
}

QStringList words_of(const OptionField& field) {
  QStringList words;
  for (const std::string& word : field.words()) {
    words.append(QString::fromStdString(word));
  }
  return words;
}

JsonValue value_of_word(const OptionField& field, const std::string& word) {
  return field.kind == OptionKind::kWhole ? JsonValue{std::int64_t{std::stoll(word)}}
                                          : JsonValue{word};
}

/// Numbers whose values the slider walks through one by one.
bool is_short(const OptionField& field) {
  constexpr std::int64_t kShort = 16;
  return field.wholes.greatest - field.wholes.least <= kShort;
}

NumberField::Range range_of(const ir::PlanPart& part, const OptionField& field) {
  const auto least = static_cast<int>(std::max<std::int64_t>(field.wholes.least, 0));
  const auto most = static_cast<int>(std::min(field.wholes.greatest, kMostInBox));
  if (is_short(field)) {
    return {.least = least, .most = most, .slider_least = least, .slider_most = most};
  }
  // The slider reaches 64 times the default: 64 ranks, 131,072 tokens.
  constexpr std::int64_t kReach = 64;
  const std::int64_t usual =
      std::max<std::int64_t>(field.get(part.usual()).as_integer().value_or(1), 1);
  return {.least = least,
          .most = most,
          .slider_least = least,
          .slider_most = static_cast<int>(std::min<std::int64_t>(usual * kReach, most)),
          .steps = NumberField::Steps::kPowersOfTwo};
}

}  // namespace

OptionControl::OptionControl(const OptionRow& row, Probe probe, QWidget* parent)
    : QWidget(parent), row_(row), probe_(std::move(probe)) {
  auto* const grid = new QGridLayout(this);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setVerticalSpacing(0);
  grid->setHorizontalSpacing(fontMetrics().averageCharWidth());
  label_ = new QLabel(this);
  label_->setToolTip(row_.help);
  label_->setMinimumWidth(1);
  label_->setFixedWidth(fontMetrics().averageCharWidth() * 24);
  editor_ = makeEditor();
  editor_->setToolTip(row_.help);
  label_->setBuddy(editor_);
  refusal_ = new QLabel(this);
  refusal_->setWordWrap(true);
  refusal_->setTextFormat(Qt::PlainText);
  refusal_->setVisible(false);
  free_ = new QToolButton(this);
  free_->setAutoRaise(true);
  free_->setCheckable(true);
  free_->setFocusPolicy(Qt::TabFocus);
  free_->setFixedSize(fontMetrics().height() * 3 / 2, fontMetrics().height() * 3 / 2);
  free_->setObjectName(QStringLiteral("free"));
  const bool searched = !row_.axis.empty();
  free_->setVisible(searched);
  QSizePolicy keeps = free_->sizePolicy();
  keeps.setRetainSizeWhenHidden(true);
  free_->setSizePolicy(keeps);
  grid->addWidget(label_, 0, 0);
  grid->addWidget(editor_, 0, 1);
  grid->addWidget(free_, 0, 2);
  grid->addWidget(refusal_, 1, 0, 1, 3);
  grid->setColumnStretch(1, 1);
  connect(free_, &QToolButton::toggled, this, [this](bool free) {
    applyTheme();
    Q_EMIT freeToggled(free);
  });
  setObjectName(QString::fromStdString(row_.id));
  applyTheme();
  elideLabel();
}

QWidget* OptionControl::makeEditor() {
  const OptionField& field = *row_.field;
  if (field.kind == OptionKind::kNames) {
    addNames();
  } else if (field.words != nullptr || (field.kind == OptionKind::kSwitch && field.optional)) {
    addChoices();
  } else if (field.kind == OptionKind::kSwitch) {
    addSwitch();
  } else if (!field.examples.empty()) {
    addExamples();
  } else if (field.kind == OptionKind::kWhole && !field.optional &&
             field.wholes.greatest <= kMostInBox) {
    addNumber();
  } else if (field.kind == OptionKind::kReal && !field.optional && field.reals.least >= 0 &&
             field.reals.greatest <= 1) {
    addShare();
  } else {
    addText();
  }
  if (editor_->focusPolicy() != Qt::NoFocus && editor_->focusProxy() == nullptr) {
    editor_->setAccessibleName(row_.label);
    editor_->setAccessibleDescription(row_.help);
  }
  return editor_;
}

void OptionControl::addSwitch() {
  auto* const box = new QCheckBox(this);
  box->setText(QString());
  show_ = [box](const JsonValue& value) {
    const QSignalBlocker quiet(box);
    box->setChecked(value.as_bool().value_or(false));
  };
  connect(box, &QCheckBox::toggled, this, [this](bool on) { announce(JsonValue{on}); });
  editor_ = box;
}

void OptionControl::addChoices() {
  const OptionField& field = *row_.field;
  auto* const box = new ProbingBox(this);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(8);
  std::vector<JsonValue> values;
  if (field.optional) {
    box->add(tr("default"));
    values.emplace_back();
  }
  if (field.kind == OptionKind::kSwitch) {
    box->add(tr("yes"));
    box->add(tr("no"));
    values.emplace_back(true);
    values.emplace_back(false);
  } else {
    for (const std::string& word : field.words()) {
      box->add(QString::fromStdString(word));
      values.push_back(value_of_word(field, word));
    }
  }
  show_ = [box, values](const JsonValue& value) {
    const QSignalBlocker quiet(box);
    const auto found = std::ranges::find_if(
        values, [&value](const JsonValue& one) { return same_value(one, value); });
    box->setCurrentIndex(found == values.end() ? -1 : static_cast<int>(found - values.begin()));
  };
  box->probe = [this, values](int at) {
    return probe_ ? probe_(row_, values[static_cast<std::size_t>(at)]) : QString();
  };
  connect(box, &QComboBox::currentIndexChanged, this, [this, values](int at) {
    if (at >= 0) {
      announce(values[static_cast<std::size_t>(at)]);
    }
  });
  editor_ = box;
}

void OptionControl::addExamples() {
  const OptionField& field = *row_.field;
  auto* const box = new ProbingBox(this);
  box->setEditable(true);
  box->setInsertPolicy(QComboBox::NoInsert);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(8);
  for (const QString& word :
       QString::fromUtf8(field.examples.data(), static_cast<qsizetype>(field.examples.size()))
           .split(QLatin1Char(' '))) {
    box->add(word);
  }
  box->lineEdit()->setAccessibleName(row_.label);
  show_ = [box](const JsonValue& value) {
    const QSignalBlocker quiet(box);
    const std::string* const text = value.as_string();  // Null where an optional value is absent.
    box->setEditText(text == nullptr ? QString() : QString::fromStdString(*text));
    box->setCurrentIndex(box->findText(box->currentText()));
  };
  box->probe = [this, box](int at) {
    return probe_
               ? probe_(row_, JsonValue{box->itemData(at, Qt::UserRole).toString().toStdString()})
               : QString();
  };
  const auto take = [this, box] {
    const QString text = box->currentText().trimmed();
    const bool absent = text.isEmpty() && row_.field->optional;
    announce(absent ? JsonValue{} : JsonValue{text.toStdString()});
  };
  connect(box, &QComboBox::activated, this, [this, box](int at) {
    announce(JsonValue{box->itemData(at, Qt::UserRole).toString().toStdString()});
  });
  connect(box->lineEdit(), &QLineEdit::editingFinished, this, take);
  editor_ = box;
}

void OptionControl::addNames() {
  const OptionField& field = *row_.field;
  if (field.words == nullptr) {
    addText();
    return;
  }
  auto* const button = new QToolButton(this);
  button->setPopupMode(QToolButton::InstantPopup);
  button->setToolButtonStyle(Qt::ToolButtonTextOnly);
  button->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  button->setFocusPolicy(Qt::StrongFocus);
  auto* const menu = new QMenu(button);
  button->setMenu(menu);
  for (const QString& word : words_of(field)) {
    QAction* const action = menu->addAction(word);
    action->setCheckable(true);
    connect(action, &QAction::triggered, this, [this, menu] {
      JsonValue::Array names;
      for (const QAction* const one : menu->actions()) {
        if (one->isChecked()) {
          names.emplace_back(one->text().toStdString());
        }
      }
      announce(JsonValue{std::move(names)});
    });
  }
  show_ = [button, menu, &field](const JsonValue& value) {
    QStringList chosen;
    for (const JsonValue& name : *value.as_array()) {
      chosen.append(QString::fromStdString(*name.as_string()));
    }
    for (QAction* const action : menu->actions()) {
      action->setChecked(chosen.contains(action->text()));
    }
    button->setText(chosen.isEmpty() ? tr("none") : chosen.join(QStringLiteral(" + ")));
  };
  editor_ = button;
}

void OptionControl::addNumber() {
  const OptionField& field = *row_.field;
  auto* const number = new NumberField(range_of(*row_.part, field), row_.label, this);
  if (!field.unit.empty()) {
    number->setUnit(
        QString::fromUtf8(field.unit.data(), static_cast<qsizetype>(field.unit.size())));
  }
  number->slider()->setVisible(field.at_hand);
  number->spin()->setAccessibleDescription(row_.help);
  show_ = [number](const JsonValue& value) {
    number->setValue(static_cast<int>(std::min(value.as_integer().value_or(0), kMostInBox)));
  };
  connect(number, &NumberField::edited, this, [this](int value, qint64 gesture) {
    announce(JsonValue{static_cast<std::int64_t>(value)}, gesture);
  });
  editor_ = number;
}

void OptionControl::addShare() {
  auto* const box = new QDoubleSpinBox(this);
  box->setRange(row_.field->reals.least, row_.field->reals.greatest);
  box->setDecimals(3);
  box->setSingleStep(0.05);
  box->setKeyboardTracking(false);
  box->setFocusPolicy(Qt::StrongFocus);
  show_ = [box](const JsonValue& value) {
    const QSignalBlocker quiet(box);
    box->setValue(value.as_number().value_or(0));
  };
  connect(box, &QDoubleSpinBox::valueChanged, this,
          [this](double value) { announce(JsonValue{value}); });
  editor_ = box;
}

void OptionControl::addText() {
  const OptionField& field = *row_.field;
  auto* const text = new QLineEdit(this);
  text->setPlaceholderText(field.optional || field.kind == OptionKind::kText ? tr("none")
                                                                             : QString());
  show_ = [text, &field](const JsonValue& value) {
    const QSignalBlocker quiet(text);
    text->setText(plain_text(field, value));
  };
  connect(text, &QLineEdit::editingFinished, this, [this, text] {
    const std::optional<JsonValue> value = value_in(*row_.field, text->text());
    if (value) {
      showRefusal({});
      announce(*value);
    } else {
      showRefusal(tr("Not understood. Expected: %1")
                      .arg(QString::fromStdString(ir::wanted_of(*row_.field))));
    }
  });
  editor_ = text;
}

void OptionControl::announce(const JsonValue& value, qint64 gesture) {
  touched_ = true;
  if (!same_value(value, value_)) {
    Q_EMIT edited(value, gesture);
  }
}

void OptionControl::showPlan(const ir::ParallelPlan& plan) {
  value_ = row_.field->get(plan);
  show_(value_);
  showRefusal({});
  touched_ = false;
}

void OptionControl::showRefusal(const QString& reason) {
  if (refusal_->text() == reason) {
    return;
  }
  touched_ = true;
  refusal_->setText(reason);
  refusal_->setVisible(!reason.isEmpty());
  editor_->setAccessibleDescription(reason.isEmpty() ? row_.help : reason);
}

void OptionControl::markImpossible() {
  if (row_.field->kind != OptionKind::kSwitch || row_.field->optional || !probe_) {
    return;
  }
  const bool on = value_.as_bool().value_or(false);
  const QString reason = probe_(row_, JsonValue{!on});
  if (reason == impossible_) {
    return;
  }
  impossible_ = reason;
  const QString tip = reason.isEmpty() ? row_.help
                                       : tr("Cannot be turned %1 now: %2\n\n%3")
                                             .arg(on ? tr("off") : tr("on"), reason, row_.help);
  label_->setToolTip(tip);
  editor_->setToolTip(tip);
  editor_->setAccessibleDescription(tip);
  applyTheme();
}

void OptionControl::showFree(bool free) {
  const QSignalBlocker quiet(free_);
  free_->setChecked(free);
  applyTheme();
}

void OptionControl::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    applyTheme();
  }
}

void OptionControl::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  elideLabel();
}

void OptionControl::elideLabel() {
  label_->setText(fontMetrics().elidedText(row_.label, Qt::ElideRight, label_->width()));
}

void OptionControl::applyTheme() {
  const Theme theme = theme_of(palette());
  const auto paint = [](QLabel* label, const QColor& colour) {
    QPalette own;
    own.setColor(QPalette::WindowText, colour);
    label->setPalette(own);
  };
  paint(label_, impossible_.isEmpty() ? theme.text : theme.quiet_text);
  QFont font = label_->font();
  font.setStrikeOut(!impossible_.isEmpty());
  label_->setFont(font);
  paint(refusal_, theme.verdict.at(2));
  const bool free = free_->isChecked();
  free_->setIcon(padlock(free, free ? palette().color(QPalette::Highlight) : theme.quiet_text,
                         fontMetrics().height()));
  free_->setAccessibleName(tr("%1: free for the search").arg(row_.label));
  free_->setToolTip(
      free ? tr("The search may choose %1.\nClick to keep the value of the plan.").arg(row_.label)
           : tr("Click to let the search choose %1.\nOnce a padlock is open, the search keeps "
                "the plan's values of all options with a closed one.")
                 .arg(row_.label));
}

}  // namespace headroom::gui
