#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "cli/report/validation_answer.h"
#include "cli/scalars.h"
#include "model_ir/base/counted.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kNameColumns = 20;
constexpr std::size_t kFigureColumns = 11;
constexpr std::size_t kMostShownPhases = 12;

std::string sized_figure(Bytes bytes, const TableUnit& unit) {
  return pad_left(table_figure(bytes, unit), kFigureColumns);
}

/// "the same", "-12.0 MiB, -0.1 %": measured against predicted.
std::string off_text(Bytes predicted, Bytes measured) {
  const Bytes off = measured - predicted;
  if (off == Bytes{0}) {
    return "the same";
  }
  const std::string sign = off < Bytes{0} ? "-" : "+";
  const Bytes size = off < Bytes{0} ? -off : off;
  return sign + to_text(size) + ", " + sign +
         percent_text(check::relative_error(predicted, measured));
}

std::string verdict_of(const ValidatedSide& side) {
  if (side.verdict == "unknown") {
    return "not measured";
  }
  if (side.missing_at_failure) {
    return side.verdict + ", " + to_text(*side.missing_at_failure) +
           " short at the request that fails";
  }
  return side.verdict + (side.margin < Bytes{0} ? ", " + to_text(-side.margin) + " short"
                                                : ", " + to_text(side.margin) + " to spare");
}

std::string answer_line(const ValidationAnswer& answer, const Terminal& terminal) {
  const std::string limit = percent_text(answer.tolerance);
  std::string text;
  Style style = Style::kBad;
  if (!answer.is_measured()) {
    text = "not measured: " +
           (answer.failure.empty() ? "the program did not come to its end" : answer.failure);
  } else if (answer.both_fit()) {
    const bool same = answer.predicted.peaks == answer.measured.peaks;
    text = same ? "the same to the byte"
                : (answer.agrees() ? "within " : "not within ") + limit + ": off by " +
                      percent_text(answer.error());
    style = answer.agrees() ? Style::kGood : Style::kBad;
  } else if (answer.agrees()) {
    text = "both say that it does not fit";
    style = Style::kGood;
  } else {
    text = "only one of them says that it fits";
  }
  const std::string subject = answer.model + " on " + std::to_string(answer.gpus) + " x " +
                              answer.device + ", " +
                              (answer.with == "dryrun"     ? "dry run"
                               : answer.with == "executor" ? "executor"
                                                           : "PyTorch on the GPU") +
                              ":";
  const bool one_line = columns_of(subject) + 1 + columns_of(text) <= terminal.width;
  return subject + (one_line ? " " : "\n  ") +
         styled(terminal, style, wrap(printable(text), terminal.width - 2, 2)) + "\n";
}

std::string version_lines(const ValidationAnswer& answer, const Terminal& terminal) {
  if (answer.versions.empty()) {
    return {};
  }
  std::string used;
  std::string others;
  for (const check::PackageVersion& version : answer.versions) {
    used += (used.empty() ? "" : ", ") + printable(version.package) + " " + printable(version.used);
    if (!version.agrees()) {
      others += "  " +
                wrap(printable(version.package) + " is " + printable(version.used) +
                         "; the prediction is for " + version.assumed,
                     terminal.width - 2, 2) +
                "\n";
    }
  }
  return styled(terminal, Style::kFaint, wrap(used, terminal.width - 2, 2)) + "\n" +
         (others.empty() ? "" : heading(terminal, "other versions") + others);
}

std::string peak_table(const ValidationAnswer& answer, const Terminal& terminal) {
  const ValidatedSide& predicted = answer.predicted;
  const ValidatedSide& measured = answer.measured;
  std::string text =
      heading(terminal, pad_right("", kNameColumns + 2) + pad_left("predicted", kFigureColumns) +
                            "  " + pad_left("measured", kFigureColumns));
  const TableUnit unit = unit_of_bytes(
      static_cast<double>(std::max(predicted.peaks.reserved, measured.peaks.reserved).value()));
  const auto line = [&](std::string_view name, Bytes expected, Bytes found) {
    text += "  " + pad_right(name, kNameColumns) + sized_figure(expected, unit) + "  " +
            sized_figure(found, unit) + "  " +
            (answer.both_fit() ? off_text(expected, found) : "") + "\n";
  };
  line("peak allocated", predicted.peaks.allocated, measured.peaks.allocated);
  line("peak reserved", predicted.peaks.reserved, measured.peaks.reserved);
  if (predicted.step_seconds && measured.step_seconds) {
    text += "  " + pad_right("step", kNameColumns) +
            pad_left(duration_text(*predicted.step_seconds), kFigureColumns) + "  " +
            pad_left(duration_text(*measured.step_seconds), kFigureColumns) + "\n";
  }
  if (answer.run) {
    line("driver", answer.run->predicted_driver, answer.run->measured_driver);
  }
  text += "  " + pad_right("predicted", kNameColumns) + verdict_of(predicted) + "\n";
  text += "  " + pad_right("measured", kNameColumns) + verdict_of(measured) + "\n";
  if (predicted.missing_at_failure && predicted.margin < Bytes{0}) {
    text += "  " + pad_right("whole run", kNameColumns) + to_text(-predicted.margin) +
            " short, as predicted\n";
  }
  return text;
}

/// The phases that differ, then as many others as there is room for; in the order of the run.
std::vector<const check::PhaseComparison*> chosen_phases(const ValidationAnswer& answer) {
  std::vector<const check::PhaseComparison*> chosen;
  for (const bool differing : {true, false}) {
    for (const check::PhaseComparison& phase : answer.phases) {
      if ((phase.predicted != phase.measured) == differing && chosen.size() < kMostShownPhases) {
        chosen.push_back(&phase);
      }
    }
  }
  std::ranges::sort(chosen);  // They are elements of one array.
  return chosen;
}

std::string run_lines(const ExecutedRun& run) {
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += "  " + pad_right(name, kNameColumns) + value + "\n";
  };
  if (run.tokens_per_second) {
    line("tokens per second", three_digits(*run.tokens_per_second));
  }
  if (run.mfu) {
    line("MFU", percent_text(*run.mfu));
  }
  if (!run.losses.empty()) {
    line("loss", three_digits(run.losses.front()) + " in the first step, " +
                     three_digits(run.losses.back()) + " in the last");
  }
  return text;
}

std::string phase_table(const ValidationAnswer& answer, const Terminal& terminal) {
  const std::vector<const check::PhaseComparison*> chosen = chosen_phases(answer);
  if (chosen.empty()) {
    return {};
  }
  constexpr std::array<std::string_view, 4> kColumns = {"allocated", "measured", "reserved",
                                                        "measured"};
  std::string head = pad_right("phase", kNameColumns + 2);
  for (std::size_t at = 0; at < kColumns.size(); ++at) {
    head += (at == 0 ? "" : "  ") + pad_left(kColumns.at(at), kFigureColumns);
  }
  std::string text = heading(terminal, head);
  Bytes most;
  for (const check::PhaseComparison* const phase : chosen) {
    most = std::max({most, phase->predicted.reserved, phase->measured.reserved});
  }
  const TableUnit unit = unit_of_bytes(static_cast<double>(most.value()));
  for (const check::PhaseComparison* const phase : chosen) {
    text += "  " + pad_right(phase->name, kNameColumns) +
            sized_figure(phase->predicted.allocated, unit) + "  " +
            sized_figure(phase->measured.allocated, unit) + "  " +
            sized_figure(phase->predicted.reserved, unit) + "  " +
            sized_figure(phase->measured.reserved, unit) +
            (phase->predicted == phase->measured ? "" : "  *") + "\n";
  }
  if (const std::size_t left = answer.phases.size() - chosen.size(); left > 0) {
    text += "  " + counted(left, "other phase") + " left out (--json has all)\n";
  }
  const bool any = std::ranges::any_of(chosen, [](const check::PhaseComparison* phase) {
    return phase->predicted != phase->measured;
  });
  return text + (any ? "  * differs\n" : "");
}

}  // namespace

Bytes missing_at(const cost::OutOfMemory& failure, Bytes capacity) {
  return check::missing_bytes(failure.requested, capacity - failure.reserved);
}

bool ValidationAnswer::both_fit() const {
  const auto fits = [](const ValidatedSide& side) {
    return side.verdict == "fits" || side.verdict == "tight";
  };
  return fits(predicted) && fits(measured);
}

double ValidationAnswer::error() const {
  return std::max(check::relative_error(predicted.peaks.allocated, measured.peaks.allocated),
                  check::relative_error(predicted.peaks.reserved, measured.peaks.reserved));
}

bool ValidationAnswer::agrees() const {
  if (both_fit()) {
    return error() <= tolerance;
  }
  return is_measured() && predicted.verdict == measured.verdict;
}

std::string validation_text(const ValidationAnswer& answer, const Terminal& terminal) {
  std::string text = answer_line(answer, terminal) +
                     styled(terminal, Style::kFaint,
                            wrap(answer.setting + ", rank " + std::to_string(answer.rank) +
                                     (answer.used.empty() ? "" : "; " + printable(answer.used)),
                                 terminal.width - 2, 2)) +
                     "\n" + version_lines(answer, terminal);
  if (answer.is_measured()) {
    text += peak_table(answer, terminal) + (answer.run ? run_lines(*answer.run) : "") +
            phase_table(answer, terminal);
  }
  if (!answer.snapshot.empty()) {
    text += "\nnext: headroom snapshot " + answer.snapshot + "\n";
  }
  return text;
}

}  // namespace headroom::cli
