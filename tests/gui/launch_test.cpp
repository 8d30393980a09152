#include "gui/launch.h"

#include <set>
#include <string>

#include <QFile>
#include <QLabel>
#include <QSet>
#include <QTemporaryDir>

#include <doctest/doctest.h>

#include "gui/pages/page_book.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/open_file.h"
#include "runtimes/registry.h"
#include "tests/gui/fake_estimate.h"
#include "tests/support/cli.h"

namespace headroom::gui {
namespace {

QStringList arguments(std::initializer_list<const char*> words) {
  QStringList list{QStringLiteral("headroom-gui")};
  for (const char* const word : words) {
    list.append(QString::fromUtf8(word));
  }
  return list;
}

void write(const std::string& path, const std::string& text) {
  QFile file(QString::fromStdString(path));
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(text.c_str());
}

}  // namespace

TEST_CASE("parse_launch: reads model, GPU, picture, theme and catalogue") {
  const auto options = parse_launch(arguments(
      {"gpt2", "--gpu", "h100", "--grab=out.png", "--theme", "dark", "--config-dir", "catalogue"}));
  REQUIRE(options);
  CHECK(options->model == "gpt2");
  CHECK(options->gpu == "h100");
  CHECK(options->grab == QStringLiteral("out.png"));
  CHECK(options->look == Look::kDark);
  CHECK(options->config_dir == "catalogue");
  CHECK_FALSE(options->help);
  const auto none = parse_launch(arguments({}));
  REQUIRE(none);
  CHECK_FALSE(none->model);
  CHECK_FALSE(none->grab);
}

TEST_CASE("parse_launch: refuses what it does not know") {
  CHECK_FALSE(parse_launch(arguments({"--gup", "h100"})));
  CHECK_FALSE(parse_launch(arguments({"gpt2", "llama-3.1-8b"})));
  CHECK_FALSE(parse_launch(arguments({"--grab"})));
  const auto theme = parse_launch(arguments({"--theme", "pink"}));
  REQUIRE_FALSE(theme);
  CHECK(theme.error().got == "pink");
  CHECK(exit_code_of(theme.error()) == 2);
}

TEST_CASE("help_text: names every option and an example") {
  const QString help = help_text();
  for (const char* const word : {"headroom-gui", "MODEL", "--gpu", "--grab", "--theme",
                                 "--config-dir", "--help", "Example"}) {
    CAPTURE(word);
    CHECK(help.contains(QLatin1String(word)));
  }
}

TEST_CASE("platform_to_use: a picture needs no display, a window does") {
  const DisplayEnvironment none;
  LaunchOptions grab;
  grab.grab = QStringLiteral("out.png");
  REQUIRE(platform_to_use(grab, none));
  CHECK(*platform_to_use(grab, none) == QStringLiteral("offscreen"));
  CHECK(platform_to_use(grab, {.has_display = true, .has_platform = false})->isEmpty());
  CHECK(platform_to_use(grab, {.has_display = false, .has_platform = true})->isEmpty());
  const auto window = platform_to_use({}, none);
  REQUIRE_FALSE(window);
  CHECK(exit_code_of(window.error()) == 4);
  CHECK(platform_to_use({}, {.has_display = true, .has_platform = false}));
}

TEST_CASE("check_fonts: this machine can write") {
  CHECK(check_fonts());
}

TEST_CASE("exit_code_of: as the command line's") {
  CHECK(exit_code_of(Error::invalid_argument("a", "b", "c")) == 2);
  CHECK(exit_code_of(Error::invalid_input("a", "b", "c", "d")) == 3);
  CHECK(exit_code_of(Error::environment("a", "b", "c")) == 4);
}

TEST_CASE("run_grab: waits for the answer and writes it") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("window.png"));
  MainWindow window(test::fake_setup());
  CHECK(run_grab(window, path) == 0);
  const QImage picture(path);
  CHECK(picture.width() > 600);
  CHECK(picture.height() > 400);
}

TEST_CASE("run_grab: the picture of every page has text and colours where the page is") {
  const QTemporaryDir folder;
  MainWindow window(test::fake_setup());
  window.setLook(Look::kLight);
  REQUIRE(run_grab(window, folder.filePath(QStringLiteral("window.png"))) == 0);
  REQUIRE(window.pages()->count() >= 3);
  for (const QString& name : window.pages()->pageNames()) {
    CAPTURE(name.toStdString());
    REQUIRE(open_view(window, name));
    REQUIRE(test::eventually([&] { return !window.pages()->isBusy(); }));
    const QWidget* const page = window.pages()->currentPage();
    // The page without its tabs: a blank one has a handful of colours, and text has many greys.
    const QImage picture =
        window.grab(QRect(page->mapTo(&window, QPoint(0, 0)), page->size())).toImage();
    QSet<QRgb> colours;
    for (int y = 0; y < picture.height(); ++y) {
      for (int x = 0; x < picture.width(); x += 2) {
        colours.insert(picture.pixel(x, y));
      }
    }
    CHECK(colours.size() > 30);
  }
}

TEST_CASE("run_grab: without an answer there is no picture, and the exit code says why") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("window.png"));
  MainWindow wrong(test::setup_with(
      [](const Scenario& /*scenario*/, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        return Error::invalid_input("config.json", "/hidden_size", "-1", "a positive number");
      }));
  CHECK(run_grab(wrong, path) == 3);
  MainWindow broken(test::setup_with(
      [](const Scenario& /*scenario*/, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        throw InternalError("broken invariant");
      }));
  CHECK(run_grab(broken, path) == 5);
  CHECK_FALSE(QFile::exists(path));
  MainWindow right(test::fake_setup());
  CHECK(run_grab(right, folder.filePath(QStringLiteral("no-folder/window.png"))) == 4);
}

TEST_CASE("window_setup: takes model and GPU from the options and lists the catalogue") {
  LaunchOptions options;
  options.config_dir = HEADROOM_SOURCE_DIR "/configs";
  options.model = "gpt2";
  options.gpu = "h100";
  const auto setup = window_setup(options);
  REQUIRE(setup);
  CHECK(setup->scenario.model.text == "gpt2");
  CHECK(setup->scenario.gpu == "h100");
  CHECK(setup->scenario.plan.workload.sequence == 1024);  // All positions that GPT-2 has.
  CHECK(setup->models.size() >= 1);
  CHECK(setup->gpus.size() >= 35);
}

TEST_CASE("window_setup: opens with a plan file, and what is typed wins") {
  QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("plan.json"));
  QFile file(path);
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(
      R"({"schema_version": 1, "model": "gpt2", "device": "a100-80gb",
          "assumptions": {"budget": "40GiB"},
          "plan": {"schema_version": 1, "gpus": 4, "micro_batch": 3, "sequence": 256}})");
  file.close();
  auto options = parse_launch(arguments({"--plan", path.toUtf8().constData(), "--gpu", "h100"}));
  REQUIRE(options);
  options->config_dir = HEADROOM_SOURCE_DIR "/configs";
  const auto setup = window_setup(*options);
  REQUIRE(setup);
  CHECK(setup->scenario.model.text == "gpt2");
  CHECK(setup->scenario.gpu == "h100");
  CHECK(setup->scenario.budget == Bytes{40 * kGiB});
  CHECK(setup->scenario.plan.world == 4);
  CHECK(setup->scenario.plan.workload.micro_batch == 3);
  CHECK(setup->scenario.plan.workload.sequence == 256);
  options->plan = "no/such/plan.json";
  CHECK(exit_code_of(window_setup(*options).error()) == 4);
}

TEST_CASE("window_setup: a plan file's node and host memory have the verdict of fit") {
  const QTemporaryDir folder;
  const std::string path = folder.filePath(QStringLiteral("plan.json")).toStdString();
  const std::string question =
      "fit llama-3.2-1b --zero 2 --offload optimizer=cpu --checkpointing full --json ";
  std::set<std::string> verdicts;
  for (const std::string more :
       {"--gpu rtx-4090", "--gpu rtx-4090 --host-memory 8GiB", "--gpu rtx-4090 --budget 5GiB",
        "--gpu a100-80gb --gpus 8 --node aws-p4de-24xlarge",
        "--gpu a100-80gb --gpus 8 --node aws-p4de-24xlarge --host-memory 60GiB"}) {
    CAPTURE(more);
    write(path, headroom::test::headroom(question + more).out);
    const headroom::test::Document fit(headroom::test::headroom("fit --json --plan " + path).out);
    auto options = parse_launch(arguments({"--plan", path.c_str()}));
    REQUIRE(options);
    options->config_dir = HEADROOM_SOURCE_DIR "/configs";
    const auto setup = window_setup(*options);
    REQUIRE(setup);
    CHECK(setup->notes.isEmpty());
    const auto appraisal = setup->estimator(setup->scenario, {});
    REQUIRE(appraisal);
    const cost::StepEstimate* const estimate = &appraisal->estimate;
    CHECK(name_of(estimate->verdict) == fit.text("verdict"));
    CHECK(estimate->margin == Bytes{fit.integer("margin_bytes")});
    CHECK(estimate->host.bytes == Bytes{fit.integer("host/bytes")});
    CHECK(estimate->host.capacity == Bytes{fit.integer("host/capacity_bytes")});
    CHECK(estimate->time->total.value() == fit.number("time/step_seconds"));
    verdicts.insert(fit.text("verdict"));
  }
  CHECK(verdicts == std::set<std::string>{"does not fit", "fits"});
}

TEST_CASE("window_setup: a plan file that leaves options open has the answer of fit --plan") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("plan.json"));
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    CAPTURE(runtime->name());
    QFile file(path);
    REQUIRE(file.open(QIODevice::WriteOnly));
    const std::string text =
        R"({"schema_version": 1, "model": "smollm2-135m", "device": "h100-80gb",
            "plan": {"schema_version": 1, "gpus": 2, "sequence": 128, "runtime": "NAME"}})";
    const std::size_t name = text.find("NAME");
    file.write(
        (text.substr(0, name) + std::string(runtime->name()) + text.substr(name + 4)).c_str());
    file.close();
    // Whatever the window shows, the file counts.
    Scenario shown = default_scenario();
    shown.plan.workload.accumulation = 7;
    shown.plan.workload.micro_batch = 3;
    shown.budget = Bytes{kGiB};
    shown.host.node = "dgx-a100";
    const auto opened = open_file(HEADROOM_SOURCE_DIR "/configs", path.toStdString(), shown);
    REQUIRE(opened);
    const Result<Appraisal> found =
        make_estimator(HEADROOM_SOURCE_DIR "/configs")(settled(opened->scenario), {});
    const headroom::test::Answer fit =
        headroom::test::headroom("fit --json --plan " + path.toStdString());
    CAPTURE(fit.err);
    CHECK(fit.err.find("the command line") == std::string::npos);  // Nothing was typed.
    if (!found) {
      CHECK(fit.err.find(found.error().got) != std::string::npos);
      continue;
    }
    const headroom::test::Document document(fit.out);
    CHECK(name_of(found->estimate.verdict) == document.text("verdict"));
    CHECK(found->estimate.margin == Bytes{document.integer("margin_bytes")});
    REQUIRE(found->estimate.time);
    CHECK(found->estimate.time->total.value() == document.number("time/step_seconds"));
  }
}

TEST_CASE("open_file: a plan file without its version is refused, not read as something else") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("plan.json"));
  QFile file(path);
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(R"({"model": "gpt2", "plan": {"runtime": "megatron"}})");
  file.close();
  const auto opened =
      open_file(HEADROOM_SOURCE_DIR "/configs", path.toStdString(), default_scenario());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().pointer == "/schema_version");
}

TEST_CASE("open_file: a model recording is a model") {
  const std::string path = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";
  const auto opened = open_file(HEADROOM_SOURCE_DIR "/configs", path, default_scenario());
  REQUIRE(opened);
  CHECK(opened->scenario.model.text == path);
  CHECK(opened->scenario.plan.runtime == default_scenario().plan.runtime);
  CHECK(opened->notes.isEmpty());
}

TEST_CASE("window_setup: a note says what the window leaves out of a plan file") {
  const QTemporaryDir folder;
  const std::string path = folder.filePath(QStringLiteral("plan.json")).toStdString();
  write(path, R"({"schema_version": 1, "model": "gpt2", "device": "a100-80gb", "node": "dgx-a100",
    "assumptions": {"network": "25GB/s", "calibrate-from": "runs.json", "nvme": "4TB",
    "nvme-rate": "12GB/s"}, "plan": {"schema_version": 1}})");
  auto options = parse_launch(arguments({"--plan", path.c_str()}));
  REQUIRE(options);
  options->config_dir = HEADROOM_SOURCE_DIR "/configs";
  const auto setup = window_setup(*options);
  REQUIRE(setup);
  REQUIRE(setup->notes.size() == 1);
  CHECK(setup->notes[0].contains(QStringLiteral("of network 25GB/s, calibrate-from runs.json;")));
  CHECK_FALSE(setup->notes[0].contains(QStringLiteral("nvme")));
  CHECK(setup->scenario.host.nvme == Bytes{4'000'000'000'000});
  CHECK(setup->scenario.host.node.has_value());
  CHECK(setup->scenario.plan.workload.sequence == 1024);  // All positions that GPT-2 has.
  MainWindow window(*setup);
  CHECK(window.findChild<QLabel*>(QStringLiteral("notes"))->text() == setup->notes[0]);
  CHECK(MainWindow(test::fake_setup()).findChild<QLabel*>(QStringLiteral("notes"))->isHidden());
  options->gpu = "A100_80GB";  // Another name of the node's own GPU.
  CHECK(window_setup(*options)->scenario.host.node.has_value());
  options->gpu = "h100";  // The node holds the other GPU.
  CHECK_FALSE(window_setup(*options)->scenario.host.node);
  write(path, R"({"schema_version": 1, "assumptions": {"host-memory": "much"},
    "plan": {"schema_version": 1}})");
  CHECK(window_setup(*options).error().pointer == "/assumptions/host-memory");
}

TEST_CASE("window_setup: the file in the place of MODEL may be a plan") {
  const QTemporaryDir folder;
  const std::string path = folder.filePath(QStringLiteral("plan.json")).toStdString();
  write(path, R"({"schema_version": 1, "model": "gpt2", "device": "h100-80gb",
    "assumptions": {"price": "2.5", "tokens": "15T"}, "plan": {"schema_version": 1, "micro_batch": 3}})");
  auto options = parse_launch(arguments({path.c_str(), "--view", "compare"}));
  REQUIRE(options);
  options->config_dir = HEADROOM_SOURCE_DIR "/configs";
  const auto setup = window_setup(*options);
  REQUIRE(setup);
  CHECK(setup->scenario.model.text == "gpt2");
  CHECK(setup->scenario.plan.workload.micro_batch == 3);
  CHECK(setup->scenario.price == doctest::Approx(2.5));
  CHECK(setup->scenario.tokens == doctest::Approx(15e12));
  MainWindow window(*setup);
  CHECK(open_view(window, *options->view));
  CHECK(window.pages()->currentPage()->objectName() == QStringLiteral("compare"));
  const Status unknown = open_view(window, QStringLiteral("nothing"));
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().wanted.find("compare") != std::string::npos);
}

TEST_CASE("window_setup: a catalogue that is not there is the environment's fault") {
  LaunchOptions options;
  options.config_dir = "no/such/folder";
  const auto setup = window_setup(options);
  REQUIRE_FALSE(setup);
  CHECK(exit_code_of(setup.error()) == 4);
}

}  // namespace headroom::gui
