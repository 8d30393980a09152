#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/plan_words.h"

/// Options as data. Every part of a plan has one table with a row for each of its options; parsing,
/// printing, JSON, schema, range checks, help and `docs/options.md` are made from these tables.
namespace headroom::ir {

/// What the value of an option looks like.
enum class OptionKind : std::uint8_t {
  kSwitch,
  kWhole,
  kReal,
  kWord,   ///< One word of `OptionField::words`.
  kText,   ///< Any text.
  kNames,  ///< A list of names; if `OptionField::words` has any, only those.
  kBytes,  ///< A size, on the command line with a unit.
};

/// The predictions that an option changes.
enum class OptionEffect : std::uint8_t { kMemory, kTime, kBoth };

/// How the framework itself spells an option whose value can be copied unchanged.
struct OwnName {
  std::string_view name;   ///< "--tensor-model-parallel-size", "zero_optimization.stage".
  bool negated = false;    ///< A switch that turns the option off ("--no-rope-fusion").
  std::string_view on{};   ///< For a switch with two words: the one that turns the option on,
  std::string_view off{};  ///< and the one that turns it off.
};

/// One row of a table: everything that the program knows about an option. `get` and `set` take a
/// plan that has the part to which the table belongs; `set` adds it to a plan that lacks it.
struct OptionField {
  std::string_view name;    ///< Its key in JSON.
  std::string_view option;  ///< The command-line option that sets it; empty: files only.
  std::string_view key;     ///< Its key in that option's value (dashes for underscores).
  bool in_spec = false;     ///< It is a key of the option's value, not the value itself.
  OwnName own{};
  OptionKind kind = OptionKind::kSwitch;
  bool optional = false;  ///< It may be absent: null in JSON.
  IntegerRange wholes{};
  NumberRange reals{};
  std::vector<std::string> (*words)() = nullptr;
  std::string_view pattern{};   ///< For a text with rules: a regular expression for the schema.
  std::string_view form{};      ///< The same for people: "none, full or every-K".
  std::string_view shown_as{};  ///< Stands for its value in help; empty: made from the kind.
  std::string_view fallback{};  ///< Its default in words; empty: the default value.
  std::string_view unit{};
  std::string_view help{};      ///< Its effect: a sentence, or a noun phrase with a full stop.
  std::string_view label{};     ///< The name in the window; empty: its name in words.
  std::string_view examples{};  ///< Values that the window offers for a text, with blanks between.
  bool at_hand = false;         ///< The window shows it at once; others, when they are asked for.
  OptionEffect effect = OptionEffect::kBoth;
  bool searched = false;      ///< `headroom plan` may choose it.
  bool always_shown = false;  ///< Printed in the option's value even if it is the default.
  bool skips_commas = false;  ///< Commas in its text mean nothing and are removed.

  JsonValue (*get)(const ParallelPlan& plan) = nullptr;
  /// Returns false and changes nothing for a value of another type or an unknown word. The caller
  /// checks the range.
  bool (*set)(ParallelPlan& plan, const JsonValue& value) = nullptr;
  bool (*same)(const ParallelPlan& one, const ParallelPlan& other) = nullptr;

  // Steps that complete a row, for use in the tables.
  [[nodiscard]] constexpr OptionField key_of(std::string_view of, std::string_view as = {}) const {
    OptionField row = *this;
    row.option = of;
    row.key = as.empty() ? name : as;
    row.in_spec = true;
    return row;
  }
  [[nodiscard]] constexpr OptionField as_option(std::string_view of,
                                                std::string_view value = {}) const {
    OptionField row = *this;
    row.option = of;
    row.shown_as = value;
    return row;
  }
  [[nodiscard]] constexpr OptionField spelled(OwnName as) const {
    OptionField row = *this;
    row.own = as;
    return row;
  }
  [[nodiscard]] constexpr OptionField between(std::int64_t least, std::int64_t greatest) const {
    OptionField row = *this;
    row.wholes = {least, greatest};
    return row;
  }
  [[nodiscard]] constexpr OptionField within(double least, double greatest) const {
    OptionField row = *this;
    row.reals = {least, greatest};
    return row;
  }
  [[nodiscard]] constexpr OptionField in_bytes() const {
    OptionField row = *this;
    row.kind = OptionKind::kBytes;
    return row;
  }
  [[nodiscard]] constexpr OptionField usually(std::string_view text) const {
    OptionField row = *this;
    row.fallback = text;
    return row;
  }
  [[nodiscard]] constexpr OptionField in_units(std::string_view text) const {
    OptionField row = *this;
    row.unit = text;
    return row;
  }
  [[nodiscard]] constexpr OptionField changes(OptionEffect what) const {
    OptionField row = *this;
    row.effect = what;
    return row;
  }
  [[nodiscard]] constexpr OptionField searchable() const {
    OptionField row = *this;
    row.searched = true;
    return row;
  }
  [[nodiscard]] constexpr OptionField shown_always() const {
    OptionField row = *this;
    row.always_shown = true;
    return row;
  }
  [[nodiscard]] constexpr OptionField without_commas() const {
    OptionField row = *this;
    row.skips_commas = true;
    return row;
  }
  /// Shown at once in the window, under this label.
  [[nodiscard]] constexpr OptionField at_hand_as(std::string_view text) const {
    OptionField row = *this;
    row.at_hand = true;
    row.label = text;
    return row;
  }
  [[nodiscard]] constexpr OptionField labelled(std::string_view text) const {
    OptionField row = *this;
    row.label = text;
    return row;
  }
  [[nodiscard]] constexpr OptionField such_as(std::string_view texts) const {
    OptionField row = *this;
    row.examples = texts;
    return row;
  }
  [[nodiscard]] constexpr OptionField means(std::string_view text) const {
    OptionField row = *this;
    row.help = text;
    return row;
  }
};

/// A command-line option whose value is a list of keys: the rows that `OptionField::key_of` gave to
/// it.
struct KeyedOption {
  std::string_view name;  ///< "offload", without dashes.
  std::string_view help;  ///< What it sets: a noun phrase with a full stop.
};

/// A part of a plan with its table, for any type.
struct PlanPart {
  std::string_view name;     ///< Its key in a plan's JSON.
  std::string_view title;    ///< What it is: a noun phrase with a full stop.
  std::string_view runtime;  ///< The framework to which it belongs; empty: all.
  std::string_view option;   ///< The command-line option that requests it.
  std::span<const OptionField> fields;
  std::span<const KeyedOption> keyed{};  ///< Help of its options; the title stands for others.
  /// The precision that a plan gets with the part, from the one it had, unless `--precision` is
  /// given; nullptr: the same.
  Precision (*precision)(Precision before) = nullptr;
  /// Sets what follows from `--precision` in a part that is new to the plan, before its options are
  /// read; nullptr: nothing does.
  void (*follow_precision)(ParallelPlan& plan, Precision precision) = nullptr;
  bool always = false;  ///< Every plan has it; otherwise it may be absent (null in JSON).
  bool shards = false;  ///< Its framework shards parameters or optimizer states among ranks.
  bool (*has)(const ParallelPlan& plan) = nullptr;
  void (*add)(ParallelPlan& plan) = nullptr;  ///< Nothing changes in a plan that has the part.
  void (*drop)(ParallelPlan& plan) = nullptr;
  const ParallelPlan& (*usual)() = nullptr;  ///< A plan that has every option at its default.
};

// -- Typed access for rows. ----------------------------------------------------------------------

namespace option_detail {

template <typename Pointer>
struct Member;
template <typename PartType, typename ValueType>
struct Member<ValueType PartType::*> {
  using Part = PartType;
  using Value = ValueType;
};
template <auto kMember>
using PartOf = typename Member<decltype(kMember)>::Part;
template <auto kMember>
using ValueOf = typename Member<decltype(kMember)>::Value;

template <typename Value>
struct Plain {
  using Type = Value;
  static constexpr bool kOptional = false;
};
template <typename Value>
struct Plain<std::optional<Value>> {
  using Type = Value;
  static constexpr bool kOptional = true;
};

/// The place of a part of type `Part` in a plan: among the frameworks' own options.
template <typename Part>
struct Place {
  static const Part& read(const ParallelPlan& plan) { return plan.own.get<Part>(); }
  static Part& edit(ParallelPlan& plan) { return plan.own.edit<Part>(); }
};
/// The member of a plan, or of its workload, to which `kMember` points.
template <auto kMember, typename Plan>
auto& member_of(Plan& plan) {
  if constexpr (std::same_as<PartOf<kMember>, Workload>) {
    return plan.workload.*kMember;
  } else {
    return plan.*kMember;
  }
}
/// The place of a part that is the member `kPart` of every plan, or of some.
template <auto kPart>
struct MemberPlace {
  using Part = typename Plain<ValueOf<kPart>>::Type;
  static const Part& read(const ParallelPlan& plan) {
    if constexpr (Plain<ValueOf<kPart>>::kOptional) {
      static const Part usual{};
      return member_of<kPart>(plan) ? *member_of<kPart>(plan) : usual;
    } else {
      return member_of<kPart>(plan);
    }
  }
  static Part& edit(ParallelPlan& plan) {
    if constexpr (Plain<ValueOf<kPart>>::kOptional) {
      return member_of<kPart>(plan) ? *member_of<kPart>(plan) : member_of<kPart>(plan).emplace();
    } else {
      return member_of<kPart>(plan);
    }
  }
};
template <>
struct Place<OptimizerPlan> : MemberPlace<&ParallelPlan::optimizer> {};
template <>
struct Place<LoraPlan> : MemberPlace<&ParallelPlan::lora> {};
template <>
struct Place<QuantPlan> : MemberPlace<&ParallelPlan::quant> {};
template <>
struct Place<Workload> : MemberPlace<&ParallelPlan::workload> {};
template <>
struct Place<GenerationPlan> : MemberPlace<&Workload::generation> {};
template <>
struct Place<AllocatorSettings> : MemberPlace<&ParallelPlan::allocator> {};
template <>
struct Place<ParallelPlan> {
  static const ParallelPlan& read(const ParallelPlan& plan) { return plan; }
  static ParallelPlan& edit(ParallelPlan& plan) { return plan; }
};

template <auto kMember>
const ValueOf<kMember>& read(const ParallelPlan& plan) {
  return Place<PartOf<kMember>>::read(plan).*kMember;
}
template <auto kMember>
ValueOf<kMember>& edit(ParallelPlan& plan) {
  return Place<PartOf<kMember>>::edit(plan).*kMember;
}
template <auto kMember>
bool same(const ParallelPlan& one, const ParallelPlan& other) {
  return read<kMember>(one) == read<kMember>(other);
}

template <typename Value>
constexpr OptionKind kind_of() {
  if constexpr (std::same_as<Value, bool>) {
    return OptionKind::kSwitch;
  } else if constexpr (std::integral<Value>) {
    return OptionKind::kWhole;
  } else if constexpr (std::floating_point<Value>) {
    return OptionKind::kReal;
  } else if constexpr (std::same_as<Value, std::string>) {
    return OptionKind::kText;
  } else if constexpr (std::same_as<Value, Bytes>) {
    return OptionKind::kBytes;
  } else {
    static_assert(std::same_as<Value, std::vector<std::string>>, "a type that no option has");
    return OptionKind::kNames;
  }
}

[[nodiscard]] JsonValue json_of(const std::vector<std::string>& names);
[[nodiscard]] std::optional<std::vector<std::string>> names_in(const JsonValue& value);

template <typename Value>
JsonValue json_of(const Value& value) {
  if constexpr (std::same_as<Value, Bytes>) {
    return JsonValue{value.value()};
  } else if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
    return JsonValue{static_cast<std::int64_t>(value)};
  } else {
    return JsonValue{value};
  }
}

template <typename Value>
std::optional<Value> value_in(const JsonValue& json) {
  if constexpr (std::same_as<Value, bool>) {
    return json.as_bool();
  } else if constexpr (std::floating_point<Value>) {
    return json.as_number();
  } else if constexpr (std::same_as<Value, std::string>) {
    return json.as_string() != nullptr ? std::optional<Value>(*json.as_string()) : std::nullopt;
  } else if constexpr (std::same_as<Value, std::vector<std::string>>) {
    return names_in(json);
  } else {
    const std::optional<std::int64_t> whole = json.as_integer();
    return whole ? std::optional<Value>(static_cast<Value>(*whole)) : std::nullopt;
  }
}

/// Sets an option that may be absent: null removes its value.
template <auto kMember, typename Value>
bool assign(ParallelPlan& plan, const JsonValue& json, const std::optional<Value>& value) {
  if constexpr (Plain<ValueOf<kMember>>::kOptional) {
    if (json.is_null()) {
      edit<kMember>(plan).reset();
      return true;
    }
  }
  if (value) {
    edit<kMember>(plan) = *value;
  }
  return value.has_value();
}

}  // namespace option_detail

/// A row for a switch, a number, a text, a size or a list of names; the member's type decides.
template <auto kMember>
[[nodiscard]] constexpr OptionField field(std::string_view name) {
  using Plain = option_detail::Plain<option_detail::ValueOf<kMember>>;
  using Value = typename Plain::Type;
  OptionField row;
  row.name = name;
  row.kind = option_detail::kind_of<Value>();
  row.optional = Plain::kOptional;
  row.get = [](const ParallelPlan& plan) -> JsonValue {
    const auto& value = option_detail::read<kMember>(plan);
    if constexpr (Plain::kOptional) {
      return value ? option_detail::json_of(*value) : JsonValue{};
    } else {
      return option_detail::json_of(value);
    }
  };
  row.set = [](ParallelPlan& plan, const JsonValue& json) {
    return option_detail::assign<kMember>(plan, json, option_detail::value_in<Value>(json));
  };
  row.same = option_detail::same<kMember>;
  return row;
}

/// A row for a degree of the plan's mesh, as an option of the framework whose own options are of
/// type `Part`. `kUsual` is how the framework writes the default of `Mesh`.
template <auto kDegree, typename Part, std::int64_t kUsual = Mesh{}.*kDegree>
[[nodiscard]] constexpr OptionField degree(std::string_view name) {
  OptionField row;
  row.name = name;
  row.kind = OptionKind::kWhole;
  row.get = [](const ParallelPlan& plan) -> JsonValue {
    const std::int64_t value = plan.mesh.*kDegree;
    return JsonValue{value == Mesh{}.*kDegree ? kUsual : value};
  };
  row.set = [](ParallelPlan& plan, const JsonValue& json) {
    const std::optional<std::int64_t> value = json.as_integer();
    if (value) {
      static_cast<void>(plan.own.edit<Part>());
      plan.mesh.*kDegree = *value == kUsual ? Mesh{}.*kDegree : *value;
    }
    return value.has_value();
  };
  row.same = [](const ParallelPlan& one, const ParallelPlan& other) {
    return one.mesh.*kDegree == other.mesh.*kDegree;
  };
  return row;
}

/// A row for a choice; `kWords` is the function that lists its words.
template <auto kMember, auto kWords>
[[nodiscard]] constexpr OptionField word(std::string_view name) {
  using Plain = option_detail::Plain<option_detail::ValueOf<kMember>>;
  using Value = typename Plain::Type;
  OptionField row;
  row.name = name;
  row.kind = OptionKind::kWord;
  row.optional = Plain::kOptional;
  row.words = [] { return texts_of<Value>(kWords()); };
  row.get = [](const ParallelPlan& plan) -> JsonValue {
    const auto& value = option_detail::read<kMember>(plan);
    if constexpr (Plain::kOptional) {
      return value ? JsonValue{std::string(word_of<Value>(kWords(), *value))} : JsonValue{};
    } else {
      return JsonValue{std::string(word_of<Value>(kWords(), value))};
    }
  };
  row.set = [](ParallelPlan& plan, const JsonValue& json) {
    std::optional<Value> found;
    if (const std::string* const text = json.as_string()) {
      for (const Word<Value>& known : kWords()) {
        if (known.text == *text) {
          found = known.value;
          break;
        }
      }
    }
    return option_detail::assign<kMember>(plan, json, found);
  };
  row.same = option_detail::same<kMember>;
  return row;
}

/// A row for a set of modules, which is a struct of switches. `kTable` is the function that lists
/// them with their names.
template <auto kMember, auto kTable>
[[nodiscard]] constexpr OptionField modules(std::string_view name) {
  using Chosen = option_detail::ValueOf<kMember>;
  OptionField row;
  row.name = name;
  row.kind = OptionKind::kNames;
  row.words = [] {
    std::vector<std::string> names;
    for (const auto& module : kTable()) {
      names.emplace_back(module.name);
    }
    return names;
  };
  row.get = [](const ParallelPlan& plan) -> JsonValue {
    std::vector<std::string> names;
    for (const auto& module : kTable()) {
      if (option_detail::read<kMember>(plan).*module.value) {
        names.emplace_back(module.name);
      }
    }
    return option_detail::json_of(names);
  };
  row.set = [](ParallelPlan& plan, const JsonValue& json) {
    const std::optional<std::vector<std::string>> names = option_detail::names_in(json);
    Chosen chosen;
    std::size_t found = 0;
    for (const std::string& wanted : names.value_or(std::vector<std::string>{})) {
      for (const auto& module : kTable()) {
        if (module.name == wanted) {
          chosen.*module.value = true;
          ++found;
        }
      }
    }
    if (!names || found != names->size()) {
      return false;
    }
    option_detail::edit<kMember>(plan) = chosen;
    return true;
  };
  row.same = option_detail::same<kMember>;
  return row;
}

/// A whole number out of a few.
template <std::int64_t... kValues>
[[nodiscard]] constexpr OptionField one_of(OptionField row) {
  row.words = [] { return std::vector<std::string>{std::to_string(kValues)...}; };
  return row;
}

/// The part of a plan that `kMember` points to. A member that is no `optional` is in every plan.
template <auto kMember>
[[nodiscard]] constexpr PlanPart plan_part(std::string_view name,
                                           std::span<const OptionField> fields) {
  using Plain = option_detail::Plain<option_detail::ValueOf<kMember>>;
  PlanPart part;
  part.name = name;
  part.option = name;
  part.fields = fields;
  part.always = !Plain::kOptional;
  part.has = [](const ParallelPlan& plan) {
    if constexpr (Plain::kOptional) {
      return option_detail::member_of<kMember>(plan).has_value();
    } else {
      return true;
    }
  };
  part.add = [](ParallelPlan& plan) {
    static_cast<void>(option_detail::MemberPlace<kMember>::edit(plan));
  };
  part.drop = [](ParallelPlan& plan) {
    option_detail::member_of<kMember>(plan) = option_detail::ValueOf<kMember>{};
  };
  part.usual = []() -> const ParallelPlan& {
    static const ParallelPlan usual = [] {
      ParallelPlan plan;
      static_cast<void>(option_detail::MemberPlace<kMember>::edit(plan));
      return plan;
    }();
    return usual;
  };
  return part;
}

/// The part that is a framework's own options, of type `T`, and those degrees of the mesh for which
/// it has rows. `name` is its key in JSON and its option on the command line.
template <typename T, auto... kDegrees>
[[nodiscard]] constexpr PlanPart own_part(std::string_view name,
                                          std::span<const OptionField> fields) {
  PlanPart part;
  part.name = name;
  part.option = name;
  part.fields = fields;
  part.has = [](const ParallelPlan& plan) { return plan.own.has<T>(); };
  part.add = [](ParallelPlan& plan) {
    if (!plan.own.has<T>()) {
      static_cast<void>(plan.own.edit<T>());
    }
  };
  part.drop = [](ParallelPlan& plan) {
    if (plan.own.has<T>()) {  // Otherwise the degrees are those of another framework.
      plan.own.reset<T>();
      ((plan.mesh.*kDegrees = Mesh{}.*kDegrees), ...);
    }
  };
  part.usual = []() -> const ParallelPlan& {
    static const ParallelPlan usual = [] {
      ParallelPlan plan;
      static_cast<void>(plan.own.edit<T>());
      return plan;
    }();
    return usual;
  };
  return part;
}

// -- What is made from the tables. ---------------------------------------------------------------

/// Whether two plans have the same value of every option.
[[nodiscard]] bool same_options(std::span<const OptionField> fields, const ParallelPlan& one,
                                const ParallelPlan& other);

/// Whether a value of the right type is within the row's range or among its words. Null is accepted
/// if the option may be absent.
[[nodiscard]] bool accepts(const OptionField& field, const JsonValue& value);
/// What the row accepts, for messages: "a whole number from 1 to 8", "one of none, cpu, nvme".
[[nodiscard]] std::string wanted_of(const OptionField& field);
/// "use 'cpu'" if one of the row's words is close to `value`.
[[nodiscard]] std::string suggestion_of(const OptionField& field, const JsonValue& value);

/// The row with that key in JSON; nullptr if there is none.
[[nodiscard]] const OptionField* find_field(std::span<const OptionField> fields,
                                            std::string_view name);

}  // namespace headroom::ir
