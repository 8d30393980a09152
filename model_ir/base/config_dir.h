#pragma once

#include <optional>
#include <string>

#include "model_ir/base/result.h"

namespace headroom {

/// The folder that holds the catalogue (`models/`, `hardware/`, `networks/`), and who named it.
struct ConfigDir {
  std::string path;
  std::string origin;  ///< "--config-dir", "HEADROOM_CONFIG_DIR", "installed" or "source tree".
  friend bool operator==(const ConfigDir&, const ConfigDir&) = default;
};

/// Where to look for the catalogue, in this order.
struct ConfigDirQuery {
  std::optional<std::string> option;       ///< `--config-dir`, if given.
  std::optional<std::string> environment;  ///< HEADROOM_CONFIG_DIR, if set and not empty.
  std::string program;      ///< Path of the running program; empty if the system does not say.
  std::string source_tree;  ///< `configs` of the tree that the program was built from.
};

/// The first place of `query` that is a folder. A place that the user named must exist: a wrong
/// option or variable is an error; the search does not continue.
///
/// Model:   next to an installed program means `configs` in its own folder (an unpacked archive) or
///          `../share/headroom/configs` (an installation prefix).
/// Errors:  kEnvironment, naming every place that was tried.
[[nodiscard]] Result<ConfigDir> find_config_dir(const ConfigDirQuery& query);

/// As above, asking this process for its environment and its own path.
[[nodiscard]] Result<ConfigDir> find_config_dir(const std::optional<std::string>& option);

}  // namespace headroom
