#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace headroom::cost {

/// Where cudaMalloc puts what it hands out. Of two free blocks of one size PyTorch's allocator
/// takes the one at the lower address, so that these decide which blocks are split.
///
/// Model:   chunks of whole 32 MiB, each at the top of the highest free range of addresses that is
///          larger; what a chunk does not need for its first segment serves smaller ones, the
///          lowest place first; a chunk with nothing in it goes back. A process begins with some
///          places above all chunks (400, 22 and 32 MiB), its first segment of 2 MiB above these.
/// Source:  measured on an H100 SXM (driver 580.159, CUDA 13.0): in eleven training runs, four of
///          them with memory given back, all of 105,000 blocks lay where this says; what cudaMalloc
///          returned by itself is in tests/gpu/results (`addresses`).
class DriverAddresses {
 public:
  DriverAddresses();

  /// An address for a segment of `bytes`, a multiple of 2 MiB.
  [[nodiscard]] std::int64_t take(std::int64_t bytes);
  /// Gives the segment at `address` back.
  void give_back(std::int64_t address);

 private:
  /// Free addresses by where they begin: where they end.
  using Ranges = std::map<std::int64_t, std::int64_t>;
  struct Chunk {
    std::int64_t end = 0;
    bool first = false;  ///< There when the process began: it stays.
  };

  [[nodiscard]] std::int64_t open_chunk(std::int64_t bytes);
  static void add(Ranges& ranges, std::int64_t begin, std::int64_t end);
  void add_place(std::int64_t begin, std::int64_t end);
  /// Takes the place away and returns the one after it.
  Ranges::iterator drop_place(Ranges::iterator place);

  Ranges space_;                          ///< Outside of chunks.
  Ranges places_;                         ///< Inside of chunks. Chunks that touch share no place.
  std::multiset<std::int64_t> sizes_;     ///< Of the places: none is searched for in vain.
  std::map<std::int64_t, Chunk> chunks_;  ///< By where they begin.
  std::map<std::int64_t, std::int64_t> segments_;  ///< Bytes, by address.
  bool begun_ = false;
};

}  // namespace headroom::cost
