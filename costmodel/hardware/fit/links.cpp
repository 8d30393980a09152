#include "costmodel/hardware/fit/links.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/fit/search.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cost::fit {
namespace {

/// A link, the number of devices it was measured with, and from how many devices on it uses the
/// switch.
struct MeasuredLink {
  const char* link;
  std::vector<const char*> devices;
  int multicast_least = 0;
};

/// Latencies as logarithms of microseconds, rates of bytes per second.
void set_pace(Pace& pace, const double* point) {
  pace.base = Seconds{1e-6 * std::exp(point[0])};
  pace.hop = Seconds{1e-6 * std::exp(point[1])};
  pace.rate = BytesPerSecond{std::exp(point[2])};
}

constexpr std::size_t kRingPoint = 11;
void set_ring(Topology& node, const Point& point) {
  for (std::size_t protocol = 0; protocol < kProtocols; ++protocol) {
    set_pace(node.fabric.ring[protocol], &point[3 * protocol]);
  }
  node.fabric.own_gather = std::exp(point[9]);
  node.fabric.own_reduce = std::exp(point[10]);
  if (point.size() > kRingPoint) {
    set_pace(node.fabric.multicast, &point[kRingPoint]);
  }
}
void set_exchange(Topology& node, const Point& point) {
  set_pace(node.fabric.exchange, point.data());
  set_pace(node.fabric.small_exchange, &point[3]);
  node.fabric.own_exchange = std::exp(point[6]);
}

template <typename Set>
Point fitted(Topology node, const Samples<ir::CollectiveShape>& samples, const Point& start,
             const Set& set) {
  const auto objective = [&node, &samples, &set](const Point& point) {
    set(node, point);
    return misfit(samples, [&node](const ir::CollectiveShape& shape) {
      return collective_time(node, shape);
    });
  };
  return minimum_near(objective, start, 0.3);
}

Samples<ir::CollectiveShape> of_kind(const Samples<ir::CollectiveShape>& samples, bool exchange) {
  Samples<ir::CollectiveShape> some;
  for (const Sample<ir::CollectiveShape>& sample : samples) {
    if ((sample.shape.kind == ir::CollectiveKind::kAllToAll) == exchange) {
      some.push_back(sample);
    }
  }
  return some;
}

ir::JsonFields json_of(const Pace& pace, const LinkSpec& link) {
  const auto rounded = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return number_in(text);
  };
  ir::JsonFields fields;
  fields.add("base_seconds", rounded(pace.base.value()));
  fields.add("hop_seconds", rounded(pace.hop.value()));
  fields.add("share", rounded(pace.rate / link.peak));
  return fields;
}

void write_link(const std::string& path, const Fabric& fabric, const LinkSpec& link,
                const std::string& devices) {
  ir::JsonFields fields;
  fields.add("$schema", "../../schema/link-performance.schema.json");
  fields.add("link", link.name);
  fields.add("ring_ll", json_of(fabric.ring[0], link));
  fields.add("ring_ll128", json_of(fabric.ring[1], link));
  fields.add("ring_simple", json_of(fabric.ring[2], link));
  fields.add("exchange", json_of(fabric.exchange, link));
  const auto tenths = [](double chunks) { return std::round(1000 * chunks) / 1000; };
  fields.add("small_exchange", json_of(fabric.small_exchange, link));
  fields.add("own_gather_chunks", tenths(fabric.own_gather));
  fields.add("own_reduce_chunks", tenths(fabric.own_reduce));
  fields.add("own_exchange_chunks", tenths(fabric.own_exchange));
  if (fabric.multicast.rate > BytesPerSecond{0}) {
    fields.add("multicast",
               json_of(fabric.multicast, link).add("least_devices", fabric.multicast_least));
  }
  if (const Result<std::string> text = read_file(path)) {
    const Result<ir::JsonValue> before = ir::parse_json(*text, path);
    if (const ir::JsonValue* channels = before ? before->find("channels") : nullptr) {
      fields.add("channels", *channels);  // No benchmark measures them.
    }
  }
  fields.add("source",
             "fitted by headroom_fit_performance to the nccl tables of "
             "ai-dynamo/aiconfigurator (August 2026): " +
                 devices);
  const Status written =
      write_file_atomically(path, to_pretty_json(std::move(fields).finish()) + "\n");
  if (!written) {
    throw InternalError(to_text(written.error()));
  }
}

void fit_link(const MeasuredLink& measured, const SamplesOf<ir::CollectiveShape>& all,
              const std::string& configs, bool write) {
  const Result<LinkSpec> link = load_link(configs, measured.link);
  HEADROOM_ASSERT(link.has_value());
  Samples<ir::CollectiveShape> samples;
  std::string devices;
  for (const char* const device : measured.devices) {
    const Samples<ir::CollectiveShape>& own = all.at(device);
    samples.insert(samples.end(), own.begin(), own.end());
    devices += (devices.empty() ? "" : ", ") + std::string(device);
  }
  Topology node{.devices_per_node = 8};
  node.fabric.multicast_least = measured.multicast_least;
  const double rate = std::log(link->bandwidth.value());
  Point start = {std::log(5.0), std::log(0.8), rate - 2, std::log(8.0), std::log(0.8), rate - 1,
                 std::log(15.), std::log(1.),  rate,     std::log(0.4), std::log(0.2)};
  if (measured.multicast_least > 0) {
    start.insert(start.end(), {std::log(40.0), std::log(1.0), rate + 0.35});
  }
  set_ring(node, fitted(node, of_kind(samples, false), start, set_ring));
  set_exchange(node, fitted(node, of_kind(samples, true),
                            {std::log(12.0), std::log(0.5), rate, std::log(6.0), std::log(0.2),
                             rate - 3, std::log(0.4)},
                            set_exchange));
  const auto predict = [&node](const ir::CollectiveShape& shape) {
    return collective_time(node, shape);
  };
  const std::string label = std::string(measured.link) + " (" + devices + ")";
  std::printf("%s", table_row(label + ", all-reduce, all-gather, reduce-scatter",
                              residuals_of(of_kind(samples, false), predict))
                        .c_str());
  std::printf(
      "%s",
      table_row(label + ", all-to-all", residuals_of(of_kind(samples, true), predict)).c_str());
  if (write) {
    write_link(configs + "/performance/links/" + link->name + ".json", node.fabric, *link, devices);
  }
}

}  // namespace

void fit_links(const SamplesOf<ir::CollectiveShape>& samples, const std::string& configs,
               bool write) {
  for (const MeasuredLink& link :
       {MeasuredLink{"nvlink3", {"a100-80gb"}}, MeasuredLink{"nvlink4", {"h100-80gb", "h200"}, 5},
        MeasuredLink{"nvlink5", {"b200", "b300", "gb200", "gb300"}, 5},
        MeasuredLink{"pcie5-peer", {"rtx-pro-6000-blackwell"}}}) {
    fit_link(link, samples, configs, write);
  }
}

}  // namespace headroom::cost::fit
