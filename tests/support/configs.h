#pragma once

#include <string>

namespace headroom::test {

/// Where the catalogue lies in the source tree.
inline const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";

}  // namespace headroom::test
