#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headroom::cost {

/// The id of a block for the owner of a `FreeList`.
enum class BlockIndex : std::uint32_t {};

/// The free blocks of one pool and stream, ordered by size, then by address, so that the best fit
/// is the first entry that is not smaller.
///
/// Sorted runs of at most `kRun` entries: a search touches two short arrays and an insertion moves
/// at most one run. With n entries a search costs O(log n), an insertion O(kRun + n / kRun). With a
/// std::set of the same entries a whole replay took 15 % longer.
class FreeList {
 public:
  struct Entry {
    std::int64_t size = 0;     ///< Bytes.
    std::int64_t address = 0;  ///< Unique among the entries.
    BlockIndex block{0};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  /// A place in the order; any change of the list invalidates it.
  struct Position {
    std::size_t run = 0;
    std::size_t index = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  void insert(const Entry& entry);
  /// Requires that an entry of this size and address is in the list.
  void erase(std::int64_t size, std::int64_t address);
  void erase(Position position);

  /// The first entry of at least `size` bytes; `end()` if there is none.
  [[nodiscard]] Position best_fit(std::int64_t size) const;
  [[nodiscard]] Position next(Position position) const;
  [[nodiscard]] Position end() const { return {.run = runs_.size(), .index = 0}; }
  [[nodiscard]] const Entry& at(Position position) const {
    return runs_[position.run][position.index];
  }

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// All entries in order, for the rare loops that change the list.
  [[nodiscard]] std::vector<Entry> entries() const;

 private:
  static constexpr std::size_t kRun = 64;
  using Run = std::vector<Entry>;

  [[nodiscard]] Run empty_run();
  [[nodiscard]] Position lower_bound(std::int64_t size, std::int64_t address) const;

  std::vector<Run> runs_;   ///< None of them empty.
  std::vector<Run> spare_;  ///< Emptied runs, kept for their capacity.
};

}  // namespace headroom::cost
