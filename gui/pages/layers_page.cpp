#include "gui/pages/layers_page.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include <QButtonGroup>
#include <QLabel>
#include <QPushButton>
#include <QRadioButton>
#include <QVBoxLayout>

#include "gui/charts/layer_chart.h"
#include "gui/charts/time_data.h"
#include "gui/models/verdict_text.h"
#include "gui/models/words.h"
#include "gui/pages/page_parts.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/plan_finder.h"
#include "planner/search/timely_search.h"

namespace headroom::gui {
namespace {

constexpr const char* kEditName = "layers' activations";

}  // namespace

LayersPage::LayersPage(std::string config_dir, QWidget* parent)
    : Page(QStringLiteral("layers"), tr("Layers"), parent), config_dir_(std::move(config_dir)) {
  chart_ = new LayerChart;
  connect(chart_, &LayerChart::picked, this, &LayersPage::pick);
  summary_ = quiet_label();
  message_ = quiet_label();
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(summary_);
  column->addWidget(makeToolBar());
  column->addWidget(chart_, 1);
  column->addWidget(message_);
  connect(&job_, &NewestJob::finished, this, &Page::settled);
  connect(&job_, &NewestJob::failed, this, [this](const QString& fault) {
    showLayers(nullptr, fault);
    Q_EMIT settled();
  });
  connect(&search_, &NewestJob::failed, this, &LayersPage::say);
}

QWidget* LayersPage::makeToolBar() {
  auto* const bar = new QWidget;
  auto* const row = new QHBoxLayout(bar);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(new QLabel(tr("A click sets a layer to:")));
  brushes_ = new QButtonGroup(this);
  for (std::size_t i = 0; i < kLayerTreatments; ++i) {
    auto* const button = new QRadioButton(treatment_name(static_cast<LayerTreatment>(i)));
    brushes_->addButton(button, static_cast<int>(i));
    row->addWidget(button);
  }
  setBrush(LayerTreatment::kFull);
  row->addStretch(1);
  optimum_ = new QPushButton(tr("&Optimal within the memory"));
  optimum_->setToolTip(tr("Searches the recomputation with the shortest step that fits"));
  connect(optimum_, &QPushButton::clicked, this, &LayersPage::findOptimum);
  row->addWidget(optimum_);
  return bar;
}

void LayersPage::setBrush(LayerTreatment treatment) {
  brushes_->button(static_cast<int>(treatment))->setChecked(true);
}

void LayersPage::say(const QString& text) {
  message_->setText(text);
}

void LayersPage::setAnswer(const Answer& answer) {
  answer_ = answer;
  search_.cancel();
  optimum_->setEnabled(answer.estimate != nullptr && !is_program(answer.scenario));
  say({});
  if (answer.estimate == nullptr) {
    job_.cancel();
    showLayers(nullptr, {});
    return;
  }
  job_.run(
      [this, config_dir = config_dir_, answer](const std::stop_token& stop) -> NewestJob::Delivery {
        const Result<ir::ModelSpec> model = load_source(config_dir, answer.scenario.model);
        if (!model) {
          const QString reason = problem_text(model.error()).what;
          return [this, reason] { showLayers(nullptr, reason); };
        }
        auto layers = std::make_shared<Layers>();
        layers->map = layer_map(*model, answer.scenario.plan);
        const Result<TimeData> timed = time_data(config_dir, answer.scenario, answer.estimate);
        add_costs(layers->map, *answer.estimate, timed ? &timed->time : nullptr);
        if (stop.stop_requested()) {
          return {};
        }
        layers->variants = layer_variants(*model, answer.scenario.plan);
        return [this, layers] { showLayers(layers, {}); };
      });
}

void LayersPage::showLayers(std::shared_ptr<const Layers> layers, const QString& problem) {
  layers_ = std::move(layers);
  chart_->setMap(layers_ != nullptr ? layers_->map : LayerMap());
  summary_->setText(layers_ != nullptr ? summary() : problem);
  std::set<LayerTreatment> possible;
  if (layers_ != nullptr) {
    for (const LayerVariant& variant : layers_->variants) {
      possible.insert(variant.treatments.begin(), variant.treatments.end());
    }
  }
  for (std::size_t i = 0; i < kLayerTreatments; ++i) {
    QAbstractButton* const button = brushes_->button(static_cast<int>(i));
    const bool enabled = possible.contains(static_cast<LayerTreatment>(i));
    button->setEnabled(enabled);
    button->setToolTip(enabled || layers_ == nullptr
                           ? QString()
                           : tr("%1 has no option that does this to single layers")
                                 .arg(QString::fromStdString(answer_.scenario.plan.runtime)));
  }
  if (!possible.empty() && !possible.contains(static_cast<LayerTreatment>(brushes_->checkedId()))) {
    setBrush(*possible.rbegin());
  }
}

QString LayersPage::summary() const {
  std::array<int, kLayerTreatments> counts{};
  Bytes kept;
  Seconds again;
  for (const LayerCell& cell : layers_->map.cells) {
    ++counts.at(static_cast<std::size_t>(cell.treatment));
    kept += cell.kept.value_or(Bytes{0});
    again += cell.again;
  }
  QStringList words;
  for (std::size_t i = 0; i < kLayerTreatments; ++i) {
    if (counts.at(i) > 0) {
      words.append(
          tr("%1: %2").arg(treatment_name(static_cast<LayerTreatment>(i))).arg(counts.at(i)));
    }
  }
  QString text = tr("%1 layers (%2). At the peak, their activations on rank %3 take %4.")
                     .arg(layers_->map.cells.size())
                     .arg(words.join(QStringLiteral(", ")))
                     .arg(static_cast<int>(answer_.estimate->rank))
                     .arg(bytes_text(kept));
  if (again > Seconds{}) {
    text += tr(" Recomputation takes %1 of the rank's last step.").arg(time_text(again));
  }
  return text;
}

void LayersPage::pick(qlonglong layer) {
  if (layers_ == nullptr) {
    return;
  }
  const auto wanted = static_cast<LayerTreatment>(brushes_->checkedId());
  const LayerCell& cell = layers_->map.cells[static_cast<std::size_t>(layer)];
  if (cell.treatment == wanted) {
    say(chart_->textOf(layer));
    return;
  }
  const LayerVariant* const variant =
      nearest_variant(layers_->variants, layers_->map, layer, wanted);
  if (variant == nullptr) {
    say(tr("No option of %1 gives layer %2 this treatment: %3.")
            .arg(QString::fromStdString(answer_.scenario.plan.runtime))
            .arg(layer)
            .arg(treatment_name(wanted)));
    return;
  }
  std::size_t others = 0;
  for (std::size_t i = 0; i < variant->treatments.size(); ++i) {
    others += variant->treatments[i] != layers_->map.cells[i].treatment ? 1U : 0U;
  }
  say(others > 1
          ? tr("Besides layer %2, this changes %1 more, because the framework's options name "
               "layers together.")
                .arg(others - 1)
                .arg(layer)
          : QString());
  Scenario after = answer_.scenario;
  after.plan = variant->plan;
  Q_EMIT edited(after, {.field = Field::kPlan, .text = tr(kEditName)});
}

void LayersPage::findOptimum() {
  if (answer_.estimate == nullptr) {
    return;
  }
  say(tr("Searching…"));
  search_.run([this, config_dir = config_dir_,
               scenario = answer_.scenario](const std::stop_token& stop) -> NewestJob::Delivery {
    Result<std::shared_ptr<PlanFinder>> finder =
        PlanFinder::make(config_dir, scenario, SearchedFrameworks::kOwn);
    if (!finder) {
      const QString reason = problem_text(finder.error()).what;
      return [this, reason] { say(reason); };
    }
    std::atomic<bool> ended{false};
    const std::stop_callback on_stop(stop, [&ended] { ended = true; });
    PlanFinder& asked = **finder;
    asked.holdAllButRecomputation(scenario.plan);
    asked.question().stop.flag = &ended;
    const Result<plan::PlanResult> found =
        plan::search_without_emptying(asked.question(), asked.records());
    if (!found) {
      const QString reason = problem_text(found.error()).what;
      return [this, reason] { say(reason); };
    }
    if (!found->best) {
      return [this] { say(tr("No recomputation makes the plan fit.")); };
    }
    return [this, plan = found->best->plan] { applyOptimum(plan); };
  });
}

void LayersPage::applyOptimum(const ir::ParallelPlan& plan) {
  Scenario after = answer_.scenario;
  after.plan = with_recomputation_of(after.plan, plan);
  if (after.plan == answer_.scenario.plan) {
    say(tr("The plan has the optimal recomputation already."));
    return;
  }
  say({});
  Q_EMIT edited(after, {.field = Field::kPlan, .text = tr(kEditName)});
}

}  // namespace headroom::gui
