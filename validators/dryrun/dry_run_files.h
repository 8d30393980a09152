#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::check {

/// The files of the dry run that a program is started with.
struct DryRunFiles {
  std::vector<std::string> libraries;  ///< The stand-ins, in the order in which they are loaded.
  std::string python;                  ///< Folder that stands first in PYTHONPATH.
};

/// Where to look for these files: each list in its order.
struct DryRunPlaces {
  std::vector<std::string> libraries;
  std::vector<std::string> python;
};

/// The places for this process: HEADROOM_DRYRUN_HOME (its `lib` and `python`) if it is set,
/// otherwise next to the installed program (`../lib/headroom/dryrun`,
/// `../share/headroom/dryrun/python`), then the tree that the program was built from.
[[nodiscard]] DryRunPlaces dry_run_places();

/// The files in the first of each places that has them.
///
/// Errors:  kEnvironment, naming every place that was tried.
[[nodiscard]] Result<DryRunFiles> find_dry_run_files(const DryRunPlaces& places);

}  // namespace headroom::check
