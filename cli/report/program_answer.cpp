#include "cli/report/program_answer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "costmodel/memory/event_text.h"
#include "model_ir/base/counted.h"
#include "validators/dryrun/recorded_events.h"
#include "validators/dryrun/verdict.h"

namespace headroom::cli {
namespace {

/// Blocks that are live at the peak, summed by line and category, the largest sum first.
std::vector<check::DryRunBlocks> live_rows(const cost::StepEstimate& estimate) {
  std::map<std::pair<std::uint32_t, std::size_t>, check::DryRunBlocks> sums;
  for (const cost::LiveBlock& block :
       cost::live_blocks(estimate.program, estimate.timeline, estimate.peak_site.event)) {
    const std::size_t category = check::category_of_role(block.role);
    check::DryRunBlocks& sum = sums[{block.site, category}];
    sum.bytes += block.size;
    ++sum.count;
    sum.frame = cost::operator_name(estimate.program, block.site);
    sum.category = category;
  }
  std::vector<check::DryRunBlocks> rows;
  for (auto& [key, sum] : sums) {
    rows.push_back(std::move(sum));
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &check::DryRunBlocks::bytes);
  return rows;
}

}  // namespace

Result<ProgramAnswer> answer_program(ProgramQuestion question, const std::string& config_dir) {
  ProgramAnswer answer{.question = std::move(question),
                       .estimate = {},
                       .driver_reserved = {},
                       .live = {},
                       .settings = {},
                       .gpus = {},
                       .differences = {},
                       .notes = {}};
  answer.estimate = judge_program(answer.question, answer.question.settings);
  ir::AllocatorSettings placed = answer.question.settings;
  placed.segments = ir::SegmentPlaces::kDriver;
  answer.driver_reserved = judge_program(answer.question, placed).peak_reserved;
  answer.live = live_rows(answer.estimate);
  answer.settings = try_settings(answer.question, answer.estimate);
  Result<std::vector<check::GpuChoice>> gpus = try_gpus(answer.question, config_dir);
  if (!gpus) {
    return std::move(gpus).error();
  }
  answer.gpus = std::move(gpus).value();
  if (answer.question.as_recorded) {
    answer.differences =
        check::replay_differences(answer.question.recorded, answer.estimate.timeline);
  }
  return answer;
}

std::string replay_sentence(const check::RecordedProgram& recorded,
                            const std::vector<check::ReplayDifference>& differences) {
  if (differences.empty()) {
    return "the replay agrees with PyTorch's allocator to the byte in all " +
           counted(recorded.phases.size(), "phase");
  }
  const check::ReplayDifference& first = differences.front();
  return "the replay differs from PyTorch's allocator in " + counted(differences.size(), "figure") +
         ", first in " + check::moment_of(recorded.phases[first.phase]) + ": " +
         std::string(first.what) + " " + to_text(first.replayed) + " rather than " +
         to_text(first.recorded) + " (" + with_commas((first.replayed - first.recorded).value()) +
         " bytes)";
}

std::string failure_moment(const cost::StepEstimate& estimate) {
  if (!estimate.failure) {
    return {};
  }
  const cost::OutOfMemory& failure = *estimate.failure;
  return cost::moment_text(estimate.program.phases[failure.phase].name,
                           cost::site_of(estimate.program, failure.event));
}

std::string program_next(const ProgramAnswer& answer) {
  const ProgramQuestion& question = answer.question;
  std::string text = "headroom timeline --program " + shell_word(question.file);
  if (question.device.name != question.recorded.device.name) {
    text += " --gpu " + shell_word(question.device.name);
  }
  if (question.budget && question.total != question.recorded.device.total) {
    text += " --budget " + exact_size(question.total);
  }
  const std::string conf = to_text(question.settings);
  if (conf != question.recorded.history.alloc_conf) {
    text += " --alloc-conf " + shell_word(conf);
  }
  return text + " --format chrome --output timeline.json";
}

}  // namespace headroom::cli
