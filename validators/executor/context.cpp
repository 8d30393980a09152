#include "validators/executor/context.h"

#include <array>
#include <cstring>

#include "model_ir/base/check.h"

namespace headroom::exec {

Tensor Context::make(std::int64_t rows, std::int64_t columns, ir::DType type,
                     ir::TensorRole role) const {
  Tensor tensor{.storage = nullptr, .first = 0, .type = type, .rows = rows, .columns = columns};
  tensor.storage = std::make_shared<Storage>(memory, tensor.bytes(), role);
  return tensor;
}

Tensor Context::make(std::int64_t rows, std::int64_t columns) const {
  return make(rows, columns, types.compute,
              backward ? ir::TensorRole::kTemporary : ir::TensorRole::kActivation);
}

Tensor Context::zeros(std::int64_t rows, std::int64_t columns, ir::DType type,
                      ir::TensorRole role) const {
  Tensor tensor = make(rows, columns, type, role);
  clear(tensor);
  return tensor;
}

void Context::clear(const Tensor& tensor) const {
  device.run(&HeadroomDeviceTable::clear, kComputeStream, tensor.data(), tensor.bytes());
}

void Context::copy(const Tensor& to, const Tensor& from) const {
  HEADROOM_ASSERT(to.bytes() == from.bytes());
  device.run(&HeadroomDeviceTable::copy, kComputeStream, to.data(), from.data(), from.bytes(),
             HEADROOM_DEVICE_TO_DEVICE);
}

const std::byte* Context::read(const Tensor& tensor) const {
  HEADROOM_ASSERT(tensor.bytes() <= kHostScratchBytes);
  if (device.failed()) {
    static const std::array<std::byte, kHostScratchBytes> zeros{};
    return zeros.data();
  }
  device.run(&HeadroomDeviceTable::copy, kComputeStream, static_cast<void*>(host_scratch),
             static_cast<const void*>(tensor.data()), tensor.bytes(), HEADROOM_DEVICE_TO_HOST);
  device.run(&HeadroomDeviceTable::stream_synchronize, kComputeStream);
  return host_scratch;
}

void Context::write(const Tensor& tensor, const void* bytes) const {
  HEADROOM_ASSERT(tensor.bytes() <= kHostScratchBytes);
  if (device.failed()) {
    return;
  }
  std::memcpy(host_scratch, bytes, static_cast<std::size_t>(tensor.bytes()));
  device.run(&HeadroomDeviceTable::copy, kComputeStream, tensor.data(),
             static_cast<const void*>(host_scratch), tensor.bytes(), HEADROOM_HOST_TO_DEVICE);
  device.run(&HeadroomDeviceTable::stream_synchronize, kComputeStream);
}

void Context::begin(std::string_view operation) const {
  memory.set_site(operation, layer, backward);
}

}  // namespace headroom::exec
