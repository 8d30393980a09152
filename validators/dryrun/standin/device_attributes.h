#pragma once

#include "validators/dryrun/standin/profile.h"

namespace headroom::standin {

/// The value of cudaDevAttr / CU_DEVICE_ATTRIBUTE number `attribute` of device `of`; 0 for what the
/// stand-in does not have.
int device_attribute(const Profile& profile, int attribute, int of);

/// Fills a struct cudaDeviceProp in the layout of CUDA `major` (12 or 13).
void fill_properties(const Profile& profile, int major, int of, void* properties);

}  // namespace headroom::standin
