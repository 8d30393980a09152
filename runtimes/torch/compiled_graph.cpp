#include "runtimes/torch/compiled_graph.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "model_ir/base/check.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/range_scope.h"

namespace headroom::ir::torch {

std::int64_t CompiledGraph::Buffer::bytes() const {
  return ir::bytes_of(shape.elements(), dtype).value();
}

CompiledGraph::Id CompiledGraph::argument(const Tensor& tensor) {
  return taken(tensor, false);
}

CompiledGraph::Id CompiledGraph::taken(Tensor tensor, bool donated) {
  Buffer buffer;
  buffer.kind = donated ? Kind::kDonated : Kind::kArgument;
  buffer.shape = tensor.shape();
  buffer.dtype = tensor.dtype();
  buffer.tensor = std::move(tensor);
  buffers_.push_back(std::move(buffer));
  return buffers_.size() - 1;
}

std::vector<CompiledGraph::Id> CompiledGraph::add(Step step, std::vector<Made> made, Kind kind) {
  for (Made& each : made) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.shape = each.shape;
    buffer.dtype = each.dtype;
    buffer.over = std::move(each.over);
    buffer.complex = each.complex;
    buffer.wide = each.wide;
    buffer.counted_bytes = each.counted;
    buffer.made_at = steps_.size();
    step.made.push_back(buffers_.size());
    buffers_.push_back(std::move(buffer));
  }
  step.number = skip((has_items(step) ? 1 : 0) + step.made.size());
  step.again = again_;
  steps_.push_back(std::move(step));
  return steps_.back().made;
}

std::size_t CompiledGraph::skip(std::size_t count) {
  next_number_ += count;
  return next_number_ - count;
}

std::vector<CompiledGraph::Id> CompiledGraph::kernel(std::vector<Id> reads,
                                                     std::vector<Made> made) {
  Step step;
  step.reads = std::move(reads);
  return add(std::move(step), std::move(made), Kind::kOwn);
}

CompiledGraph::Id CompiledGraph::kernel_of(std::vector<Id> reads, Made made) {
  return kernel(std::move(reads), {std::move(made)})[0];
}

CompiledGraph::Id CompiledGraph::product(std::vector<Id> reads, const Shape& shape,
                                         const GemmShape& gemm) {
  Step step;
  step.reads = std::move(reads);
  step.gemm = gemm;
  step.is_product = true;
  const DType result = gemm.dtype == DType::kFp8 ? DType::kBf16 : gemm.dtype;
  return add(std::move(step), {{shape, result, {}}}, Kind::kOwn)[0];
}

std::vector<CompiledGraph::Id> CompiledGraph::call(std::vector<Id> reads, std::vector<Made> made,
                                                   Call run) {
  Step step;
  step.reads = std::move(reads);
  step.run = std::move(run);
  return add(std::move(step), std::move(made), Kind::kMade);
}

std::vector<CompiledGraph::Id> CompiledGraph::kernel_and_sums(std::vector<Id> reads, Made made,
                                                              std::vector<Made> sums, Call run) {
  sums.insert(sums.begin(), std::move(made));
  std::vector<Id> ids = call(std::move(reads), std::move(sums), std::move(run));
  buffers_[ids[0]].kind = Kind::kOwn;
  return ids;
}

CompiledGraph::Id CompiledGraph::view(Id base) {
  Step step;
  step.reads = {base};
  step.is_view = true;
  const Made made{buffers_[base].shape, buffers_[base].dtype, {}};
  const Id id = add(std::move(step), {made}, Kind::kView)[0];
  buffers_[id].place = base;
  return id;
}

void CompiledGraph::find_last_readers() {
  for (Buffer& buffer : buffers_) {
    buffer.last = std::max(buffer.made_at, buffer.held);
    buffer.counted = buffer.made_at;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const Id read : steps_[i].reads) {
      buffers_[read].last = std::max(i, buffers_[read].held);
      buffers_[read].counted = i;
      if (buffers_[read].kind == Kind::kView) {
        buffers_[buffers_[read].place].last = i;
      }
    }
  }
}

/// Estimated bytes alive at each step, as if no buffer reused another's memory. Arguments of
/// forward do not count.
void CompiledGraph::estimate() {
  alive_.assign(steps_.size(), 0);
  for (const Buffer& buffer : buffers_) {
    if (buffer.kind == Kind::kArgument) {
      continue;
    }
    const std::size_t first = buffer.kind == Kind::kDonated ? 0 : buffer.made_at;
    const std::size_t end = buffer.output ? steps_.size() : buffer.counted + 1;
    for (std::size_t i = first; i < end; ++i) {
      alive_[i] += buffer.estimated();
    }
  }
  peak_ = alive_.empty() ? 0 : *std::ranges::max_element(alive_);
}

bool CompiledGraph::reuse(Id id, std::size_t step) {
  Buffer& buffer = buffers_[id];
  const auto found = dead_.find(buffer.likeness());
  if (found == dead_.end() || found->second.empty()) {
    return false;
  }
  const Id old = found->second.back();
  const std::size_t died = buffers_[old].last;
  if (died + 1 != step) {
    const auto begin = alive_.begin() + static_cast<std::ptrdiff_t>(died) + 1;
    const auto end = alive_.begin() + static_cast<std::ptrdiff_t>(step);
    if (buffer.bytes() + *std::max_element(begin, end) > peak_) {
      return false;
    }
    std::for_each(begin, end, [&](std::int64_t& bytes) { bytes += buffer.bytes(); });
  }
  found->second.pop_back();
  buffers_[old].moved = true;
  buffer.place = old;
  buffer.has_place = true;
  return true;
}

void CompiledGraph::place(Id id, std::size_t step) {
  Buffer& buffer = buffers_[id];
  for (const Id candidate : buffer.over) {
    Buffer& old = buffers_[candidate];
    const bool fits = old.likeness() == buffer.likeness();
    const bool dies = old.last == step && !old.output && !old.moved;
    if (fits && dies && old.kind != Kind::kArgument && old.kind != Kind::kView) {
      old.moved = true;
      buffer.place = candidate;
      buffer.has_place = true;
      return;
    }
  }
  static_cast<void>(reuse(id, step));
}

void CompiledGraph::plan() {
  find_last_readers();
  estimate();
  std::vector<std::vector<Id>> dying(steps_.size());
  for (Id id = 0; id < buffers_.size(); ++id) {
    if (!buffers_[id].output) {
      dying[buffers_[id].last].push_back(id);
    }
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    for (const Id id : steps_[i].made) {
      if (buffers_[id].kind == Kind::kOwn && !buffers_[id].inside) {
        place(id, i);
      }
    }
    for (const Id id : dying[i]) {
      const Buffer& buffer = buffers_[id];
      const bool generated = buffer.kind == Kind::kOwn || buffer.kind == Kind::kMade;
      if (generated && !buffer.moved && !buffer.complex && !buffer.inside) {
        dead_[buffer.likeness()].push_back(id);
      }
    }
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::ranges::copy_if(dying[i], std::back_inserter(steps_[i].dying),
                         [&](Id id) { return !buffers_[id].moved; });
  }
}

void CompiledGraph::give_work(const Step& step) {
  if (step.is_product) {
    if (step.gemm.dtype == DType::kFp8) {
      eager_.touch_cublaslt();  // _scaled_mm
    } else {
      eager_.touch_cublas();
    }
    eager_.run(step.gemm);
    return;
  }
  std::int64_t bytes = 0;
  for (const Id id : step.reads) {
    bytes += buffers_[id].bytes();
  }
  for (const Id id : step.made) {
    bytes += buffers_[id].inside ? 0 : buffers_[id].bytes();
  }
  launch_kernels(eager_, bytes);
}

void CompiledGraph::make(const Step& step) {
  for (const Id id : step.made) {
    Buffer& buffer = buffers_[id];
    if (buffer.kind == Kind::kOwn && !buffer.inside) {
      buffer.tensor = buffer.has_place
                          ? eager_.alias(buffers_[buffer.place].tensor, buffer.shape, false)
                          : eager_.empty(buffer.shape, buffer.dtype);
    }
  }
}

void CompiledGraph::run_step(Step& step) {
  std::optional<RangeScope> range;
  if (step.again && !step.is_item && !step.is_view) {
    range.emplace(eager_, RangeKind::kRecomputation);
  }
  make(step);
  if (step.is_view) {
    const Tensor& base = buffers_[step.reads[0]].tensor;
    buffers_[step.made[0]].tensor = eager_.alias(base, base.shape(), false);
  } else if (step.run) {
    std::vector<Tensor> made = step.run(eager_);
    auto next = made.begin();
    for (const Id id : step.made) {
      if (buffers_[id].kind == Kind::kMade) {
        HEADROOM_ASSERT(next != made.end());
        buffers_[id].tensor = std::move(*next++);
      }
    }
  } else if (!step.is_item) {
    give_work(step);
  }
  for (const Id id : step.made) {
    if (buffers_[id].has_place) {
      buffers_[buffers_[id].place].tensor.reset();
    }
  }
  for (const Id id : step.dying) {
    buffers_[id].tensor.reset();
  }
}

void CompiledGraph::run() {
  plan();
  for (Step& step : steps_) {
    run_step(step);
  }
}

namespace {

/// The divisor of `number` that is closest to `target`; of two, the smaller one.
std::int64_t nearest_divisor(std::int64_t number, std::int64_t target) {
  std::int64_t best = 1;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0 && std::abs(divisor - target) < std::abs(best - target)) {
      best = divisor;
    }
  }
  return best;
}

}  // namespace

std::int64_t parts_of_sum(std::int64_t multiprocessors, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kFewest = 32;
  constexpr std::int64_t kMost = 512;
  constexpr std::int64_t kThreads = 2048;  // Threads per multiprocessor.
  constexpr std::int64_t kBlock = 256;
  constexpr std::int64_t kRowsPerThread = 4;
  constexpr std::int64_t kColumnsPerBlock = 128;
  constexpr std::int64_t kEven = 20;        // A divisor this close is preferred;
  constexpr std::int64_t kEvenOfMost = 50;  // for the longest parts, one this close.
  if (rows <= kFewest || width >= multiprocessors * 2 * kFewest) {
    return 1;
  }
  const std::int64_t threads = multiprocessors * kThreads;
  std::int64_t split = kFewest;
  if (rows * width >= kMost * threads) {
    const std::int64_t nearest = nearest_divisor(rows, kMost);
    split = std::abs(nearest - kMost) < kEvenOfMost ? nearest : kMost;
  } else if (rows * width >= kFewest * threads) {
    const std::int64_t blocks =
        ceil_div(threads / kBlock, ceil_div(width, kColumnsPerBlock)) * kRowsPerThread;
    const std::int64_t target = ceil_div(rows, blocks);
    const std::int64_t nearest = nearest_divisor(rows, target);
    split = std::abs(target - nearest) < kEven ? std::max(nearest, kFewest) : target;
  }
  return ceil_div(rows, kRowsPerThread * split);
}

}  // namespace headroom::ir::torch
