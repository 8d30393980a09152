#include "costmodel/time/stream_replay.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::cost {
namespace {

using ir::WorkItem;

constexpr std::size_t kStreams = 256;
constexpr std::uint32_t kHost = StreamTimeline::kHost;

/// Some multiprocessors are left however many collectives run. A quarter is assumed; one or two
/// collectives at a time leave more.
constexpr double kLeastRate = 0.25;

/// A moment, and the item that ends then.
struct Moment {
  Seconds time;
  std::uint32_t item = kHost;
};

void await(Moment& now, const Moment& other) {
  if (other.time > now.time) {
    now = other;
  }
}

/// Properties of a shape that the replay needs.
struct ShapeCost {
  Seconds duration;
  Seconds tail;  ///< Time of the last launch.
  double launches = 1;
  bool series = false;      ///< The host launches it in a loop.
  bool exchange = false;    ///< A token exchange.
  bool host = false;        ///< Runs on the host itself.
  bool arithmetic = false;  ///< Keeps every multiprocessor busy.
  bool collective = false;
};

ShapeCost shape_cost(const ir::WorkShape& shape, Seconds duration) {
  ShapeCost cost{.duration = duration, .tail = duration};
  const auto* gemm = std::get_if<ir::GemmShape>(&shape);
  if (gemm != nullptr && gemm->batch == ir::GemmBatch::kSeries) {
    cost.series = true;
    cost.launches = static_cast<double>(gemm->count);
  }
  if (const auto* traffic = std::get_if<ir::TrafficShape>(&shape)) {
    cost.launches = static_cast<double>(std::max<std::int64_t>(traffic->launches, 1));
  }
  cost.tail = (1 / cost.launches) * duration;
  cost.arithmetic = gemm != nullptr || std::holds_alternative<ir::AttentionShape>(shape);
  const auto* collective = std::get_if<ir::CollectiveShape>(&shape);
  cost.collective = collective != nullptr;
  cost.exchange = cost.collective && collective->kind == ir::CollectiveKind::kTokenExchange;
  const auto* copy = std::get_if<ir::CopyShape>(&shape);
  cost.host = copy != nullptr &&
              (copy->kind == ir::CopyKind::kHostWork || copy->kind == ir::CopyKind::kNvme);
  return cost;
}

class Replay {
 public:
  Replay(const ir::DeviceWork& work, const WorkCosts& costs)
      : work_(work), costs_(costs), marks_(work.marks) {
    HEADROOM_ASSERT(costs.durations.size() == work.shapes.size());
    shapes_.reserve(work.shapes.size());
    for (std::size_t i = 0; i < work.shapes.size(); ++i) {
      shapes_.push_back(shape_cost(work.shapes[i], costs.durations[i]));
    }
  }

  [[nodiscard]] StreamTimeline operator()() {
    const std::size_t count = work_.items.size();
    out_.begin.resize(count);
    out_.end.resize(count);
    out_.blocker.assign(count, kHost);
    out_.host_wait_of.resize(count);
    std::array<Seconds, kStreams> busy{};
    std::size_t streams = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const WorkItem& item = work_.items[i];
      out_.host_wait_of[i] = static_cast<std::uint32_t>(out_.host_waits.size());
      step(item, static_cast<std::uint32_t>(i));
      if (item.kind == WorkItem::Kind::kRun) {
        busy[item.stream] += shapes_[item.index].duration;
        streams = std::max(streams, std::size_t{item.stream} + 1);
      }
    }
    out_.busy.assign(busy.begin(), busy.begin() + static_cast<std::ptrdiff_t>(streams));
    for (const Moment& stream : streams_) {
      out_.total = std::max(out_.total, stream.time);
    }
    out_.total = std::max(out_.total, host_);
    return std::move(out_);
  }

 private:
  void step(const WorkItem& item, std::uint32_t index) {
    Moment& stream = streams_[item.stream];
    switch (item.kind) {
      case WorkItem::Kind::kRun:
        run(item, index);
        return;
      case WorkItem::Kind::kRecord:
        marks_[item.index] = stream;
        break;
      case WorkItem::Kind::kWait:
        await(stream, marks_[item.index]);
        break;
      case WorkItem::Kind::kHost:
        if (const Moment& mark = marks_[item.index]; mark.time > host_) {
          host_ = mark.time;
          out_.host_waits.push_back({.until = mark.time, .item = mark.item});
        }
        out_.begin[index] = out_.end[index] = host_;
        return;
    }
    out_.begin[index] = out_.end[index] = stream.time;
    out_.blocker[index] = stream.item;
  }

  void run(const WorkItem& item, std::uint32_t index) {
    const ShapeCost& cost = shapes_[item.index];
    const Seconds call = call_of(item, cost);
    if (item.loop > 1) {
      host_ += static_cast<double>(item.loop - 1) * costs_.tensor;
    }
    Moment now{host_ + (cost.host ? Seconds{} : call), kHost};
    Moment& stream = streams_[item.stream];
    if (stream.time >= now.time) {
      now = stream;
    }
    if (cost.arithmetic) {
      await(now, arithmetic_);
    }
    const bool shares = item.stream == 0 && cost.arithmetic && costs_.taken_ratio > 0;
    Seconds end = shares ? end_beside(now.time, cost.duration) : now.time + cost.duration;
    if (cost.collective && item.stream != 0) {
      collectives_.push_back({now.time, end});
    }
    if (cost.host) {
      host_ = end;
    } else {
      host_ += cost.launches * call;
      end = std::max(end, host_ + cost.tail);
    }
    out_.begin[index] = now.time;
    out_.end[index] = end;
    out_.blocker[index] = now.item;
    stream = {end, index};
    arithmetic_ = cost.arithmetic ? stream : arithmetic_;
  }

  /// Host time for each launch of an item.
  [[nodiscard]] Seconds call_of(const WorkItem& item, const ShapeCost& cost) const {
    if (item.site < costs_.graphed.size() && costs_.graphed[item.site]) {
      return costs_.graph;
    }
    if (cost.exchange) {
      return costs_.exchange.value_or(costs_.launch);
    }
    return cost.series || item.loop > 0 ? costs_.looped.value_or(costs_.launch) : costs_.launch;
  }

  /// When `alone` ends if it starts at `begin` with the multiprocessors that collectives leave.
  Seconds end_beside(Seconds begin, Seconds alone) {
    // The compute stream never goes back, so collectives that have ended are dropped.
    std::erase_if(collectives_, [begin](const Span& span) { return span.end <= begin; });
    Seconds at = begin;
    while (true) {
      double rate = 1;
      Seconds change{std::numeric_limits<double>::infinity()};
      for (const Span& span : collectives_) {
        if (span.begin <= at && at < span.end) {
          rate -= costs_.taken_ratio;
          change = std::min(change, span.end);
        } else if (at < span.begin) {
          change = std::min(change, span.begin);
        }
      }
      rate = std::max(rate, kLeastRate);
      const Seconds until = change - at;
      if (alone <= rate * until) {
        return at + (1 / rate) * alone;
      }
      alone = alone - rate * until;
      at = change;
    }
  }

  struct Span {
    Seconds begin;
    Seconds end;
  };

  const ir::DeviceWork& work_;
  const WorkCosts& costs_;
  std::vector<Span> collectives_;  ///< On other streams; computation may overlap with them.
  std::vector<ShapeCost> shapes_;
  std::vector<Moment> marks_;
  std::array<Moment, kStreams> streams_{};
  Moment arithmetic_;  ///< End of the last product or attention kernel of any stream.
  Seconds host_;
  StreamTimeline out_;
};

/// Splits one gap of the compute stream among the items that it waited for.
class GapCutter {
 public:
  GapCutter(const StreamTimeline& timeline, std::vector<Stall>& out)
      : timeline_(timeline), out_(out) {}

  void operator()(std::uint32_t late, Seconds from) {
    late_ = late;
    from_ = from;
    at_ = timeline_.begin[late];
    std::uint32_t item = late;
    while (at_ > from_) {
      const std::uint32_t blocker = timeline_.blocker[item];
      if (blocker != kHost) {
        item = blocker;
      } else {
        const std::uint32_t waits = timeline_.host_wait_of[item];
        const auto* wait = waits > 0 ? &timeline_.host_waits[waits - 1] : nullptr;
        take(kHost, wait != nullptr ? wait->until : Seconds{});
        if (wait == nullptr || wait->item == kHost || at_ <= from_) {
          take(kHost, from_);
          return;
        }
        item = wait->item;
      }
      take(kHost, timeline_.end[item]);
      take(item, timeline_.begin[item]);
    }
  }

 private:
  /// Assigns the time from `down_to` to the current position to `blocker`.
  void take(std::uint32_t blocker, Seconds down_to) {
    const Seconds low = std::max(down_to, from_);
    if (low < at_) {
      out_.push_back({late_, blocker, at_ - low});
      at_ = low;
    }
  }

  const StreamTimeline& timeline_;
  std::vector<Stall>& out_;
  std::uint32_t late_ = 0;
  Seconds from_;
  Seconds at_;
};

bool computes(const WorkItem& item) {
  return item.kind == WorkItem::Kind::kRun && item.stream == 0;
}

}  // namespace

StreamTimeline replay_streams(const ir::DeviceWork& work, const WorkCosts& costs) {
  return Replay(work, costs)();
}

std::vector<Stall> stalls_of(const ir::DeviceWork& work, const StreamTimeline& timeline,
                             ItemRange range) {
  std::vector<Stall> stalls;
  GapCutter cut(timeline, stalls);
  Seconds idle_from;
  std::size_t before = range.first;
  while (before > 0 && !computes(work.items[before - 1])) {
    --before;
  }
  if (before > 0) {
    idle_from = timeline.end[before - 1];
  }
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (computes(work.items[i])) {
      if (timeline.begin[i] > idle_from) {
        cut(static_cast<std::uint32_t>(i), idle_from);
      }
      idle_from = timeline.end[i];
    }
  }
  return stalls;
}

}  // namespace headroom::cost
