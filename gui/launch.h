#pragma once

#include <optional>
#include <string>

#include <QString>
#include <QStringList>

#include "gui/main_window.h"
#include "gui/theme/palette.h"
#include "model_ir/base/error.h"
#include "model_ir/base/result.h"

namespace headroom::gui {

/// The command line of `headroom-gui`.
struct LaunchOptions {
  std::optional<std::string> model;
  std::optional<std::string> gpu;
  std::optional<std::string> plan;  ///< A plan file; MODEL and --gpu change it.
  std::optional<std::string> config_dir;
  std::optional<QString> grab;  ///< Where to save a picture before exiting.
  std::optional<QString> view;  ///< The page to open.
  Look look = Look::kDesktop;
  bool help = false;
  bool version = false;
};

/// Errors:  kInvalidArgument for an unknown option, or for a second model.
[[nodiscard]] Result<LaunchOptions> parse_launch(const QStringList& arguments);
[[nodiscard]] QString help_text();
[[nodiscard]] QString version_text();

/// The displays that the environment offers to the process.
struct DisplayEnvironment {
  bool has_display = false;   ///< DISPLAY or WAYLAND_DISPLAY is set and not empty.
  bool has_platform = false;  ///< QT_QPA_PLATFORM is set.
};
[[nodiscard]] DisplayEnvironment display_environment();

/// The value that QT_QPA_PLATFORM must have before Qt starts; empty: it stays as it is.
///
/// Errors:  kEnvironment if no display exists, since Qt itself would abort.
[[nodiscard]] Result<QString> platform_to_use(const LaunchOptions& options,
                                              const DisplayEnvironment& environment);

/// Checks that letters can be drawn. Without a font, Qt silently draws every letter as the same
/// box.
///
/// Errors:  kEnvironment if there is no font, or if letters look alike.
[[nodiscard]] Status check_fonts();

/// The catalogue and the scenario for `options`.
///
/// Errors:  those of `find_config_dir`. A faulty entry is reported only by an estimate that uses
///          it.
[[nodiscard]] Result<WindowSetup> window_setup(const LaunchOptions& options);

/// 0 done, 2 usage, 3 bad input, 4 environment, as in all programs of the project; 5 bug.
[[nodiscard]] int exit_code_of(const Error& error);
inline constexpr int kBugExitCode = 5;

/// Opens the page that `--view` names.
///
/// Errors:  kInvalidArgument with the names of all pages.
[[nodiscard]] Status open_view(MainWindow& window, const QString& name);

/// Waits for the window's first answer and all of its page, saves the picture and returns the exit
/// code of the process. Without an answer it writes no picture. Errors are printed to stderr.
[[nodiscard]] int run_grab(MainWindow& window, const QString& path);

}  // namespace headroom::gui
