#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/model_argument.h"
#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// Options that are no part of a plan and that an answer depends on: of the model, the device, the
/// host, the machine, the costs and the calibration.
[[nodiscard]] const std::vector<OptionSpec>& assumption_options();

/// What the answer about `plan` is an answer to, with everything that was typed and matters.
/// `device`: nullptr if the verb needs none.
[[nodiscard]] ir::PlanFile plan_file_of(const Arguments& arguments, const LoadedModel& model,
                                        const cost::DeviceSpec* device,
                                        const ir::ParallelPlan& plan);

/// Refuses an option of the section `section` of a plan file that is none of `known`.
///
/// Errors:  kInvalidInput with the file and the place.
[[nodiscard]] Status check_filed_option(const std::string& file, const std::string& section,
                                        const std::string& option,
                                        const std::vector<std::string>& known);

/// The name under which a plan file has the GPU that `name` means: that of the catalogue, whatever
/// alias was typed, or the whole path of a file.
[[nodiscard]] std::string gpu_of_name(const Arguments& arguments, const std::string& name);

/// "plan.json has --gpu h100, the command line --gpu a100-80gb, which is used".
[[nodiscard]] std::string typed_instead(const std::string& file, const std::string& name,
                                        const std::string& said, const std::string& typed);

/// The arguments with what the file of `--plan` says and nobody typed: MODEL, --gpu and the
/// assumptions that `verb` has options for. The plan itself is read by the verb, from
/// `Arguments::plan_document`. Without --plan, the same arguments. If --gpu means another GPU than
/// the file's, under whatever name, the file's options of the device and its host are left out.
///
/// Errors:  those of `ir::read_plan_file`; kInvalidArgument if MODEL and the plan are both to be
///          read from standard input.
[[nodiscard]] Result<Arguments> with_plan_file(const VerbSpec& verb, Arguments arguments);

}  // namespace headroom::cli
