#include "costmodel/time/operator_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "costmodel/hardware/kernel_time.h"
#include "costmodel/time/item_parts.h"

namespace headroom::cost {
namespace {

double bytes_of_shape(const ir::WorkShape& shape) {
  if (const auto* gemm = std::get_if<ir::GemmShape>(&shape)) {
    return moved_bytes(*gemm);
  }
  if (const auto* attention = std::get_if<ir::AttentionShape>(&shape)) {
    return moved_bytes(*attention);
  }
  if (const auto* traffic = std::get_if<ir::TrafficShape>(&shape)) {
    return static_cast<double>(traffic->bytes);
  }
  const auto* copy = std::get_if<ir::CopyShape>(&shape);
  return copy != nullptr && copy->kind == ir::CopyKind::kDeviceToDevice
             ? 2 * static_cast<double>(copy->bytes)
             : 0;
}

std::string operator_of_item(const ir::RankProgram& program, const ir::WorkItem& item,
                             const ir::WorkShape& shape) {
  if (const auto* collective = std::get_if<ir::CollectiveShape>(&shape)) {
    return std::string(ir::name_of(collective->kind));
  }
  if (item.site >= program.sites.size()) {
    return {};
  }
  const std::uint16_t operation = program.sites[item.site].operation;
  return operation < program.operations.size() ? program.operations[operation] : std::string();
}

}  // namespace

std::vector<OperatorTime> operator_times(const ir::RankProgram& program, const ProgramTime& time) {
  using Key = std::tuple<std::string, bool, StepPart>;
  const std::vector<StepPart> parts = item_parts(program);
  std::map<Key, OperatorTime> by_key;
  for (std::size_t i = time.last_step.first; i < time.last_step.last; ++i) {
    const ir::WorkItem& item = program.work.items[i];
    if (item.kind != ir::WorkItem::Kind::kRun) {
      continue;
    }
    const ir::WorkShape& shape = program.work.shapes[item.index];
    const bool backward = item.site < program.sites.size() && program.sites[item.site].backward;
    Key key{operator_of_item(program, item, shape), backward, parts[i]};
    OperatorTime& sum = by_key[key];
    ++sum.items;
    sum.time += time.timeline.end[i] - time.timeline.begin[i];
    sum.flops += flops_of(shape);
    sum.bytes += bytes_of_shape(shape);
  }
  std::vector<OperatorTime> all;
  for (auto& [key, sum] : by_key) {
    sum.name = std::get<0>(key);
    sum.backward = std::get<1>(key);
    sum.part = std::get<2>(key);
    all.push_back(std::move(sum));
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &OperatorTime::time);
  return all;
}

}  // namespace headroom::cost
