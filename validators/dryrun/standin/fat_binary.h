#pragma once

#include <vector>

namespace headroom::standin {

/// Notes what a library registers: the wrapper of a fat binary, which holds its kernels compiled
/// for several architectures.
void register_fat_binary(const void* wrapper);
/// Forgets it: the library that holds it goes.
void unregister_fat_binary(const void* wrapper);

/// The architectures (compute capability times ten) in the fat binary that starts at `data`; empty
/// if it is none.
///
/// Source: headers of the container as `cuobjdump` lists them: a header of 16 bytes (magic number,
///         version, its own size, bytes of all entries), then entries (kind, own size at 4, bytes
///         of the payload at 8, architecture at 28).
[[nodiscard]] std::vector<int> architectures_in(const void* data);

/// The architecture whose image of `host_function` runs on a device of `capability` (times ten):
/// the newest that is not newer; `capability` itself if nothing is known of the function's library.
[[nodiscard]] int image_for(const void* host_function, int capability);

}  // namespace headroom::standin
