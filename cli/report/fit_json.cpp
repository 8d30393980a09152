#include "cli/report/fit_answer.h"

#include <array>
#include <utility>

#include "cli/plan_file.h"
#include "cli/report/host_text.h"
#include "cli/report/outside_json.h"
#include "cli/report/time_report.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/task.h"
#include "runtimes/plan_file.h"
#include "runtimes/plan_json.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

constexpr std::size_t kMostJsonGroups = 20;

JsonFields role_fields(const cost::RoleBytes& roles) {
  constexpr std::array<std::string_view, ir::kTensorRoleCount> kKeys = {
      "parameters", "gradients",   "optimizer_states", "master_parameters", "activations",
      "logits",     "temporaries", "communication",    "workspaces",        "buffers",
      "inputs"};
  JsonFields fields;
  for (std::size_t role = 0; role < kKeys.size(); ++role) {
    fields.add(kKeys.at(role), roles.at(role));
  }
  return fields;
}

/// Bytes of all parameters for each type. Blocks of quantised formats contain scales as well.
/// Source: bitsandbytes 0.50.2 functional.py (blocks of 64, absmax nested in blocks of 256); GPTQ
/// and AWQ with groups of 128: an fp16 scale and a 4-bit zero point.
JsonFields parameter_bytes(std::int64_t parameters) {
  const auto bits = [&](std::int64_t numerator, std::int64_t denominator) {
    return ceil_div(ceil_div(parameters * numerator, denominator), 8);
  };
  JsonFields fields;
  fields.add("fp32", bits(32, 1));
  fields.add("bf16", bits(16, 1));
  fields.add("fp16", bits(16, 1));
  fields.add("int8", bits(8, 1));
  fields.add("int4", bits(4, 1));
  fields.add("int4_group128", bits(4 * 128 + 16 + 4, 128));
  fields.add("nf4", bits(4 * 64 + 32, 64));
  fields.add("nf4_double_quant", bits(4 * 64 * 256 + 8 * 256 + 32, 64 * 256));
  return fields;
}

JsonFields model_fields(const FitAnswer& answer) {
  const ir::ModelSpec& spec = answer.question.model.spec;
  const ir::ParameterCount count = ir::count_parameters(spec);
  JsonFields fields;
  fields.add("name", answer.question.model.label);
  fields.add("origin", answer.question.model.origin);
  fields.add("family", name_of(spec.family));
  if (spec.task != ir::Task::kLanguage) {
    fields.add("task", name_of(spec.task));
    fields.add("labels", spec.labels);
  }
  fields.add("layers", spec.layers.size());
  fields.add("parameters", count.total());
  fields.add("active_parameters", count.active());
  fields.add("trainable_parameters", answer.estimate.program.trainable_parameters);
  fields.add("parameter_bytes", parameter_bytes(count.total()));
  return fields;
}

JsonFields device_fields(const FitAnswer& answer) {
  const cost::DeviceSpec& device = answer.question.device;
  JsonFields fields;
  fields.add("name", device.name);
  fields.add("product", device.product);
  fields.add("total_bytes", device.total);
  fields.add("total_basis", device.total_basis);
  fields.add("total_source", device.total_source);
  return fields;
}

JsonFields peak_fields(const cost::StepEstimate& estimate) {
  JsonFields fields;
  fields.add("allocated_bytes", estimate.peak_allocated);
  fields.add("reserved_bytes", estimate.peak_reserved);
  fields.add("fragmentation_ratio", fragmentation_of(estimate));
  fields.add("phase", to_text(estimate.peak_phase));
  fields.add("moment", estimate.peak_moment);
  fields.add("rank", static_cast<std::int32_t>(estimate.rank));
  fields.add("layer", estimate.peak_site.layer >= 0
                          ? JsonValue{std::int64_t{estimate.peak_site.layer}}
                          : JsonValue{});
  fields.add("operation", estimate.peak_site.operation);
  fields.add("backward", estimate.peak_site.backward);
  fields.add("by_role", role_fields(estimate.peak_by_role));
  return fields;
}

JsonFields interval_fields(const cost::ByteInterval& interval) {
  JsonFields fields;
  fields.add("low_bytes", interval.low);
  fields.add("high_bytes", interval.high);
  return fields;
}

JsonValue time_interval_json(const cost::TimeInterval& interval) {
  JsonFields fields;
  fields.add("low_seconds", interval.low.value());
  fields.add("high_seconds", interval.high.value());
  return std::move(fields).finish();
}

JsonFields confidence_fields(const cost::Confidence& confidence) {
  JsonFields fields;
  fields.add("level", cost::kConfidenceLevel);
  fields.add("peak_allocated", interval_fields(confidence.allocated));
  fields.add("peak_reserved", interval_fields(confidence.reserved));
  fields.add("step_time",
             confidence.step_time ? time_interval_json(*confidence.step_time) : JsonValue{});
  fields.add("fits_probability", confidence.chances.fits);
  fields.add("fits_at_once_probability", confidence.chances.at_once);
  fields.add("needed_bytes",
             confidence.needed ? JsonValue{confidence.needed->value()} : JsonValue{});
  fields.add("runs", confidence.basis.runs);
  fields.add("runs_on_gpus", confidence.basis.gpu_runs);
  fields.add("own_runs", confidence.basis.own_runs);
  fields.add("borrowed", confidence.basis.borrowed);
  fields.add("sources", ir::json_texts(confidence.basis.sources));
  return fields;
}

JsonValue routing_json(const FitAnswer& answer) {
  if (!answer.routing) {
    return JsonValue{};
  }
  JsonFields fields;
  fields.add("imbalance", answer.routing->imbalance);
  fields.add("assumed", answer.routing->assumed);
  fields.add("expected_load", answer.routing->load.expected);
  fields.add("p95_load", answer.routing->load.p95);
  fields.add("balanced_reserved_bytes", answer.routing->balanced);
  fields.add("expected_reserved_bytes", answer.routing->expected);
  fields.add("p95_reserved_bytes", answer.estimate.peak_reserved);
  return std::move(fields).finish();
}

JsonValue worst_json(const FitAnswer& answer) {
  if (!answer.worst) {
    return JsonValue{};
  }
  const WorstRouting& worst = *answer.worst;
  JsonFields fields;
  fields.add("load", worst.load.reached);
  fields.add("bound_load", worst.load.bound);
  fields.add("bound_allocated_bytes", worst.bound);
  fields.add("peak_allocated_bytes", worst.allocated);
  fields.add("peak_reserved_bytes", worst.reserved);
  fields.add("verdict", name_of(worst.verdict));
  fields.add("routing", worst.load.bound == 1
                            ? "no routing of tokens changes the peak"
                            : "in every layer and micro-batch, all tokens of the ranks that share "
                              "the experts go to as many experts of this rank as they can");
  return std::move(fields).finish();
}

JsonValue failure_json(const cost::StepEstimate& estimate) {
  if (!estimate.failure) {
    return JsonValue{};
  }
  const cost::OutOfMemory& failure = *estimate.failure;
  const cost::PeakSite site = cost::site_of(estimate.program, failure.event);
  const ir::PhaseName phase = failure.phase < estimate.program.phases.size()
                                  ? estimate.program.phases[failure.phase].name
                                  : ir::PhaseName{};
  JsonFields fields;
  fields.add("phase", to_text(phase));
  fields.add("moment", cost::moment_text(phase, site));
  fields.add("requested_bytes", failure.requested);
  fields.add("allocated_bytes", failure.allocated);
  fields.add("reserved_bytes", failure.reserved);
  return std::move(fields).finish();
}

JsonFields work_fields(const ir::Work& work) {
  JsonValue::Array collectives;
  for (const ir::Work::Collective& collective : work.collectives) {
    JsonFields fields;
    fields.add("operation", std::string(ir::name_of(collective.kind)));
    fields.add("ranks", collective.ranks);
    fields.add("calls", collective.calls);
    fields.add("bytes", collective.bytes);
    collectives.push_back(std::move(fields).finish());
  }
  JsonFields fields;
  fields.add("gemm_flops", work.gemm_flops);
  fields.add("gemms", work.gemms);
  fields.add("kernels", work.kernels);
  fields.add("collectives", JsonValue{std::move(collectives)});
  return fields;
}

JsonValue phases_json(const cost::StepEstimate& estimate) {
  JsonValue::Array array;
  for (std::size_t index = 0; index < estimate.timeline.phases.size(); ++index) {
    const cost::PhaseMemory& phase = estimate.timeline.phases[index];
    JsonFields fields;
    fields.add("name", to_text(phase.name));
    fields.add("allocated_before_bytes", phase.allocated_before);
    fields.add("allocated_after_bytes", phase.allocated_after);
    fields.add("peak_allocated_bytes", phase.peak_allocated);
    fields.add("reserved_after_bytes", phase.reserved_after);
    fields.add("peak_reserved_bytes", phase.peak_reserved);
    fields.add("at_peak", role_fields(phase.at_peak));
    fields.add("after", role_fields(phase.after));
    fields.add("work", work_fields(estimate.program.phases[index].work));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue live_json(const std::vector<cost::LiveGroup>& groups) {
  JsonValue::Array array;
  for (const cost::LiveGroup& group : groups) {
    if (array.size() == kMostJsonGroups) {
      break;
    }
    JsonFields fields;
    fields.add("role", ir::name_of(group.role));
    fields.add("operation", group.operation);
    fields.add("backward", group.backward);
    fields.add("each_bytes", group.each);
    fields.add("count", group.count);
    fields.add("total_bytes", group.total);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue remedy_json(const Question& question, const cost::Remedy& remedy) {
  JsonValue::Array changes;
  for (const cost::Change change : remedy.changes) {
    JsonFields fields;
    fields.add("what", cost::describe(change));
    fields.add("cost", cost::cost_of(change));
    fields.add("source", cost::source_of(change));
    changes.push_back(std::move(fields).finish());
  }
  JsonFields fields;
  fields.add("options", changed_options(question, remedy.plan));
  fields.add("changes", JsonValue{std::move(changes)});
  fields.add("verdict", name_of(remedy.verdict));
  fields.add("peak_allocated_bytes", remedy.peak_allocated);
  fields.add("peak_reserved_bytes", remedy.peak_reserved);
  fields.add("margin_bytes", remedy.margin);
  fields.add("saved_bytes", remedy.saved);
  fields.add("fits_probability", remedy.chance ? JsonValue{*remedy.chance} : JsonValue{});
  fields.add("host_bytes", remedy.host.bytes);
  fields.add("flops_ratio", remedy.flops_ratio);
  fields.add("time_ratio", remedy.time_ratio > 0 ? JsonValue{remedy.time_ratio} : JsonValue{});
  fields.add("ruled_out_by_floor", remedy.ruled_out);
  return std::move(fields).finish();
}

JsonValue remedies_json(const Question& question, const std::vector<cost::Remedy>& remedies) {
  JsonValue::Array array;
  for (const cost::Remedy& remedy : remedies) {
    array.push_back(remedy_json(question, remedy));
  }
  return JsonValue{std::move(array)};
}

JsonValue wider_json(const FitAnswer& answer) {
  const bool known = answer.remedies && answer.remedies->wider;
  return known ? remedy_json(answer.question, *answer.remedies->wider) : JsonValue{};
}

/// The lack of memory of the leanest plan, where nothing fits.
JsonValue short_json(const FitAnswer& answer) {
  if (!answer.remedies || !answer.remedies->leanest) {
    return JsonValue{};
  }
  const cost::Remedy& lean = *answer.remedies->leanest;
  const Bytes least = cost::least_margin(lean.margin, lean.host);
  JsonFields fields;
  fields.add("resource", least < lean.margin ? "host memory" : "GPU memory");
  fields.add("bytes", -least);
  fields.add("gpus", lean.plan.world);
  fields.add("options", changed_options(answer.question, lean.plan));
  return std::move(fields).finish();
}

JsonValue speedups_json(const FitAnswer& answer) {
  JsonValue::Array array;
  for (const cost::Speedup& speedup : answer.speedups) {
    JsonFields fields;
    fields.add("bottleneck", cost::describe(speedup.bottleneck));
    fields.add("share", speedup.share);
    fields.add("command", command_line("fit", answer.arguments, answer.question, speedup.plan));
    fields.add("gain", speedup.gain);
    fields.add("verdict", name_of(speedup.verdict));
    fields.add("margin_bytes", speedup.margin);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

}  // namespace

ir::JsonValue fit_document(const FitAnswer& answer) {
  const cost::StepEstimate& estimate = answer.estimate;
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("verdict", name_of(estimate.verdict));
  fields.add("margin_bytes", estimate.margin);
  fields.add("device_total_bytes", estimate.device_total);
  fields.add("outside_bytes", estimate.outside_bytes);
  fields.add("capacity_bytes", estimate.capacity);
  fields.add("peak", peak_fields(estimate));
  fields.add("confidence", confidence_fields(answer.confidence));
  fields.add("routing", routing_json(answer));
  fields.add("worst_routing", worst_json(answer));
  fields.add("out_of_memory", failure_json(estimate));
  fields.add("retries", estimate.retries);
  fields.add("host_bytes", estimate.program.host_bytes);
  fields.add("nvme_bytes", estimate.program.nvme_bytes);
  fields.add("host", host_json(estimate.host, estimate.host_verdict,
                               host_assumption(answer.question.device)));
  fields.add("outside", outside_json(estimate.outside));
  fields.add("phases", phases_json(estimate));
  fields.add("live_at_peak", live_json(answer.live));
  const bool asked = answer.remedies.has_value();
  fields.add("remedies", asked ? remedies_json(answer.question, answer.remedies->cheapest)
                               : JsonValue{JsonValue::Array{}});
  fields.add("decision_tree", asked ? remedies_json(answer.question, answer.remedies->tree)
                                    : JsonValue{JsonValue::Array{}});
  fields.add("more_gpus", wider_json(answer));
  fields.add("short_of", short_json(answer));
  fields.add("remedies_cut_short", asked && answer.remedies->cut_short);
  fields.add("least_gpus", asked ? JsonValue{answer.remedies->least_gpus} : JsonValue{});
  fields.add("time",
             time_json({.request = answer.time, .step = answer.estimate.time, .interval = {}}));
  fields.add("faster", speedups_json(answer));
  fields.add("next", next_command(answer));
  fields.add("model", model_fields(answer));
  fields.add("device", device_fields(answer));
  fields.add("plan", ir::plan_to_json(answer.question.request.plan));
  fields.add("plan_file", ir::plan_file_to_json(
                              plan_file_of(answer.arguments, answer.question.model,
                                           &answer.question.device, answer.question.request.plan)));
  fields.add("notes", ir::json_texts(answer.notes));
  return std::move(fields).finish();
}

std::string fit_json(const FitAnswer& answer) {
  return to_pretty_json(fit_document(answer)) + "\n";
}

}  // namespace headroom::cli
