#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cli/report/dryrun_answer.h"
#include "cli/report/outside_json.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

constexpr std::size_t kMostJsonBlocks = 100;

JsonValue optional_json(const std::optional<std::int64_t>& number) {
  return number ? JsonValue{*number} : JsonValue{};
}

JsonFields gpu_fields(const check::DryRunDevice& device) {
  JsonFields fields;
  fields.add("name", device.name);
  fields.add("product", device.product);
  fields.add("total_bytes", device.total);
  fields.add("budget", device.budget);
  fields.add("compute_capability", device.capability);
  fields.add("multiprocessors", device.multiprocessors);
  fields.add("per_node", device.per_node);
  fields.add("outside", outside_json(device.terms));
  return fields;
}

JsonFields sum_fields(const std::vector<Bytes>& sums) {
  JsonFields fields;
  for (std::size_t at = 0; at < sums.size(); ++at) {
    std::string key(check::dry_run_category(at));
    std::replace(key.begin(), key.end(), ' ', '_');
    fields.add(key, sums[at]);
  }
  return fields;
}

JsonFields category_fields(const std::vector<check::DryRunBlocks>& live) {
  return sum_fields(bytes_by_category(live));
}

JsonValue live_json(const std::vector<check::DryRunBlocks>& live) {
  JsonValue::Array array;
  for (const check::DryRunBlocks& blocks : live) {
    if (array.size() == kMostJsonBlocks) {
      break;
    }
    JsonFields fields;
    fields.add("bytes", blocks.bytes);
    fields.add("count", blocks.count);
    fields.add("frame", printable(blocks.frame));
    fields.add("category", check::dry_run_category(blocks.category));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue phase_json(const check::DryRunPhase& phase) {
  JsonFields fields;
  fields.add("name", printable(phase.name));
  fields.add("step", phase.step);
  fields.add("micro_batch", phase.micro_batch);
  fields.add("allocated_before_bytes", phase.allocated_before);
  fields.add("allocated_after_bytes", phase.allocated_after);
  fields.add("peak_allocated_bytes", phase.peak_allocated);
  fields.add("reserved_after_bytes", phase.reserved_after);
  fields.add("peak_reserved_bytes", phase.peak_reserved);
  fields.add("requested_after_bytes", phase.requested_after);
  fields.add("peak_requested_bytes", phase.peak_requested);
  fields.add("retries", phase.retries);
  fields.add("work", phase.work);
  return std::move(fields).finish();
}

JsonFields peak_fields(const check::DryRunReport& report) {
  const check::DryRunPeak& peak = report.peak;
  JsonFields fields;
  fields.add("allocated_bytes", peak.allocated);
  fields.add("reserved_bytes", peak.reserved);
  fields.add("device_bytes", peak.device);
  fields.add("moment", peak.phase ? printable(moment_of(report.phases[*peak.phase])) : "");
  fields.add("by_category", category_fields(peak.live));
  fields.add("live", live_json(peak.live));
  return fields;
}

JsonValue oom_json(const std::optional<check::DryRunOom>& oom) {
  if (!oom) {
    return JsonValue{};
  }
  JsonFields fields;
  fields.add("requested_bytes", oom->requested);
  fields.add("free_bytes", oom->free);
  fields.add("capacity_bytes", oom->capacity);
  fields.add("allocated_bytes", oom->allocated);
  fields.add("reserved_bytes", oom->reserved);
  fields.add("phase", printable(oom->phase));
  fields.add("step", oom->step);
  std::vector<std::string> stack;
  for (const std::string& frame : oom->stack) {
    stack.push_back(printable(frame));
  }
  fields.add("stack", ir::json_texts(stack));
  fields.add("by_category", category_fields(oom->live));
  fields.add("live", live_json(oom->live));
  return std::move(fields).finish();
}

JsonValue caught_json(const check::DryRunReport& report) {
  JsonValue::Array array;
  for (const check::DryRunCaught& caught : report.caught) {
    JsonFields fields;
    fields.add("requested_bytes", caught.requested);
    fields.add("free_bytes", caught.free);
    fields.add("missing_bytes", check::missing_bytes(caught.requested, caught.free));
    fields.add("allocated_bytes", caught.allocated);
    fields.add("phase", printable(caught.phase));
    fields.add("step", caught.step);
    JsonValue::Array batch;
    for (const std::int64_t size : caught.batch) {
      batch.emplace_back(size);
    }
    fields.add("batch", JsonValue{std::move(batch)});
    fields.add("where", printable(caught.where));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue exception_json(const std::optional<check::DryRunException>& exception) {
  if (!exception) {
    return JsonValue{};
  }
  JsonFields fields;
  fields.add("type", printable(exception->type));
  fields.add("message", printable(exception->message));
  fields.add("where", printable(exception->where));
  return std::move(fields).finish();
}

JsonValue guesses_json(const check::DryRunReport& report) {
  JsonValue::Array array;
  for (const check::DryRunGuess& guess : report.guesses) {
    JsonFields fields;
    fields.add("what", printable(guess.what));
    fields.add("times", guess.times);
    fields.add("where", printable(guess.where));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue refused_json(const check::DryRunReport& report) {
  JsonValue::Array array;
  for (const check::DryRunRefusal& refusal : report.refused) {
    JsonFields fields;
    fields.add("function", printable(refusal.function));
    fields.add("times", refusal.times);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue report_json(const check::DryRunReport& report) {
  JsonFields fields;
  fields.add("rank", optional_json(report.rank));
  fields.add("world", optional_json(report.world));
  fields.add("process", report.process);
  JsonFields versions;
  for (const auto& [name, version] : report.versions) {
    versions.add(printable(name), printable(version));
  }
  fields.add("versions", std::move(versions));
  JsonValue::Array phases;
  for (const check::DryRunPhase& phase : report.phases) {
    phases.push_back(phase_json(phase));
  }
  fields.add("phases", JsonValue{std::move(phases)});
  fields.add("peak", peak_fields(report));
  fields.add("out_of_memory", oom_json(report.oom));
  fields.add("caught_out_of_memory", caught_json(report));
  fields.add("stopped", name_of(report.stopped));
  fields.add("exception", exception_json(report.exception));
  fields.add("guesses", guesses_json(report));
  fields.add("refused", refused_json(report));
  fields.add("host_peak_bytes", report.host_peak);
  fields.add("pinned_peak_bytes", report.pinned_peak);
  fields.add("program", report.program);
  return std::move(fields).finish();
}

JsonFields child_fields(const DryRunAnswer& answer) {
  JsonFields fields;
  fields.add("words", ir::json_texts(answer.request.command));
  fields.add("exit_code",
             answer.end.signal == 0 ? JsonValue{std::int64_t{answer.end.exit_code}} : JsonValue{});
  fields.add("signal",
             answer.end.signal == 0 ? JsonValue{} : JsonValue{std::int64_t{answer.end.signal}});
  fields.add("interrupted", answer.end.interrupted);
  fields.add("seconds", answer.end.seconds);
  fields.add("text", end_text(answer));
  return fields;
}

JsonValue prediction_json(const DryRunAnswer& answer) {
  if (!answer.prediction) {
    return JsonValue{};
  }
  const DryRunPrediction& predicted = *answer.prediction;
  JsonFields fields;
  fields.add("options", predicted.of);
  fields.add("peak_allocated_bytes", predicted.peak_allocated);
  fields.add("peak_reserved_bytes", predicted.peak_reserved);
  fields.add("moment", predicted.moment);
  fields.add("by_category", sum_fields(predicted.by_category));
  fields.add("remarks", ir::json_texts(predicted.remarks));
  fields.add("off_allocated_bytes", answer.judged.peak_allocated - predicted.peak_allocated);
  fields.add("off_reserved_bytes", answer.judged.peak_reserved - predicted.peak_reserved);
  return std::move(fields).finish();
}

}  // namespace

std::string dryrun_json(const DryRunAnswer& answer) {
  const check::DryRunJudgement& judged = answer.judged;
  JsonFields document;
  document.add("schema_version", 1);
  document.add("verdict", name_of(judged.verdict));
  document.add("margin_bytes", judged.margin);
  document.add("peak_allocated_bytes", judged.peak_allocated);
  document.add("peak_reserved_bytes", judged.peak_reserved);
  document.add("capacity_bytes", judged.capacity);
  document.add("retries", judged.retries);
  document.add("device", gpu_fields(answer.request.device));
  document.add("gpus", answer.request.world.ranks);
  document.add("real_processes", answer.request.world.real);
  document.add("steps", answer.request.steps);
  document.add("routing", answer.request.routing);
  document.add("lag", answer.request.lag);
  document.add("snapshot", answer.request.snapshot);
  document.add("command", child_fields(answer));
  document.add("binding", answer.binding);
  JsonValue::Array reports;
  for (const check::DryRunReport& report : answer.end.reports) {
    reports.push_back(report_json(report));
  }
  document.add("processes", JsonValue{std::move(reports)});
  document.add("prediction", prediction_json(answer));
  document.add("unpredicted", answer.unpredicted);
  document.add("next", answer.next);
  document.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

}  // namespace headroom::cli
