#include "cli/question.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "cli/calibration.h"
#include "cli/host_options.h"
#include "cli/own_options.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "cli/time_options.h"
#include "costmodel/hardware/catalogue.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::array<OptionSpec, 2> kDeviceOptions = {
    {{"gpu", "NAME", "",
      "name of the GPU, such as h100 (headroom catalog gpus lists them), or a .json file"},
     {"budget", "SIZE", "all that the GPU has", "GPU memory that the run may use, such as 70GiB"}}};

std::string typed(const OptionValue& option) {
  return typed_option(option, question_options());
}

bool names(const std::vector<OptionValue>& options, std::string_view name) {
  return std::ranges::find(options, name, &OptionValue::name) != options.end();
}

ir::Recompute usual_recomputation(const ir::ParallelPlan& plan) {
  return ir::runtime_of(plan).usual_recomputation(plan).recompute;
}

/// What has to be typed to get from the question's plan to another.
struct Difference {
  std::vector<OptionValue> changes;
  std::vector<std::string> dropped;  ///< Options to leave out.
};

Difference difference(const Question& question, const ir::ParallelPlan& plan) {
  const std::vector<OptionValue> before = options_of(question.request.plan, question.model.spec);
  const std::vector<OptionValue> after = options_of(plan, question.model.spec);
  const std::vector<OptionValue> usual = usual_options();
  Difference found;
  // What one framework recomputes unasked has to be typed for the other plan.
  const bool unsaid = usual_recomputation(question.request.plan) != usual_recomputation(plan);
  for (const OptionValue& option : after) {
    if (std::ranges::find(before, option) == before.end() ||
        (unsaid && option.name == "checkpointing")) {
      found.changes.push_back(option);
    }
  }
  if (names(found.changes, "precision")) {  // Options that follow it are read with the new one.
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      const auto own = std::ranges::find(after, part->option, &OptionValue::name);
      if (part->follow_precision != nullptr && own != after.end() &&
          !names(found.changes, part->option)) {
        found.changes.push_back(*own);
      }
    }
  }
  for (const OptionValue& option : before) {
    if (names(after, option.name)) {
      continue;
    }
    const auto off = std::ranges::find(usual, option.name, &OptionValue::name);
    if (off != usual.end()) {
      found.changes.push_back(*off);
    } else {
      found.dropped.push_back(option.name);
    }
  }
  if (plan.runtime != question.request.plan.runtime) {
    found.dropped.emplace_back("runtime");  // The framework's own options imply it.
  }
  return found;
}

}  // namespace

std::span<const OptionSpec> device_options() {
  return kDeviceOptions;
}

Result<Bytes> read_budget(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("budget");
  return text ? parse_size("budget", *text) : Bytes{0};
}

namespace {

/// The GPU of which `headroom catalog gpus` prints this product.
std::optional<cost::DeviceSpec> device_with_product(const std::string& config_dir,
                                                    const std::string& product) {
  const Result<std::vector<cost::DeviceSpec>> devices = cost::list_devices(config_dir);
  if (devices) {
    const auto found = std::ranges::find(*devices, product, &cost::DeviceSpec::product);
    if (found != devices->end()) {
      return *found;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<cost::DeviceSpec> find_gpu(const Arguments& arguments, const std::string& name) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<cost::DeviceSpec> device = cost::load_device(folder->path, name);
  if (!device && device.error().code == ErrorCode::kInvalidArgument) {
    if (std::optional<cost::DeviceSpec> same = device_with_product(folder->path, name)) {
      device = std::move(*same);
    }
  }
  if (device) {
    device->name = printable(device->name);
  }
  return device;
}

Result<cost::DeviceSpec> read_gpu(const Arguments& arguments) {
  const std::optional<std::string> name = arguments.value("gpu");
  if (!name || name->empty()) {
    return Error::invalid_argument("gpu", "nothing", "the name of a GPU",
                                   "add --gpu h100; headroom catalog gpus lists the names");
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<cost::DeviceSpec> device = find_gpu(arguments, *name);
  return device ? with_asked_host(arguments, folder->path, std::move(device).value())
                : std::move(device);
}

std::vector<OptionSpec> plan_question_options() {
  const auto plan = plan_option_specs();
  std::vector<OptionSpec> options(plan.begin(), plan.end());
  options.insert(options.end(), model_options().begin(), model_options().end());
  const auto own = own_option_specs();
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

std::vector<OptionSpec> question_options() {
  std::vector<OptionSpec> options(kDeviceOptions.begin(), kDeviceOptions.end());
  const std::vector<OptionSpec> host = host_options();
  options.insert(options.end(), host.begin(), host.end());
  const std::vector<OptionSpec> rest = plan_question_options();
  options.insert(options.end(), rest.begin(), rest.end());
  return options;
}

Result<PlanQuestion> read_plan_question(const Arguments& arguments) {
  Result<LoadedModel> model = load_model_argument(arguments);
  if (!model) {
    return std::move(model).error();
  }
  Result<PlanRequest> request = read_plan_options(arguments, model->spec);
  if (!request) {
    return std::move(request).error();
  }
  return PlanQuestion{.model = std::move(model).value(), .request = std::move(request).value()};
}

Result<Question> read_question(const Arguments& arguments) {
  Result<PlanQuestion> plan = read_plan_question(arguments);
  if (!plan) {
    return std::move(plan).error();
  }
  Result<cost::DeviceSpec> device = read_gpu(arguments);
  if (!device) {
    return std::move(device).error();
  }
  const Result<Bytes> budget = read_budget(arguments);
  if (!budget) {
    return budget.error();
  }
  for (std::string& note : asked_device_notes(arguments, *device, *budget)) {
    plan->request.notes.push_back(std::move(note));
  }
  for (std::string& note : notes_of(plan->model.spec, *device, plan->request.plan)) {
    plan->request.notes.push_back(std::move(note));
  }
  return Question{.model = std::move(plan->model),
                  .device = std::move(device).value(),
                  .budget = *budget,
                  .request = std::move(plan->request)};
}

void add_notes(const Context& context, const LoadedModel& model, const PlanRequest& request) {
  add_notes(context, model.notes);
  add_notes(context, request.notes);
}

std::vector<std::string> asked_device_notes(const Arguments& arguments,
                                            const cost::DeviceSpec& device, Bytes budget) {
  std::vector<std::string> notes;
  std::string typed = arguments.value("gpu").value_or("");
  std::ranges::transform(typed, typed.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  const Result<ConfigDir> folder = config_dir_of(arguments);
  const Result<std::vector<std::string>> names =
      folder ? cost::device_names(folder->path) : Result<std::vector<std::string>>(folder.error());
  std::string others;
  if (names && typed != device.name && std::ranges::find(*names, device.name) != names->end()) {
    for (const std::string& name : *names) {
      if (name.starts_with(typed + "-") && name != device.name) {
        others += (others.empty() ? "" : ", ") + name;
      }
    }
  }
  if (!others.empty()) {
    notes.push_back(typed + " is " + device.name + "; also: " + others);
  }
  if (budget > device.total) {
    notes.push_back("the budget of " + to_text(budget) + " is more than the " +
                    to_text(device.total) + " that " + device.name + " has");
  }
  return notes;
}

bool is_measured(const cost::DeviceSpec& device) {
  return device.vendor == "nvidia";
}

std::vector<std::string> device_notes(const cost::DeviceSpec& device) {
  if (is_measured(device)) {
    return {};
  }
  return {device.name +
          ": the answer is what PyTorch allocates on NVIDIA's GPUs; nothing was "
          "measured on GPUs of " +
          device.vendor + ", so the intervals and the chance to fit do not apply"};
}

/// The note on a GPU without peer-to-peer access, to follow its name: how NCCL copies there.
/// Source: huggingface/accelerate 1.15 utils/environment.py, check_cuda_p2p_ib_support.
std::string peer_note(const DeviceTraits& traits) {
  const bool is_ampere = traits.compute_major == 8 && traits.compute_minor == 6;
  const bool is_ada = traits.compute_major == 8 && traits.compute_minor == 9;
  return std::string(" has no peer-to-peer access to its neighbours") +
         (is_ampere ? " (an NVLink bridge between two of them is not modelled)" : "") +
         ": NCCL copies through the host's shared memory, of which it takes 9.6 MB (of /dev/shm) "
         "for each channel and neighbour" +
         (is_ada ? ". accelerate launch sets NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 for RTX 40 "
                   "GPUs with drivers before 550.40.07"
                 : "");
}

std::vector<std::string> notes_of(const ir::ModelSpec& model, const cost::DeviceSpec& device,
                                  const ir::ParallelPlan& plan) {
  std::vector<std::string> notes = device_notes(device);
  const ir::Runtime& runtime = ir::runtime_of(plan);
  for (const std::vector<std::string>& some :
       {runtime.notes(model, plan), runtime.device_notes(plan, device.traits)}) {
    notes.insert(notes.end(), some.begin(), some.end());
  }
  if (plan.world > 1 && !device.peer_access) {
    notes.push_back(device.name + peer_note(device.traits));
  }
  if (plan.workload.resume && !runtime.resuming_was_measured(plan)) {
    notes.emplace_back(
        "--resume: no run that resumes with this framework and optimizer was recorded; the phase "
        "resume follows their code");
  }
  return notes;
}

std::string changed_options(const Question& question, const ir::ParallelPlan& plan) {
  std::string text;
  for (const OptionValue& option : difference(question, plan).changes) {
    text += (text.empty() ? "" : " ") + typed(option);
  }
  return text;
}

std::string worded_changes(const Question& question, const ir::ParallelPlan& plan) {
  std::string text = changed_options(question, plan);
  for (const std::string& option : difference(question, plan).dropped) {
    if (option == "runtime") {  // Nobody had to type it, and the other options imply it.
      continue;
    }
    text += (text.empty() ? "without --" : ", without --") + option;
  }
  return text;
}

namespace {

/// The options besides those of the question that a command for `verb` repeats: for `fit` all that
/// decide the verdict or are shown with it, for other verbs those of the machine.
std::vector<OptionSpec> repeated_options(std::string_view verb) {
  if (verb != "fit") {
    return machine_options();
  }
  std::vector<OptionSpec> options = time_options();
  const auto& calibration = calibration_options();
  options.insert(options.end(), calibration.begin(), calibration.end());
  options.push_back(routing_option());
  return options;
}

}  // namespace

std::string command_line(std::string_view verb, const Arguments& arguments,
                         const Question& question, const ir::ParallelPlan& plan) {
  const Difference found = difference(question, plan);
  std::string line = "headroom " + std::string(verb);
  for (const std::string& positional : arguments.positionals()) {
    line += " " + shell_word(positional);
  }
  for (const OptionSpec& spec : question_options()) {
    const std::optional<std::string> given = arguments.value(spec.name);
    const auto change = std::ranges::find(found.changes, spec.name, &OptionValue::name);
    if (change != found.changes.end()) {
      line += " " + typed(*change);
    } else if (given && std::ranges::find(found.dropped, spec.name) == found.dropped.end()) {
      line += " " + typed({.name = std::string(spec.name), .value = *given});
    }
  }
  for (const OptionSpec& spec : repeated_options(verb)) {
    if (const std::optional<std::string> given = arguments.value(spec.name)) {
      line += " " + typed({.name = std::string(spec.name), .value = *given});
    }
  }
  return line;
}

}  // namespace headroom::cli
