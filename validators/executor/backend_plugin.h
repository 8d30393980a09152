#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/executor/device_abi.h"

namespace headroom::exec {

/// Files that may be the plugin for CUDA, the first one first: HEADROOM_CUDA_PLUGIN alone if it is
/// set, otherwise `../lib/headroom/libheadroom_cuda.so` beside the installed program, then the one
/// of the tree that the program was built from.
[[nodiscard]] std::vector<std::string> cuda_plugin_places();

/// The backend for CUDA, loaded from the first of these files that exists; it stays loaded.
///
/// Errors:  kEnvironment, saying in one sentence what is missing: the driver, the plugin, or a
///          plugin of this release.
[[nodiscard]] Result<const HeadroomDeviceTable*> load_cuda_backend(
    const std::vector<std::string>& places);

}  // namespace headroom::exec
