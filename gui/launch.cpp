#include "gui/launch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <QCommandLineParser>
#include <QCoreApplication>
#include <QEventLoop>
#include <QFont>
#include <QFontDatabase>
#include <QImage>
#include <QPainter>
#include <QTimer>

#include "costmodel/hardware/catalogue.h"
#include "gui/pages/page_book.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/open_file.h"
#include "gui/whatif/plan_scenario.h"
#include "model_ir/base/config_dir.h"
#include "model_ir/spec/model_catalogue.h"

namespace headroom::gui {
namespace {

QString words(const char* text) {
  return QCoreApplication::translate("Launch", text);
}

/// The command-line options, declared once for parsing and for the help text.
class Grammar {
 public:
  Grammar() {
    parser.setApplicationDescription(
        words("Shows what memory a training plan needs, and whether it fits.\n"
              "Example: headroom-gui llama-3.1-8b --gpu h100-80gb"));
    parser.addPositionalArgument(
        words("MODEL"),
        words("Name of the catalogue, or path of a model (config.json, the folder with it, "
              "safetensors, GGUF), of a plan file, of a DeepSpeed configuration or of a program "
              "that headroom dryrun --record has kept"),
        words("[MODEL | PLAN.json | PROGRAM.gz]"));
    parser.addOptions({help, version, gpu, plan, grab, view, theme, config_dir});
  }

  QCommandLineOption help{{QStringLiteral("h"), QStringLiteral("help")}, words("Print this.")};
  QCommandLineOption version{QStringLiteral("version"), words("Print the version.")};
  QCommandLineOption gpu{QStringLiteral("gpu"), words("Name of a GPU of the catalogue."),
                         words("GPU")};
  QCommandLineOption plan{QStringLiteral("plan"),
                          words("Open with a plan file, as headroom plan --output writes it."),
                          words("FILE")};
  QCommandLineOption grab{QStringLiteral("grab"),
                          words("Write a picture of the window and exit; needs no display."),
                          words("FILE.png")};
  QCommandLineOption view{
      QStringLiteral("view"),
      words("Page that the window opens with: memory, timeline, compare, emit and others."),
      words("NAME")};
  QCommandLineOption theme{QStringLiteral("theme"),
                           words("desktop, light or dark (default desktop)."), words("THEME")};
  QCommandLineOption config_dir{QStringLiteral("config-dir"), words("Folder of the catalogue."),
                                words("D")};
  QCommandLineParser parser;
};

std::optional<std::string> value_of(const Grammar& grammar, const QCommandLineOption& option) {
  if (!grammar.parser.isSet(option)) {
    return std::nullopt;
  }
  return grammar.parser.value(option).toStdString();
}

Result<Look> parse_look(const std::string& text) {
  if (text == "desktop") {
    return Look::kDesktop;
  }
  if (text == "light") {
    return Look::kLight;
  }
  if (text == "dark") {
    return Look::kDark;
  }
  return Error::invalid_argument("--theme", text, "desktop, light or dark");
}

QImage drawn(QChar letter) {
  constexpr int kSide = 48;
  QImage image(kSide, kSide, QImage::Format_Grayscale8);
  image.fill(Qt::white);
  QPainter painter(&image);
  QFont font;
  font.setPixelSize(kSide / 2);
  painter.setFont(font);
  painter.drawText(image.rect(), Qt::AlignCenter, QString(letter));
  return image;
}

Error no_fonts(const std::string& got) {
  return Error::environment("", got, "a font to write with",
                            "install one (Debian and Ubuntu: apt-get install fonts-dejavu-core)");
}

std::vector<CatalogueEntry> model_entries(const std::string& config_dir) {
  if (const auto models = ir::list_titles(config_dir + "/models")) {
    return entries_of(*models);
  }
  const auto names = ir::model_names(config_dir + "/models");
  return names ? entries_of(*names) : std::vector<CatalogueEntry>();
}

std::vector<CatalogueEntry> gpu_entries(const std::string& config_dir) {
  if (const auto devices = cost::list_devices(config_dir)) {
    return entries_of(*devices);
  }
  const auto names = cost::device_names(config_dir);
  return names ? entries_of(*names) : std::vector<CatalogueEntry>();
}

/// Says what the window leaves out of a plan file; nothing if it takes all of it.
QStringList notes_on(const std::string& path, const std::vector<ir::Assumption>& left_out) {
  QStringList names;
  for (const ir::Assumption& assumption : left_out) {
    names.append(QString::fromStdString(assumption.option + " " + assumption.value).trimmed());
  }
  if (names.isEmpty()) {
    return {};
  }
  return {words("The window does not take into account what %1 says of %2; "
                "headroom fit --plan %1 does.")
              .arg(QString::fromStdString(path), names.join(QStringLiteral(", ")))};
}

/// The name of the catalogue's entry that `gpu` means; a path stays itself.
std::string entry_name(const std::string& config_dir, const std::string& gpu) {
  const auto device = cost::load_device(config_dir, gpu);
  return device && !gpu.ends_with(".json") ? device->name : gpu;
}

/// The scenario of --plan, which MODEL and --gpu change.
Status take_plan(const LaunchOptions& options, const std::string& config_dir, WindowSetup& setup) {
  Result<PlanScenario> plan = read_plan_scenario(config_dir, *options.plan, setup.scenario);
  if (!plan) {
    return std::move(plan).error();
  }
  setup.scenario = std::move(plan->scenario);
  setup.notes = notes_on(*options.plan, plan->left_out);
  if (options.gpu &&
      entry_name(config_dir, *options.gpu) != entry_name(config_dir, setup.scenario.gpu)) {
    setup.scenario.host.node.reset();  // It holds the file's GPU.
  }
  return ok();
}

/// MODEL: a name of the catalogue, or a file of any kind that the window opens.
Status take_model(const LaunchOptions& options, const std::string& config_dir, WindowSetup& setup) {
  std::error_code fault;
  if (!std::filesystem::exists(*options.model, fault) ||
      model_source(*options.model).kind == ModelSource::Kind::kCatalogue) {
    setup.scenario.model = model_source(*options.model);
    if (!options.plan) {
      setup.scenario = with_possible_sequence(config_dir, std::move(setup.scenario));
    }
    return ok();
  }
  Result<Opened> opened = open_file(config_dir, *options.model, setup.scenario);
  if (!opened) {
    return std::move(opened).error();
  }
  setup.scenario = std::move(opened->scenario);
  setup.notes.append(opened->notes);
  return ok();
}

}  // namespace

Result<LaunchOptions> parse_launch(const QStringList& arguments) {
  Grammar grammar;
  if (!grammar.parser.parse(arguments)) {
    return Error::invalid_argument("headroom-gui", grammar.parser.errorText().toStdString(),
                                   "options of `headroom-gui --help`");
  }
  const QStringList names = grammar.parser.positionalArguments();
  if (names.size() > 1) {
    return Error::invalid_argument("MODEL", names.join(QLatin1Char(' ')).toStdString(),
                                   "one model at most");
  }
  LaunchOptions options;
  if (!names.isEmpty()) {
    options.model = names.front().toStdString();
  }
  options.gpu = value_of(grammar, grammar.gpu);
  options.plan = value_of(grammar, grammar.plan);
  options.config_dir = value_of(grammar, grammar.config_dir);
  if (grammar.parser.isSet(grammar.view)) {
    options.view = grammar.parser.value(grammar.view);
  }
  if (grammar.parser.isSet(grammar.grab)) {
    options.grab = grammar.parser.value(grammar.grab);
  }
  if (const auto theme = value_of(grammar, grammar.theme)) {
    const Result<Look> look = parse_look(*theme);
    if (!look) {
      return look.error();
    }
    options.look = *look;
  }
  options.help = grammar.parser.isSet(grammar.help);
  options.version = grammar.parser.isSet(grammar.version);
  return options;
}

QString help_text() {
  // Without an application object, Qt does not know the program's name.
  return Grammar().parser.helpText().replace(QStringLiteral("<executable_name>"),
                                             QStringLiteral("headroom-gui"));
}

QString version_text() {
  return QStringLiteral("headroom-gui " HEADROOM_VERSION "\n");
}

DisplayEnvironment display_environment() {
  return {.has_display = !qEnvironmentVariableIsEmpty("DISPLAY") ||
                         !qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY"),
          .has_platform = !qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")};
}

Result<QString> platform_to_use(const LaunchOptions& options,
                                const DisplayEnvironment& environment) {
#if defined(Q_OS_UNIX) && !defined(Q_OS_DARWIN)
  if (environment.has_display || environment.has_platform) {
    return QString();
  }
  if (!options.grab) {
    return Error::environment("", "neither DISPLAY nor WAYLAND_DISPLAY is set",
                              "a display to open a window on",
                              "use --grab FILE.png for a picture, or `headroom fit` for text");
  }
  return QStringLiteral("offscreen");
#else
  static_cast<void>(options);
  static_cast<void>(environment);
  return QString();
#endif
}

Status check_fonts() {
  if (QFontDatabase::families().isEmpty()) {
    return no_fonts("no font");
  }
  // Letters must have different shapes. Without fonts they are all drawn as the same box.
  if (drawn(QLatin1Char('A')) == drawn(QLatin1Char('i')) ||
      drawn(QLatin1Char('0')) == drawn(QLatin1Char('7'))) {
    return no_fonts("fonts without letters");
  }
  return ok();
}

Result<WindowSetup> window_setup(const LaunchOptions& options) {
  const Result<ConfigDir> found = find_config_dir(options.config_dir);
  if (!found) {
    return found.error();
  }
  Engine engine = make_engine(found->path);
  WindowSetup setup{.scenario = default_scenario(),
                    .estimator = std::move(engine.estimate),
                    .models = model_entries(found->path),
                    .gpus = gpu_entries(found->path),
                    .notes = {},
                    .config_dir = found->path,
                    .remedies = std::move(engine.remedies)};
  if (options.plan) {
    if (Status taken = take_plan(options, found->path, setup); !taken) {
      return std::move(taken).error();
    }
  }
  if (options.model) {
    if (Status taken = take_model(options, found->path, setup); !taken) {
      return std::move(taken).error();
    }
  }
  if (options.gpu) {
    setup.scenario.gpu = *options.gpu;
    if (is_program(setup.scenario)) {
      setup.scenario.budget = Bytes{0};  // The budget was that of the recording's GPU.
    }
  }
  return setup;
}

int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return 2;
    case ErrorCode::kInvalidInput:
      return 3;
    case ErrorCode::kEnvironment:
      return 4;
  }
  return kBugExitCode;
}

Status open_view(MainWindow& window, const QString& name) {
  if (window.pages()->openPage(name)) {
    return ok();
  }
  return Error::invalid_argument(
      "--view", name.toStdString(),
      window.pages()->pageNames().join(QStringLiteral(", ")).toStdString());
}

int run_grab(MainWindow& window, const QString& path) {
  std::optional<Answer> answer;
  bool mended = false;
  QEventLoop wait;
  QObject::connect(&window, &MainWindow::answered, &wait,
                   [&](const Answer& given) { answer = given; });
  QObject::connect(&window, &MainWindow::remediesShown, &wait, [&] {
    mended = true;
    wait.quit();
  });
  QObject::connect(window.pages(), &PageBook::settled, &wait, &QEventLoop::quit);
  // The window is laid out without being shown on a screen.
  window.setAttribute(Qt::WA_DontShowOnScreen);
  window.show();
  while (!answer || !mended || window.pages()->isBusy()) {
    wait.exec();
  }
  // A widget that has just been shown asks its parents for room, level by level.
  constexpr std::chrono::milliseconds kLayout{50};
  QTimer::singleShot(kLayout, &wait, &QEventLoop::quit);
  wait.exec();
  if (answer->error) {
    std::fprintf(stderr, "%s\n", to_text(*answer->error).c_str());
    return exit_code_of(*answer->error);
  }
  if (answer->estimate == nullptr) {
    std::fprintf(stderr, "internal error: %s\n", answer->fault.toUtf8().constData());
    return kBugExitCode;
  }
  if (const QString reason = window.savePicture(path); !reason.isEmpty()) {
    const Error error =
        Error::environment(path.toStdString(), reason.toStdString(), "a file that can be written");
    std::fprintf(stderr, "%s\n", to_text(error).c_str());
    return exit_code_of(error);
  }
  return 0;
}

}  // namespace headroom::gui
