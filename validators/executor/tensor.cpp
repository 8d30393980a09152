#include "validators/executor/tensor.h"

#include "model_ir/base/check.h"

namespace headroom::exec {

Storage::Storage(Memory& memory, std::int64_t bytes, ir::TensorRole role)
    : memory_(memory), bytes_(bytes), role_(role) {
  obtain();
}

Storage::~Storage() {
  give_back();
}

void Storage::give_back() {
  if (held_) {
    held_ = false;
    memory_.free(block_);
    block_ = {};
  }
}

void Storage::obtain() {
  HEADROOM_ASSERT(!held_);
  block_ = memory_.allocate(bytes_, role_);
  held_ = true;
}

void* Tensor::data() const {
  if (storage == nullptr) {
    return nullptr;
  }
  // Without memory, an address is a number that no kernel uses.
  const auto address = reinterpret_cast<std::uintptr_t>(storage->address());
  return reinterpret_cast<void*>(address +
                                 static_cast<std::uintptr_t>(first * ir::bits_of(type) / 8));
}

Tensor Tensor::view(std::int64_t offset, std::int64_t view_rows, std::int64_t view_columns) const {
  Tensor part = *this;
  part.first += offset;
  part.rows = view_rows;
  part.columns = view_columns;
  HEADROOM_ASSERT((part.first + part.elements()) * ir::bits_of(type) / 8 <= storage->bytes());
  return part;
}

Tensor Tensor::shaped(std::int64_t view_rows, std::int64_t view_columns) const {
  HEADROOM_ASSERT(view_rows * view_columns == elements());
  return view(0, view_rows, view_columns);
}

}  // namespace headroom::exec
