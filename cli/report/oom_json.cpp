#include <string>
#include <utility>

#include "cli/report/oom_answer.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using check::OutOfMemoryMessage;
using check::PrintedSize;
using ir::JsonFields;
using ir::JsonValue;

JsonValue bytes_json(const std::optional<PrintedSize>& size) {
  return size ? JsonValue{size->bytes.value()} : JsonValue{};
}

JsonValue bytes_json(const std::optional<Bytes>& size) {
  return size ? JsonValue{size->value()} : JsonValue{};
}

JsonValue processes_json(const std::vector<check::OtherProcess>& processes) {
  JsonValue::Array array;
  for (const check::OtherProcess& process : processes) {
    JsonFields fields;
    fields.add("process", process.number);
    fields.add("bytes", process.used.bytes);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

std::string_view hint_word(check::MessageHint hint) {
  switch (hint) {
    case check::MessageHint::kMaxSplitSize:
      return "max_split_size_mb";
    case check::MessageHint::kExpandableSegments:
      return "expandable_segments";
    case check::MessageHint::kNone:
      break;
  }
  return "none";
}

JsonFields account_fields(const OomReading& reading) {
  const OutOfMemoryMessage& message = reading.message;
  const check::OomAccount& account = reading.account;
  JsonFields fields;
  fields.add("capacity_bytes", bytes_json(message.capacity));
  fields.add("free_bytes", bytes_json(message.free));
  fields.add("allowed_bytes", bytes_json(message.allowed));
  fields.add("process_bytes", bytes_json(message.process));
  fields.add("allocated_bytes", bytes_json(message.allocated));
  fields.add("private_pool_bytes", bytes_json(message.private_pools));
  fields.add("unallocated_bytes", bytes_json(message.unallocated));
  fields.add("reserved_bytes", bytes_json(message.reserved));
  fields.add("outside_pytorch_bytes", bytes_json(account.outside_pytorch));
  fields.add("other_processes_bytes", bytes_json(account.other_processes));
  fields.add("unaccounted_bytes", bytes_json(account.unaccounted));
  fields.add("missing_bytes", bytes_json(account.missing));
  fields.add("other_processes", processes_json(message.others));
  fields.add("assumed_self",
             account.assumed_self ? JsonValue{account.assumed_self->number} : JsonValue{});
  fields.add("contradictions", ir::json_texts(account.contradictions));
  return fields;
}

JsonValue causes_json(const OomReading& reading) {
  JsonValue::Array array;
  for (const check::OomCause cause : reading.causes) {
    JsonFields fields;
    fields.add("cause", name_of(cause));
    fields.add("text", cause_sentence(reading, cause));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue match_json(const OomReading& reading) {
  if (!reading.match) {
    return JsonValue{};
  }
  const check::OomMatch& match = *reading.match;
  JsonFields fields;
  fields.add("same_size", match.same_size);
  fields.add("agrees", check::agrees(match, reading.message));
  fields.add("phase", to_text(match.phase));
  fields.add("moment", match.moment);
  fields.add("layer",
             match.site.layer >= 0 ? JsonValue{std::int64_t{match.site.layer}} : JsonValue{});
  fields.add("operation", match.site.operation);
  fields.add("backward", match.site.backward);
  fields.add("role", name_of(match.role));
  fields.add("requested_bytes", match.requested);
  fields.add("segment_bytes", match.segment);
  fields.add("allocations_of_this_size", match.of_size);
  fields.add("allocated_bytes", match.allocated);
  fields.add("off_bytes", bytes_json(match.off));
  fields.add("text", match_sentence(reading));
  return std::move(fields).finish();
}

JsonValue reading_json(const OomReading& reading) {
  JsonFields fields;
  fields.add("kind", reading.message.kind);
  fields.add("gpu", reading.message.gpu ? JsonValue{*reading.message.gpu} : JsonValue{});
  fields.add("ranks", ir::json_texts(reading.ranks));
  fields.add("more_ranks", reading.more_ranks);
  fields.add("times", reading.times);
  fields.add("asked_bytes", reading.message.asked.bytes);
  fields.add("hint", hint_word(reading.message.hint));
  fields.add("memory", account_fields(reading));
  fields.add("causes", causes_json(reading));
  fields.add("match", match_json(reading));
  return std::move(fields).finish();
}

}  // namespace

std::string oom_json(const OomAnswer& answer) {
  JsonFields fields;
  fields.add("schema_version", 1);
  JsonValue::Array messages;
  for (const OomReading& reading : answer.readings) {
    messages.push_back(reading_json(reading));
  }
  fields.add("messages", JsonValue{std::move(messages)});
  JsonValue fit = answer.fit ? fit_document(*answer.fit) : JsonValue{};
  const JsonValue* const file = fit.find("plan_file");
  const JsonValue plan_file = file != nullptr ? *file : JsonValue{};
  fields.add("fit", std::move(fit));
  fields.add("next", answer.fit ? JsonValue{next_command(*answer.fit)} : JsonValue{});
  fields.add("plan_file", plan_file);
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

}  // namespace headroom::cli
