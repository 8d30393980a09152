#include "model_ir/plan/work_range.h"

#include <array>
#include <optional>

namespace headroom::ir {
namespace {

constexpr std::array<RangeKind, 6> kRangeKinds = {
    RangeKind::kForwardPass, RangeKind::kBackwardPass, RangeKind::kJointPass,
    RangeKind::kInputPass,   RangeKind::kWeightPass,   RangeKind::kRecomputation};

/// What the mark of an operation does.
struct RangeMark {
  std::optional<RangeKind> opens;
  bool ends = false;
};

/// By operation of the program.
std::vector<RangeMark> range_marks(const RankProgram& program) {
  std::vector<RangeMark> marks(program.operations.size());
  for (std::size_t i = 0; i < marks.size(); ++i) {
    marks[i].ends = program.operations[i] == kRangeEnd;
    for (const RangeKind kind : kRangeKinds) {
      if (program.operations[i] == name_of(kind)) {
        marks[i].opens = kind;
      }
    }
  }
  return marks;
}

}  // namespace

std::string_view name_of(RangeKind kind) {
  switch (kind) {
    case RangeKind::kForwardPass:
      return "pass.forward";
    case RangeKind::kBackwardPass:
      return "pass.backward";
    case RangeKind::kJointPass:
      return "pass.joint";
    case RangeKind::kInputPass:
      return "pass.input";
    case RangeKind::kWeightPass:
      return "pass.weight";
    case RangeKind::kRecomputation:
      return "recomputation";
  }
  return "?";
}

std::vector<WorkRange> work_ranges(const RankProgram& program) {
  const std::vector<RangeMark> marks = range_marks(program);
  std::vector<WorkRange> open;
  std::vector<WorkRange> ranges;
  for (std::size_t i = 0; i < program.work.items.size(); ++i) {
    const WorkItem& item = program.work.items[i];
    if (item.kind != WorkItem::Kind::kRecord || item.site >= program.sites.size()) {
      continue;
    }
    const Site& site = program.sites[item.site];
    const RangeMark mark = site.operation < marks.size() ? marks[site.operation] : RangeMark{};
    if (mark.ends && !open.empty()) {
      open.back().end = static_cast<std::uint32_t>(i);
      ranges.push_back(open.back());
      open.pop_back();
    } else if (mark.opens) {
      open.push_back(
          {.begin = static_cast<std::uint32_t>(i), .chunk = site.layer, .kind = *mark.opens});
    }
  }
  return ranges;
}

}  // namespace headroom::ir
