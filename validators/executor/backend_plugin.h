#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/executor/device_abi.h"

namespace headroom::exec {

/// Files that may be the plugin for CUDA, the first one first: HEADROOM_CUDA_PLUGIN alone if it is
/// set, otherwise `../lib/headroom/libheadroom_cuda.so` beside the installed program, then, for
/// a program that lies in the build folder, the one that was built with it.
[[nodiscard]] std::vector<std::string> cuda_plugin_places();
/// The same for the program in this file, without a look at the environment.
[[nodiscard]] std::vector<std::string> cuda_plugin_places_of(const std::string& program);

/// The backend for CUDA, loaded from the first of these files that exists; it stays loaded.
///
/// Errors:  kEnvironment, saying in one sentence what is missing: the driver, the plugin, or a
///          plugin of this release.
[[nodiscard]] Result<const HeadroomDeviceTable*> load_cuda_backend(
    const std::vector<std::string>& places);

}  // namespace headroom::exec
