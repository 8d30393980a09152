#pragma once

#include <cstdint>

#include "model_ir/spec/dtype.h"
#include "validators/executor/device.h"

namespace headroom::exec {

/// The ranks that take part in a collective, as one of them sees it. All collectives run in order
/// with the work of the compute stream.
class Group {
 public:
  Group(int size, int rank) : size_(size), rank_(rank) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int rank() const { return rank_; }

  /// Joins one part of `part_bytes` of every rank, in the order of the ranks. `part` may be this
  /// rank's place in `whole`.
  virtual void all_gather(void* whole, const void* part, std::int64_t part_bytes) = 0;
  /// Sums `whole`, of `size` parts of `count` elements, over the ranks; each rank keeps its own
  /// part of the sum. `part` may be this rank's place in `whole`. What else is in `whole`
  /// afterwards is not said.
  virtual void reduce_scatter(void* part, void* whole, ir::DType type, std::int64_t count) = 0;
  enum class Reduction : std::uint8_t { kSum, kMaximum };
  virtual void all_reduce(void* data, ir::DType type, std::int64_t count, Reduction reduction) = 0;
  virtual void send(int to, const void* data, std::int64_t bytes) = 0;
  virtual void receive(int from, void* data, std::int64_t bytes) = 0;

 private:
  int size_;
  int rank_;
};

/// A group of which only this rank exists: a shadow rank. Each collective becomes copies within the
/// device that move as many bytes as the rank would receive, and an all-reduce becomes one kernel
/// that reads and writes its buffer. The numbers are those of this rank alone.
class ShadowGroup final : public Group {
 public:
  ShadowGroup(Device& device, int size, int rank);
  void all_gather(void* whole, const void* part, std::int64_t part_bytes) override;
  void reduce_scatter(void* part, void* whole, ir::DType type, std::int64_t count) override;
  void all_reduce(void* data, ir::DType type, std::int64_t count, Reduction reduction) override;
  void send(int to, const void* data, std::int64_t bytes) override;
  void receive(int from, void* data, std::int64_t bytes) override;

 private:
  Device& device_;
};

}  // namespace headroom::exec
