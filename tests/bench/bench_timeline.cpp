// The cost of the window's timeline: a run of 1,000,000 events, and Llama 3.1 70B (80 layers) on 64
// H100 as in bench_step. Qt's offscreen platform paints into memory, as it does for a screen
// without a GPU.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <QApplication>
#include <QImage>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "gui/charts/timeline_chart.h"
#include "gui/models/tensor_model.h"
#include "model_ir/spec/model_catalogue.h"
#include "runtimes/megatron/plan.h"
#include "tests/bench/measurement.h"

namespace headroom::gui {
namespace {

const std::string kConfigs = std::string(HEADROOM_SOURCE_DIR) + "/configs";
constexpr std::size_t kEvents = 1'000'000;

/// Blocks of random sizes and categories; up to 2,000 are live at once.
ir::RankProgram long_program() {
  std::mt19937_64 random(1);
  ir::RankProgram program;
  program.operations = {"linear"};
  program.sites = {{}};
  std::vector<ir::BlockId> live;
  for (std::size_t i = 0; i < kEvents; ++i) {
    ir::Event event;
    if (live.empty() || (live.size() < 2'000 && random() % 2 == 0)) {
      event.role = static_cast<ir::TensorRole>(random() % ir::kTensorRoleCount);
      event.bytes = static_cast<std::int64_t>(1 + random() % (std::uint64_t{32} << 20));
      event.block = program.blocks++;
      live.push_back(event.block);
    } else {
      const std::size_t place = random() % live.size();
      event.kind = ir::EventKind::kFree;
      event.block = live[place];
      live[place] = live.back();
      live.pop_back();
    }
    program.events.push_back(event);
  }
  ir::Phase phase;
  phase.name = {.kind = ir::PhaseKind::kForward, .at = {.step = 1, .micro_batch = 0}};
  phase.end = kEvents;
  program.phases.push_back(std::move(phase));
  return program;
}

Result<cost::StepEstimate> eighty_layers() {
  const Result<cost::DeviceSpec> device = cost::load_device(kConfigs, "h100-80gb");
  const Result<ir::ModelSpec> model = ir::load_model(kConfigs + "/models", "llama-3.1-70b");
  if (!device || !model) {
    return device ? model.error() : device.error();
  }
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 64;
  plan.workload.sequence = 4096;
  plan.workload.accumulation = 64;
  ir::edit_megatron(plan) = {};
  plan.mesh.tensor = 8;
  return cost::estimate(*model, plan, *device);
}

/// A chart of 1200 by 500 pixels that is painted into an image.
struct Painted {
  Painted() : image(1200, 500, QImage::Format_ARGB32_Premultiplied) {
    chart.resize(image.size());
    chart.setPalette(palette_of(Look::kLight, {}));
  }
  std::int64_t paint() {
    chart.render(&image);
    return image.pixel(600, 300);
  }
  TimelineChart chart;
  QImage image;
};

int run(const bench::Options& options) {
  const auto million = std::make_shared<const cost::StepEstimate>(
      cost::judge(long_program(), {}, Bytes{std::int64_t{1} << 40}, {}));
  Result<cost::StepEstimate> found = eighty_layers();
  if (!found) {
    std::fprintf(stderr, "%s\n", to_text(found.error()).c_str());
    return 1;
  }
  const auto layers = std::make_shared<const cost::StepEstimate>(std::move(found).value());
  Painted wide;
  wide.chart.setData(timeline_data(million, {}));
  Painted followed;
  TensorModel tensors;
  const auto pan = [&wide](double share) {
    const ZoomSpan span = wide.chart.span();
    wide.chart.setSpan(
        {.begin = span.begin + span.length() * share, .end = span.end + span.length() * share});
    return wide.paint();
  };
  std::vector<bench::Measurement> all;
  all.push_back(bench::measure("1,000,000 events: replay and summaries", options.runs, [&] {
    return timeline_data(million, {})->history.whole().most.value();
  }));
  wide.chart.showWhole();
  all.push_back(
      bench::measure("1,000,000 events: frame, whole run", options.runs, [&] { return pan(0); }));
  for (const auto& [name, events] : std::vector<std::pair<std::string, double>>{
           {"half of the run", 5e5}, {"10,000 events", 1e4}, {"500 events", 5e2}}) {
    wide.chart.setSpan({.begin = 2e5, .end = 2e5 + events});
    all.push_back(bench::measure("1,000,000 events: frame of a pan, " + name, options.runs,
                                 [&] { return pan(0.01); }));
  }
  const std::string size = std::to_string(layers->program.events.size());
  all.push_back(bench::measure("80 layers, " + size + " events: replay", options.runs, [&] {
    return timeline_data(layers, {})->history.whole().most.value();
  }));
  all.push_back(
      bench::measure("80 layers: replay, tensors of the moment, frame", options.runs, [&] {
        followed.chart.setData(timeline_data(layers, {}));
        tensors.setMoment(layers, *followed.chart.moment());
        return followed.paint();
      }));
  bench::print("The window's timeline, 1200 x 500 pixels", all, options);
  return 0;
}

}  // namespace
}  // namespace headroom::gui

int main(int count, char** values) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  int qt_count = 1;
  const QApplication application(qt_count, values);
  return headroom::bench::run_with_options(count, values, headroom::gui::run);
}
