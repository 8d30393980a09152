#include "gui/models/verdict_text.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <QCoreApplication>
#include <QLocale>

#include "gui/models/words.h"

namespace headroom::gui {
namespace {

using cost::StepEstimate;

QString verdict_words(const char* text) {
  return QCoreApplication::translate("Verdict", text);
}

/// "Fits", "Probably does not fit": the words of every other answer, as a headline.
QString headline_of(const StepEstimate& estimate) {
  const std::string words(cost::verdict_words(estimate.verdict, estimate.chance));
  QString headline = verdict_words(words.c_str());
  headline[0] = headline[0].toUpper();
  return headline;
}

QString margin_of(const StepEstimate& estimate) {
  const cost::HostMemory& host = estimate.host;
  if (estimate.margin >= Bytes{0} && host.capacity && host.bytes > *host.capacity) {
    return verdict_words("the host needs %1, the node has %2")
        .arg(bytes_text(host.bytes), bytes_text(*host.capacity));
  }
  if (estimate.margin < Bytes{0}) {
    return verdict_words("%1 missing").arg(bytes_text(-estimate.margin));
  }
  return verdict_words("%1 to spare").arg(bytes_text(estimate.margin));
}

QString basis_of(cost::Basis basis) {
  switch (basis) {
    case cost::Basis::kMeasured:
      return verdict_words("measured");
    case cost::Basis::kDerived:
      return verdict_words("derived");
    case cost::Basis::kAssumed:
      return verdict_words("assumed");
  }
  return {};
}

Fact reserved_fact(const StepEstimate& estimate) {
  return {.caption = verdict_words("Peak reserved"),
          .value = bytes_text(estimate.peak_reserved),
          .detail = verdict_words("%1 of %2")
                        .arg(share_text(estimate.peak_reserved, estimate.capacity),
                             bytes_text(estimate.capacity)),
          .tip = verdict_words("What the allocator holds at most: %1.\nIt may hold %2.")
                     .arg(exact_text(estimate.peak_reserved), exact_text(estimate.capacity))};
}

/// What went wrong on the way: a failed allocation or retries; else empty.
QString trouble_of(const StepEstimate& estimate) {
  if (estimate.failure && estimate.failure->phase < estimate.program.phases.size()) {
    const std::string phase = to_text(estimate.program.phases[estimate.failure->phase].name);
    return verdict_words("; memory runs out in %1").arg(QString::fromStdString(phase));
  }
  if (estimate.retries > 0) {
    return verdict_words("; the allocator gives cached memory back and asks again (%1×)")
        .arg(QLocale().toString(static_cast<qlonglong>(estimate.retries)));
  }
  return {};
}

QString basis_line(const StepEstimate& estimate) {
  const QString capacity = bytes_text(estimate.capacity);
  if (estimate.margin < Bytes{0}) {
    return verdict_words("the peak is %1 of the capacity of %2%3")
        .arg(share_text(estimate.peak_reserved, estimate.capacity), capacity, trouble_of(estimate));
  }
  return verdict_words("%1 of the capacity of %2%3")
      .arg(share_text(estimate.margin, estimate.capacity), capacity, trouble_of(estimate));
}

Fact allocated_fact(const StepEstimate& estimate) {
  return {
      .caption = verdict_words("Peak allocated"),
      .value = bytes_text(estimate.peak_allocated),
      .detail = verdict_words("%1 of reserved")
                    .arg(share_text(estimate.peak_allocated, estimate.peak_reserved)),
      .tip =
          verdict_words("What tensors take at most: %1.").arg(exact_text(estimate.peak_allocated))};
}

Fact largest_fact(const StepEstimate& estimate) {
  const auto& roles = estimate.peak_by_role;
  const auto role = std::distance(roles.begin(), std::max_element(roles.begin(), roles.end()));
  const Bytes most = roles.at(static_cast<std::size_t>(role));
  return {.caption = verdict_words("Most of it"),
          .value = role_name(static_cast<ir::TensorRole>(role)),
          .detail = verdict_words("%1, %2").arg(bytes_text(most),
                                                share_text(most, estimate.peak_allocated)),
          .tip = verdict_words("The largest category at the peak: %1.").arg(exact_text(most))};
}

Fact outside_fact(const StepEstimate& estimate) {
  QString tip = verdict_words("Device memory that the allocator does not see: %1 of %2.")
                    .arg(exact_text(estimate.outside_bytes), exact_text(estimate.device_total));
  for (const cost::OutsideTerm& term : estimate.outside) {
    tip += QLatin1Char('\n') + verdict_words("%1: %2, at most %3 (%4, %5)")
                                   .arg(QString::fromStdString(term.name), bytes_text(term.bytes),
                                        bytes_text(std::max(term.bytes, term.bound)),
                                        basis_of(term.basis), QString::fromStdString(term.source));
  }
  return {.caption = verdict_words("Outside the allocator"),
          .value = bytes_text(estimate.outside_bytes),
          .detail = verdict_words("of %1 on the device").arg(bytes_text(estimate.device_total)),
          .tip = tip};
}

/// What the node's ranks take of its host.
Fact host_fact(const StepEstimate& estimate) {
  const cost::HostMemory& host = estimate.host;
  if (!host.capacity) {
    const Bytes rank{estimate.program.host_bytes};
    return {.caption = verdict_words("Host memory"),
            .value = bytes_text(rank),
            .detail = verdict_words("per rank"),
            .tip = exact_text(rank)};
  }
  QString tip = verdict_words("Host memory of a node with %1 of the ranks: %2 of %3.")
                    .arg(QLocale().toString(static_cast<qlonglong>(host.ranks)),
                         exact_text(host.bytes), exact_text(*host.capacity));
  for (const ir::HostTerm& term : host.terms) {
    tip += QLatin1Char('\n') + verdict_words("%1: %2").arg(QString::fromUtf8(name_of(term.use)),
                                                           bytes_text(term.bytes));
  }
  return {.caption = verdict_words("Host memory"),
          .value = bytes_text(host.bytes),
          .detail = verdict_words("of %1 in the node").arg(bytes_text(*host.capacity)),
          .tip = tip};
}

/// The step time, with the parts that take at least 1 % of it.
Fact time_fact(const cost::StepTime& step) {
  QString detail =
      verdict_words("on %1 GPU(s)").arg(QLocale().toString(static_cast<qlonglong>(step.gpus)));
  detail.replace(QStringLiteral("(s)"), step.gpus == 1 ? QString() : QStringLiteral("s"));
  QString tip = verdict_words("A predicted optimizer step. It goes to:");
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    const Seconds time = step.parts.of(part);
    if (time / step.total >= 0.01) {
      tip += QLatin1Char('\n') +
             verdict_words("%1: %2").arg(QString::fromUtf8(cost::describe(part)), time_text(time));
    }
  }
  return {.caption = verdict_words("Step time"),
          .value = time_text(step.total),
          .detail = detail,
          .tip = tip};
}

/// The speed of the run, and its share of the GPU's peak.
Fact rate_fact(const cost::StepTime& step) {
  Fact fact{.caption = verdict_words("Tokens/s/GPU"),
            .value = QLocale().toString(step.tokens_per_second_per_gpu(), 'f', 0),
            .detail = {},
            .tip = verdict_words("Tokens per second and GPU: %1 tokens per step.")
                       .arg(QLocale().toString(step.tokens, 'f', 0))};
  if (const std::optional<double> mfu = step.mfu()) {
    fact.detail = verdict_words("MFU %1\u00a0%").arg(QLocale().toString(100 * *mfu, 'f', 1));
  }
  return fact;
}

/// The chance to fit, and the interval of the peak.
Fact chance_fact(const Appraisal& appraisal) {
  const cost::Confidence& confidence = *appraisal.confidence;
  const auto range = [](const cost::ByteInterval& interval) {
    return verdict_words("%1 to %2").arg(bytes_text(interval.low), bytes_text(interval.high));
  };
  const QString emptied =
      cost::counts_on_emptying(appraisal.estimate, confidence)
          ? verdict_words("\nChance to fit without PyTorch emptying its cache: %1\u00a0%")
                .arg(QLocale().toString(100 * confidence.chances.at_once, 'f', 0))
          : QString();
  return {
      .caption = verdict_words("Chance to fit"),
      .value =
          QLocale().toString(100 * confidence.chances.fits, 'f', 0) + QStringLiteral("\u00a0%"),
      .detail = range(confidence.reserved),
      .tip = verdict_words("From the errors of predictions on %1 measured runs.\nPeak reserved, "
                           "in 95 of 100 runs: %2\nPeak allocated: %3")
                 .arg(QLocale().toString(static_cast<qlonglong>(confidence.basis.runs)),
                      range(confidence.reserved), range(confidence.allocated)) +
             emptied};
}

/// Days and costs of the run, as far as its tokens and the price are known.
std::optional<Fact> cost_fact(const cost::StepTime& step, const Scenario& scenario) {
  const cost::RunFigures run = cost::run_figures(step, {.dollars_per_gpu_hour = scenario.price,
                                                        .watts_per_gpu = std::nullopt,
                                                        .tokens = scenario.tokens});
  const QLocale locale;
  QStringList parts;
  if (run.days) {
    parts.append(
        verdict_words("%1 days").arg(locale.toString(*run.days, 'f', *run.days < 10 ? 1 : 0)));
  }
  if (run.dollars) {
    parts.append(QStringLiteral("$") + locale.toString(*run.dollars, 'f', 0));
  }
  if (parts.isEmpty() && !run.tokens_per_dollar) {
    return std::nullopt;
  }
  Fact fact{.caption = verdict_words("Whole run"), .value = {}, .detail = {}, .tip = {}};
  const QString per_dollar = run.tokens_per_dollar
                                 ? verdict_words("%1 M tokens per $")
                                       .arg(locale.toString(*run.tokens_per_dollar / 1e6, 'f', 1))
                                 : QString();
  fact.value = parts.isEmpty() ? per_dollar : parts.join(QStringLiteral(", "));
  fact.detail = parts.isEmpty() ? QString() : per_dollar;
  fact.tip = verdict_words("If every step takes the predicted time.");
  return fact;
}

Fact where_fact(const StepEstimate& estimate) {
  return {.caption = verdict_words("Where"),
          .value = QString::fromStdString(estimate.peak_moment),
          .detail = QString::fromStdString(to_text(estimate.peak_phase)),
          .tip = verdict_words("The moment of the peak.")};
}

}  // namespace

ProblemText problem_text(const Error& error) {
  QString text = QString::fromStdString(to_text(error)).trimmed();
  const QString mark = QStringLiteral("error: ");
  if (text.startsWith(mark)) {
    text.remove(0, mark.size());
  }
  QStringList lines = text.split(QLatin1Char('\n'));
  for (QString& line : lines) {
    line = line.simplified();
  }
  const QString first = lines.takeFirst();
  return {.what = first, .detail = lines.join(QLatin1Char('\n'))};
}

ProblemText fault_text(const QString& fault) {
  return {.what = verdict_words("A fault of Headroom itself, please report it"), .detail = fault};
}

VerdictText verdict_text(const StepEstimate& estimate) {
  VerdictText text;
  text.headline = headline_of(estimate);
  text.margin = margin_of(estimate);
  text.basis = basis_line(estimate);
  text.facts = {reserved_fact(estimate), allocated_fact(estimate), largest_fact(estimate),
                outside_fact(estimate)};
  if (estimate.host.capacity || estimate.program.host_bytes > 0) {
    text.facts.push_back(host_fact(estimate));
  }
  if (estimate.time && estimate.verdict != cost::Verdict::kDoesNotFit) {
    text.facts.push_back(time_fact(*estimate.time));
    text.facts.push_back(rate_fact(*estimate.time));
  }
  text.facts.push_back(where_fact(estimate));
  text.sentence = verdict_words("%1: %2. Peak of %3 reserved, in %4.")
                      .arg(text.headline, text.margin, bytes_text(estimate.peak_reserved),
                           QString::fromStdString(estimate.peak_moment));
  return text;
}

VerdictText verdict_text(const Appraisal& appraisal, const Scenario& scenario,
                         const Pinned* pinned) {
  const StepEstimate& estimate = appraisal.estimate;
  VerdictText text = verdict_text(estimate);
  if (appraisal.confidence) {
    text.facts.insert(text.facts.begin(), chance_fact(appraisal));
  }
  if (estimate.time && estimate.verdict != cost::Verdict::kDoesNotFit) {
    if (std::optional<Fact> costs = cost_fact(*estimate.time, scenario)) {
      text.facts.insert(text.facts.end() - 1, std::move(*costs));
    }
  }
  if (pinned != nullptr && pinned->appraisal != nullptr) {
    const VerdictText before = verdict_text(*pinned->appraisal, pinned->scenario, nullptr);
    const auto differences =
        figure_changes(pinned->scenario, *pinned->appraisal, scenario, appraisal);
    for (Fact& fact : text.facts) {
      const auto known = std::ranges::find(differences, fact.caption, &FigureChange::name);
      if (known != differences.end()) {
        // "37.2 GiB": what it was, of which the table of differences says more.
        fact.change = known->difference.isEmpty() ? QString() : known->before;
        continue;
      }
      const auto old = std::ranges::find(before.facts, fact.caption, &Fact::caption);
      if (old != before.facts.end() && old->value != fact.value) {
        fact.change = old->value;
      }
    }
    if (const QString margin =
            bytes_difference(pinned->appraisal->estimate.margin, estimate.margin);
        !margin.isEmpty()) {
      text.margin += verdict_words(" (%1)").arg(margin);
    }
  }
  return text;
}

}  // namespace headroom::gui
