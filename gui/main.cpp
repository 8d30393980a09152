#include <cstdio>

#include <QApplication>
#include <QLocale>
#include <QStandardPaths>
#include <QTemporaryDir>

#include "gui/launch.h"

namespace {

using namespace headroom::gui;  // NOLINT(google-build-using-namespace): the program's own.

int fail(const headroom::Error& error) {
  std::fprintf(stderr, "%s\n", to_text(error).c_str());
  return exit_code_of(error);
}

QStringList arguments_of(int argc, char** argv) {
  QStringList arguments;
  for (int i = 0; i < argc; ++i) {
    arguments.append(QString::fromLocal8Bit(argv[i]));
  }
  return arguments;
}

/// Passes on all but what Qt's offscreen platform says about itself.
void report(QtMsgType /*type*/, const QMessageLogContext& /*context*/, const QString& text) {
  if (!text.startsWith(QLatin1String("This plugin does not support"))) {
    std::fprintf(stderr, "%s\n", qUtf8Printable(text));
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Options are parsed before Qt starts, because Qt aborts if there is no display.
  const headroom::Result<LaunchOptions> options = parse_launch(arguments_of(argc, argv));
  if (!options) {
    return fail(options.error());
  }
  if (options->help || options->version) {
    std::fputs(qUtf8Printable(options->help ? help_text() : version_text()), stdout);
    return 0;
  }
  const auto platform = platform_to_use(*options, display_environment());
  if (!platform) {
    return fail(platform.error());
  }
  // If nobody is logged in, XDG_RUNTIME_DIR is not set and Qt would print a warning.
  const QTemporaryDir runtime;
  if (!platform->isEmpty()) {
    qputenv("QT_QPA_PLATFORM", platform->toLocal8Bit());
    if (qEnvironmentVariableIsEmpty("XDG_RUNTIME_DIR")) {
      qputenv("XDG_RUNTIME_DIR", runtime.path().toLocal8Bit());
    }
  }
  qInstallMessageHandler(report);
  const QApplication application(argc, argv);
  if (QLocale().language() == QLocale::C) {
    QLocale::setDefault(QLocale(QLocale::English));  // The C locale does not group digits.
  }
  QApplication::setApplicationName(QStringLiteral("headroom"));
  QApplication::setApplicationDisplayName(QStringLiteral("Headroom"));
  if (const headroom::Status fonts = check_fonts(); !fonts) {
    return fail(fonts.error());
  }
  headroom::Result<WindowSetup> setup = window_setup(*options);
  if (!setup) {
    return fail(setup.error());
  }
  for (const QString& note : setup->notes) {
    std::fprintf(stderr, "note: %s\n", qUtf8Printable(note));
  }
  if (!options->grab) {
    setup->settings = QStandardPaths::writableLocation(QStandardPaths::AppConfigLocation) +
                      QStringLiteral("/window.ini");
  }
  MainWindow window(std::move(setup).value());
  window.setLook(options->look);
  if (options->view) {
    if (const headroom::Status opened = open_view(window, *options->view); !opened) {
      return fail(opened.error());
    }
  }
  if (options->grab) {
    return run_grab(window, *options->grab);
  }
  window.show();
  return QApplication::exec();
}
