#include "gui/views/scenario_editor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <QCheckBox>
#include <QComboBox>
#include <QCompleter>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTreeView>

#include "gui/models/plan_choices.h"
#include "gui/models/words.h"
#include "gui/theme/palette.h"
#include "gui/views/number_field.h"
#include "gui/whatif/what_if.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/plan_limits.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

/// Fills the box with `choices` and selects `value`.
template <typename T>
void show_choices(QComboBox* box, const std::vector<Choice<T>>& choices, const T& value) {
  const QSignalBlocker quiet(box);
  box->clear();
  for (const Choice<T>& choice : choices) {
    box->addItem(choice.label);
    box->setItemData(box->count() - 1, choice.detail, Qt::ToolTipRole);
    if (choice.value == value) {
      box->setCurrentIndex(box->count() - 1);
      box->setToolTip(choice.detail);
    }
  }
  const bool known = std::any_of(choices.begin(), choices.end(), [&value](const Choice<T>& choice) {
    return choice.value == value;
  });
  if (!known) {
    box->setCurrentIndex(-1);
  }
}

/// A combo box in which the user can type a part of the name.
QComboBox* catalogue_box(CatalogueModel* catalogue, QWidget* parent) {
  auto* const box = new QComboBox(parent);
  box->setEditable(true);
  box->setInsertPolicy(QComboBox::NoInsert);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(16);
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

}  // namespace

template <typename Choices, typename Pick, typename Put>
QComboBox* ScenarioEditor::addChoice(const Edit& edit, const QString& label, Choices make,
                                     Pick pick, Put put) {
  auto* const box = new QComboBox(this);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(12);
  addRow(label, box);
  show_.emplace_back([box, make, pick](const Scenario& scenario) {
    show_choices(box, make(scenario), pick(scenario));
  });
  connect(box, &QComboBox::currentIndexChanged, this, [this, edit, make, put](int row) {
    if (row >= 0) {
      const auto value = make(shown_)[static_cast<std::size_t>(row)].value;
      announce(edit, [&](Scenario& scenario) { put(scenario, value); });
    }
  });
  return box;
}

template <typename Pick, typename Put>
NumberField* ScenarioEditor::addNumber(const Edit& edit, const QString& label, NumberField* control,
                                       Pick pick, Put put) {
  addRow(label, control);
  show_.emplace_back([control, pick](const Scenario& scenario) {
    control->setValue(static_cast<int>(pick(scenario)));
  });
  connect(control, &NumberField::edited, this, [this, edit, put](int value, qint64 gesture) {
    Edit made = edit;
    made.gesture = gesture;
    announce(made, [&](Scenario& scenario) { put(scenario, value); });
  });
  return control;
}

ScenarioEditor::ScenarioEditor(const Catalogues& catalogues, QWidget* parent)
    : QWidget(parent),
      models_(catalogues.models),
      gpus_(catalogues.gpus),
      form_(new QFormLayout(this)) {
  form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form_->setLabelAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  form_->setHorizontalSpacing(fontMetrics().averageCharWidth() * 2);
  addHardwareRows();
  addTrainingRows();
  addBatchRows();
  addAdapterRows();
}

void ScenarioEditor::setScenario(const Scenario& scenario) {
  shown_ = scenario;
  for (const auto& show : show_) {
    show(shown_);
  }
}

void ScenarioEditor::addHardwareRows() {
  addSection(tr("Model and hardware"));
  QComboBox* const model = addCatalogue(tr("&Model"), models_);
  model->setObjectName(QStringLiteral("model"));
  show_.emplace_back([this, model](const Scenario& scenario) {
    const QString text = QString::fromStdString(scenario.model.text);
    const bool file = scenario.model.kind == ModelSource::Kind::kFile;
    const QSignalBlocker quiet(model);
    model->setCurrentIndex(file ? -1 : models_->rowOf(text));
    model->setEditText(text);
    model->setToolTip(
        file ? QFileInfo(text).absoluteFilePath()
             : models_->index(model->currentIndex(), 0).data(Qt::ToolTipRole).toString());
  });
  const auto choose_model = [this, model] {
    const ModelSource source = model_source(model->currentText().trimmed().toStdString());
    announce({.field = Field::kModel}, [&](Scenario& scenario) { scenario.model = source; });
  };
  connect(model, &QComboBox::activated, this, choose_model);
  connect(model->lineEdit(), &QLineEdit::editingFinished, this, choose_model);

  auto* const open = new QPushButton(tr("Open config.json…"), this);
  open->setAccessibleName(tr("Open a config.json"));
  open->setToolTip(
      tr("A model of your own: Hugging Face's config.json. It may also be dropped "
         "onto the window."));
  open->setAutoDefault(false);
  form_->addRow(QString(), open);
  connect(open, &QPushButton::clicked, this, &ScenarioEditor::openRequested);

  QComboBox* const gpu = addCatalogue(tr("&GPU"), gpus_);
  gpu->setObjectName(QStringLiteral("gpu"));
  show_.emplace_back([this, gpu](const Scenario& scenario) {
    const QString text = QString::fromStdString(scenario.gpu);
    const QSignalBlocker quiet(gpu);
    gpu->setCurrentIndex(gpus_->rowOf(text));
    gpu->setEditText(text);
    gpu->setToolTip(gpus_->index(gpu->currentIndex(), 0).data(Qt::ToolTipRole).toString());
  });
  const auto choose_gpu = [this, gpu] {
    const std::string name = gpu->currentText().trimmed().toStdString();
    announce({.field = Field::kGpu}, [&](Scenario& scenario) { scenario.gpu = name; });
  };
  connect(gpu, &QComboBox::activated, this, choose_gpu);
  connect(gpu->lineEdit(), &QLineEdit::editingFinished, this, choose_gpu);

  addNumber(
      {.field = Field::kGpus}, tr("&Number of GPUs"),
      new NumberField({.least = 1,
                       .most = ir::kMostRanks,
                       .slider_least = 1,
                       .slider_most = 64,
                       .steps = NumberField::Steps::kPowersOfTwo},
                      tr("Number of GPUs"), this),
      [](const Scenario& scenario) { return scenario.plan.world; },
      [](Scenario& scenario, int value) { scenario.plan.world = value; });

  budget_ = new QLineEdit(this);
  budget_->setPlaceholderText(tr("all of the device"));
  budget_->setToolTip(tr("Memory to judge against instead of the device's: 70GiB, 80GB, 512MiB"));
  budget_->setAccessibleDescription(budget_->toolTip());
  addRow(tr("&Budget"), budget_);
  show_.emplace_back([this](const Scenario& scenario) {
    const QSignalBlocker quiet(budget_);
    budget_->setText(scenario.budget == Bytes{0} ? QString() : typed_text(scenario.budget));
  });
  connect(budget_, &QLineEdit::textChanged, this, &ScenarioEditor::markBudget);
  connect(budget_, &QLineEdit::editingFinished, this, &ScenarioEditor::announceBudget);
}

QWidget* ScenarioEditor::addControl(const ir::PlanControl& control, const QString& label) {
  const std::string name(control.label);
  const auto value_of = [name](const Scenario& scenario) -> std::int64_t {
    const std::optional<ir::PlanControl> own = control_of(scenario.plan, name);
    return own ? own->get(scenario.plan) : 1;
  };
  const auto put = [name](Scenario& scenario, std::int64_t value) {
    if (const std::optional<ir::PlanControl> own = control_of(scenario.plan, name)) {
      own->set(scenario.plan, value);
    }
  };
  const Edit edit{.field = Field::kControl, .gesture = 0, .control = name};
  if (!control.choices.empty()) {
    const auto choices_of = [name](const Scenario& scenario) {
      const std::optional<ir::PlanControl> own = control_of(scenario.plan, name);
      return own ? control_choices(*own) : std::vector<Choice<std::int64_t>>();
    };
    return addChoice(edit, label, choices_of, value_of, put);
  }
  auto* const number = new NumberField({.least = 1,
                                        .most = ir::kMostRanks,
                                        .slider_least = 1,
                                        .slider_most = 16,
                                        .steps = NumberField::Steps::kPowersOfTwo},
                                       QString(label).remove(QLatin1Char('&')), this);
  return addNumber(edit, label, number, value_of, put);
}

void ScenarioEditor::addControlRows() {
  // Mnemonic letters that no other label uses.
  QString free_letters = QStringLiteral("DHJQTVWYZ");
  for (const ir::PlanControl& control : all_controls()) {
    QString label = control_text(control.label);
    if (const qsizetype letter = free_letters.indexOf(label.front().toUpper()); letter >= 0) {
      free_letters.remove(letter, 1);
      label.prepend(QLatin1Char('&'));
    }
    QWidget* const widget = addControl(control, label);
    show_.emplace_back([this, widget, name = std::string(control.label)](const Scenario& scenario) {
      const bool offered = control_of(scenario.plan, name).has_value();
      widget->setEnabled(offered);
      form_->setRowVisible(widget, offered);
    });
  }
}

void ScenarioEditor::addTrainingRows() {
  addSection(tr("Training"));
  addChoice(
      {.field = Field::kRuntime}, tr("&Runtime"), [](const Scenario&) { return runtime_choices(); },
      [](const Scenario& scenario) { return scenario.plan.runtime; },
      [](Scenario& scenario, const std::string& runtime) { scenario.plan.runtime = runtime; });
  addControlRows();
  addChoice(
      {.field = Field::kPrecision}, tr("&Precision"),
      [](const Scenario& scenario) { return precision_choices(scenario.plan.runtime); },
      [](const Scenario& scenario) { return scenario.plan.precision; },
      [](Scenario& scenario, ir::Precision precision) { scenario.plan.precision = precision; });
  addChoice(
      {.field = Field::kOptimizer}, tr("&Optimizer"),
      [](const Scenario&) { return optimizer_choices(); },
      [](const Scenario& scenario) { return scenario.plan.optimizer; },
      [](Scenario& scenario, const ir::OptimizerPlan& optimizer) {
        scenario.plan.optimizer = optimizer;
      });
  addChoice(
      {.field = Field::kAttention}, tr("&Attention"),
      [](const Scenario&) { return attention_choices(); },
      [](const Scenario& scenario) { return scenario.plan.attention; },
      [](Scenario& scenario, ir::AttentionKind kind) { scenario.plan.attention = kind; });
  addChoice(
      {.field = Field::kCheckpointing}, tr("&Checkpointing"),
      [](const Scenario&) { return checkpointing_choices(); },
      [](const Scenario& scenario) {
        return ir::runtime_of(scenario.plan).recomputation(scenario.plan);
      },
      [](Scenario& scenario, ir::Recompute recompute) {
        ir::runtime_of(scenario.plan).set_recomputation(scenario.plan, recompute);
      });
  NumberField* const every = addNumber(
      {.field = Field::kCheckpointEvery}, tr("&Every k-th layer"),
      new NumberField({.least = 1, .most = 1024, .slider_least = 1, .slider_most = 8},
                      tr("Checkpoint one layer of every"), this),
      [](const Scenario& scenario) { return scenario.plan.recompute_every; },
      [](Scenario& scenario, int value) { scenario.plan.recompute_every = value; });
  show_.emplace_back([every](const Scenario& scenario) {
    every->setEnabled(scenario.plan.recompute != ir::Recompute::kNone);
  });
}

void ScenarioEditor::addBatchRows() {
  addSection(tr("Batch"));
  addNumber(
      {.field = Field::kMicroBatch}, tr("M&icro-batch"),
      new NumberField(
          {.least = 1, .most = ir::kMostMicroBatch, .slider_least = 1, .slider_most = 32},
          tr("Micro-batch"), this),
      [](const Scenario& scenario) { return scenario.plan.workload.micro_batch; },
      [](Scenario& scenario, int value) { scenario.plan.workload.micro_batch = value; });
  addNumber(
      {.field = Field::kSequence}, tr("&Sequence"),
      new NumberField({.least = 1,
                       .most = ir::kMostSequence,
                       .slider_least = 128,
                       .slider_most = 1 << 17,
                       .steps = NumberField::Steps::kPowersOfTwo},
                      tr("Sequence length in tokens"), this),
      [](const Scenario& scenario) { return scenario.plan.workload.sequence; },
      [](Scenario& scenario, int value) { scenario.plan.workload.sequence = value; });
  addNumber(
      {.field = Field::kAccumulation}, tr("Acc&umulation"),
      new NumberField({.least = 1,
                       .most = ir::kMostAccumulation,
                       .slider_least = 1,
                       .slider_most = 64,
                       .steps = NumberField::Steps::kPowersOfTwo},
                      tr("Micro-batches per optimizer step"), this),
      [](const Scenario& scenario) { return scenario.plan.workload.accumulation; },
      [](Scenario& scenario, int value) { scenario.plan.workload.accumulation = value; });
}

void ScenarioEditor::addAdapterRows() {
  addSection(tr("Adapters and allocator"));
  auto* const lora = new QCheckBox(tr("train &LoRA adapters"), this);
  lora->setAccessibleName(tr("Train LoRA adapters"));
  form_->addRow(tr("LoRA"), lora);
  show_.emplace_back([lora](const Scenario& scenario) {
    const QSignalBlocker quiet(lora);
    lora->setChecked(scenario.plan.lora.has_value());
  });
  connect(lora, &QCheckBox::toggled, this, [this](bool on) {
    announce({.field = Field::kLora}, [on](Scenario& scenario) {
      scenario.plan.lora = on ? std::optional(ir::LoraPlan{}) : std::nullopt;
    });
  });
  NumberField* const rank = addNumber(
      {.field = Field::kLoraRank}, tr("LoRA ran&k"),
      new NumberField({.least = 1,
                       .most = ir::kMostLoraRank,
                       .slider_least = 1,
                       .slider_most = 256,
                       .steps = NumberField::Steps::kPowersOfTwo},
                      tr("LoRA rank"), this),
      [](const Scenario& scenario) {
        return scenario.plan.lora ? scenario.plan.lora->rank : ir::LoraPlan{}.rank;
      },
      [](Scenario& scenario, int value) {
        if (scenario.plan.lora) {
          scenario.plan.lora->rank = value;
        }
      });
  QComboBox* const quant = addChoice(
      {.field = Field::kQuantization}, tr("&Frozen weights"),
      [](const Scenario&) { return quantization_choices(); },
      [](const Scenario& scenario) { return scenario.plan.quant ? scenario.plan.quant->bits : 0; },
      [](Scenario& scenario, int bits) {
        scenario.plan.quant = bits == 0 ? std::nullopt : std::optional(ir::QuantPlan{.bits = bits});
      });
  show_.emplace_back([rank, quant](const Scenario& scenario) {
    rank->setEnabled(scenario.plan.lora.has_value());
    quant->setEnabled(scenario.plan.lora.has_value());
  });

  auto* const expandable = new QCheckBox(tr("e&xpandable segments"), this);
  expandable->setAccessibleName(tr("Expandable segments"));
  expandable->setToolTip(tr("PYTORCH_ALLOC_CONF=expandable_segments:True"));
  form_->addRow(tr("Allocator"), expandable);
  show_.emplace_back([expandable](const Scenario& scenario) {
    const QSignalBlocker quiet(expandable);
    expandable->setChecked(scenario.plan.allocator.expandable_segments);
  });
  connect(expandable, &QCheckBox::toggled, this, [this](bool on) {
    announce({.field = Field::kExpandableSegments},
             [on](Scenario& scenario) { scenario.plan.allocator.expandable_segments = on; });
  });
}

void ScenarioEditor::addSection(const QString& title) {
  auto* const label = new QLabel(title, this);
  QFont bold = label->font();
  bold.setBold(true);
  label->setFont(bold);
  label->setContentsMargins(0, form_->rowCount() == 0 ? 0 : fontMetrics().height() / 2, 0, 0);
  form_->addRow(label);
}

void ScenarioEditor::addRow(const QString& label, QWidget* control) {
  form_->addRow(label, control);  // Also makes the control the label's buddy.
  if (qobject_cast<NumberField*>(control) == nullptr) {
    control->setAccessibleName(QString(label).remove(QLatin1Char('&')));
  }
}

QComboBox* ScenarioEditor::addCatalogue(const QString& label, CatalogueModel* catalogue) {
  QComboBox* const box = catalogue_box(catalogue, this);
  addRow(label, box);
  return box;
}

void ScenarioEditor::announce(const Edit& edit, const Change& change) {
  Scenario after = shown_;
  change(after);
  if (after != shown_) {
    Q_EMIT edited(after, edit);
  }
}

void ScenarioEditor::announceBudget() {
  const QString text = budget_->text().trimmed();
  const std::optional<Bytes> bytes =
      text.isEmpty() ? std::optional(Bytes{0}) : parse_bytes(text.toStdString());
  if (bytes) {
    announce({.field = Field::kBudget}, [&](Scenario& scenario) { scenario.budget = *bytes; });
  }
}

void ScenarioEditor::markBudget() {
  const QString text = budget_->text().trimmed();
  const bool understood = text.isEmpty() || parse_bytes(text.toStdString());
  QPalette colours;  // Sets one role; the others follow the window.
  if (!understood) {
    colours.setColor(QPalette::Text, theme_of(palette()).capacity);
  }
  budget_->setPalette(colours);
  budget_->setAccessibleDescription(understood ? budget_->toolTip()
                                               : tr("Not understood. ") + budget_->toolTip());
}

}  // namespace headroom::gui
