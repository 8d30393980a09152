#include <algorithm>
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

/// A JSON string.
void append_json(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20) {
      out += "\\u00";
      out += kHex[code / 16];
      out += kHex[code % 16];
      continue;
    }
    if (letter == '"' || letter == '\\') {
      out += '\\';
    }
    out += letter;
  }
  out += '"';
}

/// Roles that the program uses; others would be empty rows.
std::vector<ir::TensorRole> roles_of(const ir::RankProgram& program) {
  std::vector<ir::TensorRole> roles;
  for (int role = 0; role < ir::kTensorRoleCount; ++role) {
    const auto wanted = static_cast<ir::TensorRole>(role);
    if (std::ranges::any_of(program.events, [wanted](const ir::Event& event) {
          return event.kind == ir::EventKind::kAllocate && event.role == wanted;
        })) {
      roles.push_back(wanted);
    }
  }
  return roles;
}

void append_slice(std::string& out, std::string_view name, std::size_t begin, std::size_t end,
                  std::int64_t thread) {
  out += R"({"ph":"X","pid":1,"tid":)";
  append_number(out, thread);
  out += R"(,"name":)";
  append_json(out, name);
  out += R"(,"ts":)";
  append_number(out, static_cast<std::int64_t>(begin));
  out += R"(,"dur":)";
  append_number(out, static_cast<std::int64_t>(end - begin));
}

void append_slices(std::string& out, const ir::RankProgram& program,
                   const std::vector<EventSubject>& subjects, std::size_t end) {
  for (const ir::Phase& phase : program.phases) {
    if (phase.begin < end) {
      append_slice(out, to_text(phase.name), phase.begin, std::min(phase.end, end), 1);
      out += "},\n";
    }
  }
  for (std::size_t begin = 0; begin < end;) {  // One slice per run of events of one operator.
    const std::uint32_t site = subjects[begin].site;
    std::size_t next = begin + 1;
    while (next < end && subjects[next].site == site) {
      ++next;
    }
    if (const std::string name = operator_name(program, site); !name.empty()) {
      append_slice(out, name, begin, next, 2);
      if (const std::optional<std::int32_t> layer = layer_of(program, site)) {
        out += R"(,"args":{"layer":)";
        append_number(out, *layer);
        out += '}';
      }
      out += "},\n";
    }
    begin = next;
  }
}

void append_counters(std::string& out, const EventReplay& run,
                     const std::vector<ir::TensorRole>& roles, std::size_t index) {
  out += R"({"ph":"C","pid":1,"name":"allocated bytes by role","ts":)";
  append_number(out, static_cast<std::int64_t>(index));
  out += R"(,"args":{)";
  for (std::size_t role = 0; role < roles.size(); ++role) {
    out += role == 0 ? R"(")" : R"(,")";
    out += ir::name_of(roles[role]);
    out += R"(":)";
    append_number(out, run.by_role()[static_cast<std::size_t>(roles[role])].value());
  }
  out += "}},\n";
}

void append_reserved(std::string& out, Bytes reserved, std::size_t index) {
  out += R"({"ph":"C","pid":1,"name":"reserved bytes","ts":)";
  append_number(out, static_cast<std::int64_t>(index));
  out += R"(,"args":{"reserved":)";
  append_number(out, reserved.value());
  out += "}},\n";
}

constexpr std::string_view kTraceHead =
    R"({"displayTimeUnit":"ms","otherData":{"clock":"one microsecond per event"},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"one rank"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"phases"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"operators"}},
)";

}  // namespace

std::string chrome_trace(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                         Bytes capacity, std::string_view more) {
  EventReplay run(program, settings, DeviceMemory{.capacity = capacity});
  const std::vector<ir::TensorRole> roles = roles_of(program);
  std::string out(kTraceHead);
  std::optional<Bytes> reserved;
  std::size_t end = 0;
  for (; end < program.events.size(); ++end) {
    if (!run.step(end)) {
      append_slice(out, "out of memory", end, end + 1, 1);
      out += "},\n";
      break;
    }
    append_counters(out, run, roles, end);
    const Bytes now = run.allocator().state().reserved;
    if (now != reserved) {
      append_reserved(out, now, end);
      reserved = now;
    }
  }
  append_slices(out, program, subjects_of(program), end);
  if (more.empty()) {
    out.erase(out.size() - 2);  // The last comma.
  }
  out += more;
  out += "\n]}\n";
  return out;
}

}  // namespace headroom::cost
