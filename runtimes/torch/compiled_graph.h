#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// One function that Inductor generates: steps in order, each of which reads and makes buffers. The
/// caller lists the steps; `run` then plans the buffers and runs the steps.
///
/// Model:  a buffer is freed after the step that reads it last. A generated kernel may write over
///         an operand that it reads last. Otherwise, a new buffer reuses the memory of the buffer
///         of the same type and size that was freed last, if the two steps are adjacent or if
///         keeping the memory in between does not raise the function's estimated peak.
///         The order of steps is the caller's, unless it asks for `schedule`.
/// Source: pytorch/pytorch 2.11 torch/_inductor/codegen/wrapper.py, AllocateLine.plan and
///         FreeIfNotReusedLine.plan; torch/_inductor/memory.py, estimate_peak_memory.
/// Ignores: alignment of buffers.
class CompiledGraph {
 public:
  using Id = std::size_t;
  /// What a step makes. `over`: operands that a generated kernel may write over, best first.
  struct Made {
    Shape shape;
    DType dtype = DType::kBf16;
    std::vector<Id> over;
    bool complex = false;  ///< Pairs are complex numbers; its memory is not reused.
    bool wide = false;     ///< e5m2 instead of e4m3; the two do not share memory.
    /// Bytes that the estimates count instead; 0: the buffer's own.
    std::int64_t counted = 0;
  };
  /// Runs an operator that Inductor did not generate and returns its results.
  using Call = std::function<std::vector<Tensor>(Eager& eager)>;

  explicit CompiledGraph(Eager& eager) : eager_(eager) {}

  /// An argument that the caller also holds (parameters, inputs of forward).
  [[nodiscard]] Id argument(const Tensor& tensor);
  /// An argument that is freed after its last reader; `donated`: a kernel may write over it.
  [[nodiscard]] Id taken(Tensor tensor, bool donated);

  /// A generated kernel.
  std::vector<Id> kernel(std::vector<Id> reads, std::vector<Made> made);
  [[nodiscard]] Id kernel_of(std::vector<Id> reads, Made made);
  /// A matrix product of a library. 8-bit operands have a bf16 result.
  [[nodiscard]] Id product(std::vector<Id> reads, const Shape& shape, const GemmShape& gemm);
  /// An operator of PyTorch that makes `shapes.size()` tensors.
  std::vector<Id> call(std::vector<Id> reads, std::vector<Made> made, Call run);
  /// A generated kernel whose workspace is summed directly afterwards: `run` adds the kernel's work
  /// and returns the sums.
  std::vector<Id> kernel_and_sums(std::vector<Id> reads, Made made, std::vector<Made> sums,
                                  Call run);
  /// Fuses the kernels that make these buffers into one. With `run`, which adds the kernel's work,
  /// the last of the buffers are the `sums` that it returns.
  void fuse(std::vector<Id> made, std::size_t sums = 0, Call run = {});
  /// Skips `count` operator numbers, because operators that are fused away have numbers, too.
  /// Returns the first skipped number.
  std::size_t skip(std::size_t count);
  /// Reorders the steps from tracing order to the order in which Inductor runs them.
  void schedule();
  /// Whether the steps that follow make what forward made before (`ir::RangeKind::kRecomputation`).
  void set_again(bool again) { again_ = again; }
  /// A view of a buffer. The estimate of the peak counts it as a copy after which the buffer is
  /// freed.
  [[nodiscard]] Id view(Id base);

  [[nodiscard]] const Shape& shape(Id buffer) const { return buffers_[buffer].shape; }
  [[nodiscard]] DType dtype(Id buffer) const { return buffers_[buffer].dtype; }
  [[nodiscard]] std::int64_t multiprocessors() const { return eager_.device().multiprocessors; }
  /// Keeps a buffer alive after the end: see `tensor`.
  void keep(Id buffer) { buffers_[buffer].output = true; }
  void run();
  /// The tensor of a buffer that is alive.
  [[nodiscard]] const Tensor& tensor(Id buffer) const { return buffers_[buffer].tensor; }
  [[nodiscard]] Tensor take(Id buffer) { return std::move(buffers_[buffer].tensor); }

 private:
  using Likeness = std::tuple<DType, bool, std::int64_t>;
  enum class Kind : std::uint8_t { kArgument, kTaken, kDonated, kOwn, kMade, kView };
  struct Buffer {
    Kind kind = Kind::kOwn;
    Shape shape;
    DType dtype = DType::kBf16;
    std::vector<Id> over;
    Tensor tensor;
    bool output = false;
    bool complex = false;
    bool wide = false;
    bool moved = false;   ///< Another buffer has taken over its memory.
    bool inside = false;  ///< Only the kernel that makes it reads it, so it has no memory.
    std::int64_t counted_bytes = 0;
    std::size_t held = 0;  ///< Step up to which the other results of its operator keep it alive.
    std::size_t made_at = 0;
    std::size_t last = 0;     ///< Last step that reads it or a view of it.
    std::size_t counted = 0;  ///< Last step at which the estimate counts it.
    Id place = 0;             ///< The buffer whose memory it uses, if not its own.
    bool has_place = false;
    [[nodiscard]] std::int64_t bytes() const;
    [[nodiscard]] std::int64_t estimated() const {
      return counted_bytes > 0 ? counted_bytes : bytes();
    }
    /// Properties that buffers must share to reuse each other's memory.
    [[nodiscard]] Likeness likeness() const { return {dtype, wide, shape.elements()}; }
  };
  struct Step {
    std::vector<Id> reads;
    std::vector<Id> made;
    Call run;
    GemmShape gemm;
    bool is_product = false;
    bool is_view = false;
    bool is_fused = false;
    bool is_item = false;    ///< Selects one of several results; runs nothing.
    bool again = false;      ///< Recomputes a result of forward.
    std::size_t number = 0;  ///< Number of the operator in Inductor's names.
    std::vector<Id> dying;
  };
  struct Group {
    std::vector<Id> made;
    std::size_t sums = 0;
    Call run;
  };

  [[nodiscard]] std::vector<Id> add(Step step, std::vector<Made> made, Kind kind);
  /// Whether the results of a call are separate steps.
  [[nodiscard]] static bool has_items(const Step& step) {
    return step.is_view || (step.run && !step.is_fused);
  }
  [[nodiscard]] Step merged(Group& group);
  void merge_groups();
  void keep_shared_operands(const Group& group);
  void find_inside();
  void put_in_order();
  void find_last_readers();
  void estimate();
  void plan();
  void place(Id buffer, std::size_t step);
  [[nodiscard]] bool reuse(Id buffer, std::size_t step);
  void make(const Step& step);
  void run_step(Step& step);
  void give_work(const Step& step);

  Eager& eager_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  std::vector<Group> groups_;
  std::size_t next_number_ = 0;
  bool again_ = false;
  std::vector<std::int64_t> alive_;  ///< Estimated bytes at each step.
  std::int64_t peak_ = 0;
  std::map<Likeness, std::vector<Id>> dead_;
};

/// Number of parts into which a compiled sum of [rows, width] over its rows is split; 1: not split.
/// Source: pytorch/pytorch 2.11, torch/_inductor/choices.py, reduction_split_factor;
///         torch/_inductor/ir.py, Reduction.num_splits.
[[nodiscard]] std::int64_t parts_of_sum(std::int64_t multiprocessors, std::int64_t rows,
                                        std::int64_t width);

}  // namespace headroom::ir::torch
