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

/// One function that Inductor has generated: steps in their order, each of which reads and makes
/// buffers. Steps are listed first; `run` plans the buffers and runs them.
///
/// Model:  a buffer goes behind the step that reads it last. A generated kernel may write over an
///         operand that dies there. Else a new buffer takes the place of the one of its type and
///         size that died last, if the two steps are neighbours or if holding the memory in between
///         does not raise the estimated peak of the function.
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
    bool complex = false;  ///< Pairs are complex numbers: it makes no place for others.
    bool wide = false;     ///< Of 8 bits: e5m2, not e4m3, which do not share a place.
    /// Bytes that the estimates count in its place; 0: its own.
    std::int64_t counted = 0;
  };
  /// Runs what Inductor has not generated; returns what it has made.
  using Call = std::function<std::vector<Tensor>(Eager& eager)>;

  explicit CompiledGraph(Eager& eager) : eager_(eager) {}

  /// An argument that the caller holds as well (parameters, inputs of forward).
  [[nodiscard]] Id argument(const Tensor& tensor);
  /// An argument that goes behind its last reader; `donated`: which a kernel may write over.
  [[nodiscard]] Id taken(Tensor tensor, bool donated);

  /// A generated kernel.
  std::vector<Id> kernel(std::vector<Id> reads, std::vector<Made> made);
  [[nodiscard]] Id kernel_of(std::vector<Id> reads, Made made);
  /// A library's matrix product. Operands of 8 bits make a result of bf16.
  [[nodiscard]] Id product(std::vector<Id> reads, const Shape& shape, const GemmShape& gemm);
  /// An operator of PyTorch's own that makes `shapes.size()` tensors.
  std::vector<Id> call(std::vector<Id> reads, std::vector<Made> made, Call run);
  /// A generated kernel whose workspace is summed up right behind it: `run` gives its work and
  /// returns the sums.
  std::vector<Id> kernel_and_sums(std::vector<Id> reads, Made made, std::vector<Made> sums,
                                  Call run);
  /// Makes one kernel of those that make these buffers. With `run`, which gives the kernel's work,
  /// the last of them are `sums` that it returns.
  void fuse(std::vector<Id> made, std::size_t sums = 0, Call run = {});
  /// Leaves out `count` numbers of operators: what is fused away has numbers, too. The first of
  /// them.
  std::size_t skip(std::size_t count);
  /// Puts the steps, listed in the order in which they are traced, in that in which Inductor runs
  /// them.
  void schedule();
  /// Whether the steps that follow make what forward made before (`ir::RangeKind::kRecomputation`).
  void set_again(bool again) { again_ = again; }
  /// Another look at a buffer. The estimate of the peak takes it for a copy, behind which the
  /// buffer itself goes.
  [[nodiscard]] Id view(Id base);

  [[nodiscard]] const Shape& shape(Id buffer) const { return buffers_[buffer].shape; }
  [[nodiscard]] DType dtype(Id buffer) const { return buffers_[buffer].dtype; }
  [[nodiscard]] std::int64_t multiprocessors() const { return eager_.device().multiprocessors; }
  /// Keeps a buffer beyond the end: see `tensor`.
  void keep(Id buffer) { buffers_[buffer].output = true; }
  void run();
  /// A buffer, while it is there.
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
    bool moved = false;   ///< Another buffer has its memory.
    bool inside = false;  ///< Only the kernel that makes it reads it: it has no memory.
    std::int64_t counted_bytes = 0;
    std::size_t held = 0;  ///< Step up to which the results beside it hold it.
    std::size_t made_at = 0;
    std::size_t last = 0;     ///< Step that reads it, or a view of it, last.
    std::size_t counted = 0;  ///< Step up to which the estimate counts it.
    Id place = 0;             ///< In whose memory it lies, if in another's.
    bool has_place = false;
    [[nodiscard]] std::int64_t bytes() const;
    [[nodiscard]] std::int64_t estimated() const {
      return counted_bytes > 0 ? counted_bytes : bytes();
    }
    /// What buffers that share a place agree in.
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
    bool is_item = false;    ///< Takes one of several results: does nothing.
    bool again = false;      ///< Forward did it before.
    std::size_t number = 0;  ///< Of the operator, as Inductor names it.
    std::vector<Id> dying;
  };
  struct Group {
    std::vector<Id> made;
    std::size_t sums = 0;
    Call run;
  };

  [[nodiscard]] std::vector<Id> add(Step step, std::vector<Made> made, Kind kind);
  /// Results of a call that are steps of their own.
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

/// How many parts a compiled sum of [rows, width] over its rows is cut into; 1: not at all.
/// Source: pytorch/pytorch 2.11, torch/_inductor/choices.py, reduction_split_factor;
///         torch/_inductor/ir.py, Reduction.num_splits.
[[nodiscard]] std::int64_t parts_of_sum(std::int64_t multiprocessors, std::int64_t rows,
                                        std::int64_t width);

}  // namespace headroom::ir::torch
