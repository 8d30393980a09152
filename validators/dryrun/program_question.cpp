#include "validators/dryrun/program_question.h"

#include <utility>

#include "costmodel/outside_memory.h"
#include "runtimes/typed/allocator_options.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::check {
namespace {

/// The bytes that PyTorch may reserve under the program's memory fraction.
Bytes allowed_of(const RecordedProgram& recorded, Bytes total) {
  const double fraction = recorded.history.memory_fraction;
  return fraction < 1
             ? Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(total.value()))}
             : total;
}

}  // namespace

Result<ir::AllocatorSettings> recorded_settings(const RecordedProgram& recorded,
                                                const std::string& file) {
  Result<ir::AllocatorSettings> settings =
      ir::parse_allocator_settings(recorded.history.alloc_conf, standin_settings());
  if (!settings) {
    const Error& error = settings.error();
    return Error::invalid_input(file, "/alloc_conf", error.got, error.wanted);
  }
  return settings;
}

Status check_program_device(const cost::DeviceSpec& device) {
  if (device.vendor != "nvidia") {
    return Error::invalid_argument("gpu", device.name + ", a GPU of " + device.vendor,
                                   "a GPU of NVIDIA: a recorded program shows what PyTorch asks "
                                   "for with CUDA");
  }
  return ok();
}

std::vector<cost::OutsideTerm> outside_of(const RecordedProgram& recorded,
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

cost::StepEstimate judge_program(const RecordedProgram& recorded,
                                 const ir::AllocatorSettings& settings,
                                 const cost::DeviceSpec& device, Bytes total) {
  std::vector<cost::OutsideTerm> outside = outside_of(recorded, device);
  const Bytes withheld = total - cost::total_of(outside) - allowed_of(recorded, total);
  if (withheld > Bytes{0}) {
    outside.push_back({.name = "withheld by the program",
                       .bytes = withheld,
                       .bound = withheld,
                       .basis = cost::Basis::kDerived,
                       .source = "torch.cuda.set_per_process_memory_fraction"});
  }
  return cost::judge(recorded.history.program, settings, total, std::move(outside));
}

cost::StepEstimate judge_program(const ProgramQuestion& question,
                                 const ir::AllocatorSettings& settings) {
  return judge_program(question.recorded, settings, question.device, question.total);
}

cost::StepEstimate judge_program(const ProgramQuestion& question, const cost::DeviceSpec& device,
                                 Bytes total) {
  return judge_program(question.recorded, question.settings, device, total);
}

std::vector<std::string> recording_remarks(const RecordedProgram& recorded,
                                           const cost::DeviceSpec& device,
                                           const ir::AllocatorSettings& settings) {
  std::vector<std::string> remarks;
  if (device.name != recorded.device.name) {
    remarks.push_back(
        "the program was recorded on " + recorded.device.name + " (" +
        std::to_string(recorded.device.multiprocessors) + " multiprocessors); on " + device.name +
        " (" + std::to_string(device.traits.multiprocessors) +
        ") libraries may choose other kernels with other workspaces: headroom dryrun --gpu " +
        device.name + " tells");
  }
  if (recorded.history.private_pools) {
    remarks.emplace_back(
        "CUDA graphs or memory pools of the program had segments of their own; the replay takes "
        "all segments for those of one pool");
  }
  if (recorded.history.memory_fraction < 1 && settings.garbage_collection_threshold > 0) {
    remarks.emplace_back(
        "garbage_collection_threshold is not replayed: PyTorch may release unused segments "
        "earlier than the replay");
  }
  return remarks;
}

}  // namespace headroom::check
