#include "costmodel/memory/caching_allocator.h"

#include "costmodel/memory/allocator_core.h"

namespace headroom::cost {

std::unique_ptr<AllocatorModel> make_caching_allocator(const ir::AllocatorSettings& settings,
                                                       const DeviceMemory& device) {
  return std::make_unique<CachingAllocator>(settings, device, nullptr);
}

std::unique_ptr<AllocatorModel> make_caching_allocator(const ir::AllocatorSettings& settings,
                                                       Bytes capacity) {
  return make_caching_allocator(settings, DeviceMemory{.capacity = capacity});
}

}  // namespace headroom::cost
