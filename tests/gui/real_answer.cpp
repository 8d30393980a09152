#include "tests/gui/real_answer.h"

#include <utility>

#include <QImage>
#include <QPixmap>
#include <QSet>
#include <QWidget>

#include <doctest/doctest.h>

#include "gui/whatif/estimator.h"
#include "tests/support/random.h"

namespace headroom::gui::test {

const std::string& catalogue() {
  static const std::string folder = std::string(HEADROOM_SOURCE_DIR) + "/configs";
  return folder;
}

Scenario small_scenario() {
  Scenario scenario = default_scenario();
  scenario.model.text = "gpt2";
  scenario.plan.workload.sequence = 128;
  return scenario;
}

namespace {

Answer answer_to(const Scenario& scenario) {
  Result<Appraisal> found = make_estimator(catalogue())(scenario, {});
  REQUIRE(found);
  Answer made;
  made.request = 1;
  made.scenario = scenario;
  made.appraisal = std::make_shared<const Appraisal>(std::move(found).value());
  made.estimate = {made.appraisal, &made.appraisal->estimate};
  return made;
}

}  // namespace

const Answer& small_answer() {
  static const Answer answer = answer_to(small_scenario());
  return answer;
}

Answer megatron_answer(std::int64_t stages) {
  Scenario scenario = default_scenario();
  scenario.model.text = "llama-3.2-1b";
  scenario.plan.workload.sequence = 128;
  scenario.plan.workload.accumulation = stages;
  scenario.plan.world = stages;
  scenario.plan.mesh.pipeline = stages;
  scenario = moved_to(scenario, "megatron");
  scenario.plan.mesh.pipeline = stages;
  return answer_to(scenario);
}

std::shared_ptr<const TimelineData> small_timeline() {
  static const std::shared_ptr<const TimelineData> data =
      timeline_data(small_answer().estimate, small_scenario().plan.allocator);
  return data;
}

ir::RankProgram random_program(std::size_t count, std::uint64_t seed) {
  headroom::test::Random random(seed);
  ir::RankProgram program;
  program.operations = {"linear", "silu"};
  program.sites = {{.layer = 0, .operation = 0}, {.layer = 1, .operation = 1, .backward = true}};
  std::vector<ir::BlockId> live;
  for (std::size_t i = 0; i < count; ++i) {
    ir::Event event;
    event.site = static_cast<std::uint32_t>(random.between(0, 1));
    if (live.empty() || (live.size() < 200 && random.chance(1, 2))) {
      event.kind = ir::EventKind::kAllocate;
      event.role = static_cast<ir::TensorRole>(random.between(0, ir::kTensorRoleCount - 1));
      event.bytes = random.between(1, 64 * kMiB);
      event.block = program.blocks++;
      live.push_back(event.block);
    } else {
      const auto place =
          static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(live.size()) - 1));
      event.kind = ir::EventKind::kFree;
      event.block = live[place];
      live[place] = live.back();
      live.pop_back();
    }
    program.events.push_back(event);
  }
  constexpr std::size_t kPhase = 1'000;
  for (std::size_t begin = 0; begin < count; begin += kPhase) {
    const auto step = static_cast<int>(begin / kPhase) + 1;
    ir::Phase phase;
    phase.name = {.kind = ir::PhaseKind::kForward, .at = {.step = step, .micro_batch = 0}};
    phase.begin = begin;
    phase.end = std::min(count, begin + kPhase);
    program.phases.push_back(std::move(phase));
  }
  return program;
}

std::shared_ptr<const cost::StepEstimate> random_estimate(std::size_t count, std::uint64_t seed) {
  return std::make_shared<const cost::StepEstimate>(
      cost::judge(random_program(count, seed), {}, Bytes{80 * kGiB}, {}));
}

bool has_colours(QWidget& widget, int least) {
  const QImage image = widget.grab().toImage();
  QSet<QRgb> colours;
  for (int y = 0; y < image.height(); y += 2) {
    for (int x = 0; x < image.width(); x += 2) {
      colours.insert(image.pixel(x, y));
    }
  }
  INFO("colours: ", colours.size());
  return colours.size() >= least;
}

}  // namespace headroom::gui::test
