#include "gui/models/alive_tensors.h"

#include <algorithm>
#include <limits>

#include <QCoreApplication>

#include "gui/charts/timeline_data.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

const ir::Site* site_at(const ir::RankProgram& program, std::uint32_t site) {
  return site < program.sites.size() ? &program.sites[site] : nullptr;
}

QString moment_words(const char* text) {
  return QCoreApplication::translate("Moment", text);
}

/// The allocation of the block that event `event` frees.
const ir::Event* birth_of(const ir::RankProgram& program, std::size_t event) {
  const ir::BlockId block = program.events[event].block;
  for (std::size_t i = event; i-- > 0;) {
    const ir::Event& before = program.events[i];
    if (before.kind == ir::EventKind::kAllocate && before.block == block) {
      return &before;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<AliveTensor> alive_tensors(const cost::StepEstimate& estimate, std::size_t event) {
  const ir::RankProgram& program = estimate.program;
  const std::vector<Bytes>& sizes = estimate.timeline.block_sizes;
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> born(program.blocks, kNone);
  const std::size_t end = std::min(event + 1, program.events.size());
  for (std::size_t i = 0; i < end; ++i) {
    const ir::Event& at = program.events[i];
    if (at.kind != ir::EventKind::kEmptyCache) {
      born[at.block] = at.kind == ir::EventKind::kAllocate ? i : kNone;
    }
  }
  std::vector<AliveTensor> alive;
  for (ir::BlockId block = 0; block < born.size(); ++block) {
    const Bytes size = block < sizes.size() ? sizes[block] : Bytes{0};
    if (born[block] == kNone || size == Bytes{0}) {
      continue;
    }
    const ir::Event& at = program.events[born[block]];
    alive.push_back({.block = block,
                     .size = size,
                     .requested = Bytes{at.bytes},
                     .role = at.role,
                     .site = at.site,
                     .born = born[block]});
  }
  std::ranges::stable_sort(alive, std::ranges::greater{}, &AliveTensor::size);
  return alive;
}

QString operator_text(const ir::RankProgram& program, std::uint32_t site) {
  const ir::Site* const where = site_at(program, site);
  const bool named = where != nullptr && where->operation < program.operations.size() &&
                     !program.operations[where->operation].empty();
  if (!named) {
    return moment_words(QT_TRANSLATE_NOOP("Moment", "other"));
  }
  const QString name = QString::fromStdString(program.operations[where->operation]);
  return where->backward ? moment_words(QT_TRANSLATE_NOOP("Moment", "%1 (backward)")).arg(name)
                         : name;
}

QString layer_text(const ir::RankProgram& program, std::uint32_t site) {
  const ir::Site* const where = site_at(program, site);
  return where != nullptr && where->layer >= 0
             ? moment_words(QT_TRANSLATE_NOOP("Moment", "layer %1")).arg(where->layer)
             : moment_words(QT_TRANSLATE_NOOP("Moment", "outside the layers"));
}

QString event_text(const cost::StepEstimate& estimate, std::size_t event) {
  const ir::RankProgram& program = estimate.program;
  if (event >= program.events.size()) {
    return {};
  }
  const ir::Event& at = program.events[event];
  const QString where =
      program.phases.empty()
          ? QString()
          : QString::fromStdString(cost::moment_text(program.phases[phase_of(program, event)].name,
                                                     cost::site_of(program, event)));
  const ir::Event* const subject =
      at.kind == ir::EventKind::kAllocate || at.kind == ir::EventKind::kEmptyCache
          ? &at
          : birth_of(program, event);
  if (at.kind == ir::EventKind::kEmptyCache) {
    return moment_words(QT_TRANSLATE_NOOP("Moment", "%1 · the cache is emptied")).arg(where);
  }
  if (subject == nullptr) {
    return where;
  }
  const QString what = moment_words(at.kind == ir::EventKind::kAllocate
                                        ? QT_TRANSLATE_NOOP("Moment", "%1 · allocates %2, %3")
                                        : QT_TRANSLATE_NOOP("Moment", "%1 · frees %2, %3"));
  return what.arg(where, bytes_text(Bytes{subject->bytes}), role_name(subject->role));
}

}  // namespace headroom::gui
