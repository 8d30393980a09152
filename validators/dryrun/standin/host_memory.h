#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace headroom::standin {

/// Memory of the host that the device may use: pinned, registered by the program, or managed. It is
/// real memory that the operating system commits only where it is touched.
/// Not safe for threads; the caller holds the device's lock.
class HostMemory {
 public:
  enum class Kind { kNone, kPinned, kRegistered, kManaged };

  /// New memory, all zero; null: the operating system has none.
  void* allocate(std::size_t bytes, Kind kind);
  /// Memory of the program's own becomes visible to the device.
  /// False: a part of it is visible already.
  bool enrol(void* address, std::size_t bytes);
  /// Gives back what `allocate` returned; false: no such memory.
  bool release(void* address);
  /// Makes the program's own memory invisible again; false: it was not enrolled.
  bool withdraw(void* address);

  [[nodiscard]] Kind kind(const void* address) const;

  [[nodiscard]] std::uint64_t pinned_bytes() const { return pinned_.now; }
  [[nodiscard]] std::uint64_t pinned_peak() const { return pinned_.peak; }
  [[nodiscard]] std::uint64_t managed_bytes() const { return managed_.now; }

 private:
  struct Block {
    std::size_t bytes = 0;
    Kind kind = Kind::kNone;
  };
  struct Use {
    std::uint64_t now = 0;
    std::uint64_t peak = 0;
  };
  bool remove(void* address, bool registered);
  void add(void* address, Block block);
  Use& use_of(Kind kind) { return kind == Kind::kManaged ? managed_ : pinned_; }

  std::map<const char*, Block> live_;
  Use pinned_;  ///< Registered memory included.
  Use managed_;
};

/// Sets bytes of host memory as a device's memset or a download of zeros does, without committing
/// pages that are wholly zero. Only for memory that `HostMemory` allocated.
void clear_host_pages(void* address, std::size_t bytes);

}  // namespace headroom::standin
