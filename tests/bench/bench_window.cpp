// The time that the what-if window takes from a changed control to figures on the screen, and to
// start. Widgets are real and painted, on Qt's offscreen platform.
#include <malloc.h>

#include <cstdio>

#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QEventLoop>
#include <QPixmapCache>
#include <QSpinBox>
#include <QTemporaryDir>

#include "gui/launch.h"
#include "gui/views/option_control.h"
#include "gui/views/scenario_editor.h"
#include "tests/bench/measurement.h"
#include "tests/support/window_walk.h"

namespace headroom::gui {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

WindowSetup setup_for(const std::string& model, const std::string& runtime) {
  LaunchOptions options;
  options.model = model;
  options.gpu = "h100-80gb";
  options.config_dir = HEADROOM_SOURCE_DIR "/configs";
  WindowSetup setup = window_setup(options).value();
  setup.scenario.plan.world = 64;
  setup.scenario = moved_to(setup.scenario, runtime);
  return setup;
}

/// Runs events until the window shows figures for its scenario and is painted.
class Figures {
 public:
  explicit Figures(MainWindow& window) : window_(window) {
    QObject::connect(&window, &MainWindow::figuresShown, &wait_, [this] {
      ++shown_;
      wait_.quit();
    });
  }
  void await() {
    const int before = shown_;
    while (shown_ == before) {
      wait_.exec(QEventLoop::ExcludeUserInputEvents);
    }
    // Everything that the change has marked to be laid out and painted.
    QApplication::sendPostedEvents();
  }

 private:
  MainWindow& window_;
  QEventLoop wait_;
  int shown_ = 0;
};

/// A change of each kind of control that stays a plan which the framework accepts.
void change(MainWindow& window, int step) {
  const auto spin = [&window](const char* row) {
    return window.findChild<OptionControl*>(QLatin1String(row))->findChild<QSpinBox*>();
  };
  switch (step % 4) {
    case 0:
      spin("plan.micro_batch")->setValue(1 + step / 4 % 7);
      break;
    case 1:
      spin("plan.sequence")->setValue(1024 + 512 * (step / 4 % 7));
      break;
    case 2: {
      auto* const box = window.findChild<OptionControl*>(QLatin1String("plan.checkpointing"))
                            ->findChild<QComboBox*>();
      box->setCurrentIndex(step / 4 % 2);
      Q_EMIT box->activated(step / 4 % 2);
      break;
    }
    default:
      spin("plan.accumulation")->setValue(1 + step / 4 % 3);
  }
}

bench::Measurement changes(const std::string& name, const std::string& model,
                           const std::string& runtime, int count) {
  MainWindow window(setup_for(model, runtime));
  window.show();
  Figures figures(window);
  figures.await();
  bench::Measurement measured{.name = name, .unit = "ms", .values = {}, .result = 0};
  for (int step = 1; step <= count; ++step) {
    const Scenario before = window.scenario();
    const auto begin = Clock::now();
    change(window, step);
    if (window.scenario() == before) {
      continue;
    }
    figures.await();
    measured.values.push_back(milliseconds_since(begin));
  }
  std::ranges::sort(measured.values);
  measured.result = static_cast<std::int64_t>(measured.values.size());
  const double late = measured.values[measured.values.size() * 95 / 100];
  std::fprintf(stderr, "%s: median %.1f ms, 95th percentile %.1f ms of %zu changes\n", name.c_str(),
               measured.median(), late, measured.values.size());
  return measured;
}

bench::Measurement starts(int runs) {
  return bench::measure("catalogue, window and first paint", runs, [] {
    MainWindow window(setup_for("llama-3.1-70b", "fsdp"));
    window.show();
    window.repaint();
    return std::int64_t{window.width()};
  });
}

/// Bytes on the heap that random changes leave behind: the second half against the first, because
/// the first fills caches.
bench::Measurement growth(int steps) {
  WindowSetup setup = setup_for("gpt2", "transformers");
  setup.estimator = [](const Scenario& /*scenario*/, const std::stop_token& /*stop*/) {
    return Result<Appraisal>(Error::environment("", "nothing", "nothing"));
  };
  setup.remedies = {};
  MainWindow window(std::move(setup));
  window.show();
  auto* const editor = window.findChild<ScenarioEditor*>();
  headroom::test::Random random = headroom::test::seeded_random();
  const auto walk = [&](int count) {
    for (int step = 0; step < count; ++step) {
      headroom::test::turn(random.pick(headroom::test::turnable_controls(*editor)), random);
      if (step % 20 == 0) {
        QApplication::processEvents();
        QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
      }
    }
    window.whatIf().reset();               // The same widgets at both ends.
    window.whatIf().undoStack()->clear();  // Undo is meant to grow.
    QApplication::processEvents();
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    QPixmapCache::clear();  // Pictures of controls, which Qt limits.
    return static_cast<double>(mallinfo2().uordblks);
  };
  const double before = walk(steps / 2);
  const double after = walk(steps - steps / 2);
  bench::Measurement measured{
      .name = "heap growth over random changes", .unit = "KiB", .values = {}, .result = steps};
  measured.values.push_back((after - before) / 1024);
  return measured;
}

int run(const bench::Options& options) {
  const bool smoke = options.runs == 0;
  std::vector<bench::Measurement> all;
  all.push_back(starts(options.runs));
  all.push_back(
      changes("change to figures, llama-3.1-70b, FSDP", "llama-3.1-70b", "fsdp", smoke ? 4 : 400));
  all.push_back(changes("change to figures, llama-3.1-70b, DeepSpeed", "llama-3.1-70b", "deepspeed",
                        smoke ? 4 : 400));
  all.push_back(changes("change to figures, llama-3.1-70b, Megatron", "llama-3.1-70b", "megatron",
                        smoke ? 4 : 400));
  all.push_back(growth(smoke ? 40 : 10'000));
  bench::print("the what-if window", all, options);
  return 0;
}

}  // namespace
}  // namespace headroom::gui

int main(int count, char** values) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  const QTemporaryDir runtime;
  qputenv("XDG_RUNTIME_DIR", runtime.path().toLocal8Bit());
  const QApplication application(count, values);
  QLocale::setDefault(QLocale(QLocale::English));
  return headroom::bench::run_with_options(count, values, headroom::gui::run);
}
