#include "model_ir/plan/device_work.h"

#include <algorithm>

namespace headroom::ir {

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kReceive:
      return "recv";
    case CollectiveKind::kTokenExchange:
      return "token_exchange";
  }
  return "?";
}

void Work::add(const GemmShape& shape) {
  if (shape.batch == GemmBatch::kGrouped) {
    ++kernels;
    return;
  }
  gemm_flops += shape.flops();
  ++gemms;
}

void Work::add(const AttentionShape&) {
  ++kernels;
}

void Work::add(const TrafficShape& shape) {
  kernels += shape.launches;
  traffic_bytes += shape.bytes;
}

void Work::add(const CollectiveShape& shape) {
  const std::int64_t ranks = shape.group.ranks();
  auto same = std::find_if(collectives.begin(), collectives.end(), [&](const Collective& each) {
    return each.kind == shape.kind && each.ranks == ranks;
  });
  if (same == collectives.end()) {
    same = collectives.insert(collectives.end(), {.kind = shape.kind, .ranks = ranks});
  }
  ++same->calls;
  same->bytes += shape.bytes;
}

void Work::add(const CopyShape& shape) {
  switch (shape.kind) {
    case CopyKind::kHostToDevice:
      host_to_device_bytes += shape.bytes;
      return;
    case CopyKind::kDeviceToHost:
      device_to_host_bytes += shape.bytes;
      return;
    case CopyKind::kDeviceToDevice:
      device_to_device_bytes += shape.bytes;
      return;
    case CopyKind::kHostWork:
    case CopyKind::kNvme:
      return;
  }
}

double reached_share(const CollectiveShape& shape, double parts) {
  const double elsewhere = shape.experts - shape.experts / parts;
  double none = 1;
  for (int drawn = 0; drawn < shape.top_k; ++drawn) {
    none *= std::max(0.0, elsewhere - drawn) / std::max(1, shape.experts - drawn);
  }
  return 1 - none;
}

}  // namespace headroom::ir
