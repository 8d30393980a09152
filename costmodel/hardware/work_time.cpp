#include "costmodel/hardware/work_time.h"

#include <variant>

namespace headroom::cost {
namespace {

struct TimeOf {
  const DevicePerformance& device;
  const Topology& topology;

  Seconds operator()(const ir::GemmShape& shape) const { return gemm_time(device, shape); }
  Seconds operator()(const ir::AttentionShape& shape) const {
    return attention_time(device, shape);
  }
  Seconds operator()(const ir::TrafficShape& shape) const { return traffic_time(device, shape); }
  Seconds operator()(const ir::CollectiveShape& shape) const {
    return collective_time(topology, shape);
  }
  Seconds operator()(const ir::CopyShape& shape) const { return copy_time(device, shape); }
};

}  // namespace

Seconds work_time(const DevicePerformance& device, const Topology& topology,
                  const ir::WorkShape& shape) {
  return std::visit(TimeOf{device, topology}, shape);
}

}  // namespace headroom::cost
