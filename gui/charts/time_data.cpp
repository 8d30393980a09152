#include "gui/charts/time_data.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <QCoreApplication>
#include <QLocale>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/time/item_parts.h"
#include "gui/charts/part_style.h"
#include "gui/models/alive_tensors.h"
#include "gui/models/words.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

QString time_words(const char* text) {
  return QCoreApplication::translate("Time", text);
}

QString duration_text(double seconds) {
  constexpr double kShort = 1e-3;
  return seconds < kShort
             ? QLocale().toString(seconds * 1e6, 'f', 1) + QChar(QChar::Nbsp) + time_words("µs")
             : time_text(Seconds{seconds});
}

Roofs roofs_of(const cost::DevicePerformance& device, const ir::ParallelPlan& plan) {
  const ir::DType type = ir::runtime_of(plan).product_dtype(plan);
  Roofs roofs;
  roofs.bytes_per_second = device.memory.rate.value();
  const bool fp8 = ir::bits_of(type) == 8;
  roofs.flops_per_second =
      (type == ir::DType::kFp32 ? device.gemm.fp32 : (fp8 ? device.gemm.fp8 : device.gemm.half))
          .value();
  roofs.product_type = type == ir::DType::kFp32
                           ? QStringLiteral("fp32")
                           : (fp8 ? QStringLiteral("fp8") : time_words("16 bits"));
  return roofs;
}

/// The series of a chart of streams: each part of a step as work and as waiting for it.
class PartSeries {
 public:
  explicit PartSeries(const Theme& theme) : theme_(theme) { numbers_.fill(-1); }

  std::uint16_t work(cost::StepPart part) { return number(static_cast<std::size_t>(part), part); }
  std::uint16_t waiting(cost::StepPart part) {
    return number(cost::kStepParts + static_cast<std::size_t>(part), part);
  }
  std::vector<GanttSeries> take() { return std::move(series_); }

 private:
  std::uint16_t number(std::size_t key, cost::StepPart part) {
    int& known = numbers_.at(key);
    if (known < 0) {
      known = static_cast<int>(series_.size());
      const bool waits = key >= cost::kStepParts;
      const bool host = part == cost::StepPart::kHost;
      const QString name = part_name(part);
      series_.push_back({.name = waits && !host ? time_words("waits for: %1").arg(name) : name,
                         .style = part_style(theme_, part),
                         .waiting = waits});
    }
    return static_cast<std::uint16_t>(known);
  }

  const Theme& theme_;
  std::array<int, 2 * cost::kStepParts> numbers_{};
  std::vector<GanttSeries> series_;
};

/// Bars for what the compute stream waits for, put into its row.
void add_stalls(const TimeData& data, const std::vector<cost::StepPart>& parts, PartSeries& series,
                std::vector<GanttBar>& row) {
  const cost::StreamTimeline& timeline = data.time.timeline;
  std::uint32_t item = cost::StreamTimeline::kHost;
  double until = 0;
  for (const cost::Stall& stall :
       cost::stalls_of(data.estimate->program.work, timeline, data.time.last_step)) {
    if (stall.item != item) {
      item = stall.item;
      until = timeline.begin[item].value() - data.begin;
    }
    const bool host = stall.blocker == cost::StreamTimeline::kHost;
    const double from = until - stall.time.value();
    row.push_back({.begin = std::max(0.0, from),
                   .end = until,
                   .series = series.waiting(host ? cost::StepPart::kHost : parts[stall.blocker]),
                   .id = host ? stall.item : stall.blocker});
    until = from;
  }
  std::ranges::stable_sort(row, {}, &GanttBar::begin);
}

QString item_text(const ir::RankProgram& program, std::uint32_t item) {
  const ir::WorkItem& work = program.work.items[item];
  const auto* const collective =
      work.kind == ir::WorkItem::Kind::kRun
          ? std::get_if<ir::CollectiveShape>(&program.work.shapes[work.index])
          : nullptr;
  if (collective != nullptr) {
    const std::string_view name = ir::name_of(collective->kind);
    return QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size()));
  }
  return operator_text(program, work.site);
}

QString stream_name(const ir::RankProgram& program, std::size_t stream) {
  const std::vector<std::string>& names = program.work.streams;
  return stream < names.size() && !names[stream].empty() ? QString::fromStdString(names[stream])
                                                         : time_words("stream %1").arg(stream);
}

}  // namespace

Result<TimeData> time_data(const std::string& config_dir, const Scenario& scenario,
                           std::shared_ptr<const cost::StepEstimate> estimate) {
  Result<cost::DeviceSpec> device = cost::load_device(config_dir, scenario.gpu);
  if (!device) {
    return std::move(device).error();
  }
  std::optional<std::string> node = scenario.host.node;
  if (node) {
    node = cost::node_named(config_dir, *node);
  }
  const Result<cost::Machine> machine = cost::load_machine(config_dir, *device, node);
  if (!machine) {
    return machine.error();
  }
  const ir::ParallelPlan& plan = scenario.plan;
  TimeData data;
  data.time = cost::price_program(estimate->program, plan, cost::prices_on(*machine, plan));
  data.operators = cost::operator_times(estimate->program, data.time);
  data.roofs = roofs_of(cost::performance_in(*machine, plan), plan);
  // The step begins when the compute stream has finished the step before.
  const std::vector<ir::WorkItem>& items = estimate->program.work.items;
  for (std::size_t i = 0; i < data.time.last_step.first; ++i) {
    if (items[i].kind == ir::WorkItem::Kind::kRun && items[i].stream == 0) {
      data.begin = std::max(data.begin, data.time.timeline.end[i].value());
    }
  }
  double end = data.begin;
  for (std::size_t i = data.time.last_step.first; i < data.time.last_step.last; ++i) {
    end = std::max(end, data.time.timeline.end[i].value());
  }
  data.length = end - data.begin;
  data.estimate = std::move(estimate);
  return data;
}

std::shared_ptr<const GanttData> stream_rows(const std::shared_ptr<const TimeData>& data,
                                             const Theme& theme) {
  const ir::RankProgram& program = data->estimate->program;
  const std::vector<cost::StepPart> parts = cost::item_parts(program);
  PartSeries series(theme);
  std::vector<std::vector<GanttBar>> streams(data->time.timeline.busy.size());
  for (std::size_t i = data->time.last_step.first; i < data->time.last_step.last; ++i) {
    const ir::WorkItem& item = program.work.items[i];
    const double begin = data->time.timeline.begin[i].value() - data->begin;
    const double end = data->time.timeline.end[i].value() - data->begin;
    if (item.kind == ir::WorkItem::Kind::kRun && end > begin && item.stream < streams.size()) {
      streams[item.stream].push_back({.begin = std::max(0.0, begin),
                                      .end = end,
                                      .series = series.work(parts[i]),
                                      .id = static_cast<std::uint32_t>(i)});
    }
  }
  if (!streams.empty()) {
    add_stalls(*data, parts, series, streams.front());
  }
  GanttData chart;
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    if (!streams[stream].empty()) {
      chart.rows.push_back(
          {.name = stream_name(program, stream), .bars = std::move(streams[stream])});
    }
  }
  chart.series = series.take();
  chart.length = data->length;
  chart.label = [data](const GanttBar& bar) { return item_text(data->estimate->program, bar.id); };
  chart.sentence = [data, all = chart.series](const GanttRow& row, const GanttBar& bar) {
    const ir::RankProgram& held = data->estimate->program;
    const GanttSeries& kind = all[bar.series];
    const QString length = duration_text(bar.end - bar.begin);
    const QString what = time_words("%1, %2").arg(item_text(held, bar.id),
                                                  layer_text(held, held.work.items[bar.id].site));
    return kind.waiting
               ? time_words("%1: idle for %2, %3 (%4)").arg(row.name, length, kind.name, what)
               : time_words("%1: %2, %3 of %4").arg(row.name, what, length, kind.name);
  };
  return std::make_shared<const GanttData>(std::move(chart));
}

std::shared_ptr<const GanttData> stage_rows(
    const std::shared_ptr<const cost::StepEstimate>& estimate, const Theme& theme) {
  if (estimate == nullptr || !estimate->time || !estimate->time->pipeline ||
      estimate->time->pipeline->stages.size() < 2) {
    return nullptr;
  }
  const cost::PipelineTimeline& pipeline = *estimate->time->pipeline;
  GanttData chart;
  chart.series = {
      {.name = time_words("forward"), .style = theme.of(ir::TensorRole::kParameter)},
      {.name = time_words("backward"), .style = theme.of(ir::TensorRole::kActivation)},
      {.name = time_words("backward, inputs"), .style = theme.of(ir::TensorRole::kActivation)},
      {.name = time_words("backward, weights"), .style = theme.of(ir::TensorRole::kTemporary)},
      {.name = time_words("bubble"),
       .style = theme.of(ir::TensorRole::kWorkspace),
       .waiting = true}};
  constexpr std::uint16_t kBubble = 4;
  constexpr double kNoGap = 1e-9;  // Seconds; less is rounding.
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
    GanttRow row{.name = time_words("stage %1").arg(stage), .bars = {}};
    double done = 0;
    const std::vector<cost::ActionSpan>& spans = pipeline.stages[stage];
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const double begin = spans[i].begin.value();
      if (begin > done + kNoGap) {
        row.bars.push_back({.begin = done, .end = begin, .series = kBubble, .id = 0});
      }
      // Actions that run together share a bar.
      if (row.bars.empty() || spans[i].end.value() > done + kNoGap) {
        row.bars.push_back({.begin = std::max(begin, done),
                            .end = spans[i].end.value(),
                            .series = static_cast<std::uint16_t>(spans[i].action.work),
                            .id = static_cast<std::uint32_t>(i)});
      }
      done = std::max(done, spans[i].end.value());
    }
    if (pipeline.total.value() > done + kNoGap) {
      row.bars.push_back(
          {.begin = done, .end = pipeline.total.value(), .series = kBubble, .id = 0});
    }
    chart.rows.push_back(std::move(row));
  }
  chart.length = pipeline.total.value();
  chart.sentence = [estimate, all = chart.series, rows = chart.rows](const GanttRow& row,
                                                                     const GanttBar& bar) {
    const QString length = duration_text(bar.end - bar.begin);
    if (bar.series == kBubble) {
      return time_words("%1: waits for another stage for %2").arg(row.name, length);
    }
    std::size_t stage = 0;
    while (stage + 1 < rows.size() && rows[stage].name != row.name) {
      ++stage;
    }
    const ir::PipelineAction& action = estimate->time->pipeline->stages[stage][bar.id].action;
    return time_words("%1: %2 of micro-batch %3, chunk %4, %5")
        .arg(row.name, all[bar.series].name)
        .arg(action.micro_batch)
        .arg(action.chunk)
        .arg(length);
  };
  // Series that do not occur need no place in the legend.
  std::vector<bool> occurs(chart.series.size());
  for (const GanttRow& row : chart.rows) {
    for (const GanttBar& bar : row.bars) {
      occurs[bar.series] = true;
    }
  }
  for (std::size_t i = 0; i < occurs.size(); ++i) {
    chart.series[i].name = occurs[i] ? chart.series[i].name : QString();
  }
  return std::make_shared<const GanttData>(std::move(chart));
}

}  // namespace headroom::gui
