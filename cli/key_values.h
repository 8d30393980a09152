#pragma once

#include "runtimes/typed/key_values.h"

namespace headroom::cli {

using ir::KeyValues;

}  // namespace headroom::cli
