#include "cli/program_question.h"

#include <algorithm>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/question.h"
#include "costmodel/outside_memory.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kConf = "alloc-conf";

/// The settings that a file has, or the error about them.
Result<ir::AllocatorSettings> recorded_settings(const check::RecordedProgram& recorded,
                                                const std::string& file) {
  Result<ir::AllocatorSettings> settings =
      parse_allocator_settings(recorded.history.alloc_conf, check::standin_settings());
  if (!settings) {
    const Error& error = settings.error();
    return Error::invalid_input(file, "/alloc_conf", error.got, error.wanted);
  }
  return settings;
}

Result<cost::DeviceSpec> device_of(const Arguments& arguments,
                                   const check::RecordedProgram& recorded) {
  Result<cost::DeviceSpec> device =
      arguments.has("gpu") ? read_gpu(arguments) : find_gpu(arguments, recorded.device.name);
  if (!device && !arguments.has("gpu")) {
    return std::move(device).error().with_note(
        "the program was recorded for this GPU; --gpu names "
        "another one");
  }
  if (device && device->vendor != "nvidia") {
    return Error::invalid_argument("gpu", device->name + ", a GPU of " + device->vendor,
                                   "a GPU of NVIDIA: a recorded program shows what PyTorch asks "
                                   "for with CUDA");
  }
  return device;
}

/// The bytes that PyTorch may reserve under the program's memory fraction.
Bytes allowed_of(const check::RecordedProgram& recorded, Bytes total) {
  const double fraction = recorded.history.memory_fraction;
  return fraction < 1
             ? Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(total.value()))}
             : total;
}

cost::StepEstimate judged(const ProgramQuestion& question, const ir::AllocatorSettings& settings,
                          const cost::DeviceSpec& device, Bytes total) {
  std::vector<cost::OutsideTerm> outside = outside_of(question.recorded, device);
  const Bytes withheld = total - cost::total_of(outside) - allowed_of(question.recorded, total);
  if (withheld > Bytes{0}) {
    outside.push_back({.name = "withheld by the program",
                       .bytes = withheld,
                       .bound = withheld,
                       .basis = cost::Basis::kDerived,
                       .source = "torch.cuda.set_per_process_memory_fraction"});
  }
  return cost::judge(question.recorded.history.program, settings, total, std::move(outside));
}

}  // namespace

OptionSpec program_option() {
  return {.name = "program",
          .value = "FILE",
          .fallback = "",
          .help = "a program that headroom dryrun --record has recorded, in place of MODEL"};
}

std::vector<OptionSpec> program_question_options() {
  std::vector<OptionSpec> options = {program_option()};
  for (OptionSpec option : device_options()) {
    if (option.name == "gpu") {
      option.fallback = "that of the recording";
    }
    options.push_back(option);
  }
  options.push_back({.name = kConf,
                     .value = "CONF",
                     .fallback = "that of the recording",
                     .help = "value of PYTORCH_ALLOC_CONF, such as expandable_segments:True"});
  return options;
}

Result<ProgramQuestion> read_program_question(const Arguments& arguments) {
  if (!arguments.positionals().empty()) {
    return Error::invalid_argument("program",
                                   "MODEL " + arguments.positionals().front() + " as well",
                                   "one of them", "leave out MODEL, or --program");
  }
  const std::string file = arguments.value("program").value_or("");
  Result<check::RecordedProgram> recorded = check::read_recorded_program(file);
  if (!recorded) {
    return std::move(recorded).error();
  }
  const Result<ir::AllocatorSettings> before = recorded_settings(*recorded, file);
  if (!before) {
    return before.error();
  }
  Result<cost::DeviceSpec> device = device_of(arguments, *recorded);
  const Result<Bytes> budget = read_budget(arguments);
  if (!device || !budget) {
    return device ? budget.error() : std::move(device).error();
  }
  const std::optional<std::string> conf = arguments.value(kConf);
  const Result<ir::AllocatorSettings> settings =
      conf ? parse_allocator_settings(*conf, check::standin_settings()) : before;
  if (!settings) {
    return settings.error();
  }
  ProgramQuestion question{.file = file,
                           .recorded = std::move(recorded).value(),
                           .device = std::move(device).value(),
                           .total = *budget,
                           .budget = *budget > Bytes{0},
                           .settings = *settings,
                           .as_recorded = false};
  const check::RecordedDevice& recording = question.recorded.device;
  if (!question.budget) {
    const bool same = !arguments.has("gpu");
    question.total = same ? recording.total : question.device.total;
    question.budget = same && recording.total != question.device.total;
  }
  question.as_recorded = question.device.name == recording.name &&
                         question.total == recording.total && question.settings == *before;
  return question;
}

std::vector<cost::OutsideTerm> outside_of(const check::RecordedProgram& recorded,
                                          const cost::DeviceSpec& device) {
  std::vector<cost::OutsideTerm> terms = cost::process_terms(device, recorded.ranks);
  if (recorded.other > Bytes{0}) {
    terms.push_back({.name = "other libraries",
                     .bytes = recorded.other,
                     .bound = recorded.other,
                     .basis = cost::Basis::kMeasured,
                     .source = "the dry run: device memory beside PyTorch's allocator"});
  }
  return terms;
}

cost::StepEstimate judge_program(const ProgramQuestion& question,
                                 const ir::AllocatorSettings& settings) {
  return judged(question, settings, question.device, question.total);
}

cost::StepEstimate judge_program(const ProgramQuestion& question, const cost::DeviceSpec& device,
                                 Bytes total) {
  return judged(question, question.settings, device, total);
}

std::vector<std::string> recording_remarks(const ProgramQuestion& question) {
  std::vector<std::string> remarks;
  const check::RecordedProgram& recorded = question.recorded;
  if (question.device.name != recorded.device.name) {
    remarks.push_back(
        "the program was recorded on " + recorded.device.name + " (" +
        std::to_string(recorded.device.multiprocessors) + " multiprocessors); on " +
        question.device.name + " (" + std::to_string(question.device.traits.multiprocessors) +
        ") libraries may choose other kernels with other workspaces: headroom dryrun --gpu " +
        question.device.name + " tells");
  }
  if (recorded.history.private_pools) {
    remarks.emplace_back(
        "CUDA graphs or memory pools of the program had segments of their own; the replay takes "
        "all segments for those of one pool");
  }
  if (recorded.history.memory_fraction < 1 && question.settings.garbage_collection_threshold > 0) {
    remarks.emplace_back(
        "garbage_collection_threshold is not replayed: PyTorch may release unused segments "
        "earlier than the replay");
  }
  return remarks;
}

}  // namespace headroom::cli
