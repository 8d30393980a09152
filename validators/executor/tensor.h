#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "model_ir/spec/dtype.h"
#include "validators/executor/memory.h"

namespace headroom::exec {

/// A block with one or more tensors in it. It is freed with the last of them.
class Storage {
 public:
  Storage(Memory& memory, std::int64_t bytes, ir::TensorRole role);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] std::byte* address() const { return block_.address; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] ir::TensorRole role() const { return role_; }
  [[nodiscard]] bool on_device() const { return held_; }

  /// Gives the block back, for example because a copy is on the host. No tensor in it may be read
  /// until `obtain`.
  void give_back();
  /// Takes a new block, of which nothing is known.
  void obtain();

 private:
  Memory& memory_;
  Block block_;
  std::int64_t bytes_;
  ir::TensorRole role_;
  bool held_ = false;
};

/// A matrix in device memory: a handle, cheap to copy. An empty one has no storage.
struct Tensor {
  std::shared_ptr<Storage> storage;
  std::int64_t first = 0;  ///< First element within the storage.
  ir::DType type = ir::DType::kFp32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] bool empty() const { return storage == nullptr; }
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  [[nodiscard]] std::int64_t bytes() const { return elements() * ir::bits_of(type) / 8; }
  [[nodiscard]] void* data() const;
  /// Whether this is the only tensor in its storage, so that it may be overwritten.
  [[nodiscard]] bool is_alone() const { return storage.use_count() == 1; }
  /// `view_rows` x `view_columns` elements that begin `offset` elements later.
  [[nodiscard]] Tensor view(std::int64_t offset, std::int64_t view_rows,
                            std::int64_t view_columns) const;
  /// The same elements in another shape.
  [[nodiscard]] Tensor shaped(std::int64_t view_rows, std::int64_t view_columns) const;
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data());
  }
};

/// The type as the device interface names it.
[[nodiscard]] constexpr std::int32_t code_of(ir::DType type) {
  return static_cast<std::int32_t>(type);
}

/// STAT of the device interface: the type of statistics of tensors of `type`.
[[nodiscard]] constexpr ir::DType stat_type(ir::DType type) {
  return type == ir::DType::kFp64 ? ir::DType::kFp64 : ir::DType::kFp32;
}

}  // namespace headroom::exec
