#include "costmodel/hardware/catalogue_files.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "costmodel/hardware/sourced_fields.h"
#include "model_ir/json/json_reader.h"

namespace headroom::cost {
namespace {

// Far above any machine's, and small enough that no sum or product overflows.
constexpr ir::IntegerRange kByteRange = {.least = 1, .greatest = std::int64_t{1} << 50};
constexpr ir::IntegerRange kCountRange = {.least = 1, .greatest = 1'000'000};
constexpr ir::NumberRange kRateRange = {.least = 1, .greatest = 1e21};
constexpr ir::NumberRange kSecondsRange = {.least = 0, .greatest = 1};
constexpr ir::NumberRange kPowerRange = {.least = 1, .greatest = 100'000};

/// "9.0" -> {9, 0}; notes a fault for anything else.
void read_compute_capability(const ir::JsonObject& root, const std::string& text,
                             DeviceTraits& traits) {
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, traits.compute_major);
  if (major.ec == std::errc{} && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, traits.compute_minor);
    if (minor.ec == std::errc{} && minor.ptr == end) {
      return;
    }
  }
  root.refuse("compute_capability", "major.minor, such as \"9.0\"");
}

void read_memory(const ir::JsonObject& root, const SourcedFields& figures, DeviceSpec& device) {
  device.nominal = Bytes{figures.integer("nominal_bytes", kByteRange)};
  if (const auto driver_total = figures.optional_integer("driver_total_bytes", kByteRange)) {
    device.driver_total = Bytes{*driver_total};
  }
  device.total = Bytes{figures.integer("total_bytes", kByteRange)};
  device.total_source = figures.source_of("total_bytes");
  if (const auto total = root.optional_object("total_bytes")) {
    device.total_basis = total->text("basis");
    if (device.total_basis != "measured" && device.total_basis != "derived") {
      total->refuse("basis", R"("measured" or "derived")");
    }
  }
  if (device.driver_total && device.total > *device.driver_total) {
    root.refuse("total_bytes", "at most driver_total_bytes");
  }
  device.memory_bandwidth =
      BytesPerSecond{figures.number("memory_bandwidth_bytes_per_second", kRateRange)};
}

std::optional<FlopsPerSecond> optional_rate(const SourcedFields& figures, const char* key) {
  const std::optional<double> rate = figures.optional_number(key, kRateRange);
  return rate ? std::optional(FlopsPerSecond{*rate}) : std::nullopt;
}

void read_compute(const ir::JsonObject& root, const SourcedFields& figures, DeviceSpec& device) {
  read_compute_capability(root, figures.text("compute_capability"), device.traits);
  device.traits.multiprocessors = static_cast<int>(figures.integer("multiprocessors", kCountRange));
  device.fp32 = FlopsPerSecond{figures.number("fp32_flops_per_second", kRateRange)};
  device.tf32 = optional_rate(figures, "tf32_flops_per_second");
  device.half = optional_rate(figures, "half_flops_per_second");
  device.bf16 = figures.boolean("bf16");
  device.fp8 = optional_rate(figures, "fp8_flops_per_second");
  device.fp4 = optional_rate(figures, "fp4_flops_per_second");
}

template <typename Spec>
Result<Spec> finished(const ir::JsonReader& reader, Spec spec) {
  Status status = reader.finish_refusing_unknown_keys();
  if (!status) {
    return std::move(status).error();
  }
  return spec;
}

}  // namespace

Result<DeviceSpec> read_device(const std::string& path) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  const ir::JsonObject root = reader->root();
  const SourcedFields figures(root);
  root.accept("$schema");
  DeviceSpec device;
  device.name = root.text("name");
  device.product = root.text("product");
  device.vendor = root.text("vendor");
  device.architecture = root.text("architecture");
  device.aliases = root.texts_or_none("aliases");
  read_memory(root, figures, device);
  read_compute(root, figures, device);
  device.traits.rocm = device.vendor == "amd";
  device.power_watts = figures.number("power_watts", kPowerRange);
  device.link = figures.text("peer_link");
  device.peer_access = !root.has("peer_access") || figures.boolean("peer_access");
  device.host_link = figures.text("host_link");
  if (root.has("performance")) {
    device.performance_file = path;  // `performance_of` reads it.
  }
  return finished(*reader, std::move(device));
}

Result<LinkSpec> read_link(const std::string& path) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  const ir::JsonObject root = reader->root();
  const SourcedFields figures(root);
  root.accept("$schema");
  LinkSpec link;
  link.name = root.text("name");
  link.title = root.text("title");
  link.peak = BytesPerSecond{figures.number("peak_bytes_per_second", kRateRange)};
  link.bandwidth = BytesPerSecond{figures.number("bandwidth_bytes_per_second", kRateRange)};
  link.latency = Seconds{figures.number("latency_seconds", kSecondsRange)};
  if (link.bandwidth > link.peak) {
    root.refuse("bandwidth_bytes_per_second", "at most peak_bytes_per_second");
  }
  return finished(*reader, std::move(link));
}

Result<NodeSpec> read_node(const std::string& path) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  const ir::JsonObject root = reader->root();
  const SourcedFields figures(root);
  root.accept("$schema");
  NodeSpec node;
  node.name = root.text("name");
  node.title = root.text("title");
  node.device = figures.text("device");
  node.devices = static_cast<int>(figures.integer("devices", kCountRange));
  node.intra_link = figures.text("intra_link");
  node.inter_link = figures.text("inter_link");
  node.adapters_per_device =
      figures.number("adapters_per_device", {.least = 0.001, .greatest = 1'000});
  if (const auto host = figures.optional_integer("host_memory_bytes", kByteRange)) {
    node.host_memory = Bytes{*host};
  }
  if (const auto devices = figures.optional_integer("devices_per_host", kCountRange)) {
    node.devices_per_host = static_cast<int>(*devices);
    if (*devices > node.devices || node.devices % *devices != 0) {
      root.refuse("devices_per_host", "a divisor of devices");
    }
  }
  if (const auto cores = figures.optional_integer("cpu_cores", kCountRange)) {
    node.cpu_cores = static_cast<int>(*cores);
  }
  if (const auto rate =
          figures.optional_number("host_memory_bandwidth_bytes_per_second", kRateRange)) {
    node.host_memory_bandwidth = BytesPerSecond{*rate};
  }
  if (const auto drives = figures.optional_integer("nvme_bytes", kByteRange)) {
    node.nvme = Bytes{*drives};
  }
  if (const auto rate = figures.optional_number("nvme_bytes_per_second", kRateRange)) {
    node.nvme_rate = BytesPerSecond{*rate};
  }
  return finished(*reader, std::move(node));
}

}  // namespace headroom::cost
