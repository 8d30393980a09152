#pragma once

#include "validators/dryrun/standin/cuda_abi.h"

namespace headroom::standin {

/// Remembers an error of the calling thread for cudaGetLastError, and returns the status.
Status keep_error(Status status);
/// The error that was remembered last; `forget`: the next answer is success.
Status last_error(bool forget);

/// What cudaPointerGetAttributes and the driver's twin say of an address.
PointerAttributes attributes_of(const void* address);

}  // namespace headroom::standin
