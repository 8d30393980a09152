#include "model_ir/plan/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string>

namespace headroom::ir {

bool is_v_shaped(PipelineKind kind) {
  return kind == PipelineKind::kZbV || kind == PipelineKind::kDualPipeV;
}

namespace {

/// Writes the actions of one stage. Each kind of work processes the micro-batches of a chunk in
/// order.
class Writer {
 public:
  explicit Writer(std::size_t chunks) : next_(chunks) {}

  void forward(std::int64_t chunk) { add(PipelineWork::kForward, chunk); }
  void backward(std::int64_t chunk) { add(PipelineWork::kBackward, chunk); }
  /// The first half of a backward; `weight` runs the second halves in the same order.
  void input(std::int64_t chunk) {
    owed_.push_back(chunk);
    add(PipelineWork::kBackwardInput, chunk);
  }
  void weight() {
    const std::int64_t chunk = owed_.front();
    owed_.pop_front();
    actions_.push_back({PipelineWork::kBackwardWeight, static_cast<std::int32_t>(chunk),
                        counters(chunk).weight++, false});
  }
  /// The second half of one chunk, independent of the order of the first halves.
  void weight(std::int64_t chunk) {
    owed_.erase(std::find(owed_.begin(), owed_.end(), chunk));
    actions_.push_back({PipelineWork::kBackwardWeight, static_cast<std::int32_t>(chunk),
                        counters(chunk).weight++, false});
  }
  void split(std::int64_t chunk) {
    input(chunk);
    weight(chunk);
  }
  void forward_with_backward(std::int64_t forward_chunk, std::int64_t backward_chunk) {
    forward(forward_chunk);
    actions_.back().with_next = true;
    backward(backward_chunk);
  }

  [[nodiscard]] std::int64_t owed() const { return static_cast<std::int64_t>(owed_.size()); }
  [[nodiscard]] std::int64_t forwards(std::int64_t chunk) const {
    return next_[static_cast<std::size_t>(chunk)].forward;
  }
  /// Returns the actions of micro-batches below `count`.
  [[nodiscard]] std::vector<PipelineAction> take(std::int64_t count) {
    std::erase_if(actions_, [count](const PipelineAction& action) {
      return std::int64_t{action.micro_batch} >= count;
    });
    return std::move(actions_);
  }

 private:
  struct Counters {
    std::int32_t forward = 0;
    std::int32_t backward = 0;  ///< Or its first half.
    std::int32_t weight = 0;
  };
  [[nodiscard]] Counters& counters(std::int64_t chunk) {
    return next_[static_cast<std::size_t>(chunk)];
  }
  void add(PipelineWork work, std::int64_t chunk) {
    Counters& next = counters(chunk);
    std::int32_t& index = work == PipelineWork::kForward ? next.forward : next.backward;
    actions_.push_back({work, static_cast<std::int32_t>(chunk), index++, false});
    if (work == PipelineWork::kBackward) {
      ++next.weight;
    }
  }

  std::vector<PipelineAction> actions_;
  std::vector<Counters> next_;
  std::deque<std::int64_t> owed_;  ///< Chunks whose first half has run, but not the second.
};

std::vector<PipelineAction> gpipe(const PipelineShape& shape) {
  Writer write(1);
  for (std::int64_t i = 0; i < shape.micro_batches; ++i) {
    write.forward(0);
  }
  for (std::int64_t i = 0; i < shape.micro_batches; ++i) {
    write.backward(0);
  }
  return write.take(shape.micro_batches);
}

std::vector<PipelineAction> one_forward_one_backward(const PipelineShape& shape,
                                                     std::int64_t stage) {
  const std::int64_t chunks = chunks_of(shape);
  const std::int64_t group = shape.group > 0 ? shape.group : shape.stages;
  const std::vector<std::int64_t> order = chunk_order(shape.micro_batches, chunks, group);
  const std::int64_t warmup = warmup_of_stage(shape, stage);
  const std::int64_t total = shape.micro_batches * chunks;
  Writer write(static_cast<std::size_t>(chunks));
  for (std::int64_t k = 0; k < total + warmup; ++k) {
    const std::int64_t back =
        k >= warmup ? chunks - 1 - order[static_cast<std::size_t>(k - warmup)] : 0;
    if (shape.together && k < total && k >= warmup) {
      write.forward_with_backward(order[static_cast<std::size_t>(k)], back);
      continue;
    }
    if (k < total) {
      write.forward(order[static_cast<std::size_t>(k)]);
    }
    if (k >= warmup) {
      write.backward(back);
    }
  }
  return write.take(shape.micro_batches);
}

/// As many forwards before the first backward as stages follow, this one included; weight
/// gradients run as many backwards late as stages come before:
///
///   stage 1 of 4   F F F B F B W F B W ... B W B W W
std::vector<PipelineAction> zero_bubble(const PipelineShape& shape, std::int64_t stage) {
  const std::int64_t count = shape.micro_batches;
  const std::int64_t ahead = shape.stages - stage;
  Writer write(1);
  for (std::int64_t i = 0; i < std::min(ahead, count); ++i) {
    write.forward(0);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    write.input(0);
    if (write.owed() > stage) {
      write.weight();
    }
    if (write.forwards(0) < count) {
      write.forward(0);
    }
  }
  while (write.owed() > 0) {
    write.weight();
  }
  return write.take(count);
}

/// The interleaved order with fewer forwards ahead; weight gradients are delayed by the stage's
/// index.
std::vector<PipelineAction> interleaved_zero_bubble(const PipelineShape& shape,
                                                    std::int64_t stage) {
  const std::int64_t group = shape.group > 0 ? shape.group : shape.stages;
  const std::vector<std::int64_t> order = chunk_order(shape.micro_batches, shape.chunks, group);
  const std::int64_t total = shape.micro_batches * shape.chunks;
  const std::int64_t warmup =
      std::min(shape.stages - stage - 1 + (shape.chunks - 1) * group, total);
  Writer write(static_cast<std::size_t>(shape.chunks));
  for (std::int64_t k = 0; k < total + warmup; ++k) {
    if (k < total) {
      write.forward(order[static_cast<std::size_t>(k)]);
    }
    if (k >= warmup) {
      write.input(shape.chunks - 1 - order[static_cast<std::size_t>(k - warmup)]);
    }
    if (k - warmup >= stage) {
      write.weight();
    }
  }
  while (write.owed() > 0) {
    write.weight();
  }
  return write.take(shape.micro_batches);
}

std::vector<PipelineAction> zero_bubble_v(const PipelineShape& shape, std::int64_t stage) {
  const std::int64_t after = shape.stages - stage;  // Number of stages from this one to the last.
  const std::int64_t count = std::max(2 * shape.stages - 1, shape.micro_batches);
  Writer write(2);
  for (std::int64_t i = 0; i < 2 * after - 1; ++i) {
    write.forward(0);
  }
  for (std::int64_t i = 0; i < stage; ++i) {
    write.forward(1);
    write.forward(0);
  }
  for (std::int64_t i = 0; i < after; ++i) {
    write.forward(1);
    write.split(1);
  }
  while (write.forwards(1) < write.forwards(0) || write.forwards(0) < count) {
    if (write.forwards(0) < count) {
      write.forward(0);
    }
    write.split(0);
    write.forward(1);
    write.split(1);
  }
  for (std::int64_t i = 0; i < stage; ++i) {
    write.input(0);
    write.input(1);
  }
  for (std::int64_t i = 0; i < after; ++i) {
    write.input(0);
    write.weight(0);
  }
  for (std::int64_t i = 0; i < stage; ++i) {
    write.weight(1);
  }
  while (write.owed() > 0) {
    write.weight(0);
  }
  return write.take(shape.micro_batches);
}

/// The order of one half of DualPipe's stages, from the outer ones (stage 0) to the middle.
/// Micro-batches enter at the near chunk; the far one comes back from the middle.
class DualPipe {
 public:
  DualPipe(const PipelineShape& shape, std::int64_t stage)
      : inner_(shape.stages - stage - 1),
        outer_(stage + 1),
        main_(shape.micro_batches - 2 * shape.stages + stage + 1),
        odd_(stage % 2 == 1),
        micro_batches_(shape.micro_batches),
        write_(2) {}

  [[nodiscard]] std::vector<PipelineAction> operator()() {
    fill();
    run();
    drain();
    return write_.take(micro_batches_);
  }

 private:
  void fill() {
    for (std::int64_t i = 0; i < 2 * inner_; ++i) {
      write_.forward(kNear);
    }
    for (std::int64_t i = 0; i < outer_; ++i) {
      write_.forward(kNear);
      write_.forward(kFar);
    }
    for (std::int64_t i = 0; i < inner_; ++i) {
      write_.input(kFar);
      write_.weight();
      write_.forward(kFar);
    }
  }
  void run() {
    for (std::int64_t i = 0; i < main_; ++i) {
      if (i == 0 && inner_ == 0) {  // The middle sends its first result before it starts backward.
        write_.forward(kNear);
        write_.backward(kFar);
      } else {
        write_.forward_with_backward(kNear, kFar);
      }
      write_.forward_with_backward(kFar, kNear);
    }
    for (std::int64_t i = 0; i < inner_; ++i) {
      write_.backward(kFar);
      write_.forward_with_backward(kFar, kNear);
    }
  }
  void drain() {
    bool split = false;
    const auto backward = [&](std::int64_t chunk) {
      if (split) {
        write_.input(chunk);
      } else {
        write_.backward(chunk);
      }
    };
    for (std::int64_t i = 0; i < outer_; ++i) {
      split = split || (i == outer_ / 2 && odd_);
      backward(kFar);
      split = split || (i == outer_ / 2 && !odd_);
      backward(kNear);
    }
    for (std::int64_t i = 0; i < inner_; ++i) {
      write_.weight();
      write_.input(kNear);
    }
    while (write_.owed() > 0) {
      write_.weight();
    }
  }

  static constexpr std::int64_t kNear = 0;
  static constexpr std::int64_t kFar = 1;
  std::int64_t inner_;  ///< Stages between this one and the middle.
  std::int64_t outer_;  ///< Stages from the outer end up to this one.
  std::int64_t main_;
  bool odd_;
  std::int64_t micro_batches_;
  Writer write_;
};

Status wrong(const char* what, std::int64_t got, const std::string& wanted) {
  return Error::invalid_argument(what, std::to_string(got), wanted);
}

}  // namespace

std::string_view name_of(PipelineKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"gpipe", "1f1b", "interleaved",
                                                      "zb-h1", "zb-v", "dualpipev"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::int64_t chunks_of(const PipelineShape& shape) {
  switch (shape.kind) {
    case PipelineKind::kGPipe:
    case PipelineKind::kOneForwardOneBackward:
      return 1;
    case PipelineKind::kInterleaved:
    case PipelineKind::kZbH1:
      return shape.chunks;
    case PipelineKind::kZbV:
    case PipelineKind::kDualPipeV:
      return 2;
  }
  return 1;
}

std::optional<PipelinePlace> place_after(const PipelineShape& shape, PipelinePlace place) {
  const std::int64_t last = shape.stages - 1;
  if (is_v_shaped(shape.kind)) {
    const bool back = place.chunk == 1;
    if (place.stage != (back ? 0 : last)) {
      return PipelinePlace{place.stage + (back ? -1 : 1), place.chunk};
    }
    return !back ? std::optional(PipelinePlace{last, 1}) : std::nullopt;
  }
  if (place.stage < last) {
    return PipelinePlace{place.stage + 1, place.chunk};
  }
  return place.chunk + 1 < chunks_of(shape) ? std::optional(PipelinePlace{0, place.chunk + 1})
                                            : std::nullopt;
}

std::optional<PipelinePlace> place_before(const PipelineShape& shape, PipelinePlace place) {
  const std::int64_t last = shape.stages - 1;
  if (is_v_shaped(shape.kind)) {
    const bool back = place.chunk == 1;
    if (place.stage != (back ? last : 0)) {
      return PipelinePlace{place.stage + (back ? 1 : -1), place.chunk};
    }
    return back ? std::optional(PipelinePlace{last, 0}) : std::nullopt;
  }
  if (place.stage > 0) {
    return PipelinePlace{place.stage - 1, place.chunk};
  }
  return place.chunk > 0 ? std::optional(PipelinePlace{last, place.chunk - 1}) : std::nullopt;
}

Status check_pipeline(const PipelineShape& shape) {
  for (const auto& [what, value] :
       {std::pair{"pipeline stages", shape.stages}, std::pair{"micro-batches", shape.micro_batches},
        std::pair{"chunks of a stage", shape.chunks}}) {
    if (value < 1) {
      return wrong(what, value, "at least 1");
    }
  }
  if (shape.kind == PipelineKind::kDualPipeV && shape.micro_batches < 2 * shape.stages) {
    return wrong("micro-batches", shape.micro_batches,
                 "at least " + std::to_string(2 * shape.stages) + ", twice the stages, for " +
                     std::string(name_of(shape.kind)));
  }
  return ok();
}

std::vector<PipelineAction> actions_of_stage(const PipelineShape& shape, std::int64_t stage) {
  switch (shape.kind) {
    case PipelineKind::kGPipe:
      return gpipe(shape);
    case PipelineKind::kOneForwardOneBackward:
    case PipelineKind::kInterleaved:
      return one_forward_one_backward(shape, stage);
    case PipelineKind::kZbH1:
      return shape.chunks > 1 ? interleaved_zero_bubble(shape, stage) : zero_bubble(shape, stage);
    case PipelineKind::kZbV:
      return zero_bubble_v(shape, stage);
    case PipelineKind::kDualPipeV:
      return DualPipe(shape, stage)();
  }
  return {};
}

std::vector<std::int64_t> chunk_order(std::int64_t micro_batches, std::int64_t chunks,
                                      std::int64_t group) {
  std::vector<std::int64_t> order;
  for (std::int64_t begin = 0; begin < micro_batches; begin += group) {
    const std::int64_t end = std::min(begin + group, micro_batches);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      order.insert(order.end(), static_cast<std::size_t>(end - begin), chunk);
    }
  }
  return order;
}

std::int64_t warmup_of_stage(const PipelineShape& shape, std::int64_t stage) {
  const std::int64_t after = shape.stages - stage - 1;
  const std::int64_t chunks = chunks_of(shape);
  const std::int64_t group = shape.group > 0 ? shape.group : shape.stages;
  // A forward and a backward that run at the same time do not depend on each other.
  const std::int64_t more = shape.together ? 1 : 0;
  const std::int64_t warmup = chunks > 1 ? 2 * after + (chunks - 1) * group + more : after;
  return std::min(warmup, shape.micro_batches * chunks);
}

}  // namespace headroom::ir
