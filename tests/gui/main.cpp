// A main of its own, because widgets need an application. It defines all of doctest, so that the
// other tests' main stays in its archive.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <QApplication>
#include <QLocale>
#include <QTemporaryDir>

#include <doctest/doctest.h>

namespace {

/// Passes on all but what Qt's offscreen platform says about itself.
void report(QtMsgType /*type*/, const QMessageLogContext& /*context*/, const QString& text) {
  if (!text.startsWith(QLatin1String("This plugin does not support"))) {
    std::fprintf(stderr, "%s\n", qUtf8Printable(text));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
  }
  const QTemporaryDir runtime;
  if (qEnvironmentVariableIsEmpty("XDG_RUNTIME_DIR")) {
    qputenv("XDG_RUNTIME_DIR", runtime.path().toLocal8Bit());
  }
  qInstallMessageHandler(report);
  const QApplication application(argc, argv);
  QLocale::setDefault(QLocale(QLocale::English));
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  return context.run();
}
