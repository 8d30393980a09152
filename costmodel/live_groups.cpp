#include "costmodel/live_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace headroom::cost {

std::vector<LiveGroup> group_blocks(const ir::RankProgram& program,
                                    const std::vector<LiveBlock>& blocks) {
  // Operations by index, because comparing names for every block would be slower.
  using Key = std::tuple<ir::TensorRole, std::uint32_t, bool, Bytes>;
  constexpr std::uint32_t kUnknown = UINT32_MAX;
  std::map<Key, std::int64_t> counts;
  for (const LiveBlock& block : blocks) {
    const bool known = block.site < program.sites.size();
    const std::uint32_t operation = known ? program.sites[block.site].operation : kUnknown;
    ++counts[{block.role, operation, known && program.sites[block.site].backward, block.size}];
  }
  std::vector<LiveGroup> groups;
  groups.reserve(counts.size());
  for (const auto& [key, count] : counts) {
    const auto& [role, operation, backward, each] = key;
    groups.push_back({.role = role,
                      .operation = operation < program.operations.size()
                                       ? program.operations[operation]
                                       : std::string(),
                      .backward = backward,
                      .each = each,
                      .count = count,
                      .total = count * each});
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const LiveGroup& a, const LiveGroup& b) { return a.total > b.total; });
  return groups;
}

}  // namespace headroom::cost
