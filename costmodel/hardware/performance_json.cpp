#include "costmodel/hardware/performance_json.h"

#include <algorithm>
#include <utility>

#include "model_ir/json/json_writer.h"

namespace headroom::cost {
namespace {

ir::JsonFields gemm_fields(const GemmPerformance& gemm, const DeviceSpec& device) {
  ir::JsonFields fields;
  const FlopsPerSecond half = device.half.value_or(device.fp32);
  fields.add("half_share", gemm.half / half);
  if (device.fp8) {
    fields.add("fp8_share", gemm.fp8 / *device.fp8);
  }
  fields.add("fp32_share", gemm.fp32 / device.fp32);
  fields.add("tile_loss_elements", gemm.tile_loss);
  fields.add("k_overhead_elements", gemm.k_overhead);
  fields.add("wave_loss_share", gemm.wave_loss);
  fields.add("overlap_loss_share", gemm.overlap_loss);
  fields.add("floor_seconds", gemm.floor.value());
  fields.add("input_gradient_time", gemm.input_gradient);
  fields.add("weight_gradient_time", gemm.weight_gradient);
  fields.add("together_rate", gemm.together);
  fields.add("uneven_rows_rate", gemm.uneven_rows);
  fields.add("odd_rows_rate", gemm.odd_rows);
  if (gemm.micro_scaled != 1) {
    fields.add("micro_scaled_time", gemm.micro_scaled);
  }
  fields.add("series_time", gemm.series);
  fields.add("accumulate_loss_share", gemm.accumulate_loss);
  fields.add("series_call_seconds", gemm.series_call.value());
  fields.add("source", "gemm");
  return fields;
}

void add_attention_rates(ir::JsonFields& fields, const AttentionRates& rates, FlopsPerSecond half) {
  fields.add("forward_64_share", rates.forward_64 / half);
  fields.add("forward_128_share", rates.forward_128 / half);
  fields.add("backward_64_share", rates.backward_64 / half);
  fields.add("backward_128_share", rates.backward_128 / half);
  fields.add("forward_wide_share", rates.forward_wide / half);
  fields.add("backward_wide_share", rates.backward_wide / half);
}

ir::JsonFields attention_fields(const AttentionPerformance& attention, const DeviceSpec& device) {
  const FlopsPerSecond half = device.half.value_or(device.fp32);
  ir::JsonFields fields;
  add_attention_rates(fields, attention.native, half);
  const auto add_group = [&](const char* key, const AttentionRates& rates) {
    ir::JsonFields group;
    add_attention_rates(group, rates, half);
    fields.add(key, std::move(group));
  };
  add_group("flash2", attention.flash2);
  add_group("efficient", attention.efficient);
  add_group("executor", attention.executor);
  fields.add("wide_rate", 1.0);  // Every group has rates of its own for wide heads.
  fields.add("key_overhead_elements", attention.key_overhead);
  fields.add("floor_seconds", attention.floor.value());
  fields.add("source", "attention");
  return fields;
}

ir::JsonFields memory_fields(const MemoryPerformance& memory, const DeviceSpec& device) {
  ir::JsonFields fields;
  fields.add("share", memory.rate / device.memory_bandwidth);
  fields.add("permutation_share", memory.permutation / device.memory_bandwidth);
  fields.add("cross_entropy_share", memory.cross_entropy / device.memory_bandwidth);
  const auto add_rate = [&fields](const char* key, double rate) {
    if (rate > 0) {
      fields.add(key, rate);
    }
  };
  const auto per_second = [](double seconds) { return seconds > 0 ? 1 / seconds : 0; };
  add_rate("elements_per_second", memory.elements);
  add_rate("list_elements_per_second", per_second(memory.list_element));
  add_rate("fused_step_elements_per_second", per_second(memory.fused_step_element));
  add_rate("quantised_step_elements_per_second", per_second(memory.quantised_step_element));
  fields.add("floor_seconds", memory.floor.value());
  fields.add("cache_bytes", memory.cache);
  fields.add("cached_rate", memory.cached / memory.rate);
  fields.add("source", "memory");
  return fields;
}

ir::JsonFields launch_fields(const LaunchPerformance& launch) {
  ir::JsonFields fields;
  fields.add("eager_seconds", launch.eager.value());
  fields.add("module_seconds", launch.module.value());
  fields.add("token_exchange_seconds", launch.exchange.value());
  if (launch.tensor > Seconds{0}) {
    fields.add("tensor_seconds", launch.tensor.value());
  }
  fields.add("compiled_seconds", launch.compiled.value());
  fields.add("graph_seconds", launch.graph.value());
  fields.add("driver_seconds", launch.driver.value());
  fields.add("source", "launch");
  return fields;
}

ir::JsonFields host_fields(const HostPerformance& host) {
  ir::JsonFields fields;
  fields.add("copy_latency_seconds", host.latency.value());
  fields.add("to_device_bytes_per_second", host.to_device.value());
  fields.add("to_host_bytes_per_second", host.to_host.value());
  fields.add("adam_bytes_per_second", host.work.value());
  fields.add("source", "host");
  return fields;
}

}  // namespace

ir::JsonValue performance_to_json(const DevicePerformance& performance, const DeviceSpec& device,
                                  const PerformanceSources& sources) {
  ir::JsonFields fields;
  fields.add("device", device.name);
  fields.add("gemm", gemm_fields(performance.gemm, device));
  fields.add("attention", attention_fields(performance.attention, device));
  fields.add("memory", memory_fields(performance.memory, device));
  fields.add("launch", launch_fields(performance.launch));
  fields.add("host", host_fields(performance.host));
  ir::JsonFields texts;
  texts.add("gemm", sources.gemm);
  texts.add("attention", sources.attention);
  texts.add("memory", sources.memory);
  texts.add("launch", sources.launch);
  texts.add("host", sources.host);
  fields.add("sources", std::move(texts));
  return std::move(fields).finish();
}

}  // namespace headroom::cost
