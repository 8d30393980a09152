#pragma once

#include <set>
#include <string_view>
#include <vector>

namespace headroom::arch {

/// A name where it is used.
struct NameUse {
  std::string_view name;
  std::string_view qualifier;     ///< What stands before "::"; empty if nothing does.
  bool is_call = false;           ///< "(" follows.
  bool needs_definition = false;  ///< Not only a reference, a pointer or a smart pointer to it.
};

/// Which names a source file gives and takes, as far as that shows without a compiler. Views into
/// its text.
struct SourceNames {
  std::vector<std::string_view> includes;
  std::set<std::string_view> namespaces;
  std::set<std::string_view> types;       ///< Types, constants and macros in its namespaces.
  std::set<std::string_view> functions;   ///< Functions in its namespaces.
  std::set<std::string_view> inner;       ///< What it declares in any scope, members, too.
  std::set<std::string_view> parameters;  ///< Of its templates.
  std::set<std::string_view> announced;   ///< Types it declares without defining them.
  std::vector<NameUse> uses;
};

[[nodiscard]] SourceNames names_in(std::string_view text);

/// "ParallelPlan", "kGiB": how types and constants are written.
[[nodiscard]] bool is_type_name(std::string_view name);
[[nodiscard]] bool is_constant_name(std::string_view name);

}  // namespace headroom::arch
