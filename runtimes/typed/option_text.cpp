#include "runtimes/typed/option_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "model_ir/base/units.h"
#include "runtimes/typed/key_values.h"
#include "runtimes/typed/scalars.h"

namespace headroom::ir {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::vector<std::string> split(const std::string& text, std::string_view separators) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The word of the table for `text`, which may have the framework's spelling ("1F1B" for 1f1b).
std::string known_word(const OptionField& field, const std::string& text) {
  const std::vector<std::string> words = field.words();
  if (std::ranges::find(words, text) == words.end()) {
    for (const std::string& word : words) {
      if (word == lower_case(text)) {
        return word;
      }
    }
  }
  return text;
}

/// The text converted to the option's type; null if that is impossible.
JsonValue typed_value(const OptionField& field, std::string_view option, const std::string& text) {
  const auto wrap = [](const auto& result) { return result ? JsonValue{*result} : JsonValue{}; };
  switch (field.kind) {
    case OptionKind::kSwitch:
      return wrap(parse_switch(option, std::string(field.key), text));
    case OptionKind::kWhole:
      return wrap(parse_whole(option, text, field.wholes.least, field.wholes.greatest));
    case OptionKind::kReal:
      return wrap(parse_real(option, text, field.reals.least, field.reals.greatest));
    case OptionKind::kBytes: {
      const Result<Bytes> bytes = parse_size(option, text);
      return bytes ? JsonValue{bytes->value()} : JsonValue{};
    }
    case OptionKind::kWord:
      return JsonValue{known_word(field, text)};
    case OptionKind::kText:
      return JsonValue{text};
    case OptionKind::kNames: {
      JsonValue::Array names;
      for (std::string& name : split(text, "+ ")) {
        names.emplace_back(std::move(name));
      }
      return JsonValue{std::move(names)};
    }
  }
  return {};
}

bool is_key_of(const OptionField& field, std::string_view option) {
  return field.in_spec && field.option == option;
}

/// How a key in a SPEC names an option: not at all, by the option's key or name, or by the
/// framework's own name.
enum class Naming : std::uint8_t { kNot, kPlain, kOwn };

Naming naming_of(const OptionField& field, const std::string& key) {
  if (key == plain_key(field.key) || key == plain_key(field.name)) {
    return Naming::kPlain;
  }
  const std::string own = plain_key(field.own.name);
  const std::size_t dot = own.rfind('.');
  const bool named =
      !own.empty() &&
      (key == own || (dot != std::string::npos && key == std::string_view(own).substr(dot + 1)));
  return named ? Naming::kOwn : Naming::kNot;
}

/// A number without a unit.
bool is_plain(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Converts a value that follows the framework's own name to our words.
std::string own_value(const OptionField& field, const std::string& text) {
  if (field.own.negated && (text.empty() || text == "yes" || text == "true")) {
    return "no";
  }
  if (field.own.negated) {
    return "yes";
  }
  if (!field.own.on.empty() && text == field.own.on) {
    return "yes";
  }
  // The framework's argument says its unit in its name: "bucket_cap_mb=25" is 25 MiB.
  if (field.kind == OptionKind::kBytes && field.own.name.ends_with("_mb") && is_plain(text)) {
    return text + "MiB";
  }
  return !field.own.off.empty() && text == field.own.off ? "no" : text;
}

/// An option that a key may mean, and the plan that it sets.
struct Candidate {
  const OptionField* field = nullptr;
  ParallelPlan* plan = nullptr;
  Naming naming = Naming::kNot;
};

std::vector<Candidate> candidates_of(const std::string& key, std::span<const SpecTarget> targets) {
  std::vector<Candidate> candidates;
  for (const SpecTarget& target : targets) {
    for (const OptionField& field : target.fields) {
      const Naming naming = is_key_of(field, target.of) ? naming_of(field, key) : Naming::kNot;
      if (naming != Naming::kNot) {
        candidates.push_back({&field, target.plan, naming});
      }
    }
  }
  return candidates;
}

/// "type --lora r=16" for "r16": a key and its number without the sign between them.
std::string missing_sign(std::string_view option, const std::string& key,
                         const std::vector<std::string>& known) {
  const std::size_t number = key.find_first_of("0123456789");
  const bool is_number =
      number != std::string::npos && key.find_first_not_of("0123456789.", number) == key.npos;
  const bool is_key = is_number && std::ranges::find(known, key.substr(0, number)) != known.end();
  return is_key ? "type --" + std::string(option) + " " + key.substr(0, number) + "=" +
                      key.substr(number)
                : std::string();
}

Error unknown_key(std::string_view option, const std::string& key,
                  std::span<const SpecTarget> targets) {
  std::vector<std::string> known;
  std::vector<std::string> spellings;
  for (const SpecTarget& target : targets) {
    for (const OptionField& field : target.fields) {
      if (is_key_of(field, target.of)) {
        const std::string own = plain_key(field.key);
        if (std::ranges::find(known, own) == known.end()) {
          known.push_back(own);
        }
        if (!field.own.name.empty()) {
          spellings.push_back(plain_key(field.own.name));
        }
      }
    }
  }
  spellings.insert(spellings.begin(), known.begin(), known.end());
  constexpr std::size_t kFew = 20;
  const std::string sign = missing_sign(option, key, known);
  return Error::invalid_argument(
      option, key,
      known.size() <= kFew
          ? "one of " + join(known)
          : "one of the keys that headroom fit --help " + std::string(option) + " lists",
      sign.empty() ? suggestion(key, spellings) : sign);
}

/// The error for a key without a value, "--lora r": nothing if a key may stand alone.
std::optional<Error> missing_value_of(std::string_view option,
                                      const std::pair<std::string, std::string>& given,
                                      std::span<const Candidate> candidates) {
  const auto needs_value = [](const Candidate& candidate) {
    const OptionKind kind = candidate.field->kind;
    return kind == OptionKind::kWhole || kind == OptionKind::kReal || kind == OptionKind::kBytes ||
           kind == OptionKind::kWord;
  };
  if (!given.second.empty() || !std::ranges::all_of(candidates, needs_value)) {
    return std::nullopt;
  }
  const Candidate& first = candidates.front();
  const std::string usual = value_text(*first.field, first.field->get(*first.plan));
  std::string text = given.first + " needs a value";
  text += usual.empty() || usual == "none" ? ": " + wanted_of(*first.field)
                                           : ", such as " + given.first + "=" + usual;
  return Error::invalid_argument(option, text, {});
}

/// Several options can share a key ("reshard=yes" and "reshard=4"), so they are tried in turn.
Status set_first(std::string_view option, const std::pair<std::string, std::string>& given,
                 std::span<const Candidate> candidates) {
  if (std::optional<Error> missing = missing_value_of(option, given, candidates)) {
    return std::move(*missing);
  }
  std::optional<Error> fault;
  for (const Candidate& candidate : candidates) {
    const std::string text =
        candidate.naming == Naming::kOwn ? own_value(*candidate.field, given.second) : given.second;
    const Status status = set_option(*candidate.field, option, text, *candidate.plan);
    if (status) {
      return ok();
    }
    if (fault) {
      fault->wanted += ", or " + status.error().wanted;
    } else {
      fault = status.error();
      fault->got = given.first + "=" + given.second;
    }
  }
  HEADROOM_ASSERT(fault.has_value());
  return *fault;
}

}  // namespace

std::string plain_key(std::string_view key) {
  key.remove_prefix(std::min(key.find_first_not_of('-'), key.size()));
  std::string plain(key);
  std::ranges::replace(plain, '_', '-');
  return plain;
}

std::string value_text(const OptionField& field, const JsonValue& value) {
  if (value.is_null()) {
    return "none";
  }
  switch (field.kind) {
    case OptionKind::kSwitch:
      return *value.as_bool() ? "yes" : "no";
    case OptionKind::kWhole:
      return std::to_string(*value.as_integer());
    case OptionKind::kBytes:
      return exact_size(Bytes{*value.as_integer()});
    case OptionKind::kReal:
      return real_text(*value.as_number());
    case OptionKind::kWord:
      return *value.as_string();
    case OptionKind::kText: {
      std::string text = *value.as_string();
      if (field.skips_commas) {
        std::erase(text, ',');
      }
      return text;
    }
    case OptionKind::kNames:
      break;
  }
  std::string text;
  for (const JsonValue& name : *value.as_array()) {
    text += (text.empty() ? "" : "+") + *name.as_string();
  }
  return text;
}

Result<JsonValue> parse_value(const OptionField& field, std::string_view option,
                              const std::string& text) {
  if (field.kind == OptionKind::kBytes && parse_bytes(text) == Bytes{0}) {
    return Error::invalid_argument(option, text, "a size above 0, such as 25MiB");
  }
  if (field.kind == OptionKind::kBytes && is_plain(text)) {
    const std::string typed = field.in_spec ? plain_key(field.key) + "=" + text : text;
    return Error::invalid_argument(
        option, typed, wanted_of(field),
        "use --" + std::string(option) + " " + typed + "MiB, or " + typed + "B for bytes");
  }
  JsonValue value = typed_value(field, option, text);
  if (value.is_null() || !accepts(field, value)) {
    const bool whole = field.kind == OptionKind::kWhole;
    const std::string written = whole ? without_k(text, field.wholes.greatest) : std::string();
    return Error::invalid_argument(option, text, wanted_of(field),
                                   value.is_null() ? written : suggestion_of(field, value));
  }
  return value;
}

Status set_option(const OptionField& field, std::string_view option, const std::string& text,
                  ParallelPlan& plan) {
  const Result<JsonValue> value = parse_value(field, option, text);
  if (!value) {
    return value.error();
  }
  return field.set(plan, *value) ? ok()
                                 : Status(Error::invalid_argument(option, text, wanted_of(field)));
}

Status parse_spec(std::string_view option, const std::string& text,
                  std::span<const SpecTarget> targets) {
  const Result<KeyValues> values = KeyValues::parse(option, text, '=');
  if (!values) {
    return values.error();
  }
  std::vector<std::pair<const OptionField*, std::string>> seen;
  std::optional<Error> fault;
  for (const auto& given : values->parts()) {
    const std::vector<Candidate> candidates = candidates_of(plain_key(given.first), targets);
    if (candidates.empty()) {
      return unknown_key(option, given.first, targets);
    }
    for (const auto& [field, name] : seen) {
      if (field == candidates.front().field) {
        return Error::invalid_argument(
            option, "has '" + name + "' and '" + given.first + "', which set the same option", {},
            "leave out one of them");
      }
    }
    seen.emplace_back(candidates.front().field, given.first);
    const Status status = set_first(option, given, candidates);
    if (!status && !fault) {
      fault = status.error();
    }
  }
  return fault ? Status(*fault) : ok();
}

std::string spec_text(std::span<const OptionField> fields, std::string_view option,
                      const ParallelPlan& plan, const ParallelPlan& usual) {
  const auto changed = [&](const OptionField& field) { return !field.same(plan, usual); };
  std::string text;
  for (std::size_t at = 0; at < fields.size(); ++at) {
    const OptionField& field = fields[at];
    // Several options can share one key. The last one that differs from `usual` gives the value.
    const bool spoken_for =
        std::ranges::any_of(fields.subspan(at + 1), [&](const OptionField& other) {
          return is_key_of(other, option) && other.key == field.key && changed(other);
        });
    if (!is_key_of(field, option) || spoken_for || !(changed(field) || field.always_shown)) {
      continue;
    }
    const std::string value = value_text(field, field.get(plan));
    text += (text.empty() ? "" : ",") + plain_key(field.key);
    const bool bare = field.kind == OptionKind::kSwitch && value == "yes" && !field.always_shown;
    text += bare ? "" : "=" + value;
  }
  return text;
}

std::string spec_text(const PlanPart& part, const ParallelPlan& plan) {
  return spec_text(part.fields, part.option, plan, part.usual());
}

std::string lower_sentence(std::string_view sentence) {
  std::string text(sentence.substr(0, sentence.size() - (sentence.ends_with('.') ? 1 : 0)));
  const auto is_upper = [&](std::size_t at) {
    return at < text.size() && std::isupper(static_cast<unsigned char>(text[at])) != 0;
  };
  const std::size_t end = std::min(text.find_first_of(" :;,.'"), text.size());
  bool name = text.find_first_of("0123456789") < end;
  for (std::size_t at = 1; at < end; ++at) {
    name = name || is_upper(at);
  }
  if (!name && is_upper(0)) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

std::string key_help(const PlanPart& part, const OptionField& field) {
  const std::string key = plain_key(field.key);
  if (field.kind == OptionKind::kSwitch) {
    const bool on = field.get(part.usual()).as_bool().value_or(false);
    return key + (on ? "=yes|no" : "");
  }
  if (field.words != nullptr && field.kind != OptionKind::kNames) {
    std::string words;
    for (const std::string& word : field.words()) {
      words += (words.empty() ? "" : "|") + word;
    }
    return key + "=" + words;
  }
  static constexpr std::array<std::pair<OptionKind, std::string_view>, 5> kShown = {
      {{OptionKind::kWhole, "N"},
       {OptionKind::kReal, "X"},
       {OptionKind::kText, "TEXT"},
       {OptionKind::kNames, "A+B"},
       {OptionKind::kBytes, "SIZE"}}};
  const auto* const shown =
      std::ranges::find(kShown, field.kind, &std::pair<OptionKind, std::string_view>::first);
  return key + "=" + std::string(shown == kShown.end() ? "VALUE" : shown->second);
}

}  // namespace headroom::ir
