#include "validators/dryrun/recorded_program.h"

#include <memory>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/json/python_json.h"
#include "validators/dryrun/recorded_events.h"
#include "validators/measured/file_bytes.h"

namespace headroom::check {
namespace {

using ir::JsonFields;
using ir::JsonObject;
using ir::JsonValue;

constexpr ir::IntegerRange kRecordedSize{0, std::int64_t{1} << 44};  // 16 TiB.
constexpr ir::IntegerRange kRecordedCount{0, std::int64_t{1} << 40};
/// `kMostProgramEvents` events have five numbers each.
constexpr ir::JsonLimits kProgramLimits{.depth = 8, .values = 5 * kMostProgramEvents};
constexpr std::size_t kMostRecordedPhases = 100'000;
constexpr std::size_t kProgramTextLimit = std::size_t{1} << 29;

/// The texts of a list, as a terminal may show them.
std::vector<std::string> shown_texts(const JsonObject& object, std::string_view key) {
  std::vector<std::string> texts = object.texts_or_none(key);
  for (std::string& text : texts) {
    text = printable(text);
  }
  return texts;
}

/// Reads a document that is an object.
Result<ir::JsonReader> reader_of(std::string_view text, std::string_view file) {
  Result<JsonValue> value = ir::has_python_numbers(text)
                                ? ir::parse_json(ir::json_of_python(text), file, kProgramLimits)
                                : ir::parse_json(text, file, kProgramLimits);
  if (!value) {
    return std::move(value).error();
  }
  if (value->as_object() == nullptr) {
    return Error::invalid_input(file, {}, describe(*value), "a JSON object",
                                "record one with headroom dryrun --record FILE");
  }
  return ir::JsonReader::from_root(std::make_shared<const JsonValue>(std::move(value).value()),
                                   file);
}

void read_settings(const JsonObject& root, AllocatorHistory& history) {
  history.alloc_conf = root.text_or("alloc_conf", "");
  history.memory_fraction = root.number_or("memory_fraction", 1, {.least = 0, .greatest = 1});
  history.private_pools = root.boolean_or("private_pools", false);
}

JsonFields phase_json(const DryRunPhase& phase) {
  JsonFields fields;
  fields.add("name", phase.name);
  fields.add("step", phase.step);
  fields.add("micro_batch", phase.micro_batch);
  fields.add("allocated_after", phase.allocated_after);
  fields.add("peak_allocated", phase.peak_allocated);
  fields.add("reserved_after", phase.reserved_after);
  fields.add("peak_reserved", phase.peak_reserved);
  fields.add("requested_after", phase.requested_after);
  fields.add("peak_requested", phase.peak_requested);
  fields.add("retries", phase.retries);
  return fields;
}

DryRunPhase read_recorded_phase(const JsonObject& object) {
  const auto size = [&object](std::string_view key) {
    return Bytes{object.integer(key, kRecordedSize)};
  };
  DryRunPhase phase;
  phase.name = printable(object.text("name"));
  phase.step = object.integer("step", kRecordedCount);
  phase.micro_batch = object.integer("micro_batch", kRecordedCount);
  phase.allocated_after = size("allocated_after");
  phase.peak_allocated = size("peak_allocated");
  phase.reserved_after = size("reserved_after");
  phase.peak_reserved = size("peak_reserved");
  phase.requested_after = size("requested_after");
  phase.peak_requested = size("peak_requested");
  phase.retries = object.integer("retries", kRecordedCount);
  return phase;
}

JsonFields device_json(const RecordedDevice& device) {
  JsonFields fields;
  fields.add("name", device.name);
  fields.add("product", device.product);
  fields.add("total_bytes", device.total);
  fields.add("outside_bytes", device.outside);
  fields.add("multiprocessors", device.multiprocessors);
  return fields;
}

RecordedDevice read_recorded_device(const JsonObject& object) {
  return {.name = printable(object.text("name")),
          .product = printable(object.text("product")),
          .total = Bytes{object.integer("total_bytes", kRecordedSize)},
          .outside = Bytes{object.integer("outside_bytes", kRecordedSize)},
          .multiprocessors = object.integer("multiprocessors", kRecordedCount)};
}

RecordedProgram read_recorded(const JsonObject& root) {
  RecordedProgram recorded;
  recorded.command = shown_texts(root, "command");
  const JsonObject versions = root.object("versions");
  for (const std::string& key : versions.keys()) {
    if (printable(key) != key) {
      versions.refuse(key, "the name of a package");
    }
    recorded.versions.emplace_back(printable(key), printable(versions.text(key)));
  }
  recorded.device = read_recorded_device(root.object("device"));
  recorded.ranks = root.integer("ranks", {1, kRecordedCount.greatest});
  recorded.rank = root.integer("rank", {0, recorded.ranks - 1});
  recorded.other = Bytes{root.integer("other_bytes", kRecordedSize)};
  const std::vector<JsonObject> phases = root.objects_or_none("phases");
  if (phases.empty() || phases.size() > kMostRecordedPhases) {
    root.refuse("phases", "1 to " + std::to_string(kMostRecordedPhases) + " phases");
    return recorded;
  }
  for (const JsonObject& phase : phases) {
    recorded.phases.push_back(read_recorded_phase(phase));
  }
  read_settings(root, recorded.history);
  recorded.history.program = read_events(root.object("events"), recorded.phases);
  return recorded;
}

}  // namespace

Result<AllocatorHistory> parse_history(std::string_view text, std::string_view file,
                                       const std::vector<DryRunPhase>& phases) {
  const Result<ir::JsonReader> reader = reader_of(text, file);
  if (!reader) {
    return reader.error();
  }
  const JsonObject root = reader->root();
  if (const auto lost = root.optional_text("lost")) {
    return Error::environment({}, *lost, "every event of the program");
  }
  AllocatorHistory history;
  if (root.integer("version", kRecordedCount) != 1) {
    root.refuse("version", "1", "use the libraries and the Python files of this headroom");
  }
  read_settings(root, history);
  history.program = read_events(root.object("events"), phases);
  if (Status status = reader->finish(); !status) {
    return std::move(status).error();
  }
  return history;
}

std::string to_json(const RecordedProgram& recorded) {
  JsonFields document;
  document.add("headroom_program", 1);
  document.add("command", ir::json_texts(recorded.command));
  JsonFields versions;
  for (const auto& [name, version] : recorded.versions) {
    versions.add(name, version);
  }
  document.add("versions", std::move(versions));
  document.add("device", device_json(recorded.device));
  document.add("ranks", recorded.ranks);
  document.add("rank", recorded.rank);
  document.add("other_bytes", recorded.other);
  document.add("alloc_conf", recorded.history.alloc_conf);
  document.add("memory_fraction", recorded.history.memory_fraction);
  document.add("private_pools", recorded.history.private_pools);
  JsonValue::Array phases;
  for (const DryRunPhase& phase : recorded.phases) {
    phases.push_back(phase_json(phase).finish());
  }
  document.add("phases", JsonValue{std::move(phases)});
  document.add("events", events_json(recorded.history.program));
  return ir::to_json(std::move(document).finish()) + "\n";
}

Result<RecordedProgram> parse_recorded_program(std::string_view text, std::string_view file) {
  const Result<ir::JsonReader> reader = reader_of(text, file);
  if (!reader) {
    return reader.error();
  }
  const JsonObject root = reader->root();
  if (!root.has("headroom_program")) {
    root.refuse("headroom_program", "1, as headroom dryrun --record writes it",
                "name a recorded program; a plan file goes to --plan");
    return reader->finish().error();
  }
  if (root.integer("headroom_program", kRecordedCount) != 1) {
    root.refuse("headroom_program", "1, the version of recorded programs that is read",
                "record one with headroom dryrun --record FILE");
    return reader->finish().error();
  }
  RecordedProgram recorded = read_recorded(root);
  if (Status status = reader->finish_refusing_unknown_keys(); !status) {
    return std::move(status).error();
  }
  return recorded;
}

Status write_recorded_program(const std::string& path, const RecordedProgram& recorded) {
  const Result<std::string> packed = gzip_bytes(to_json(recorded), kProgramTextLimit);
  if (!packed) {
    Error error = packed.error();
    error.file = path;
    return error;
  }
  return write_file_atomically(path, *packed);
}

Result<RecordedProgram> read_recorded_program(const std::string& path) {
  const Result<std::string> text = read_file_bytes(path, kProgramTextLimit);
  return text ? parse_recorded_program(*text, path) : Result<RecordedProgram>(text.error());
}

}  // namespace headroom::check
