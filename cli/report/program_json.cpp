#include <algorithm>
#include <string>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/report/dryrun_answer.h"
#include "cli/report/outside_json.h"
#include "cli/report/program_answer.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

constexpr std::size_t kMostProgramBlocks = 100;

JsonFields device_fields(const ProgramQuestion& question, const cost::StepEstimate& estimate) {
  JsonFields fields;
  fields.add("name", question.device.name);
  fields.add("product", question.device.product);
  fields.add("total_bytes", question.total);
  fields.add("budget", question.budget);
  fields.add("outside", outside_json(estimate.outside));
  return fields;
}

JsonFields recording_fields(const ProgramAnswer& answer) {
  const ProgramQuestion& question = answer.question;
  const check::RecordedProgram& recorded = question.recorded;
  JsonFields fields;
  fields.add("file", question.file);
  fields.add("command", ir::json_texts(recorded.command));
  JsonFields versions;
  for (const auto& [name, version] : recorded.versions) {
    versions.add(name, version);
  }
  fields.add("versions", std::move(versions));
  fields.add("gpu", recorded.device.name);
  fields.add("total_bytes", recorded.device.total);
  fields.add("multiprocessors", recorded.device.multiprocessors);
  fields.add("ranks", recorded.ranks);
  fields.add("rank", recorded.rank);
  fields.add("alloc_conf", recorded.history.alloc_conf);
  fields.add("events", recorded.history.program.events.size());
  fields.add("replayed_to_the_byte",
             answer.differences ? JsonValue{answer.differences->empty()} : JsonValue{});
  return fields;
}

JsonValue program_failure_json(const cost::StepEstimate& estimate) {
  if (!estimate.failure) {
    return JsonValue{};
  }
  JsonFields fields;
  fields.add("moment", failure_moment(estimate));
  fields.add("requested_bytes", estimate.failure->requested);
  fields.add("allocated_bytes", estimate.failure->allocated);
  fields.add("reserved_bytes", estimate.failure->reserved);
  return std::move(fields).finish();
}

JsonFields category_sums(const std::vector<check::DryRunBlocks>& live) {
  const std::vector<Bytes> sums = bytes_by_category(live);
  JsonFields fields;
  for (std::size_t at = 0; at < sums.size(); ++at) {
    std::string key(check::dry_run_category(at));
    std::ranges::replace(key, ' ', '_');
    fields.add(key, sums[at]);
  }
  return fields;
}

JsonValue blocks_json(const std::vector<check::DryRunBlocks>& live) {
  JsonValue::Array array;
  for (const check::DryRunBlocks& blocks : live) {
    if (array.size() == kMostProgramBlocks) {
      break;
    }
    JsonFields fields;
    fields.add("bytes", blocks.bytes);
    fields.add("count", blocks.count);
    fields.add("frame", blocks.frame);
    fields.add("category", check::dry_run_category(blocks.category));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue program_phases_json(const cost::StepEstimate& estimate) {
  JsonValue::Array array;
  for (const cost::PhaseMemory& phase : estimate.timeline.phases) {
    JsonFields fields;
    fields.add("name", to_text(phase.name));
    fields.add("allocated_before_bytes", phase.allocated_before);
    fields.add("allocated_after_bytes", phase.allocated_after);
    fields.add("peak_allocated_bytes", phase.peak_allocated);
    fields.add("reserved_after_bytes", phase.reserved_after);
    fields.add("peak_reserved_bytes", phase.peak_reserved);
    fields.add("requested_after_bytes", phase.requested_after);
    fields.add("peak_requested_bytes", phase.peak_requested);
    fields.add("retries", phase.retries);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue settings_json(const std::vector<check::SettingsChoice>& choices) {
  JsonValue::Array array;
  for (const check::SettingsChoice& choice : choices) {
    JsonFields fields;
    fields.add("alloc_conf", choice.conf);
    fields.add("verdict", name_of(choice.verdict));
    fields.add("peak_reserved_bytes", choice.peak_reserved);
    fields.add("saved_bytes", choice.saved);
    fields.add("margin_bytes", choice.margin);
    fields.add("retries", choice.retries);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue gpus_json(const std::vector<check::GpuChoice>& choices) {
  JsonValue::Array array;
  for (const check::GpuChoice& choice : choices) {
    JsonFields fields;
    fields.add("name", choice.name);
    fields.add("total_bytes", choice.total);
    fields.add("verdict", name_of(choice.verdict));
    fields.add("margin_bytes", choice.margin);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

}  // namespace

std::string program_json(const ProgramAnswer& answer) {
  const cost::StepEstimate& estimate = answer.estimate;
  JsonFields document;
  document.add("schema_version", 1);
  document.add("verdict", name_of(estimate.verdict));
  document.add("margin_bytes", estimate.margin);
  document.add("peak_allocated_bytes", estimate.peak_allocated);
  document.add("peak_reserved_bytes", estimate.peak_reserved);
  document.add("driver_peak_reserved_bytes", answer.driver_reserved);
  document.add("capacity_bytes", estimate.capacity);
  document.add("retries", estimate.retries);
  document.add("moment", estimate.peak_moment);
  document.add("out_of_memory", program_failure_json(estimate));
  document.add("device", device_fields(answer.question, estimate));
  document.add("alloc_conf", to_text(answer.question.settings));
  document.add("recording", recording_fields(answer));
  document.add("by_category", category_sums(answer.live));
  document.add("live", blocks_json(answer.live));
  document.add("phases", program_phases_json(estimate));
  document.add("settings", settings_json(answer.settings));
  document.add("gpus", gpus_json(answer.gpus));
  document.add("next", program_next(answer));
  document.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

}  // namespace headroom::cli
