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

/// What `headroom-gui` was called with.
struct LaunchOptions {
  std::optional<std::string> model;
  std::optional<std::string> gpu;
  std::optional<std::string> plan;  ///< A plan file; MODEL and --gpu change it.
  std::optional<std::string> config_dir;
  std::optional<QString> grab;  ///< Write a picture there and leave.
  Look look = Look::kDesktop;
  bool help = false;
  bool version = false;
};

/// Errors:  kInvalidArgument for an unknown option, or a second model.
[[nodiscard]] Result<LaunchOptions> parse_launch(const QStringList& arguments);
[[nodiscard]] QString help_text();
[[nodiscard]] QString version_text();

/// What the process can draw on, as the environment says.
struct DisplayEnvironment {
  bool has_display = false;   ///< DISPLAY or WAYLAND_DISPLAY is set and not empty.
  bool has_platform = false;  ///< QT_QPA_PLATFORM is.
};
[[nodiscard]] DisplayEnvironment display_environment();

/// The value that QT_QPA_PLATFORM must be given before Qt starts; empty: leave it alone.
///
/// Errors:  kEnvironment if there is nothing to open a window on: Qt itself would abort.
[[nodiscard]] Result<QString> platform_to_use(const LaunchOptions& options,
                                              const DisplayEnvironment& environment);

/// Without a font Qt draws every letter as the same box and says nothing.
///
/// Errors:  kEnvironment if there is no font, or letters cannot be told apart.
[[nodiscard]] Status check_fonts();

/// Catalogue and scenario for `options`.
///
/// Errors:  those of `find_config_dir`. A faulty entry is left to the estimate that asks for it.
[[nodiscard]] Result<WindowSetup> window_setup(const LaunchOptions& options);

/// 0 done, 2 usage, 3 bad input, 4 environment, as all programs of the project; 5 bug.
[[nodiscard]] int exit_code_of(const Error& error);
inline constexpr int kBugExitCode = 5;

/// Waits for the window's first answer and writes the picture; the process's exit code. Reasons go
/// to stderr, and nothing is written without an answer.
[[nodiscard]] int run_grab(MainWindow& window, const QString& path);

}  // namespace headroom::gui
