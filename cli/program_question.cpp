#include "cli/program_question.h"

#include <algorithm>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/question.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kConf = "alloc-conf";

Result<cost::DeviceSpec> device_of(const Arguments& arguments,
                                   const check::RecordedProgram& recorded) {
  Result<cost::DeviceSpec> device =
      arguments.has("gpu") ? read_gpu(arguments) : find_gpu(arguments, recorded.device.name);
  if (!device && !arguments.has("gpu")) {
    return std::move(device).error().with_note(
        "the program was recorded for this GPU; --gpu names "
        "another one");
  }
  if (device) {
    if (Status usable = check::check_program_device(*device); !usable) {
      return std::move(usable).error();
    }
  }
  return device;
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
  const Result<ir::AllocatorSettings> before = check::recorded_settings(*recorded, file);
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

}  // namespace headroom::cli
