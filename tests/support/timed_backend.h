#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "costmodel/hardware/kernel_time.h"
#include "validators/executor/device_abi.h"

namespace headroom::test {

/// A backend that computes nothing and takes the time that the time model says for a given
/// performance: what is measured on it is known. One device at a time.
struct TimedBackend {
  cost::DevicePerformance performance;
  std::string name = "NVIDIA H100 80GB HBM3";
  std::int64_t total_bytes = 85'017'493'504;
  std::int64_t free_bytes = 84'000'000'000;
  double without_workspace = 1.25;  ///< Time of a product without a workspace.
  double pageable = 4;              ///< Time of a copy of pageable memory, relative to pinned.
  /// Multiplies the time of everything between two events; called once for each such measurement.
  std::function<double()> noise = [] { return 1.0; };
  std::string failure{};  ///< The next product fails with this sentence.

  double now = 0;   ///< Seconds that the device has worked.
  double host = 0;  ///< Seconds of the host's clock.
  std::vector<double> events{};
  std::int64_t products = 0;
  std::int64_t live = 0;  ///< Blocks of memory that were not given back.

  [[nodiscard]] const HeadroomDeviceTable& table();

 private:
  static TimedBackend& of(HeadroomDevice* device) {
    return *reinterpret_cast<TimedBackend*>(device);
  }
  static std::int32_t work(HeadroomDevice* device, Seconds time) {
    TimedBackend& self = of(device);
    self.now += time.value();
    self.host += self.performance.launch.driver.value();
    return 0;
  }
  static std::int32_t traffic(HeadroomDevice* device, std::int64_t bytes) {
    return work(device, cost::traffic_time(of(device).performance, {.bytes = bytes}));
  }
  static std::int32_t attend(HeadroomDevice* device, const HeadroomAttention& call, bool backward) {
    cost::DevicePerformance own = of(device).performance;
    own.attention.flash2 = own.attention.executor;
    return work(device, cost::attention_time(own, {.batch = call.batch,
                                                   .heads = call.heads,
                                                   .kv_heads = call.kv_heads,
                                                   .queries = call.sequence,
                                                   .keys = call.sequence,
                                                   .head_dim = call.head_dim,
                                                   .value_dim = call.head_dim,
                                                   .backward = backward}));
  }
  static std::int32_t multiply(HeadroomDevice* device, const HeadroomGemm& call) {
    TimedBackend& self = of(device);
    if (!self.failure.empty()) {
      return 1;
    }
    ++self.products;
    ir::GemmShape shape{.m = call.m,
                        .n = call.n,
                        .k = call.k,
                        .dtype = static_cast<ir::DType>(call.type),
                        .layout = call.transpose_b != 0   ? ir::GemmLayout::kTN
                                  : call.transpose_a != 0 ? ir::GemmLayout::kNT
                                                          : ir::GemmLayout::kNN};
    double factor = call.workspace == nullptr ? self.without_workspace : 1;
    if (call.math == HEADROOM_MATH_TF32) {
      shape.dtype = ir::DType::kBf16;
      factor *= 2;
    }
    return work(device, factor * cost::gemm_time(self.performance, shape));
  }
  static std::int32_t transfer(HeadroomDevice* device, const void* to, const void* from,
                               std::int64_t bytes, std::int32_t kind);
};

namespace timed_backend {

// Addresses that nobody follows.
inline void* const kDeviceMemory = reinterpret_cast<void*>(0x100000000000);
inline void* const kPinnedMemory = reinterpret_cast<void*>(0x200000000000);
inline TimedBackend* opened = nullptr;

}  // namespace timed_backend

inline std::int32_t TimedBackend::transfer(HeadroomDevice* device, const void* to, const void* from,
                                           std::int64_t bytes, std::int32_t kind) {
  const TimedBackend& self = of(device);
  if (kind == HEADROOM_DEVICE_TO_DEVICE) {
    return traffic(device, 2 * bytes);
  }
  const bool to_device = kind == HEADROOM_HOST_TO_DEVICE;
  const bool pinned = (to_device ? from : to) == timed_backend::kPinnedMemory;
  const Seconds time = cost::copy_time(
      self.performance,
      {.kind = to_device ? ir::CopyKind::kHostToDevice : ir::CopyKind::kDeviceToHost,
       .bytes = bytes});
  return work(device, (pinned ? 1 : self.pageable) * time);
}

inline const HeadroomDeviceTable& TimedBackend::table() {
  timed_backend::opened = this;
  static const HeadroomDeviceTable made = [] {
    using D = HeadroomDevice*;
    using S = HeadroomStream;
    HeadroomDeviceTable t{};
    t.version = HEADROOM_DEVICE_ABI_VERSION;
    t.size = static_cast<std::int32_t>(sizeof t);
    t.backend = "timed";
    t.open = [](const HeadroomOpen*, D* device, char*, std::int64_t) {
      *device = reinterpret_cast<D>(timed_backend::opened);
      return 0;
    };
    t.close = [](D) {};
    t.last_error = [](D d) { return of(d).failure.c_str(); };
    t.info = [](D d, HeadroomDeviceInfo* info) {
      *info = {};
      std::snprintf(info->name, sizeof info->name, "%s", of(d).name.c_str());
      std::snprintf(info->libraries, sizeof info->libraries, "driver for CUDA 13.0");
      info->total_bytes = of(d).total_bytes;
      info->free_bytes = of(d).free_bytes;
      info->compute_major = 9;
      info->multiprocessors = of(d).performance.multiprocessors;
      info->can_compute = 1;
      return 0;
    };
    t.memory_allocate = [](D d, std::int64_t bytes, void** memory) {
      const bool fits = bytes <= of(d).free_bytes;
      of(d).live += fits ? 1 : 0;
      *memory = fits ? timed_backend::kDeviceMemory : nullptr;
      return 0;
    };
    t.memory_free = [](D d, void*) {
      --of(d).live;
      return 0;
    };
    t.host_allocate = [](D d, std::int64_t, void** memory) {
      ++of(d).live;
      *memory = timed_backend::kPinnedMemory;
      return 0;
    };
    t.host_free = t.memory_free;
    t.stream_synchronize = [](D, S) { return 0; };
    t.event_create = [](D d, HeadroomEvent* event) {
      *event = static_cast<HeadroomEvent>(of(d).events.size());
      of(d).events.push_back(0);
      return 0;
    };
    t.event_record = [](D d, HeadroomEvent event, S) {
      of(d).events[static_cast<std::size_t>(event)] = of(d).now;
      return 0;
    };
    t.event_seconds = [](D d, HeadroomEvent begin, HeadroomEvent end, double* seconds) {
      const std::vector<double>& recorded = of(d).events;
      *seconds = of(d).noise() * (recorded[static_cast<std::size_t>(end)] -
                                  recorded[static_cast<std::size_t>(begin)]);
      return 0;
    };
    t.copy = [](D d, S, void* to, const void* from, std::int64_t bytes, std::int32_t kind) {
      return transfer(d, to, from, bytes, kind);
    };
    t.clear = [](D d, S, void*, std::int64_t bytes) { return traffic(d, bytes); };
    t.fill = [](D d, S, void*, std::int32_t, std::int64_t, double) { return traffic(d, 0); };
    t.random_normal = [](D, S, void*, std::int32_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, std::int64_t, std::int64_t, std::uint64_t, double,
                         double) { return 0; };
    t.add = [](D d, S, void*, const void*, const void*, std::int32_t, std::int64_t count) {
      return traffic(d, 6 * count);
    };
    t.cast = [](D d, S, void*, std::int32_t, const void*, std::int32_t, std::int64_t count) {
      return traffic(d, 6 * count);
    };
    t.norm = [](D d, S, std::int32_t, void*, std::int64_t, void*, void*, const void*, std::int64_t,
                const void*, const void*, std::int32_t, std::int64_t rows, std::int64_t columns,
                double) { return traffic(d, 4 * rows * columns); };
    t.gemm = [](D d, S, const HeadroomGemm* call) { return multiply(d, *call); };
    t.attention = [](D d, S, const HeadroomAttention* call) { return attend(d, *call, false); };
    t.attention_backward = [](D d, S, const HeadroomAttention* call) {
      return attend(d, *call, true);
    };
    return t;
  }();
  return made;
}

}  // namespace headroom::test
