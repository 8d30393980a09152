#include "validators/dryrun/recorded_events.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace headroom::check {
namespace {

using ir::EventKind;
using ir::JsonObject;
using ir::JsonValue;
using ir::TensorRole;

constexpr std::int64_t kMostRecordedBytes = std::int64_t{1} << 44;  ///< Bytes live at once: 16 TiB.
/// The most bytes of all allocations together. The replay takes a few times as many addresses at
/// most, which then stay below 2^63.
constexpr std::int64_t kMostAllocatedBytes = std::int64_t{1} << 58;
constexpr std::int64_t kMostStreams = 64;
constexpr std::size_t kMostProgramLines = std::numeric_limits<std::uint16_t>::max();

/// Roles by the index of `dry_run_category`.
constexpr std::array<TensorRole, kDryRunCategories> kRoles = {
    TensorRole::kParameter, TensorRole::kGradient, TensorRole::kOptimizerState,
    TensorRole::kActivation, TensorRole::kTemporary};

constexpr std::array<std::pair<char, EventKind>, 4> kKinds = {{{'a', EventKind::kAllocate},
                                                               {'l', EventKind::kLetGo},
                                                               {'f', EventKind::kFree},
                                                               {'e', EventKind::kEmptyCache}}};

std::optional<EventKind> kind_of(char letter) {
  for (const auto& [one, kind] : kKinds) {
    if (one == letter) {
      return kind;
    }
  }
  return std::nullopt;
}

char letter_of(EventKind kind) {
  for (const auto& [letter, one] : kKinds) {
    if (one == kind) {
      return letter;
    }
  }
  return '?';
}

/// The columns as they stand in the document.
struct Columns {
  std::string kinds;
  std::vector<std::int64_t> bytes;  ///< This and the next three: one value per allocation.
  std::vector<std::int64_t> stream;
  std::vector<std::int64_t> line;
  std::vector<std::int64_t> category;
  std::vector<std::int64_t> block;  ///< One per release: the number of the allocation.
  std::vector<std::int64_t> ends;   ///< One per phase: the events before its end.
  std::vector<std::string> lines;
  std::vector<std::string> categories;
};

ir::IntegerRange below(std::size_t count) {
  return {0, static_cast<std::int64_t>(count) - 1};
}

std::size_t count_of(const std::string& kinds, std::string_view letters) {
  return static_cast<std::size_t>(std::ranges::count_if(
      kinds, [letters](char kind) { return letters.find(kind) != std::string_view::npos; }));
}

/// Reads a column that must have `count` values.
std::vector<std::int64_t> read_column(const JsonObject& object, std::string_view key,
                                      std::size_t count, ir::IntegerRange range) {
  std::vector<std::int64_t> column = object.integers_or_none(key, range);
  if (column.size() != count) {
    object.refuse(key, "an array of " + std::to_string(count) + " integers in range");
  }
  return column;
}

Columns read_columns(const JsonObject& object, std::size_t phases) {
  Columns columns{.kinds = object.text("kinds"),
                  .bytes = {},
                  .stream = {},
                  .line = {},
                  .category = {},
                  .block = {},
                  .ends = {},
                  .lines = object.texts_or_none("lines"),
                  .categories = object.texts_or_none("categories")};
  if (columns.kinds.size() > kMostProgramEvents || columns.kinds.empty()) {
    object.refuse("kinds", "1 to " + std::to_string(kMostProgramEvents) + " events");
  }
  if (columns.lines.size() > kMostProgramLines) {
    object.refuse("lines", "at most " + std::to_string(kMostProgramLines) + " lines");
  }
  if (count_of(columns.kinds, "alfe") != columns.kinds.size()) {
    object.refuse("kinds", "one letter per event: a, l, f or e");
  }
  const std::size_t allocations = count_of(columns.kinds, "a");
  columns.bytes = read_column(object, "bytes", allocations, {0, kMostRecordedBytes});
  columns.stream = read_column(object, "stream", allocations, {0, kMostStreams - 1});
  columns.line = read_column(object, "line", allocations, below(columns.lines.size()));
  columns.category = read_column(object, "category", allocations, below(columns.categories.size()));
  columns.block = read_column(object, "block", count_of(columns.kinds, "lf"), below(allocations));
  columns.ends =
      read_column(object, "ends", phases, {0, static_cast<std::int64_t>(columns.kinds.size())});
  return columns;
}

/// Turns columns into events; the first release that cannot be is kept as the fault.
class EventBuilder {
 public:
  explicit EventBuilder(const Columns& columns) : columns_(columns) {
    for (const std::string& name : columns.categories) {
      roles_.push_back(role_of_category(dry_run_category(name)));
    }
    states_.assign(columns.bytes.size(), State::kUnborn);
  }

  [[nodiscard]] std::vector<ir::Event> events() {
    std::vector<ir::Event> events;
    events.reserve(columns_.kinds.size());
    for (const char letter : columns_.kinds) {
      const EventKind kind = *kind_of(letter);
      if (kind == EventKind::kAllocate) {
        events.push_back(allocation());
      } else if (kind == EventKind::kEmptyCache) {
        events.push_back({.kind = kind});
      } else {
        events.push_back({.kind = kind, .block = release(kind)});
      }
    }
    return events;
  }
  /// A sentence that says what is wrong; empty if nothing is.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  enum class State : std::uint8_t { kUnborn, kLive, kLetGo, kFreed };

  ir::Event allocation() {
    const std::size_t block = born_++;
    live_ += columns_.bytes[block];
    states_[block] = State::kLive;
    if (live_ > kMostRecordedBytes) {
      fault_ = "more than 16 TiB are allocated at once";
      live_ = 0;
    }
    allocated_ += columns_.bytes[block];
    if (allocated_ > kMostAllocatedBytes) {
      fault_ = "its allocations are more than 256 PiB together";
      allocated_ = 0;
    }
    return {.kind = EventKind::kAllocate,
            .role = roles_[static_cast<std::size_t>(columns_.category[block])],
            .stream = static_cast<ir::StreamId>(columns_.stream[block]),
            .block = static_cast<ir::BlockId>(block),
            .bytes = columns_.bytes[block],
            .site = static_cast<std::uint32_t>(columns_.line[block])};
  }

  ir::BlockId release(EventKind kind) {
    const auto block = static_cast<std::size_t>(columns_.block[released_++]);
    State& state = states_[block];
    const bool free = kind == EventKind::kFree;
    if (state != State::kLive && !(free && state == State::kLetGo)) {
      fault_ = "the block " + std::to_string(block) + " is released when it is not allocated";
    } else if (free) {
      live_ -= columns_.bytes[block];
    }
    state = free ? State::kFreed : State::kLetGo;
    return static_cast<ir::BlockId>(block);
  }

  const Columns& columns_;
  std::vector<TensorRole> roles_;
  std::vector<State> states_;  ///< States by block.
  std::size_t born_ = 0;
  std::size_t released_ = 0;
  std::int64_t live_ = 0;
  std::int64_t allocated_ = 0;  ///< Bytes allocated so far, freed or not.
  std::string fault_;
};

/// "step2.backward", "step2.3.forward", "load".
ir::PhaseName phase_name(const DryRunPhase& phase) {
  const std::string micro_batch =
      phase.micro_batch > 1 ? std::to_string(phase.micro_batch) + "." : std::string();
  const bool outside = phase.step <= 0 || phase.name == "load";
  return ir::parse_phase_name(
      outside ? phase.name : "step" + std::to_string(phase.step) + "." + micro_batch + phase.name);
}

void add_phases(const JsonObject& object, const std::vector<std::int64_t>& ends,
                const std::vector<DryRunPhase>& phases, ir::RankProgram& program) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < phases.size(); ++at) {
    const auto end = static_cast<std::size_t>(ends[at]);
    if (end < begin) {
      object.refuse("ends", "rising numbers");
      return;
    }
    program.phases.push_back({.name = phase_name(phases[at]),
                              .begin = begin,
                              .end = end,
                              .work = {},
                              .first_item = 0,
                              .end_item = 0});
    begin = end;
  }
  if (begin != program.events.size()) {
    object.refuse("ends", "a last phase that ends with the last event");
  }
}

template <typename Number>
JsonValue numbers_json(const std::vector<Number>& numbers) {
  JsonValue::Array array;
  array.reserve(numbers.size());
  for (const Number number : numbers) {
    array.emplace_back(static_cast<std::int64_t>(number));
  }
  return JsonValue{std::move(array)};
}

}  // namespace

TensorRole role_of_category(std::size_t category) {
  return kRoles.at(category);
}

std::size_t category_of_role(TensorRole role) {
  std::size_t category = 0;
  while (category + 1 < kRoles.size() && kRoles.at(category) != role) {
    ++category;
  }
  return category;
}

ir::RankProgram read_events(const JsonObject& object, const std::vector<DryRunPhase>& phases) {
  ir::RankProgram program;
  const Columns columns = read_columns(object, phases.size());
  if (object.any_faults()) {
    return program;
  }
  EventBuilder builder(columns);
  program.events = builder.events();
  if (!builder.fault().empty()) {
    object.refuse("block", "a program that could have run, but " + builder.fault());
    return program;
  }
  program.blocks = static_cast<ir::BlockId>(columns.bytes.size());
  for (const std::string& line : columns.lines) {
    program.operations.push_back(printable(line));
  }
  for (std::size_t line = 0; line < columns.lines.size(); ++line) {
    program.sites.push_back({.operation = static_cast<std::uint16_t>(line)});
  }
  add_phases(object, columns.ends, phases, program);
  return program;
}

ir::JsonFields events_json(const ir::RankProgram& program) {
  Columns columns;
  for (const ir::Event& event : program.events) {
    columns.kinds += letter_of(event.kind);
    if (event.kind == EventKind::kAllocate) {
      columns.bytes.push_back(event.bytes);
      columns.stream.push_back(event.stream);
      columns.line.push_back(event.site);
      columns.category.push_back(static_cast<std::int64_t>(category_of_role(event.role)));
    } else if (event.kind != EventKind::kEmptyCache) {
      columns.block.push_back(event.block);
    }
  }
  for (const ir::Phase& phase : program.phases) {
    columns.ends.push_back(static_cast<std::int64_t>(phase.end));
  }
  for (std::size_t category = 0; category < kDryRunCategories; ++category) {
    columns.categories.emplace_back(dry_run_category(category));
  }
  ir::JsonFields fields;
  fields.add("ends", numbers_json(columns.ends));
  fields.add("lines", ir::json_texts(program.operations));
  fields.add("categories", ir::json_texts(columns.categories));
  fields.add("kinds", columns.kinds);
  fields.add("bytes", numbers_json(columns.bytes));
  fields.add("stream", numbers_json(columns.stream));
  fields.add("line", numbers_json(columns.line));
  fields.add("category", numbers_json(columns.category));
  fields.add("block", numbers_json(columns.block));
  return fields;
}

}  // namespace headroom::check
