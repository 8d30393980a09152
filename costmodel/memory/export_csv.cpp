#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/memory/event_replay.h"
#include "costmodel/memory/event_text.h"
#include "costmodel/memory/export.h"

namespace headroom::cost {
namespace {

/// A field of a CSV line (RFC 4180).
void append_field(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char letter : text) {
    if (letter == '"') {
      out += '"';
    }
    out += letter;
  }
  out += '"';
}

std::string_view kind_name(ir::EventKind kind) {
  switch (kind) {
    case ir::EventKind::kAllocate:
      return "allocate";
    case ir::EventKind::kLetGo:
      return "let_go";
    case ir::EventKind::kFree:
      return "free";
    case ir::EventKind::kEmptyCache:
      return "empty_cache";
  }
  return "";
}

/// Names that many lines share, formatted once.
struct SiteColumns {
  std::vector<std::string> operators;  ///< By site, ready for the format.
  std::vector<std::string> layers;
};

SiteColumns site_columns(const ir::RankProgram& program) {
  SiteColumns columns;
  for (std::uint32_t site = 0; site < program.sites.size(); ++site) {
    append_field(columns.operators.emplace_back(), operator_name(program, site));
    const std::optional<std::int32_t> layer = layer_of(program, site);
    columns.layers.push_back(layer ? std::to_string(*layer) : "");
  }
  return columns;
}

void append_subject(std::string& out, const SiteColumns& columns, const EventSubject& subject) {
  out += ',';
  if (subject.role) {
    out += ir::name_of(*subject.role);
  }
  out += ',';
  if (subject.site < columns.operators.size()) {
    out += columns.operators[subject.site];
  }
  out += ',';
  if (subject.site < columns.layers.size()) {
    out += columns.layers[subject.site];
  }
  out += ',';
  append_number(out, subject.bytes);
}

}  // namespace

std::string timeline_csv(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                         Bytes capacity) {
  EventReplay run(program, settings, DeviceMemory{.capacity = capacity});
  const std::vector<EventSubject> subjects = subjects_of(program);
  const SiteColumns columns = site_columns(program);
  std::string out = "event,phase,step,kind,role,operator,layer,bytes,allocated,reserved\n";
  for (const ir::Phase& phase : program.phases) {
    std::string prefix = ",";
    append_field(prefix, to_text(phase.name));
    prefix += ',';
    if (phase.name.at.step > 0) {
      append_number(prefix, phase.name.at.step);
    }
    for (std::size_t index = phase.begin; index < phase.end; ++index) {
      const bool served = run.step(index);
      append_number(out, static_cast<std::int64_t>(index));
      out += prefix;
      out += ',';
      out += served ? kind_name(program.events[index].kind) : "out_of_memory";
      append_subject(out, columns, subjects[index]);
      const AllocatorState state = run.allocator().state();
      out += ',';
      append_number(out, state.allocated.value());
      out += ',';
      append_number(out, state.reserved.value());
      out += '\n';
      if (!served) {
        return out;
      }
    }
  }
  return out;
}

}  // namespace headroom::cost
