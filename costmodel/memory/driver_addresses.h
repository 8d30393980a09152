#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace headroom::cost {

/// The addresses that cudaMalloc returns. Of two free blocks of one size, PyTorch's allocator takes
/// the one at the lower address, so the addresses decide which blocks are split.
///
/// Model:   chunks of whole multiples of 32 MiB, each at the top of the highest free range of
///          addresses that is larger. The rest of a chunk after its first segment serves smaller
///          segments, lowest address first. A chunk without segments is released. A process begins
///          with some free ranges above all chunks (400, 22 and 32 MiB) and its first segment of 2
///          MiB above these.
/// Source:  measured on an H100 SXM (driver 580.159, CUDA 13.0): in eleven training runs, four of
///          them with memory given back, all of 105,000 blocks lay where this says; what cudaMalloc
///          returned by itself is in tests/gpu/results (`addresses`).
class DriverAddresses {
 public:
  DriverAddresses();

  /// An address for a segment of `bytes`, a multiple of 2 MiB.
  [[nodiscard]] std::int64_t take(std::int64_t bytes);
  /// Releases the segment at `address`.
  void give_back(std::int64_t address);

 private:
  /// Free ranges: first address to end address.
  using Ranges = std::map<std::int64_t, std::int64_t>;
  struct Chunk {
    std::int64_t end = 0;
    bool first = false;  ///< Existed when the process began; it is never released.
  };

  [[nodiscard]] std::int64_t open_chunk(std::int64_t bytes);
  static void add(Ranges& ranges, std::int64_t begin, std::int64_t end);
  void add_place(std::int64_t begin, std::int64_t end);
  /// Removes the range and returns the next one.
  Ranges::iterator drop_place(Ranges::iterator place);

  Ranges space_;                          ///< Outside chunks.
  Ranges places_;                         ///< Inside chunks; adjacent chunks share no range.
  std::multiset<std::int64_t> sizes_;     ///< Sizes of `places_`, so that no search fails.
  std::map<std::int64_t, Chunk> chunks_;  ///< By their first address.
  std::map<std::int64_t, std::int64_t> segments_;  ///< Bytes, by address.
  bool begun_ = false;
};

}  // namespace headroom::cost
