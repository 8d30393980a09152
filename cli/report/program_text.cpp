#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "cli/allocator_options.h"
#include "cli/report/dryrun_answer.h"
#include "cli/report/program_answer.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "model_ir/base/counted.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kProgramNameColumns = 18;
constexpr std::size_t kProgramTermColumns = 28;
constexpr std::size_t kProgramSizeColumns = 10;
constexpr std::size_t kMostProgramLines = 6;
constexpr std::size_t kMostProgramPhases = 9;
constexpr std::size_t kMostGpus = 4;

TableUnit unit_for_program(Bytes largest) {
  return unit_of_bytes(static_cast<double>(largest.value()));
}

std::string right_sized(Bytes bytes, const TableUnit& unit) {
  return pad_left(table_figure(bytes, unit), kProgramSizeColumns);
}

std::string table_line(std::string_view name, Bytes bytes, const TableUnit& unit,
                       const std::string& remark) {
  return "  " + pad_right(name, kProgramTermColumns) + right_sized(bytes, unit) +
         (remark.empty() ? "" : "  " + remark) + "\n";
}

Style style_of_verdict(cost::Verdict verdict) {
  return verdict == cost::Verdict::kFits    ? Style::kGood
         : verdict == cost::Verdict::kTight ? Style::kWarning
                                            : Style::kBad;
}

/// "2.00 GiB to spare", "512 MiB short".
std::string spare_text(Bytes margin) {
  return margin < Bytes{0} ? to_text(-margin) + " short" : to_text(margin) + " to spare";
}

std::string program_verdict(const ProgramAnswer& answer, const Terminal& terminal) {
  const ProgramQuestion& question = answer.question;
  const cost::StepEstimate& estimate = answer.estimate;
  const std::string subject = check::command_text(question.recorded.command) + " on " +
                              std::to_string(question.recorded.ranks) + " x " +
                              question.device.name + " (" + to_text(question.total) +
                              (question.budget ? " budget" : " usable") + "):";
  std::string verdict(name_of(estimate.verdict));
  verdict += estimate.out_of_memory && estimate.margin >= Bytes{0}
                 ? ", because free memory is in pieces"
                 : ", " + spare_text(estimate.margin);
  const bool one_line = columns_of(subject) + 1 + columns_of(verdict) <= terminal.width;
  return subject + (one_line ? " " : "\n  ") +
         styled(terminal, style_of_verdict(estimate.verdict),
                wrap(verdict, terminal.width - 2, 2)) +
         "\n";
}

/// "recorded on h100-80gb: torch 2.11.0; PYTORCH_ALLOC_CONF expandable_segments:True".
std::string recording_line(const ProgramAnswer& answer, const Terminal& terminal) {
  const check::RecordedProgram& recorded = answer.question.recorded;
  std::string text = "recorded on " + recorded.device.name;
  for (const auto& [name, version] : recorded.versions) {
    text += ", " + name + " " + version;
  }
  if (recorded.ranks > 1) {
    text += ", rank " + std::to_string(recorded.rank) + " of " + std::to_string(recorded.ranks);
  }
  if (const std::string conf = to_text(answer.question.settings); !conf.empty()) {
    text += "; PYTORCH_ALLOC_CONF " + conf;
  }
  if (answer.differences) {
    text += "; " + replay_sentence(recorded, *answer.differences);
  }
  return styled(terminal, Style::kFaint, wrap(text, terminal.width - 2, 2)) + "\n";
}

std::string program_failure(const ProgramAnswer& answer, const Terminal& terminal) {
  const cost::StepEstimate& estimate = answer.estimate;
  if (!estimate.failure) {
    return {};
  }
  const cost::OutOfMemory& failure = *estimate.failure;
  return wrap("out of memory in " + failure_moment(estimate) + ", asking for " +
                  to_text(failure.requested) + "; " + to_text(failure.allocated) + " allocated, " +
                  to_text(failure.reserved) + " reserved",
              terminal.width - 2, 2) +
         "\n";
}

std::string program_peak(const ProgramAnswer& answer, const Terminal& terminal) {
  const cost::StepEstimate& estimate = answer.estimate;
  const std::string peak =
      to_text(estimate.peak_allocated) + " allocated in " + estimate.peak_moment;
  std::string text = heading(
      terminal, wrap(estimate.out_of_memory ? "with unlimited memory the run would peak at " + peak
                                            : "peak " + peak,
                     terminal.width - 2, 2));
  const std::vector<Bytes> sums = bytes_by_category(answer.live);
  std::array<std::size_t, check::kDryRunCategories> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&sums](std::size_t at) { return sums[at]; });
  const std::size_t room = terminal.width - kProgramNameColumns - kProgramSizeColumns - 4;
  const TableUnit unit = unit_for_program(estimate.peak_allocated);
  const auto whole =
      static_cast<double>(std::max<std::int64_t>(estimate.peak_allocated.value(), 1));
  for (const std::size_t at : order) {
    if (sums[at] > Bytes{0}) {
      text += "  " + pad_right(check::dry_run_category(at), kProgramNameColumns) +
              right_sized(sums[at], unit) + "  " +
              bar(terminal, static_cast<double>(sums[at].value()) / whole, room) + "\n";
    }
  }
  return text;
}

std::string program_lines(const ProgramAnswer& answer, const Terminal& terminal) {
  std::string text = answer.live.empty() ? "" : heading(terminal, "largest lines at the peak");
  const TableUnit unit =
      unit_for_program(answer.live.empty() ? Bytes{0} : answer.live.front().bytes);
  for (std::size_t at = 0; at < std::min(answer.live.size(), kMostProgramLines); ++at) {
    const check::DryRunBlocks& blocks = answer.live[at];
    text += right_sized(blocks.bytes, unit) + "  " +
            wrap(pad_right(check::dry_run_category(blocks.category), kProgramNameColumns) +
                     blocks.frame + " (" + counted(blocks.count, "block") + ")",
                 terminal.width - kProgramSizeColumns - 2, kProgramSizeColumns + 4) +
            "\n";
  }
  return text;
}

std::string program_device(const ProgramAnswer& answer, const Terminal& terminal) {
  const ProgramQuestion& question = answer.question;
  const cost::StepEstimate& estimate = answer.estimate;
  const TableUnit unit = unit_for_program(std::max(estimate.peak_reserved, question.total));
  const Bytes idle = estimate.peak_reserved - estimate.peak_allocated;
  const double share =
      static_cast<double>(idle.value()) /
      static_cast<double>(std::max<std::int64_t>(estimate.peak_reserved.value(), 1));
  std::string text = heading(terminal, "against the device");
  text += table_line("reserved by PyTorch", estimate.peak_reserved, unit,
                     "fragmentation " + percent_text(share) + ", " + to_text(idle));
  if (answer.driver_reserved != estimate.peak_reserved) {
    text += table_line("the same on a real GPU", answer.driver_reserved, unit,
                       "its driver places segments elsewhere");
  }
  for (const cost::OutsideTerm& term : estimate.outside) {
    text += table_line(term.name, term.bytes, unit, std::string(name_of(term.basis)));
  }
  text += table_line("device", question.total, unit,
                     question.budget ? "budget" : "usable, of " + question.device.product);
  text += table_line(
      estimate.margin < Bytes{0} ? "short" : "to spare", Bytes{std::abs(estimate.margin.value())},
      unit,
      estimate.retries > 0 && !estimate.out_of_memory
          ? "fits only because PyTorch empties its cache " +
                (estimate.retries == 1 ? std::string("once") : counted(estimate.retries, "time"))
          : "");
  return text;
}

/// The phases with the highest peaks, in the order of time.
std::string program_phases(const ProgramAnswer& answer, const Terminal& terminal) {
  const std::vector<cost::PhaseMemory>& all = answer.estimate.timeline.phases;
  std::vector<const cost::PhaseMemory*> shown;
  for (const cost::PhaseMemory& phase : all) {
    shown.push_back(&phase);
  }
  if (shown.size() > kMostProgramPhases) {
    std::ranges::stable_sort(shown, std::ranges::greater{}, &cost::PhaseMemory::peak_allocated);
    shown.resize(kMostProgramPhases);
    std::ranges::sort(shown);
  }
  constexpr std::array<std::string_view, 3> kColumns = {"peak allocated", "peak reserved",
                                                        "allocated at end"};
  std::size_t width = kProgramNameColumns;
  for (const cost::PhaseMemory* phase : shown) {
    width = std::max(width, columns_of(to_text(phase->name)));
  }
  std::string head = pad_right("phase", width + 2);
  for (const std::string_view column : kColumns) {
    head += (column == kColumns.front() ? "" : "  ") + std::string(column);
  }
  const TableUnit unit = unit_for_program(answer.estimate.peak_reserved);
  std::string text = heading(terminal, head);
  for (const cost::PhaseMemory* phase : shown) {
    const std::array<Bytes, kColumns.size()> sizes = {phase->peak_allocated, phase->peak_reserved,
                                                      phase->allocated_after};
    text += "  " + pad_right(to_text(phase->name), width);
    for (std::size_t at = 0; at < kColumns.size(); ++at) {
      text += (at == 0 ? "" : "  ") +
              pad_left(table_figure(sizes.at(at), unit), kColumns.at(at).size());
    }
    text += "\n";
  }
  if (all.size() > shown.size()) {
    text +=
        "  " + counted(all.size() - shown.size(), "other phase") + " left out (--json has all)\n";
  }
  return text;
}

std::string setting_lines(const ProgramAnswer& answer, const Terminal& terminal) {
  std::string text;
  for (const check::SettingsChoice& choice : answer.settings) {
    const bool helps = choice.verdict < answer.estimate.verdict ||
                       (choice.verdict == answer.estimate.verdict && choice.saved > Bytes{0});
    if (helps) {
      text += "  " +
              wrap((choice.conf.empty() ? "PyTorch's defaults" : choice.conf) + ": " +
                       std::string(name_of(choice.verdict)) + ", " + spare_text(choice.margin) +
                       ", reserves " + to_text(Bytes{std::abs(choice.saved.value())}) +
                       (choice.saved < Bytes{0} ? " more" : " less"),
                   terminal.width - 2, 4) +
              "\n";
    }
  }
  return heading(terminal, "settings of the allocator that help (PYTORCH_ALLOC_CONF)") +
         (text.empty() ? "  none of those that were tried\n" : text);
}

/// The GPUs with least memory on which the program fits.
std::string gpu_lines(const ProgramAnswer& answer, const Terminal& terminal) {
  std::string text;
  std::size_t shown = 0;
  for (const check::GpuChoice& choice : answer.gpus) {
    if (choice.verdict != cost::Verdict::kDoesNotFit && shown < kMostGpus) {
      ++shown;
      text += "  " + pad_right(choice.name, kProgramTermColumns) + to_text(choice.total) +
              " usable: " + std::string(name_of(choice.verdict)) + ", " +
              spare_text(choice.margin) + "\n";
    }
  }
  return heading(terminal, "smallest other GPUs of the catalogue that hold it") +
         (text.empty() ? "  none\n" : text);
}

}  // namespace

std::string program_text(const ProgramAnswer& answer, const Terminal& terminal) {
  return program_verdict(answer, terminal) + recording_line(answer, terminal) +
         program_failure(answer, terminal) + program_peak(answer, terminal) +
         program_lines(answer, terminal) + program_device(answer, terminal) +
         program_phases(answer, terminal) + setting_lines(answer, terminal) +
         gpu_lines(answer, terminal) + "\nnext: " + program_next(answer) + "\n";
}

}  // namespace headroom::cli
