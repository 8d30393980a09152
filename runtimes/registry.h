#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtimes/interface/runtime.h"

namespace headroom::ir {

struct PublishedFormat;
struct RecordedFormat;

/// Every framework, in the order in which they are shown: those that ship with the program, then
/// those that a `RegisteredRuntime` adds.
[[nodiscard]] std::vector<const Runtime*> runtimes();
[[nodiscard]] std::vector<std::string> runtime_names();
/// The same names. They stay valid until a `RegisteredRuntime` is created or destroyed.
[[nodiscard]] std::span<const std::string_view> runtime_words();

/// The framework of that name; nullptr if there is none.
[[nodiscard]] const Runtime* find_runtime(std::string_view name);
/// The framework of a plan. Requires a name that `check_plan` has accepted.
[[nodiscard]] const Runtime& runtime_of(const ParallelPlan& plan);

/// Adds a framework to `runtimes` during its lifetime, for tests and for programs that link the
/// libraries. Must not be created while another thread reads the list.
class RegisteredRuntime {
 public:
  explicit RegisteredRuntime(const Runtime& runtime);
  ~RegisteredRuntime();
  RegisteredRuntime(const RegisteredRuntime&) = delete;
  RegisteredRuntime& operator=(const RegisteredRuntime&) = delete;

 private:
  const Runtime* runtime_;
};

/// The changes for a plan that is too large, cheapest first: those of its framework, and those of
/// others that take it over.
[[nodiscard]] std::vector<OwnChange> changes_of(const ParallelPlan& plan);

/// `Runtime::lower` of the plan's framework.
///
/// Errors:  those of `Runtime::lower`; kInvalidArgument for an unknown framework.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                                        const DeviceTraits& device);

/// The reader of rows whose `framework` is `program`; nullptr if no framework reads them.
[[nodiscard]] const RecordedFormat* find_recorded_format(std::string_view program);
/// The same for published rows, in which a version or a remark may follow the program.
[[nodiscard]] const PublishedFormat* find_published_format(std::string_view program);

}  // namespace headroom::ir
