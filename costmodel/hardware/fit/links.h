#pragma once

#include <string>

#include "costmodel/hardware/fit/samples.h"

namespace headroom::cost::fit {

/// Fits the links whose collectives were measured, prints their residuals and, if `write`, writes
/// their files.
void fit_links(const SamplesOf<ir::CollectiveShape>& samples, const std::string& configs,
               bool write);

}  // namespace headroom::cost::fit
