// `headroom import SOURCE --output FILE`: records a model from its own Python code.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands/verbs.h"
#include "cli/model_argument.h"
#include "cli/output.h"
#include "cli/question.h"
#include "cli/shell_words.h"
#include "model_ir/base/config_dir.h"
#include "model_ir/base/file.h"
#include "model_ir/base/units.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/images.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recorded_family/recorded_families.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/task.h"
#include "runtimes/interface/common_options.h"
#include "validators/dryrun/model_recorder.h"
#include "validators/dryrun/profile.h"

namespace headroom::cli {
namespace {

/// Large enough for any model: the stand-in does not back device memory.
constexpr Bytes kEndless{std::int64_t{100} << 40};

constexpr const char* kUsualGpu = "h100-80gb";

struct ImportQuestion {
  check::ModelSource source;
  std::string gpu;
};

/// The value of an option that must be one of `words`; empty if it is not given.
Result<std::string> word_among(const Arguments& arguments, std::string_view option,
                               const std::vector<std::string>& words) {
  std::string text = arguments.value(option).value_or("");
  for (const std::string& word : words) {
    if (text.empty() || text == word) {
      return text;
    }
  }
  return Error::invalid_argument(option, text, "one of " + ir::join(words));
}

/// Whether `text` is numbers from 1 to 9,999 with commas between, such as "1,2,4".
bool is_list_of_numbers(std::string_view text) {
  constexpr std::size_t kMostDigits = 4;
  while (true) {
    const std::string_view number = text.substr(0, text.find(','));
    if (number.empty() || number.size() > kMostDigits || number.front() == '0' ||
        number.find_first_not_of("0123456789") != std::string_view::npos) {
      return false;
    }
    if (number.size() == text.size()) {
      return true;
    }
    text.remove_prefix(number.size() + 1);
  }
}

/// Adds the options of batches with images.
Status add_images(const Arguments& arguments, std::vector<std::string>& options) {
  const std::optional<std::string> images = arguments.value("images");
  if (images && !ir::parse_images(*images)) {
    return Error::invalid_argument("images", *images,
                                   ir::find_field(ir::plan_options().fields, "images")->form);
  }
  if (images) {
    options.insert(options.end(), {"--images", *images});
  }
  const std::optional<std::string> batches = arguments.value("micro-batches");
  if (!batches) {
    return ok();
  }
  if (!images || !is_list_of_numbers(*batches)) {
    return Error::invalid_argument("micro-batches", *batches,
                                   "with --images: numbers of sequences with commas between, such "
                                   "as 1,2,4");
  }
  options.insert(options.end(), {"--micro-batches", *batches});
  return ok();
}

/// The recorder's options besides the model and the file.
Result<std::vector<std::string>> recorder_options(const Arguments& arguments) {
  std::vector<std::string> options;
  const Result<std::string> precision =
      word_among(arguments, "precision", {"bf16", "fp32", "autocast-bf16"});
  const Result<std::string> attention = word_among(arguments, "attention", {"sdpa", "eager"});
  if (!precision || !attention) {
    return precision ? attention.error() : precision.error();
  }
  if (*precision == "autocast-bf16") {
    options.insert(options.end(), {"--parameters", "fp32", "--autocast", "bf16"});
  } else if (!precision->empty()) {
    options.insert(options.end(), {"--parameters", *precision});
  }
  if (!attention->empty()) {
    options.insert(options.end(), {"--attention", *attention});
  }
  for (const std::string& beside : {std::string("qlora"), std::string("liger")}) {
    if (!arguments.has(beside)) {
      continue;
    }
    if (!precision->empty()) {
      return Error::invalid_argument(beside, "with precision " + *precision,
                                     "all precisions: this code is recorded beside bf16 and "
                                     "autocast-bf16",
                                     "leave out --precision");
    }
    options.push_back("--" + beside);
  }
  if (const std::optional<std::string> text = arguments.value("task")) {
    std::vector<std::string> heads(ir::kRecordedHeads.begin(), ir::kRecordedHeads.end());
    heads.emplace_back(name_of(ir::Task::kLanguage));
    if (std::ranges::find(heads, *text) == heads.end()) {
      return Error::invalid_argument("task", *text, "one of " + ir::join(heads),
                                     ir::suggestion(*text, heads));
    }
    if (*text != heads.back()) {
      options.insert(options.end(), {"--task", *text});
    }
  }
  if (Status images = add_images(arguments, options); !images) {
    return std::move(images).error();
  }
  if (const std::optional<std::string> frozen = arguments.value("freeze")) {
    if (frozen->empty() || frozen->front() == '-') {
      return Error::invalid_argument("freeze", *frozen,
                                     "paths of modules with commas between, such as model.visual");
    }
    options.insert(options.end(), {"--freeze", *frozen});
  }
  return options;
}

bool is_in_catalogue(const Arguments& arguments, const std::string& name) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  return folder && ir::load_entry(folder->path + "/models", name);
}

Result<std::string> read_source(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() != 1 || given.front().empty()) {
    return Error::invalid_argument("SOURCE", given.empty() ? "nothing" : ir::join(given),
                                   "one config.json, the folder of one, or file.py:make_model",
                                   "headroom import config.json --output my-model.json");
  }
  const std::string& source = given.front();
  const std::size_t colon = source.rfind(".py:");
  const std::string file = colon == std::string::npos ? source : source.substr(0, colon + 3);
  std::error_code fault;
  if (!std::filesystem::exists(file, fault)) {
    return Error::environment(
        file, "no such file", "a config.json, the folder of one, or file.py:make_model",
        is_in_catalogue(arguments, source)
            ? "headroom fit " + source + ": the catalogue has this model, which needs no recording"
            : "");
  }
  return source;
}

Result<ImportQuestion> read_import(const Arguments& arguments) {
  Result<std::string> source = read_source(arguments);
  if (!source) {
    return std::move(source).error();
  }
  const std::string output = arguments.value("output").value_or("");
  if (!output.ends_with(".json")) {
    return Error::invalid_argument("output", output.empty() ? "nothing" : output,
                                   "a file that ends in .json",
                                   "headroom import config.json --output my-model.json");
  }
  if (Status writable = check_writable(output); !writable) {
    return std::move(writable).error();
  }
  const Result<cost::DeviceSpec> device =
      find_gpu(arguments, arguments.value("gpu").value_or(kUsualGpu));
  if (!device) {
    return device.error();
  }
  Result<check::DryRunDevice> profile = check::profile_of(*device, kEndless, {});
  if (!profile) {
    return std::move(profile).error();
  }
  Result<std::vector<std::string>> options = recorder_options(arguments);
  if (!options) {
    return std::move(options).error();
  }
  const bool is_function = source->ends_with(".py") || source->find(".py:") != std::string::npos;
  if (is_function && arguments.value("task")) {
    return Error::invalid_argument("task", "with " + *source,
                                   "a config.json: a function makes the model with its head",
                                   "leave out --task");
  }
  const bool family = arguments.has("family");
  const bool has_task_alone = options->size() == 2 && options->front() == "--task";
  if (family && ((!options->empty() && !has_task_alone) || is_function)) {
    return Error::invalid_argument(
        "family", "with " + (is_function || options->empty() ? *source : options->front()),
        "a config.json, and --task at most: a family is recorded in bf16 and autocast-bf16, with "
        "sdpa, with quantised linear layers, and with Liger's kernels where Liger has some",
        "leave out --family, or all other options of what is recorded");
  }
  return ImportQuestion{.source = {.python = arguments.value("python").value_or("python3"),
                                   .source = std::move(source).value(),
                                   .output = output,
                                   .options = std::move(options).value(),
                                   .device = std::move(profile).value(),
                                   .family = family},
                        .gpu = arguments.value("gpu").value_or(kUsualGpu)};
}

/// A sequence length for the first question: 2,048, or the next multiple of it that has room for
/// the images of every sequence.
std::int64_t usual_sequence(const ir::Recording& recording) {
  constexpr std::int64_t kUsual = 2048;
  return ceil_div(recording.variants.front().sequence_from, kUsual) * kUsual;
}

/// Says what was recorded, and what to ask next.
Result<ExitCode> answer(const ImportQuestion& question, const Context& context,
                        const Arguments& arguments) {
  const Result<LoadedModel> model = load_model(question.source.output, arguments);
  if (!model) {
    return model.error();
  }
  const ir::Recording& recording = *model->spec.recording;
  const std::int64_t parameters = ir::count_parameters(model->spec).total();
  const ir::RecordedImages& images = recording.variants.front().images;
  const std::string next = "headroom fit " + shell_word(question.source.output) + " --gpu " +
                           shell_word(question.gpu) +
                           (images.kind == ir::RecordedImages::Kind::kThese
                                ? " --images " + text_of(images.these) + " --seq " +
                                      std::to_string(usual_sequence(recording))
                                : "");
  if (context.json) {
    ir::JsonFields document;
    document.add("schema_version", 1);
    document.add("model", recording.model);
    document.add("recording", question.source.output);
    document.add("parameters", parameters);
    document.add("layers", model->spec.layers.size());
    document.add("next", next);
    context.out << to_pretty_json(std::move(document).finish()) << "\n";
    return ExitCode::kYes;
  }
  const std::string versions =
      "transformers " + recording.library + " and PyTorch " + recording.torch;
  context.out << recording.model << ": " << parameters << " parameters, "
              << model->spec.layers.size() << " layers, recorded on " << versions << " in "
              << question.source.output << "\n\nnext: " << next << "\n";
  return ExitCode::kYes;
}

/// Says where the recording of a family belongs.
Result<ExitCode> answer_family(const ImportQuestion& question, const Context& context) {
  const std::string next =
      "headroom fit " + shell_word(question.source.source) + " --gpu " + shell_word(question.gpu);
  if (context.json) {
    ir::JsonFields document;
    document.add("schema_version", 1);
    document.add("family", question.source.output);
    document.add("next", next);
    context.out << to_pretty_json(std::move(document).finish()) << "\n";
    return ExitCode::kYes;
  }
  context.out << "The family is recorded in " << question.source.output
              << ". In the folder families of the configurations, under the name of its "
                 "model_type, it answers for every config.json of that type.\n\nonce it is there: "
              << next << "\n";
  return ExitCode::kYes;
}

Result<ExitCode> run_import(const Arguments& arguments, const Context& context) {
  const Result<ImportQuestion> question = read_import(arguments);
  if (!question) {
    return question.error();
  }
  if (Status recorded = check::record_model(question->source); !recorded) {
    return std::move(recorded).error();
  }
  return question->source.family ? answer_family(*question, context)
                                 : answer(*question, context, arguments);
}

}  // namespace

Command import_command() {
  return {
      .verb = {.name = "import",
               .summary = "Records a model of any architecture from its own Python code",
               .positionals = "SOURCE",
               .detail = "SOURCE is a config.json, the folder of one, or file.py:make_model. The "
                         "model's own code runs in training on a GPU that computes nothing, "
                         "without weights. What it asks of PyTorch is written into a file that "
                         "headroom fit takes in place of a model, for any micro-batch, sequence "
                         "length, recomputation, LoRA, DDP and FSDP. A Python with PyTorch for "
                         "CUDA and transformers is needed, but no GPU.",
               .options = {{"output", "FILE", "", "recording to write, such as my-model.json"},
                           {"python", "PATH", "python3",
                            "Python that has PyTorch and transformers"},
                           {"precision", "NAME", "bf16 and autocast-bf16",
                            "precision to record: bf16, fp32 or autocast-bf16"},
                           {"attention", "NAME", "sdpa",
                            "implementation of attention to record: sdpa or eager"},
                           {"qlora", "", "",
                            "also record the code with quantised linear layers, which headroom "
                            "fit --qlora needs"},
                           {"liger", "", "",
                            "also record the code with Liger's kernels, which headroom fit "
                            "--liger needs; the Python needs liger-kernel"},
                           {"task", "TASK", "language",
                            "head of the model: language, sequence-classification, "
                            "token-classification, masked-lm, seq2seq-lm or speech-seq2seq"},
                           {"images", "NxHxW", "text alone",
                            "images of every sequence: number, height and width in pixels"},
                           {"micro-batches", "LIST", "1,2,4",
                            "with --images: micro-batches to record one by one where the code "
                            "depends on the number of images"},
                           {"freeze", "MODULES", "",
                            "modules that are not trained, such as model.visual, with commas "
                            "between"},
                           {"gpu", "NAME", "h100-80gb", "GPU whose kernels are recorded"},
                           {"family", "", "",
                            "record all dimensions of this model_type: for configs/families"}},
               .example = "import config.json --output my-model.json"},
      .run = run_import};
}

}  // namespace headroom::cli
