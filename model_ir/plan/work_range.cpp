#include "model_ir/plan/work_range.h"

#include <array>
#include <optional>

namespace headroom::ir {
namespace {

/// The names of the ranges that a mark opens or ends, by the operation of its site; empty for other
/// marks.
std::vector<std::string_view> range_names(const RankProgram& program) {
  constexpr std::array<std::string_view, 6> kNames = {kForwardPass, kBackwardPass,  kInputPass,
                                                      kWeightPass,  kRecomputation, kRangeEnd};
  std::vector<std::string_view> names(program.operations.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const std::string_view name : kNames) {
      names[i] = program.operations[i] == name ? name : names[i];
    }
  }
  return names;
}

}  // namespace

std::vector<WorkRange> work_ranges(const RankProgram& program) {
  const std::vector<std::string_view> names = range_names(program);
  std::vector<WorkRange> open;
  std::vector<WorkRange> ranges;
  for (std::size_t i = 0; i < program.work.items.size(); ++i) {
    const WorkItem& item = program.work.items[i];
    if (item.kind != WorkItem::Kind::kRecord || item.site >= program.sites.size()) {
      continue;
    }
    const Site& site = program.sites[item.site];
    const std::string_view name =
        site.operation < names.size() ? names[site.operation] : std::string_view();
    if (name == kRangeEnd && !open.empty()) {
      open.back().end = static_cast<std::uint32_t>(i);
      ranges.push_back(open.back());
      open.pop_back();
    } else if (!name.empty() && name != kRangeEnd) {
      open.push_back({.begin = static_cast<std::uint32_t>(i), .chunk = site.layer, .name = name});
    }
  }
  return ranges;
}

}  // namespace headroom::ir
