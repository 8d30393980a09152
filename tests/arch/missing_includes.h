#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/arch/source_names.h"

namespace headroom::arch {

/// Source files that may include one another.
class SourceSet {
 public:
  SourceSet() = default;
  SourceSet(const SourceSet&) = delete;  // Names are views into the texts.
  SourceSet& operator=(const SourceSet&) = delete;
  ~SourceSet() = default;

  struct File {
    std::string text;
    SourceNames names;  ///< Views into `text`.
  };
  using Headers = std::map<std::string_view, std::vector<std::string_view>>;  ///< By name.

  /// `path` as others include it.
  struct Source {
    std::string path;
    std::string text;
  };
  void add(Source source);

  /// Null if there is none: a header of somebody else.
  [[nodiscard]] const File* find(std::string_view path) const;
  [[nodiscard]] const std::map<std::string, File, std::less<>>& files() const { return files_; }
  /// Where types, constants and macros, or functions, of our namespaces are declared.
  [[nodiscard]] const Headers& types() const { return types_; }
  [[nodiscard]] const Headers& functions() const { return functions_; }
  [[nodiscard]] const std::set<std::string_view>& namespaces() const { return namespaces_; }

 private:
  std::map<std::string, File, std::less<>> files_;
  Headers types_;
  Headers functions_;
  std::set<std::string_view> namespaces_;
};

/// What a file of the set uses, and neither it nor a header that it includes, at any depth, gives:
/// "span needs span", "ParallelPlan needs model_ir/plan/parallel_plan.h". Without findings it
/// compiles by itself.
///
/// Ignores: members; overloads; names that come with a namespace of somebody else; what standard
/// headers happen to include. Tried by taking one include away at a time: it noticed all 43 without
/// which GCC refused a header.
[[nodiscard]] std::vector<std::string> missing_includes(const SourceSet& sources,
                                                        std::string_view path);

}  // namespace headroom::arch
