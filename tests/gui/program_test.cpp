// The program as a person starts it: a process of its own, without a display.
#include <QFile>
#include <QImage>
#include <QProcess>
#include <QProcessEnvironment>
#include <QTemporaryDir>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

struct Outcome {
  int code = -1;
  QString out;
  QString err;
};

Outcome run(const QStringList& arguments, const QProcessEnvironment& environment) {
  QProcess process;
  process.setProcessEnvironment(environment);
  process.start(QStringLiteral(HEADROOM_GUI_PROGRAM), arguments);
  REQUIRE(process.waitForFinished(60'000));
  REQUIRE(process.exitStatus() == QProcess::NormalExit);
  return {.code = process.exitCode(),
          .out = QString::fromUtf8(process.readAllStandardOutput()),
          .err = QString::fromUtf8(process.readAllStandardError())};
}

QProcessEnvironment without_display() {
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  for (const char* const name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
    environment.remove(QLatin1String(name));
  }
  environment.insert(QStringLiteral("HEADROOM_CONFIG_DIR"),
                     QStringLiteral(HEADROOM_SOURCE_DIR "/configs"));
  return environment;
}

}  // namespace

TEST_CASE("headroom-gui: --grab writes a picture of a real answer without a display") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("window.png"));
  const Outcome outcome = run({QStringLiteral("llama-3.1-8b"), QStringLiteral("--gpu"),
                               QStringLiteral("a100-80gb"), QStringLiteral("--grab"), path},
                              without_display());
  CHECK(outcome.err == QString());
  REQUIRE(outcome.code == 0);
  const QImage picture(path);
  CHECK(picture.width() > 600);
  // Text and bars: a blank window has a handful of colours.
  QSet<QRgb> colours;
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      colours.insert(picture.pixel(x, y));
    }
  }
  CHECK(colours.size() > 100);
}

TEST_CASE("headroom-gui: without a font there is no picture, and the exit code is 4") {
  const QTemporaryDir folder;
  QFile settings(folder.filePath(QStringLiteral("fonts.conf")));
  REQUIRE(settings.open(QIODevice::WriteOnly));
  settings.write("<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig/>");
  settings.close();
  QProcessEnvironment environment = without_display();
  environment.insert(QStringLiteral("FONTCONFIG_FILE"), settings.fileName());
  const QString path = folder.filePath(QStringLiteral("window.png"));
  const Outcome outcome = run({QStringLiteral("--grab"), path}, environment);
  CHECK(outcome.code == 4);
  CHECK(outcome.err.contains(QStringLiteral("font")));
  CHECK(outcome.err.contains(QStringLiteral("fonts-dejavu-core")));
  CHECK_FALSE(QFile::exists(path));
}

TEST_CASE("headroom-gui: a window without a display is refused in words, not by an abort") {
  const Outcome outcome = run({}, without_display());
  CHECK(outcome.code == 4);
  CHECK(outcome.err.contains(QStringLiteral("--grab")));
}

TEST_CASE("headroom-gui: an unknown model is named with its neighbours, and leaves no picture") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("window.png"));
  const Outcome outcome =
      run({QStringLiteral("llama-3.1-8c"), QStringLiteral("--grab"), path}, without_display());
  CHECK(outcome.code == 2);
  CHECK(outcome.err.contains(QStringLiteral("llama-3.1-8b")));
  CHECK_FALSE(QFile::exists(path));
}

TEST_CASE("headroom-gui: --help and --version need neither display nor font") {
  const Outcome help = run({QStringLiteral("--help")}, without_display());
  CHECK(help.code == 0);
  CHECK(help.out.contains(QStringLiteral("--grab")));
  const Outcome version = run({QStringLiteral("--version")}, without_display());
  CHECK(version.code == 0);
  CHECK(version.out.startsWith(QStringLiteral("headroom-gui ")));
}

}  // namespace headroom::gui
