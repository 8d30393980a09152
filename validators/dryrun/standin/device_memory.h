#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "validators/dryrun/standin/profile.h"

namespace headroom::standin {

/// Memory of the devices: accounted, never backed. Addresses are real and unique, and nothing may
/// be read or written there.
///
/// Model:   the driver takes memory in pages of 2 MiB; requests below 1 MiB share pages. Address
///          space is handed out in ascending order and used again only when it runs out, so that
///          every run of a program sees the same addresses in the same order. What was given back
///          is joined with its neighbours.
/// Source:  CUDA driver API, cuMemGetAllocationGranularity (2 MiB on every GPU of the catalogue);
///          PyTorch, c10/cuda/CUDACachingAllocator.cpp (small segments are 2 MiB, others
///          multiples).
/// Not safe for threads; the caller holds the device's lock.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Profile& profile);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  static constexpr std::size_t kPage = std::size_t{2} << 20;

  struct Allocation {
    void* address = nullptr;
    std::size_t bytes = 0;  ///< As asked for.
    int device = 0;
    bool mapped = false;  ///< By `map`, which takes no memory itself.
    friend bool operator==(const Allocation&, const Allocation&) = default;
  };

  /// Memory of `device` with an address; null: it does not fit, and nothing changes.
  void* allocate(std::size_t bytes, int device);
  /// Gives back what `allocate` returned; nothing: no such allocation.
  std::optional<Allocation> release(void* address);

  /// Address space alone (cuMemAddressReserve), and memory alone (cuMemCreate).
  void* reserve(std::size_t bytes);
  void unreserve(void* address, std::size_t bytes);
  bool take(std::size_t bytes, int device);
  void give(std::size_t bytes, int device);
  /// `bytes` at `address` are of `device` from now on (cuMemMap).
  void map(void* address, std::size_t bytes, int device);
  void unmap(void* address);

  [[nodiscard]] bool owns(const void* address) const { return address >= begin_ && address < end_; }
  /// The allocation or mapping that holds an address.
  [[nodiscard]] std::optional<Allocation> find(const void* address) const;

  [[nodiscard]] std::uint64_t used(int device) const;  ///< The context included.
  [[nodiscard]] std::uint64_t peak(int device) const;
  [[nodiscard]] std::uint64_t free(int device) const;
  /// Sets the peak to the bytes in use.
  void reset_peak(int device);
  /// The peak since the last call of this function.
  std::uint64_t take_peak(int device);

 private:
  struct Use {
    std::uint64_t pages = 0;  ///< Bytes in pages of their own.
    std::uint64_t small = 0;  ///< Bytes of requests that share pages.
    std::uint64_t peak = 0;
    std::uint64_t recent_peak = 0;  ///< Peak since `take_peak`.
  };
  [[nodiscard]] static std::uint64_t bytes_of(const Use& use);
  bool grow(Use& use, std::uint64_t pages, std::uint64_t small) const;

  std::uint64_t total_;
  std::uint64_t context_;
  std::array<Use, kMostDevices> use_{};
  char* begin_ = nullptr;
  char* next_ = nullptr;
  char* end_ = nullptr;
  std::map<const char*, Allocation> live_;
  std::map<char*, std::size_t> returned_;  ///< Address space that may be used again.
};

}  // namespace headroom::standin
