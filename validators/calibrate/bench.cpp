#include "validators/calibrate/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

namespace headroom::calibrate {
namespace {

using exec::Device;
using exec::kComputeStream;
using Table = HeadroomDeviceTable;

constexpr int kRepetitions = 9;
constexpr double kRepetitionSeconds = 0.02;
constexpr std::int64_t kMostCalls = 400;  // The driver queues about a thousand launches.
/// The longest time that the host needs for one call of the plugin and the driver.
constexpr double kHostSeconds = 10e-6;
/// Calls that take longer need no other work before them.
constexpr double kLongSeconds = 200e-6;
constexpr std::int64_t kMostClears = 16;
constexpr double kNormEpsilon = 1e-5;
constexpr std::int64_t kColumns = 4096;

std::int32_t abi_type(ir::DType dtype) {
  return static_cast<std::int32_t>(dtype);
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Bench::Bench(Device& device, HostClock clock) : device_(device), clock_(std::move(clock)) {}

Bench::~Bench() {
  device_.run(&Table::stream_synchronize, kComputeStream);
  for (std::byte* const memory : {arena_, workspace_}) {
    if (memory != nullptr) {
      device_.table().memory_free(device_.handle(), memory);
    }
  }
  if (pinned_ != nullptr) {
    device_.table().host_free(device_.handle(), pinned_);
  }
}

Result<std::unique_ptr<Bench>> Bench::make(Device& device, const std::vector<Case>& cases,
                                           HostClock clock) {
  std::unique_ptr<Bench> bench(new Bench(device, std::move(clock)));
  bench->arena_bytes_ = memory_of(cases).value();
  std::int64_t host_bytes = 0;
  for (const Case& one : cases) {
    if (const auto* const copy = std::get_if<CopyCase>(&one.what)) {
      host_bytes = std::max(host_bytes, copy->shape.bytes);
    }
  }
  void* arena = nullptr;
  void* workspace = nullptr;
  void* pinned = nullptr;
  device.run(&Table::memory_allocate, bench->arena_bytes_, &arena);
  device.run(&Table::memory_allocate, kWorkspace.value(), &workspace);
  device.run(&Table::host_allocate, host_bytes, &pinned);
  bench->arena_ = static_cast<std::byte*>(arena);
  bench->workspace_ = static_cast<std::byte*>(workspace);
  bench->pinned_ = static_cast<std::byte*>(pinned);
  if (Status made = device.status(); !made) {
    return std::move(made).error();
  }
  if (arena == nullptr || workspace == nullptr || pinned == nullptr) {
    return Error::environment(device.info().name, "not enough free memory",
                              to_text(Bytes{bench->arena_bytes_} + kWorkspace) +
                                  " of the device and " + to_text(Bytes{host_bytes}) +
                                  " of page-locked host memory",
                              "stop the other processes that use this GPU");
  }
  device.run(&Table::event_create, &bench->begin_);
  device.run(&Table::event_create, &bench->end_);
  const Call clear = [raw = bench.get()] {
    raw->device_.run(&Table::clear, kComputeStream, static_cast<void*>(raw->arena_),
                     raw->arena_bytes_);
  };
  clear();
  bench->clear_seconds_ = bench->device_seconds(clear, 1, false);
  if (Status ready = device.status(); !ready) {
    return std::move(ready).error();
  }
  return bench;
}

std::byte* Bench::take(std::int64_t bytes) {
  std::byte* const tensor = arena_ + taken_;
  taken_ += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  return tensor;
}

std::byte* Bench::normal(std::int64_t elements, ir::DType dtype) {
  // Zeros would draw less power, and products of zeros would run at higher clocks.
  std::byte* const tensor = take(elements * ir::bits_of(dtype) / 8);
  device_.run(&Table::random_normal, kComputeStream, static_cast<void*>(tensor), abi_type(dtype),
              std::int64_t{0}, elements, elements, std::int64_t{0}, std::int64_t{0}, elements,
              static_cast<std::uint64_t>(taken_), 0.0, 1.0);
  return tensor;
}

Bench::Call Bench::prepare(const GemmCase& gemm) {
  const ir::GemmShape& shape = gemm.shape;
  const bool transpose_a = shape.layout == ir::GemmLayout::kNT;
  const bool transpose_b = shape.layout == ir::GemmLayout::kTN;
  HeadroomGemm call{};
  call.m = shape.m;
  call.n = shape.n;
  call.k = shape.k;
  call.transpose_a = transpose_a ? 1 : 0;
  call.transpose_b = transpose_b ? 1 : 0;
  call.type = abi_type(shape.dtype);
  call.output_type = call.type;
  call.math = gemm.math;
  call.alpha = 1;
  call.a = normal(shape.m * shape.k, shape.dtype);
  call.b = normal(shape.k * shape.n, shape.dtype);
  call.c = take(shape.m * shape.n * ir::bits_of(shape.dtype) / 8);
  call.a_row = transpose_a ? shape.m : shape.k;
  call.b_row = transpose_b ? shape.k : shape.n;
  call.c_row = shape.n;
  call.outer = 1;
  call.inner = 1;
  call.workspace = gemm.workspace ? workspace_ : nullptr;
  return [this, call] { device_.run(&Table::gemm, kComputeStream, &call); };
}

Bench::Call Bench::prepare(const AttentionCase& attention) {
  const ir::AttentionShape& shape = attention.shape;
  const std::int64_t rows = shape.batch * shape.queries;
  const std::int64_t query_row = shape.heads * shape.head_dim;
  const std::int64_t key_row = shape.kv_heads * shape.head_dim;
  const std::int64_t size = ir::bits_of(shape.dtype) / 8;
  HeadroomAttention call{};
  call.batch = shape.batch;
  call.sequence = shape.queries;
  call.heads = shape.heads;
  call.kv_heads = shape.kv_heads;
  call.head_dim = shape.head_dim;
  call.scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  call.type = abi_type(shape.dtype);
  call.q = normal(rows * query_row, shape.dtype);
  call.k = normal(rows * key_row, shape.dtype);
  call.v = normal(rows * key_row, shape.dtype);
  call.q_row = query_row;
  call.k_row = key_row;
  call.v_row = key_row;
  call.out = take(rows * query_row * size);
  call.out_row = query_row;
  call.log_sum = take(4 * rows * shape.heads);
  if (!shape.backward) {
    return [this, call] { device_.run(&Table::attention, kComputeStream, &call); };
  }
  device_.run(&Table::attention, kComputeStream, &call);
  call.dout = normal(rows * query_row, shape.dtype);
  call.dout_row = query_row;
  call.dq = take(rows * query_row * size);
  call.dk = take(rows * key_row * size);
  call.dv = take(rows * key_row * size);
  call.dq_row = query_row;
  call.dk_row = key_row;
  call.dv_row = key_row;
  call.delta = take(4 * rows * shape.heads);
  call.accumulator = take(4 * rows * query_row);
  return [this, call] { device_.run(&Table::attention_backward, kComputeStream, &call); };
}

Bench::Call Bench::prepare(const TrafficCase& traffic) {
  const std::int64_t count = traffic.elements;
  constexpr std::int64_t kHalf = 2;
  switch (traffic.call) {
    case TrafficCall::kCopy: {
      const std::byte* const from = normal(count, ir::DType::kBf16);
      std::byte* const to = take(kHalf * count);
      return [=, this] {
        device_.run(&Table::copy, kComputeStream, static_cast<void*>(to),
                    static_cast<const void*>(from), kHalf * count,
                    static_cast<std::int32_t>(HEADROOM_DEVICE_TO_DEVICE));
      };
    }
    case TrafficCall::kAdd: {
      const std::byte* const a = normal(count, ir::DType::kBf16);
      const std::byte* const b = normal(count, ir::DType::kBf16);
      std::byte* const sum = take(kHalf * count);
      return [=, this] {
        device_.run(&Table::add, kComputeStream, static_cast<void*>(sum),
                    static_cast<const void*>(a), static_cast<const void*>(b),
                    abi_type(ir::DType::kBf16), count);
      };
    }
    case TrafficCall::kCast: {
      const std::byte* const from = normal(count, ir::DType::kFp32);
      std::byte* const to = take(kHalf * count);
      return [=, this] {
        device_.run(&Table::cast, kComputeStream, static_cast<void*>(to),
                    abi_type(ir::DType::kBf16), static_cast<const void*>(from),
                    abi_type(ir::DType::kFp32), count);
      };
    }
    case TrafficCall::kNorm:
      break;
  }
  const std::int64_t rows = count / kColumns;
  const std::byte* const x = normal(count, ir::DType::kBf16);
  std::byte* const y = take(kHalf * count);
  const std::byte* const weight = normal(kColumns, ir::DType::kBf16);
  std::byte* const scales = take(4 * rows);
  return [=, this] {
    device_.run(&Table::norm, kComputeStream, static_cast<std::int32_t>(HEADROOM_RMS_NORM),
                static_cast<void*>(y), kColumns, static_cast<void*>(nullptr),
                static_cast<void*>(scales), static_cast<const void*>(x), kColumns,
                static_cast<const void*>(weight), static_cast<const void*>(nullptr),
                abi_type(ir::DType::kBf16), rows, kColumns, kNormEpsilon);
  };
}

Bench::Call Bench::prepare(const LaunchCase& /*launch*/) {
  std::byte* const out = take(kTensorAlignment);
  return [this, out] {
    device_.run(&Table::fill, kComputeStream, static_cast<void*>(out), abi_type(ir::DType::kFp32),
                std::int64_t{1}, 0.0);
  };
}

Bench::Call Bench::prepare(const CopyCase& copy) {
  std::byte* const device = take(copy.shape.bytes);
  if (!copy.pinned && static_cast<std::int64_t>(pageable_.size()) < copy.shape.bytes) {
    pageable_.resize(static_cast<std::size_t>(copy.shape.bytes));
  }
  std::byte* const host = copy.pinned ? pinned_ : pageable_.data();
  const bool to_device = copy.shape.kind == ir::CopyKind::kHostToDevice;
  std::byte* const to = to_device ? device : host;
  const std::byte* const from = to_device ? host : device;
  const std::int64_t bytes = copy.shape.bytes;
  return [=, this] {
    device_.run(
        &Table::copy, kComputeStream, static_cast<void*>(to), static_cast<const void*>(from), bytes,
        static_cast<std::int32_t>(to_device ? HEADROOM_HOST_TO_DEVICE : HEADROOM_DEVICE_TO_HOST));
  };
}

void Bench::get_ahead(std::int64_t calls) {
  // The end of the arena belongs to no tensor of a short case; its content does not matter anyway.
  const double needed = static_cast<double>(calls) * kHostSeconds / std::max(clear_seconds_, 1e-9);
  const std::int64_t clears = std::clamp(static_cast<std::int64_t>(std::min(needed, 1e3)) + 1,
                                         std::int64_t{1}, kMostClears);
  for (std::int64_t i = 0; i < clears; ++i) {
    device_.run(&Table::clear, kComputeStream, static_cast<void*>(arena_ + taken_),
                arena_bytes_ - taken_);
  }
}

double Bench::device_seconds(const Call& call, std::int64_t calls, bool ahead) {
  if (ahead) {
    get_ahead(calls);
  }
  device_.run(&Table::event_record, begin_, kComputeStream);
  for (std::int64_t i = 0; i < calls; ++i) {
    call();
  }
  device_.run(&Table::event_record, end_, kComputeStream);
  double seconds = 0;
  device_.run(&Table::event_seconds, begin_, end_, &seconds);
  return seconds / static_cast<double>(calls);
}

double Bench::host_seconds(const Call& call, std::int64_t calls) {
  const double begin = clock_();
  for (std::int64_t i = 0; i < calls; ++i) {
    call();
  }
  const double end = clock_();
  device_.run(&Table::stream_synchronize, kComputeStream);
  return (end - begin) / static_cast<double>(calls);
}

Result<Measurement> Bench::measure(const Case& one) {
  taken_ = 0;
  const Call call = std::visit([this](const auto& what) { return prepare(what); }, one.what);
  const auto* const launch = std::get_if<LaunchCase>(&one.what);
  const bool on_host = launch != nullptr && launch->side == LaunchSide::kHost;
  constexpr std::int64_t kTries = 3;
  static_cast<void>(
      device_seconds(call, kTries, false));  // The first calls load kernels and choose algorithms.
  const double once = device_seconds(call, kTries, false);
  Measurement measurement{.name = one.name, .calls = kMostCalls, .seconds = {}};
  if (once > 0) {
    const double calls = std::min(kRepetitionSeconds / once, static_cast<double>(kMostCalls));
    measurement.calls = std::max(std::int64_t{1}, static_cast<std::int64_t>(calls));
  }
  for (int i = 0; i < kRepetitions && !device_.failed(); ++i) {
    measurement.seconds.push_back(
        on_host ? host_seconds(call, measurement.calls)
                : device_seconds(call, measurement.calls, once < kLongSeconds));
  }
  if (Status done = device_.status(); !done) {
    Error error = std::move(done).error();
    error.notes.push_back("while measuring " + one.name);
    return error;
  }
  return measurement;
}

Status Bench::warm_up(double seconds) {
  taken_ = 0;
  constexpr std::int64_t kSide = 8192;
  const Call call = prepare(GemmCase{.shape = {.m = kSide, .n = kSide, .k = kSide}});
  const double until = clock_() + seconds;
  constexpr std::int64_t kAtOnce = 20;
  while (clock_() < until && !device_.failed()) {
    static_cast<void>(device_seconds(call, kAtOnce, false));
  }
  return device_.status();
}

}  // namespace headroom::calibrate
