#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "cli/report/dryrun_answer.h"
#include "cli/report/dryrun_layout.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "model_ir/base/counted.h"

namespace headroom::cli {
namespace {

using check::DryRunBlocks;
using check::DryRunPhase;
using check::DryRunReport;
using check::DryRunVerdict;

constexpr std::size_t kDryRunTermColumns = 28;
constexpr std::size_t kMostTextBlocks = 6;
constexpr std::size_t kMostFrames = 4;
constexpr std::size_t kMostTextRanks = 16;
constexpr std::size_t kMostRemarks = 5;

std::string term_line(std::string_view name, const std::string& size, const std::string& remark) {
  return "  " + pad_right(name, kDryRunTermColumns) + size + (remark.empty() ? "" : "  " + remark) +
         "\n";
}

Style style_of(DryRunVerdict verdict) {
  switch (verdict) {
    case DryRunVerdict::kFits:
      return Style::kGood;
    case DryRunVerdict::kTight:
      return Style::kWarning;
    case DryRunVerdict::kDoesNotFit:
    case DryRunVerdict::kUnknown:
      break;
  }
  return Style::kBad;
}

std::string faint_line(const std::string& text, const Terminal& terminal) {
  return styled(terminal, Style::kFaint, wrap(text, terminal.width - 2, 2)) + "\n";
}

/// "at least 2.00 GiB short in step 1, backward".
std::string verdict_text(const DryRunAnswer& answer) {
  const check::DryRunJudgement& judged = answer.judged;
  const std::string name(name_of(judged.verdict));
  switch (judged.verdict) {
    case DryRunVerdict::kFits:
    case DryRunVerdict::kTight:
      return name + ", " + to_text(judged.margin) + " to spare";
    case DryRunVerdict::kDoesNotFit:
      return name + ", at least " + to_text(-judged.margin) + " short";
    case DryRunVerdict::kUnknown:
      break;
  }
  return "not measured: the program " + end_text(answer);
}

std::string verdict_line(const DryRunAnswer& answer, const Terminal& terminal) {
  const check::DryRunDevice& device = answer.request.device;
  const std::string subject = check::command_text(answer.request.command) + " on " +
                              std::to_string(answer.request.world.ranks) + " x " + device.name +
                              " (" + to_text(device.total) +
                              (device.budget ? " budget" : " usable") + "):";
  const std::string verdict = verdict_text(answer);
  const bool one_line = columns_of(subject) + 1 + columns_of(verdict) <= terminal.width;
  return subject + (one_line ? " " : "\n  ") +
         styled(terminal, style_of(answer.judged.verdict), wrap(verdict, terminal.width - 2, 2)) +
         "\n";
}

/// "PyTorch 2.11.0+cu130, transformers 5.17.0; stopped after 3 steps".
std::string setting_line(const DryRunAnswer& answer, const Terminal& terminal) {
  std::string text;
  for (const auto& [name, version] : answer.report().versions) {
    text += (text.empty() ? "" : ", ") + printable(name) + " " + printable(version);
  }
  if (const DryRunReport& report = answer.report(); report.rank && report.world) {
    text += (text.empty() ? "" : ", ") + std::string("rank ") + std::to_string(*report.rank) +
            " of " + std::to_string(*report.world);
  }
  if (answer.judged.verdict != DryRunVerdict::kUnknown) {
    text += (text.empty() ? "the program " : "; the program ") + end_text(answer);
  }
  return faint_line(text, terminal);
}

/// Where an error that ended the program came from.
std::string exception_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const auto& exception = answer.report().exception;
  if (!exception || answer.judged.verdict != DryRunVerdict::kUnknown) {
    return {};
  }
  std::string text = printable(exception->type) + ": " + printable(exception->message);
  text += exception->where.empty() ? "" : " (" + printable(exception->where) + ")";
  return "  " + wrap(text, terminal.width - 2, 2) + "\n";
}

std::string oom_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  if (!answer.report().oom) {
    return {};
  }
  const check::DryRunOom& oom = *answer.report().oom;
  check::DryRunPhase phase;
  phase.name = oom.phase;
  phase.step = oom.step;
  const std::string moment = moment_of(phase);
  std::string text = "out of memory" + (moment.empty() ? "" : " in " + printable(moment)) +
                     ", asking for " + to_text(oom.requested) + "; " + to_text(oom.free) +
                     " was free, " + to_text(oom.allocated) + " allocated, " +
                     to_text(oom.reserved) + " reserved";
  if (answer.judged.verdict != DryRunVerdict::kDoesNotFit) {
    text += "; the program caught the error and went on";
  }
  text = wrap(text, terminal.width - 2, 2) + "\n";
  for (std::size_t at = 0; at < std::min(oom.stack.size(), kMostFrames); ++at) {
    text +=
        "  " + std::string(at == 0 ? "asked by " : "         ") + printable(oom.stack[at]) + "\n";
  }
  return text;
}

/// "2 x 4096".
std::string batch_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) {
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  }
  return text;
}

/// The attempts that ran out of memory before the program found one that does not.
std::string caught_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const std::vector<check::DryRunCaught>& all = answer.report().caught;
  if (all.empty()) {
    return {};
  }
  std::string text = heading(terminal, "out of memory, caught by the program");
  // The last ones are the nearest to what ran.
  const std::size_t left_out = all.size() - std::min(all.size(), kMostRemarks);
  if (left_out > 0) {
    text += "  " + counted(static_cast<std::int64_t>(left_out), "earlier attempt") +
            " left out (--json has all)\n";
  }
  for (std::size_t at = left_out; at < all.size(); ++at) {
    const check::DryRunCaught& caught = all[at];
    check::DryRunPhase phase;
    phase.name = caught.phase;
    phase.step = caught.step;
    std::string line = printable(moment_of(phase)) +
                       (caught.batch.empty() ? "" : ", batch " + batch_text(caught.batch)) + ": " +
                       to_text(check::missing_bytes(caught.requested, caught.free)) + " missing, " +
                       to_text(caught.requested) + " asked for";
    line += caught.where.empty() ? "" : " by " + printable(caught.where);
    text += "  " + wrap(line, terminal.width - 2, 2) + "\n";
  }
  const std::string rest =
      "The verdict and all figures are of what ran afterwards; memory that PyTorch kept reserved "
      "from such an attempt counts.";
  return text + "  " + wrap(rest, terminal.width - 2, 2) + "\n";
}

std::string peak_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const DryRunReport& report = answer.report();
  const bool failed = answer.judged.verdict == DryRunVerdict::kDoesNotFit;
  const Bytes whole = failed ? report.oom->allocated : report.peak.allocated;
  std::string title = failed ? "allocated when it ran out: " : "peak ";
  title += to_text(whole) + (failed ? "" : " allocated");
  if (!failed && report.peak.phase) {
    title += " in " + printable(moment_of(report.phases[*report.peak.phase]));
  }
  std::string text = heading(terminal, title);
  const std::vector<Bytes> sums = bytes_by_category(live_of(answer));
  std::array<std::size_t, check::kDryRunCategories> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&sums](std::size_t at) { return sums[at]; });
  const std::size_t room = terminal.width - kCategoryColumns - kDryRunSizeColumns - 4;
  const TableUnit unit = unit_for_dry_run(whole);
  for (const std::size_t at : order) {
    if (sums[at] > Bytes{0}) {
      const double share = static_cast<double>(sums[at].value()) /
                           static_cast<double>(std::max<std::int64_t>(whole.value(), 1));
      text += "  " + pad_right(check::dry_run_category(at), kCategoryColumns) +
              dry_run_size(sums[at], unit) + "  " + bar(terminal, std::min(share, 1.0), room) +
              "\n";
    }
  }
  return text;
}

std::string device_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const check::DryRunJudgement& judged = answer.judged;
  const check::DryRunDevice& device = answer.request.device;
  const DryRunReport& report = answer.report();
  const TableUnit unit = unit_for_dry_run(std::max(judged.peak_reserved, device.total));
  std::string text = heading(terminal, "against the device");
  const Bytes idle = report.peak.reserved - report.peak.allocated;
  const double share = static_cast<double>(idle.value()) /
                       static_cast<double>(std::max<std::int64_t>(report.peak.reserved.value(), 1));
  text += term_line(
      "reserved by PyTorch", dry_run_size(judged.peak_reserved, unit),
      idle > Bytes{0} ? "fragmentation " + percent_text(share) + ", " + to_text(idle) : "");
  const Bytes others = report.peak.device - device.outside - judged.peak_reserved;
  if (others > Bytes{0}) {
    text += term_line("other libraries", dry_run_size(others, unit), "beside PyTorch's allocator");
  }
  for (const cost::OutsideTerm& term : device.terms) {
    text += term_line(term.name, dry_run_size(term.bytes, unit), std::string(name_of(term.basis)));
  }
  text += term_line("device", dry_run_size(device.total, unit),
                    device.budget ? "--budget" : "usable, of " + device.product);
  const bool is_short = judged.margin < Bytes{0};
  text += term_line(is_short ? "short" : "to spare",
                    dry_run_size(is_short ? -judged.margin : judged.margin, unit),
                    judged.retries > 0 ? "PyTorch emptied its cache " +
                                             (judged.retries == 1 ? std::string("once")
                                                                  : counted(judged.retries, "time"))
                                       : "");
  return text;
}

/// Micro-batches of one phase with the same figures are one line.
struct PhaseLine {
  const DryRunPhase* phase;
  std::int64_t last_batch;
  std::int64_t phases = 1;
};

bool repeats(const DryRunPhase& one, const DryRunPhase& other) {
  return one.name == other.name && one.step == other.step &&
         one.peak_allocated == other.peak_allocated && one.peak_reserved == other.peak_reserved &&
         one.allocated_after == other.allocated_after;
}

/// The phases before the first step, those of the last step, and that of the peak.
std::vector<PhaseLine> shown_phases(const DryRunReport& report) {
  std::int64_t last = 0;
  for (const DryRunPhase& phase : report.phases) {
    last = std::max(last, phase.step);
  }
  std::vector<PhaseLine> shown;
  for (std::size_t at = 0; at < report.phases.size(); ++at) {
    const DryRunPhase& phase = report.phases[at];
    if (!is_before_steps(phase) && phase.step != last && report.peak.phase != at) {
      continue;
    }
    const auto same = std::ranges::find_if(shown, [&phase](const PhaseLine& line) {
      return phase.micro_batch == line.last_batch + 1 && repeats(*line.phase, phase);
    });
    if (same != shown.end()) {
      same->last_batch = phase.micro_batch;
      ++same->phases;
    } else {
      shown.push_back({.phase = &phase, .last_batch = phase.micro_batch});
    }
  }
  constexpr std::size_t kMostPhases = 12;
  shown.resize(std::min(shown.size(), kMostPhases), PhaseLine{.phase = nullptr, .last_batch = 0});
  return shown;
}

/// "step 3, forward, batch 2 to 16", in the columns of a screen.
std::string phase_name(const PhaseLine& line) {
  DryRunPhase phase = *line.phase;
  if (line.phases == 1) {
    return printable(moment_of(phase));
  }
  const std::string first = std::to_string(phase.micro_batch);
  phase.micro_batch = 1;
  return printable(moment_of(phase)) + ", batch " + first + " to " +
         std::to_string(line.last_batch);
}

std::string phase_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const std::vector<PhaseLine> shown = shown_phases(answer.report());
  std::size_t width = kCategoryColumns;
  Bytes most;
  std::int64_t told = 0;
  for (const PhaseLine& line : shown) {
    width = std::max(width, columns_of(phase_name(line)));
    most = std::max(most, line.phase->peak_reserved);
    told += line.phases;
  }
  const TableUnit unit = unit_for_dry_run(most);
  constexpr std::array<std::string_view, 3> kColumns = {"peak allocated", "peak reserved",
                                                        "allocated at end"};
  std::string head = pad_right("phase", width + 2);
  for (std::size_t at = 0; at < kColumns.size(); ++at) {
    head += (at == 0 ? "" : "  ") + std::string(kColumns.at(at));
  }
  std::string text = shown.empty() ? "" : heading(terminal, head);
  for (const PhaseLine& line : shown) {
    const DryRunPhase& phase = *line.phase;
    const std::array<Bytes, kColumns.size()> sizes = {phase.peak_allocated, phase.peak_reserved,
                                                      phase.allocated_after};
    text += "  " + pad_right(phase_name(line), width);
    for (std::size_t at = 0; at < kColumns.size(); ++at) {
      text += (at == 0 ? "" : "  ") +
              pad_left(table_figure(sizes.at(at), unit), kColumns.at(at).size());
    }
    text += "\n";
  }
  const auto all = static_cast<std::int64_t>(answer.report().phases.size());
  if (all > told) {
    text += "  " + counted(all - told, "other phase") + " left out (--json has all)\n";
  }
  return text;
}

/// A frame of at most `width` columns, without the first folders of its path if it is longer.
std::string short_frame(const std::string& frame, std::size_t width) {
  std::string text = printable(frame);
  while (columns_of(text) > width) {
    const std::size_t folder = text.find('/', text.starts_with(".../") ? 4 : 0);
    if (folder == std::string::npos) {
      break;
    }
    text = "..." + text.substr(folder);
  }
  return text;
}

std::string block_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const std::vector<DryRunBlocks>& live = live_of(answer);
  if (live.empty()) {
    return {};
  }
  const bool failed = answer.judged.verdict == DryRunVerdict::kDoesNotFit;
  std::string text =
      heading(terminal, failed ? "largest when it ran out of memory" : "largest at the peak");
  const TableUnit unit = unit_for_dry_run(live.front().bytes);
  for (std::size_t at = 0; at < std::min(live.size(), kMostTextBlocks); ++at) {
    const DryRunBlocks& blocks = live[at];
    const std::string line = "  " + dry_run_size(blocks.bytes, unit) + "  " +
                             pad_left("in " + counted(blocks.count, "block"), 14) + "  " +
                             std::string(check::dry_run_category(blocks.category)) + "  ";
    const std::size_t left = terminal.width - std::min(columns_of(line), terminal.width);
    text += line.substr(0, blocks.frame.empty() ? line.size() - 2 : line.size()) +
            short_frame(blocks.frame, left) + "\n";
  }
  return text;
}

std::string rank_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const std::vector<DryRunReport>& reports = answer.end.reports;
  if (reports.size() < 2) {
    return {};
  }
  Bytes most;
  for (const DryRunReport& report : reports) {
    most = std::max(most, report.peak.reserved);
  }
  const TableUnit unit = unit_for_dry_run(most);
  std::string text = heading(
      terminal, pad_right("process", kCategoryColumns + 2) + "peak allocated  peak reserved");
  for (std::size_t at = 0; at < std::min(reports.size(), kMostTextRanks); ++at) {
    const DryRunReport& report = reports[at];
    const std::string name = report.rank ? "rank " + std::to_string(*report.rank)
                                         : "process " + std::to_string(report.process);
    text += "  " + pad_right(name, kCategoryColumns) +
            pad_left(table_figure(report.peak.allocated, unit), 14) + "  " +
            pad_left(table_figure(report.peak.reserved, unit), 13) +
            (report.oom             ? "  out of memory"
             : at == answer.binding ? "  the highest"
                                    : "") +
            "\n";
  }
  const auto unranked = [](const DryRunReport& report) { return !report.rank; };
  if (std::ranges::count_if(reports, unranked) > 1) {
    const std::string alone =
        "These processes were started as programs of their own; each was measured as if it had "
        "the GPU to itself, and the highest decides.";
    text += "  " + wrap(alone, terminal.width - 2, 2) + "\n";
  }
  if (reports.size() > kMostTextRanks) {
    text += "  " + counted(reports.size() - kMostTextRanks, "other process", "other processes") +
            " left out (--json has all)\n";
  }
  return text;
}

std::string host_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const DryRunReport& report = answer.report();
  if (report.host_peak == Bytes{0} && report.pinned_peak == Bytes{0}) {
    return {};
  }
  const TableUnit unit = unit_for_dry_run(std::max(report.host_peak, report.pinned_peak));
  std::string text = heading(terminal, "on the host");
  text += term_line("resident at most", dry_run_size(report.host_peak, unit), "");
  if (report.pinned_peak > Bytes{0}) {
    text += term_line("pinned at most", dry_run_size(report.pinned_peak, unit),
                      "page-locked; not committed here");
  }
  return text;
}

std::string times_text(std::int64_t times) {
  return times > 1 ? " (" + counted(times, "time") + ")" : "";
}

std::string remark_lines(const DryRunAnswer& answer, const Terminal& terminal) {
  const DryRunReport& report = answer.report();
  const auto line = [&terminal](const std::string& remark) {
    return "  " + wrap(remark, terminal.width - 2, 2) + "\n";
  };
  std::string text = report.guesses.empty() ? "" : heading(terminal, "guessed");
  for (std::size_t at = 0; at < std::min(report.guesses.size(), kMostRemarks); ++at) {
    const check::DryRunGuess& guess = report.guesses[at];
    text +=
        line(printable(guess.what) + (guess.where.empty() ? "" : ", " + printable(guess.where)) +
             times_text(guess.times));
  }
  text += report.refused.empty() ? "" : heading(terminal, "refused by the stand-in for CUDA");
  for (std::size_t at = 0; at < std::min(report.refused.size(), kMostRemarks); ++at) {
    const check::DryRunRefusal& refusal = report.refused[at];
    text += line(printable(refusal.function) + times_text(refusal.times));
  }
  if (report.guesses.size() > kMostRemarks || report.refused.size() > kMostRemarks) {
    text += line("--json has all of them");
  }
  return text;
}

}  // namespace

std::vector<Bytes> bytes_by_category(const std::vector<DryRunBlocks>& live) {
  std::vector<Bytes> sums(check::kDryRunCategories);
  for (const DryRunBlocks& blocks : live) {
    sums[blocks.category] += blocks.bytes;
  }
  return sums;
}

const std::vector<DryRunBlocks>& live_of(const DryRunAnswer& answer) {
  const DryRunReport& report = answer.report();
  const bool failed = answer.judged.verdict == DryRunVerdict::kDoesNotFit;
  return failed ? report.oom->live : report.peak.live;
}

std::string end_text(const DryRunAnswer& answer) {
  const check::DryRunEnd& end = answer.end;
  if (end.interrupted) {
    return "was interrupted";
  }
  if (end.signal != 0) {
    return "was ended by signal " + std::to_string(end.signal);
  }
  const DryRunReport& report = answer.report();
  const std::string code = "exit code " + std::to_string(end.exit_code);
  if (report.stopped == check::DryRunStop::kSteps) {
    return "was stopped after " + counted(answer.request.steps, "step") + ", " + code;
  }
  if (report.exception) {
    return "ended with " + printable(report.exception->type) + ", " + code;
  }
  return "ended with " + code;
}

std::string dryrun_text(const DryRunAnswer& answer, const Terminal& terminal) {
  std::string text = verdict_line(answer, terminal) + setting_line(answer, terminal) +
                     exception_lines(answer, terminal) + oom_lines(answer, terminal) +
                     caught_lines(answer, terminal) + peak_lines(answer, terminal) +
                     device_lines(answer, terminal) + phase_lines(answer, terminal) +
                     block_lines(answer, terminal) + rank_lines(answer, terminal) +
                     dryrun_prediction_text(answer, terminal) + host_lines(answer, terminal) +
                     remark_lines(answer, terminal);
  if (!answer.next.empty()) {
    text += "\nnext: " + break_command(answer.next, terminal.width - 6) + "\n";
  }
  return text;
}

}  // namespace headroom::cli
