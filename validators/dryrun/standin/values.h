#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::standin {

/// What a device that computes nothing can know of its memory: small contents that the program put
/// there itself.
///
/// Model:   an upload, a fill by a constant and a copy of either are remembered until their bytes
///          are overwritten by another of them or given back. Kernels write without being seen. So
///          a download that asks for exactly what was remembered gets it; one that asks for a part,
///          or for a single number (8 bytes and fewer), gets it only while no kernel ran since: the
///          program's allocator uses memory again, and the count of a nonzero must not be an old
///          number. Stated values are those that the program's observer knows a kernel to write;
///          every part of them is handed out until the observer, who sees the tensor go or counts
///          a write to it, forgets them. What ranks send each other of stated values is handed out
///          as a whole even after kernels. Every other download gets zeros.
/// Not safe for threads; the caller holds the device's lock.
class Values {
 public:
  static constexpr std::size_t kLargest = std::size_t{1} << 20;  ///< More is not remembered.
  /// A longer fill is not remembered: what is not known reads as zero, which most fills are.
  static constexpr std::size_t kLargestFill = 4096;
  static constexpr std::size_t kSmallestKept = 9;  ///< Less is not handed out after a kernel.
  static constexpr std::size_t kMost = std::size_t{64} << 20;  ///< Of all together.

  void remember(const void* address, const void* bytes, std::size_t size, std::uint64_t kernels);
  void state(const void* address, const void* bytes, std::size_t size);
  /// `size` bytes at `address`, written into `to`; false: not known, and `to` is unchanged.
  bool recall(const void* address, std::size_t size, std::uint64_t kernels, void* to) const;
  /// The same while no kernel ran since it was remembered.
  bool recall_untouched(const void* address, std::size_t size, std::uint64_t kernels,
                        void* to) const;
  /// Stated values, what ranks sent each other of them (as a whole), and, as in `recall_untouched`,
  /// anything while no kernel ran since.
  bool recall_counted(const void* address, std::size_t size, std::uint64_t kernels, void* to) const;
  /// Remembers what a rank received; `counted`: it follows from stated values.
  void receive(const void* address, const void* bytes, std::size_t size, std::uint64_t kernels,
               bool counted);
  /// What is known of `from` is known of `to` as well, and what was known of `to` is forgotten.
  void copy(const void* from, const void* to, std::size_t size, std::uint64_t kernels);
  void forget(const void* address, std::size_t size);

 private:
  enum class Which { kAny, kUntouched, kCounted };
  enum class Origin { kWritten, kStated, kReceived };
  bool find(const void* address, std::size_t size, std::uint64_t kernels, Which which,
            void* to) const;
  struct Entry {
    std::vector<unsigned char> bytes;
    std::uint64_t kernels = 0;  ///< Launched when it was written.
    Origin origin = Origin::kWritten;
  };
  std::map<const char*, Entry> entries_;
  std::size_t total_ = 0;
};

/// Answers that the program is given because a device that computes nothing has none, counted for
/// the report.
class Guesses {
 public:
  void count(std::string_view what) { ++times_[std::string(what)]; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& all() const { return times_; }

 private:
  std::map<std::string, std::uint64_t> times_;
};

}  // namespace headroom::standin
