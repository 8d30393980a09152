#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/memory/event_replay.h"
#include "costmodel/memory/phase_meter.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "validators/executor/device.h"

namespace headroom::exec {

/// A block that is handed out.
struct Block {
  ir::BlockId id = 0;
  std::byte* address = nullptr;
};

/// All memory of one rank. Every allocation and every release becomes an event of a `RankProgram`
/// and is served at once by the model of the caching allocator, with segments of the device behind
/// it. A prediction is the same without segments: the addresses then mean nothing.
///
/// Model:   costmodel/memory/caching_allocator.h. Segments are placed as that model says, not where
///          the device has put them, so that the choice among blocks of one size is the predicted
///          one.
class Memory final : private cost::SegmentSource {
 public:
  enum class Backing : std::uint8_t {
    kDevice,  ///< Segments are memory of the device.
    kNone,    ///< There is no memory; the program alone is of interest.
    kWork,    ///< The same, and the program has the work as well (`record_work`).
  };
  /// `capacity`: what the allocator may take from the device. Requires that segments are not
  /// expandable.
  Memory(Device& device, const ir::AllocatorSettings& settings, Bytes capacity, Backing backing);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Out of memory stops the device and returns a block without an address. So does a fault of the
  /// device, which is not `out_of_memory`.
  [[nodiscard]] Block allocate(std::int64_t bytes, ir::TensorRole role);
  void free(const Block& block);

  /// Page-locked host memory, kept for the whole run; nullptr if there is none.
  [[nodiscard]] std::byte* allocate_host(std::int64_t bytes, ir::HostUse use);

  /// Ends the phase that runs and begins another.
  void begin_phase(const ir::PhaseName& name);
  void end_phase();

  /// Names the operation, layer and pass for which allocations happen from now on.
  void set_site(std::string_view operation, int layer, bool backward);

  // Work that is given to the device, for those who record it.
  void add_work(const ir::WorkShape& shape, std::uint8_t stream);
  void add_mark(ir::WorkItem::Kind kind, std::uint8_t stream, std::uint32_t mark);
  /// A mark that is recorded on a stream.
  [[nodiscard]] std::uint32_t new_mark() { return program_.work.marks++; }
  [[nodiscard]] std::uint8_t new_stream(std::string_view name);

  [[nodiscard]] const ir::RankProgram& program() const { return program_; }
  /// The allocator's statistics in each phase that has ended.
  [[nodiscard]] const std::vector<cost::PhaseMemory>& phases() const { return phases_; }
  /// The request that could not be served.
  [[nodiscard]] const std::optional<cost::OutOfMemory>& out_of_memory() const { return failed_; }
  /// Least memory that the device had free after a segment was opened (`memory_info`).
  [[nodiscard]] std::optional<Bytes> least_free() const { return least_free_; }

 private:
  struct Segment {
    std::byte* memory = nullptr;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] bool open(std::int64_t address, Bytes bytes) override;
  void close(std::int64_t address) override;
  [[nodiscard]] std::byte* address_of(ir::BlockId block) const;
  [[nodiscard]] bool step();

  Device& device_;
  Backing backing_;
  ir::RankProgram program_;
  cost::EventReplay replay_;
  std::optional<cost::PhaseMeter> meter_;
  std::vector<cost::PhaseMemory> phases_;
  std::map<std::int64_t, Segment> segments_;  ///< Segments by the allocator's address.
  std::vector<std::byte*> host_;
  std::map<std::string, std::uint16_t, std::less<>> operations_;
  std::map<std::uint64_t, std::uint32_t> sites_;  ///< Sites by layer, operation and direction.
  std::uint32_t site_ = 0;
  std::optional<cost::OutOfMemory> failed_;
  std::optional<Bytes> least_free_;
};

}  // namespace headroom::exec
