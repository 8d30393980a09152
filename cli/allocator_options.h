#pragma once

#include "runtimes/typed/allocator_options.h"

namespace headroom::cli {

using ir::parse_allocator_settings;

}  // namespace headroom::cli
