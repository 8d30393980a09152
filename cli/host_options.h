#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// --host-memory, --nvme, --nvme-rate.
[[nodiscard]] std::vector<OptionSpec> host_options();

/// `device` in the host of its node (--node), with what the three options say of it. A catalogue
/// without nodes is no error unless one was named.
///
/// Errors:  kInvalidArgument for a size or a rate that is none; those of `cost::in_host`.
[[nodiscard]] Result<cost::DeviceSpec> with_asked_host(const Arguments& arguments,
                                                       const std::string& config_dir,
                                                       cost::DeviceSpec device);

}  // namespace headroom::cli
