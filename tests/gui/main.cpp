// A main of its own, because widgets need an application. It defines all of doctest, so that the
// other tests' main stays in its archive.
#define DOCTEST_CONFIG_IMPLEMENT
#include <QApplication>
#include <QLocale>

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
  }
  qputenv("QT_LOGGING_RULES", "default.info=false");
  const QApplication application(argc, argv);
  QLocale::setDefault(QLocale::c());
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  return context.run();
}
