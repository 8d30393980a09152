#pragma once

#include <string>

namespace headroom::test {

/// The catalogue in the source tree.
inline const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";

}  // namespace headroom::test
