#include "gui/models/remedy_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <QCoreApplication>
#include <QLocale>
#include <QStringList>

#include "gui/models/option_rows.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

QString remedy_words(const char* text) {
  return QCoreApplication::translate("Remedy", text);
}

QString translated_remedy(std::string_view text) {
  return remedy_words(std::string(text).c_str());
}

/// Changes that have no words of their own, as the options that differ: "Expandable segments: yes".
QString options_title(const cost::Remedy& remedy, const Scenario& scenario) {
  QStringList names;
  for (const OptionChange& change : changes_between(scenario.plan, remedy.plan)) {
    names.append(remedy_words("%1: %2").arg(change.label, change.after));
  }
  return names.join(remedy_words("; "));
}

/// Each change once, with how often it is made: "smaller micro-batches, accumulated (3×)".
QString title_of(const cost::Remedy& remedy) {
  QStringList names;
  for (std::size_t at = 0; at < remedy.changes.size();) {
    const cost::Change& change = remedy.changes[at];
    std::size_t end = at;
    while (end < remedy.changes.size() && remedy.changes[end] == change) {
      ++end;
    }
    QString name = translated_remedy(cost::describe(change));
    if (end - at > 1) {
      name = remedy_words("%1 (%2×)").arg(name, QLocale().toString(static_cast<int>(end - at)));
    }
    names.append(name);
    at = end;
  }
  QString title = names.join(remedy_words("; "));
  if (!title.isEmpty()) {
    title[0] = title[0].toUpper();
  }
  return title;
}

QString signed_percent(double share) {
  const QString number = QLocale().toString(100 * std::abs(share), 'f', 0);
  return (share < 0 ? QChar(0x2212) : QChar(u'+')) + number + QStringLiteral("\u00a0%");
}

QString outcome_of(const cost::Remedy& remedy) {
  const QString verdict = translated_remedy(cost::verdict_words(remedy.verdict, remedy.chance));
  QString text;
  if (const Bytes left = cost::least_margin(remedy.margin, remedy.host); left < Bytes{0}) {
    text = remedy_words("%1, %2 short").arg(verdict, bytes_text(-left));
  } else {
    text = remedy_words("%1, %2 to spare").arg(verdict, bytes_text(left));
  }
  constexpr double kWorthMentioning = 0.005;
  if (remedy.time_ratio > 0 && std::abs(remedy.time_ratio - 1) >= kWorthMentioning) {
    text += remedy_words("; %1 step time").arg(signed_percent(remedy.time_ratio - 1));
  }
  return text;
}

QString tip_of(const cost::Remedy& remedy, const Scenario& scenario) {
  QStringList lines;
  for (const OptionChange& change : changes_between(scenario.plan, remedy.plan)) {
    lines.append(remedy_words("%1: %2 → %3").arg(change.label, change.before, change.after));
  }
  for (const cost::Change& change : remedy.changes) {
    const QString line = remedy_words("Costs: %1").arg(translated_remedy(cost::cost_of(change)));
    if (!lines.contains(line)) {
      lines.append(line);
    }
  }
  return lines.join(QLatin1Char('\n'));
}

RemedyText remedy_text_of(const cost::Remedy& remedy, const Scenario& scenario) {
  RemedyText text{
      .title = is_program(scenario) ? options_title(remedy, scenario) : title_of(remedy),
      .outcome = outcome_of(remedy),
      .tip = tip_of(remedy, scenario),
      .plan = remedy.plan};
  if (remedy.plan.world != scenario.plan.world) {
    const QString gpus =
        remedy_words("%1 GPUs").arg(QLocale().toString(static_cast<qlonglong>(remedy.plan.world)));
    text.title = text.title.isEmpty() ? gpus : remedy_words("%1; %2").arg(gpus, text.title);
  }
  return text;
}

}  // namespace

RemedyTexts remedy_texts(const cost::Remedies& found, const Scenario& scenario,
                         const cost::StepEstimate& estimate, std::size_t count) {
  RemedyTexts texts;
  const auto is_answer = [](const cost::Remedy& remedy) {
    return cost::is_yes(remedy.verdict, remedy.chance);
  };
  for (const cost::Remedy& remedy : found.cheapest) {
    if (texts.remedies.size() < count) {
      texts.remedies.push_back(remedy_text_of(remedy, scenario));
    }
  }
  const bool mends = std::ranges::any_of(found.cheapest, is_answer);
  if (!mends && found.wider) {
    texts.remedies.insert(texts.remedies.begin(), remedy_text_of(*found.wider, scenario));
    texts.remedies.resize(std::min(texts.remedies.size(), count));
  }
  if (mends) {
    texts.headline = cost::is_yes(estimate.verdict, estimate.chance)
                         ? remedy_words("More room, cheapest first")
                         : remedy_words("What makes it fit, cheapest first");
  } else if (found.wider && is_answer(*found.wider)) {
    texts.headline = remedy_words("It fits on more GPUs");
  } else if (!texts.remedies.empty()) {
    texts.headline = remedy_words("No change makes it fit; what comes closest");
  } else {
    texts.headline = is_program(scenario) ? remedy_words("No setting of the allocator makes it fit")
                                          : remedy_words("No change of this plan makes it fit");
  }
  return texts;
}

}  // namespace headroom::gui
