#include "gui/views/scenario_editor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <QComboBox>
#include <QCompleter>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QTreeView>
#include <QWheelEvent>

#include "gui/models/plan_choices.h"
#include "gui/models/verdict_text.h"
#include "gui/models/words.h"
#include "gui/theme/palette.h"
#include "gui/views/flat_toggle.h"
#include "gui/views/number_field.h"
#include "gui/views/option_section.h"
#include "gui/whatif/refusal.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/plan_limits.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/registry.h"
#include "runtimes/typed/scalars.h"

namespace headroom::gui {
namespace {

/// A list that leaves the wheel to the panel, so that nobody changes a plan by scrolling.
class StillBox : public QComboBox {
 public:
  using QComboBox::QComboBox;

 protected:
  void wheelEvent(QWheelEvent* event) override { event->ignore(); }
};

/// A combo box in which the user can type a part of the name.
QComboBox* catalogue_box(CatalogueModel* catalogue, QWidget* parent) {
  auto* const box = new StillBox(parent);
  box->setEditable(true);
  box->setInsertPolicy(QComboBox::NoInsert);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(14);
  auto* const list = new QTreeView(box);
  list->setRootIsDecorated(false);
  list->setUniformRowHeights(true);
  list->header()->hide();
  list->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  list->setTextElideMode(Qt::ElideNone);
  box->setModel(catalogue);
  box->setView(list);
  list->setMinimumWidth(list->fontMetrics().averageCharWidth() * 70);
  box->completer()->setFilterMode(Qt::MatchContains);
  box->completer()->setCompletionMode(QCompleter::PopupCompletion);
  box->setMaxVisibleItems(20);
  return box;
}

QFormLayout* make_form(QWidget* parent) {
  auto* const form = new QFormLayout(parent);
  form->setContentsMargins(0, 0, 0, 0);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->setLabelAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  form->setHorizontalSpacing(parent->fontMetrics().averageCharWidth() * 2);
  return form;
}

std::optional<Bytes> size_in(const std::string& text) {
  const Result<Bytes> size = ir::parse_size("size", text);
  return size ? std::optional(*size) : std::nullopt;
}

QString optional_size(const std::optional<Bytes>& size) {
  return size ? typed_text(*size) : QString();
}

QString optional_number(const std::optional<double>& number) {
  return number ? QString::fromStdString(ir::real_text(*number)) : QString();
}

/// Reads a positive number such as "2.5" or "15T" into `value`; an empty text removes it.
bool read_number(std::optional<double>& value, const std::string& text) {
  if (text.empty()) {
    value.reset();
    return true;
  }
  constexpr double kLeast = 1e-9;
  constexpr double kMost = 1e18;
  const Result<double> number = ir::parse_quantity("number", text, kLeast, kMost);
  if (number) {
    value = *number;
  }
  return number.has_value();
}

bool read_size(std::optional<Bytes>& value, const std::string& text) {
  if (text.empty()) {
    value.reset();
    return true;
  }
  const std::optional<Bytes> size = size_in(text);
  value = size ? size : value;
  return size.has_value();
}

}  // namespace

ScenarioEditor::ScenarioEditor(const Catalogues& catalogues, QWidget* parent)
    : QWidget(parent), models_(catalogues.models), gpus_(catalogues.gpus) {
  const int unit = fontMetrics().height();
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(unit / 2);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Find an option…"));
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName(tr("Find an option"));
  filter_->setToolTip(tr("Shows the options whose name or description has these words (Ctrl+F)"));
  connect(filter_, &QLineEdit::textChanged, this, &ScenarioEditor::filterChanged);
  column->addWidget(filter_);

  auto* const contents = new QWidget;
  auto* const inner = new QVBoxLayout(contents);
  inner->setContentsMargins(0, 0, unit / 2, 0);
  inner->setSpacing(unit / 2);
  addHardware(inner);
  options_ = new QVBoxLayout;
  options_->setSpacing(unit / 2);
  inner->addLayout(options_);
  addSiteRows(inner);
  no_match_ = new QLabel(tr("No option has these words."), contents);
  no_match_->hide();
  inner->addWidget(no_match_);
  inner->addStretch(1);
  area_ = new QScrollArea(this);
  area_->setWidget(contents);
  area_->setWidgetResizable(true);
  area_->setFrameShape(QFrame::NoFrame);
  area_->setFocusPolicy(Qt::NoFocus);  // The controls inside take the keyboard focus.
  area_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  area_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);  // The width must not jump.
  column->addWidget(area_, 1);
  constexpr int kWidth = 29;  // The width in lines of text.
  setFixedWidth(unit * kWidth);

  idle_.setSingleShot(true);
  connect(&idle_, &QTimer::timeout, this, &ScenarioEditor::markImpossible);
}

void ScenarioEditor::setScenario(const Scenario& scenario) {
  shown_ = scenario;
  if (runtime_ != scenario.plan.runtime) {
    rebuildSections();
  }
  for (const auto& show : show_) {
    show(shown_);
  }
  for (OptionSection* const section : sections_) {
    section->setApplies(!is_program(shown_) || section->group().part == &ir::allocator_options());
    section->showPlan(shown_.plan);
  }
}

void ScenarioEditor::setFreeAxes(const std::set<std::string>& axes) {
  free_ = axes;
  for (OptionSection* const section : sections_) {
    for (OptionControl* const control : section->controls()) {
      control->showFree(free_.contains(control->row().axis));
    }
  }
}

void ScenarioEditor::setGrounds(std::shared_ptr<const Grounds> grounds) {
  grounds_ = std::move(grounds);
  constexpr int kIdle = 200;  // Milliseconds: not between two steps of a slider.
  idle_.start(kIdle);
}

void ScenarioEditor::showRefusal(const std::optional<Error>& error) {
  for (OptionSection* const section : sections_) {
    for (OptionControl* const control : section->controls()) {
      const ir::OptionField& field = *control->row().field;
      const bool named =
          error && !error->key.empty() && error->file.empty() &&
          (field.in_spec ? error->key == field.option && (error->got.starts_with(field.key) ||
                                                          error->got.starts_with(field.name))
                         : error->key == field.option || error->key == field.name);
      if (named) {
        const ProblemText text = problem_text(*error);
        control->showRefusal(text.detail.isEmpty() ? text.what
                                                   : text.what + QLatin1Char('\n') + text.detail);
      } else {
        control->showRefusal({});
      }
    }
  }
}

void ScenarioEditor::showUsable(const QString& text) {
  usable_->setText(text);
}

void ScenarioEditor::focusFilter() {
  filter_->setFocus(Qt::ShortcutFocusReason);
  filter_->selectAll();
}

void ScenarioEditor::addHardware(QVBoxLayout* column) {
  hardware_ = new QWidget(this);
  QFormLayout* const form = make_form(hardware_);
  addModelRows(form);
  addGpuRows(form);
  addRuntimeRow(form);
  column->addWidget(hardware_);
}

void ScenarioEditor::addModelRows(QFormLayout* form) {
  QComboBox* const model = catalogue_box(models_, this);
  model->setObjectName(QStringLiteral("model"));
  auto* const open = new QPushButton(tr("Open…"), this);
  open->setAccessibleName(tr("Open a model, a plan or a program"));
  open->setToolTip(tr(
      "A model of your own (config.json, the folder with it, safetensors index, GGUF), a "
      "DeepSpeed configuration, a plan file or a program that headroom dryrun --record has kept. "
      "It may also be dropped onto the window."));
  open->setAutoDefault(false);
  connect(open, &QPushButton::clicked, this, &ScenarioEditor::openRequested);
  auto* const line = new QWidget(this);
  auto* const row = new QHBoxLayout(line);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(model, 1);
  row->addWidget(open);
  addRow(form, tr("&Model"), line);
  line->setFocusProxy(model);
  model->setAccessibleName(tr("Model"));
  model->lineEdit()->setAccessibleName(tr("Model"));
  show_.emplace_back([this, model](const Scenario& scenario) {
    const QString text = QString::fromStdString(scenario.model.text);
    const bool file = scenario.model.kind != ModelSource::Kind::kCatalogue;
    const QSignalBlocker quiet(model);
    model->setCurrentIndex(file ? -1 : models_->rowOf(text));
    model->setEditText(text);
    model->setToolTip(
        file ? QFileInfo(text).absoluteFilePath()
             : models_->index(model->currentIndex(), 0).data(Qt::ToolTipRole).toString());
  });
  const auto choose = [this, model] {
    const ModelSource source = model_source(model->currentText().trimmed().toStdString());
    if (source.text != shown_.model.text) {
      announce({.field = Field::kModel}, [&](Scenario& scenario) { scenario.model = source; });
    }
  };
  connect(model, &QComboBox::activated, this, choose);
  connect(model->lineEdit(), &QLineEdit::editingFinished, this, choose);
}

void ScenarioEditor::addGpuRows(QFormLayout* form) {
  QComboBox* const gpu = addCatalogue(form, tr("&GPU"), gpus_);
  gpu->setObjectName(QStringLiteral("gpu"));
  show_.emplace_back([this, gpu](const Scenario& scenario) {
    const QString text = QString::fromStdString(scenario.gpu);
    const QSignalBlocker quiet(gpu);
    gpu->setCurrentIndex(gpus_->rowOf(text));
    gpu->setEditText(text);
    gpu->setToolTip(gpus_->index(gpu->currentIndex(), 0).data(Qt::ToolTipRole).toString());
  });
  const auto choose = [this, gpu] {
    const std::string name = gpu->currentText().trimmed().toStdString();
    announce({.field = Field::kGpu}, [&](Scenario& scenario) { scenario.gpu = name; });
  };
  connect(gpu, &QComboBox::activated, this, choose);
  connect(gpu->lineEdit(), &QLineEdit::editingFinished, this, choose);
  usable_ = new QLabel(this);
  usable_->setObjectName(QStringLiteral("usable"));
  form->addRow(QString(), usable_);

  auto* const number = new NumberField({.least = 1,
                                        .most = ir::kMostRanks,
                                        .slider_least = 1,
                                        .slider_most = 1024,
                                        .steps = NumberField::Steps::kPowersOfTwo},
                                       tr("Number of GPUs"), this);
  addRow(form, tr("&Number of GPUs"), number);
  showForPlansOnly(form, number);
  show_.emplace_back([number](const Scenario& scenario) {
    number->setValue(static_cast<int>(scenario.plan.world));
  });
  connect(number, &NumberField::edited, this, [this](int value, qint64 gesture) {
    announce({.field = Field::kGpus, .gesture = gesture},
             [value](Scenario& scenario) { scenario.plan.world = value; });
  });
}

void ScenarioEditor::addRuntimeRow(QFormLayout* form) {
  auto* const box = new StillBox(this);
  box->setObjectName(QStringLiteral("runtime"));
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(12);
  const std::vector<Choice<std::string>> choices = runtime_choices();
  for (const Choice<std::string>& choice : choices) {
    box->addItem(choice.label);
    box->setItemData(box->count() - 1, choice.detail, Qt::ToolTipRole);
  }
  addRow(form, tr("&Framework"), box);
  showForPlansOnly(form, box);
  show_.emplace_back([box, choices](const Scenario& scenario) {
    const QSignalBlocker quiet(box);
    const auto found =
        std::ranges::find(choices, scenario.plan.runtime, &Choice<std::string>::value);
    box->setCurrentIndex(found == choices.end() ? -1 : static_cast<int>(found - choices.begin()));
    box->setToolTip(found == choices.end() ? QString() : found->detail);
  });
  connect(box, &QComboBox::currentIndexChanged, this, [this, choices](int row) {
    if (row >= 0) {
      const std::string name = choices[static_cast<std::size_t>(row)].value;
      announce({.field = Field::kRuntime},
               [&](Scenario& scenario) { scenario = moved_to(std::move(scenario), name); });
    }
  });
}

void ScenarioEditor::addSiteRows(QVBoxLayout* column) {
  auto* const header = new FlatToggle(tr("Budget, host and costs"), this);
  header->setAccessibleName(tr("Section %1").arg(header->text()));
  header->setObjectName(QStringLiteral("site"));
  QFont bold = header->font();
  bold.setBold(true);
  header->setFont(bold);
  column->addWidget(header);
  auto* const body = new QWidget(this);
  body->hide();
  column->addWidget(body);
  connect(header, &QToolButton::toggled, body, &QWidget::setVisible);
  QFormLayout* const form = make_form(body);
  QLineEdit* const budget = addText(
      form, tr("&Budget"), {.field = Field::kBudget},
      [](const Scenario& scenario) {
        return scenario.budget == Bytes{0} ? QString() : typed_text(scenario.budget);
      },
      [](Scenario& scenario, const std::string& text) {
        std::optional<Bytes> size;
        const bool read = read_size(size, text);
        scenario.budget = read ? size.value_or(Bytes{0}) : scenario.budget;
        return read;
      });
  budget->setPlaceholderText(tr("all of the device"));
  budget->setToolTip(tr("Memory to judge against instead of the device's: 70GiB, 80GB, 512MiB"));
  addText(
      form, tr("Node"), {.field = Field::kHost},
      [](const Scenario& scenario) {
        return QString::fromStdString(scenario.host.node.value_or(std::string()));
      },
      [](Scenario& scenario, const std::string& text) {
        scenario.host.node = text.empty() ? std::nullopt : std::optional(text);
        return true;
      })
      ->setToolTip(tr("Machine that holds the GPUs, a name of the catalogue: dgx-h100"));
  addText(
      form, tr("Host memory"), {.field = Field::kHost},
      [](const Scenario& scenario) { return optional_size(scenario.host.memory); },
      [](Scenario& scenario, const std::string& text) {
        return read_size(scenario.host.memory, text);
      })
      ->setToolTip(tr("Memory of a node that the run may take: 1TiB"));
  addText(
      form, tr("NVMe"), {.field = Field::kHost},
      [](const Scenario& scenario) { return optional_size(scenario.host.nvme); },
      [](Scenario& scenario, const std::string& text) {
        return read_size(scenario.host.nvme, text);
      })
      ->setToolTip(tr("Size of all drives of a node: 7.6TB"));
  addText(
      form, tr("Dollars per GPU hour"), {.field = Field::kCosts},
      [](const Scenario& scenario) { return optional_number(scenario.price); },
      [](Scenario& scenario, const std::string& text) { return read_number(scenario.price, text); })
      ->setToolTip(tr("Adds tokens per dollar to the answer"));
  addText(
      form, tr("Tokens of the run"), {.field = Field::kCosts},
      [](const Scenario& scenario) { return optional_number(scenario.tokens); },
      [](Scenario& scenario, const std::string& text) {
        return read_number(scenario.tokens, text);
      })
      ->setToolTip(tr("Such as 15T; adds days and costs to the answer"));
}

QLineEdit* ScenarioEditor::addText(QFormLayout* form, const QString& label, const Edit& edit,
                                   std::function<QString(const Scenario&)> text,
                                   std::function<bool(Scenario&, const std::string&)> read) {
  auto* const line = new QLineEdit(this);
  line->setPlaceholderText(tr("not given"));
  addRow(form, label, line);
  if (edit.field != Field::kBudget) {
    showForPlansOnly(form, line);
  }
  show_.emplace_back([line, text](const Scenario& scenario) {
    const QSignalBlocker quiet(line);
    line->setText(text(scenario));
  });
  connect(line, &QLineEdit::textChanged, this, [this, line, read] {
    Scenario tried = shown_;
    const bool understood = read(tried, line->text().trimmed().toStdString());
    QPalette colours;  // Sets one role; the others follow the window.
    if (!understood) {
      colours.setColor(QPalette::Text, theme_of(palette()).capacity);
    }
    line->setPalette(colours);
    line->setAccessibleDescription(understood ? line->toolTip()
                                              : tr("Not understood. ") + line->toolTip());
  });
  connect(line, &QLineEdit::editingFinished, this, [this, line, read, edit] {
    announce(edit, [&](Scenario& scenario) {
      static_cast<void>(read(scenario, line->text().trimmed().toStdString()));
    });
  });
  return line;
}

void ScenarioEditor::showForPlansOnly(QFormLayout* form, QWidget* control) {
  show_.emplace_back([form, control](const Scenario& scenario) {
    if (const bool shown = !is_program(scenario); form->isRowVisible(control) != shown) {
      form->setRowVisible(control, shown);
    }
  });
}

void ScenarioEditor::addRow(QFormLayout* form, const QString& label, QWidget* control) {
  form->addRow(label, control);  // Also makes the control the label's buddy.
  if (qobject_cast<NumberField*>(control) == nullptr && control->focusPolicy() != Qt::NoFocus) {
    control->setAccessibleName(QString(label).remove(QLatin1Char('&')));
  }
}

QComboBox* ScenarioEditor::addCatalogue(QFormLayout* form, const QString& label,
                                        CatalogueModel* catalogue) {
  QComboBox* const box = catalogue_box(catalogue, this);
  addRow(form, label, box);
  box->lineEdit()->setAccessibleName(box->accessibleName());
  return box;
}

void ScenarioEditor::rebuildSections() {
  const ir::Runtime* const runtime = ir::find_runtime(shown_.plan.runtime);
  if (runtime == nullptr) {
    return;  // The answer is the refusal.
  }
  runtime_ = shown_.plan.runtime;
  setUpdatesEnabled(false);
  for (OptionSection* const section : sections_) {
    section->hide();
    section->deleteLater();  // Its own signal may have led here.
  }
  sections_.clear();
  const Probe probe = [this](const OptionRow& row, const ir::JsonValue& value) {
    return whyNot(row, value);
  };
  for (const OptionGroup& group : option_groups(*runtime)) {
    auto* const section = new OptionSection(group, probe, this);
    options_->addWidget(section);
    sections_.push_back(section);
    connect(
        section, &OptionSection::edited, this,
        [this](const OptionRow& row, const ir::JsonValue& value, qint64 gesture) {
          announce(
              {.field = Field::kOption, .gesture = gesture, .control = row.id, .text = row.label},
              [&](Scenario& scenario) {
                if (ir::accepts(*row.field, value)) {
                  static_cast<void>(row.field->set(scenario.plan, value));
                }
              });
        });
    connect(section, &OptionSection::freeToggled, this, [this](const QString& axis, bool free) {
      std::set<std::string> axes = free_;
      if (free) {
        axes.insert(axis.toStdString());
      } else {
        axes.erase(axis.toStdString());
      }
      Q_EMIT freeAxesEdited(axes);
    });
    connect(section, &OptionSection::partToggled, this,
            [this, section](const ir::PlanPart* part, bool present) {
              announce({.field = Field::kPart,
                        .control = std::string(part->name),
                        .text = section->group().title},
                       [&](Scenario& scenario) {
                         present ? part->add(scenario.plan) : part->drop(scenario.plan);
                       });
            });
  }
  setFreeAxes(free_);
  filterChanged(filter_->text());
  setUpdatesEnabled(true);
}

void ScenarioEditor::filterChanged(const QString& text) {
  const QStringList words = text.toLower().split(QLatin1Char(' '), Qt::SkipEmptyParts);
  bool any = words.isEmpty();
  for (OptionSection* const section : sections_) {
    section->setFilter(words);
    any = any || section->hasMatches();
  }
  hardware_->setVisible(words.isEmpty());
  no_match_->setVisible(!any);
}

QString ScenarioEditor::whyNot(const OptionRow& row, const ir::JsonValue& value) const {
  if (grounds_ == nullptr || ir::find_runtime(shown_.plan.runtime) == nullptr) {
    return {};
  }
  const std::optional<Error> now = refusal_of(*grounds_, shown_.plan);
  Scenario changed = shown_;
  if (!row.field->set(changed.plan, value)) {
    return {};
  }
  const std::optional<Error> then = refusal_of(*grounds_, settled(std::move(changed)).plan);
  if (!then || then == now) {
    return {};  // The value is possible, or something else is to blame.
  }
  const ProblemText text = problem_text(*then);
  return text.detail.isEmpty() ? text.what : text.what + QLatin1Char('\n') + text.detail;
}

void ScenarioEditor::markImpossible() {
  for (OptionSection* const section : sections_) {
    for (OptionControl* const control : section->controls()) {
      if (control->isVisible()) {
        control->markImpossible();
      }
    }
  }
}

void ScenarioEditor::announce(const Edit& edit, const Change& change) {
  Scenario after = shown_;
  change(after);
  if (after != shown_) {
    Q_EMIT edited(after, edit);
  }
}

}  // namespace headroom::gui
