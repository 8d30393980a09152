#include "validators/executor/group.h"

#include <cstddef>

#include "validators/executor/tensor.h"

namespace headroom::exec {
namespace {

void* place(void* whole, std::int64_t part, std::int64_t bytes) {
  return static_cast<std::byte*>(whole) + part * bytes;
}

}  // namespace

ShadowGroup::ShadowGroup(Device& device, int size, int rank) : Group(size, rank), device_(device) {}

void ShadowGroup::all_gather(void* whole, const void* part, std::int64_t part_bytes) {
  for (int other = 0; other < size(); ++other) {
    void* const to = place(whole, other, part_bytes);
    if (to != part) {
      device_.run(&HeadroomDeviceTable::copy, kComputeStream, to, part, part_bytes,
                  HEADROOM_DEVICE_TO_DEVICE);
    }
  }
}

void ShadowGroup::reduce_scatter(void* part, void* whole, ir::DType type, std::int64_t count) {
  const std::int64_t bytes = count * ir::bits_of(type) / 8;
  for (int other = 0; other < size(); ++other) {
    // This rank's own part comes last, so that it is what remains.
    const void* const from = place(whole, (rank() + 1 + other) % size(), bytes);
    if (from != part) {
      device_.run(&HeadroomDeviceTable::copy, kComputeStream, part, from, bytes,
                  HEADROOM_DEVICE_TO_DEVICE);
    }
  }
}

void ShadowGroup::all_reduce(void* data, ir::DType type, std::int64_t count,
                             Reduction /*reduction*/) {
  if (size() > 1) {
    device_.run(&HeadroomDeviceTable::scale, kComputeStream, data, code_of(type), count, 1.0);
  }
}

void ShadowGroup::send(int /*to*/, const void* /*data*/, std::int64_t /*bytes*/) {}

void ShadowGroup::receive(int /*from*/, void* data, std::int64_t bytes) {
  // No rank sends anything. Zeros stand for its numbers, which must be finite.
  device_.run(&HeadroomDeviceTable::clear, kComputeStream, data, bytes);
}

}  // namespace headroom::exec
