#include "runtimes/torch/work_recorder.h"

#include <algorithm>
#include <initializer_list>
#include <variant>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {
namespace {

/// Lower stream ids are those on which tensors are allocated.
constexpr StreamId kFirstCommunicator = 48;

std::uint64_t mix(std::initializer_list<std::int64_t> values) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio.
  std::uint64_t hash = 0;
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * kOdd;
    hash ^= hash >> 29;
  }
  return hash;
}

std::uint64_t hash_of(const GemmShape& shape) {
  return mix({shape.m, shape.n, shape.k, shape.count, static_cast<std::int64_t>(shape.dtype),
              static_cast<std::int64_t>(shape.layout), static_cast<std::int64_t>(shape.batch),
              (shape.accumulate ? 1 : 0) + (shape.micro_scaled ? 2 : 0)});
}

std::uint64_t hash_of(const AttentionShape& shape) {
  return mix({shape.batch, shape.heads, shape.kv_heads, shape.queries, shape.keys, shape.head_dim,
              shape.value_dim, shape.window, static_cast<std::int64_t>(shape.dtype),
              shape.causal ? 1 : 0, shape.backward ? 1 : 0,
              static_cast<std::int64_t>(shape.kernel)});
}

std::uint64_t hash_of(const TrafficShape& shape) {
  return mix({shape.bytes, shape.launches, static_cast<std::int64_t>(shape.kind), shape.elements});
}

std::uint64_t hash_of(const CollectiveShape& shape) {
  return mix({static_cast<std::int64_t>(shape.kind), shape.bytes, shape.group.size,
              shape.group.stride, shape.group.outer_size, shape.group.outer_stride,
              static_cast<std::int64_t>(shape.axis)});
}

std::uint64_t hash_of(const CopyShape& shape) {
  return mix({static_cast<std::int64_t>(shape.kind), shape.bytes});
}

}  // namespace

template <class Shape>
std::uint32_t WorkRecorder::index_of(const Shape& shape) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash_of(shape) & mask;; slot = (slot + 1) & mask) {
    const std::uint32_t found = slots_[slot];
    if (found == 0) {
      work_.shapes.emplace_back(shape);
      const auto index = static_cast<std::uint32_t>(work_.shapes.size() - 1);
      slots_[slot] = index + 1;
      if (2 * work_.shapes.size() > slots_.size()) {
        grow();
      }
      return index;
    }
    const Shape* const same = std::get_if<Shape>(&work_.shapes[found - 1]);
    if (same != nullptr && *same == shape) {
      return found - 1;
    }
  }
}

template std::uint32_t WorkRecorder::index_of(const GemmShape&);
template std::uint32_t WorkRecorder::index_of(const AttentionShape&);
template std::uint32_t WorkRecorder::index_of(const TrafficShape&);
template std::uint32_t WorkRecorder::index_of(const CollectiveShape&);
template std::uint32_t WorkRecorder::index_of(const CopyShape&);

void WorkRecorder::grow() {
  slots_.assign(2 * slots_.size(), 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t index = 0; index < work_.shapes.size(); ++index) {
    std::size_t slot =
        std::visit([](const auto& shape) { return hash_of(shape); }, work_.shapes[index]) & mask;
    while (slots_[slot] != 0) {
      slot = (slot + 1) & mask;
    }
    slots_[slot] = static_cast<std::uint32_t>(index + 1);
  }
}

void WorkRecorder::name_stream(StreamId stream, std::string_view name) {
  if (work_.streams.size() <= stream) {
    work_.streams.resize(std::size_t{stream} + 1);
  }
  work_.streams[stream] = name;
}

StreamId WorkRecorder::communicator(const RankGroup& group, std::string_view purpose) {
  for (const Communicator& each : communicators_) {
    if (each.group == group && each.purpose == purpose) {
      return each.stream;
    }
  }
  const std::size_t number = kFirstCommunicator + communicators_.size();
  HEADROOM_ASSERT(number <= 255);
  const auto stream = static_cast<StreamId>(number);
  communicators_.push_back({.group = group, .purpose = std::string(purpose), .stream = stream});
  name_stream(stream, purpose);
  return stream;
}

DeviceWork WorkRecorder::take() {
  return std::move(work_);
}

}  // namespace headroom::ir::torch
