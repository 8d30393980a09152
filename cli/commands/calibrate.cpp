// `headroom calibrate --output FILE`: measures the GPU for the time model.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands/verbs.h"
#include "cli/device_choice.h"
#include "cli/model_argument.h"
#include "cli/output.h"
#include "cli/report/calibration_answer.h"
#include "cli/scalars.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "validators/calibrate/run_cases.h"

namespace headroom::cli {
namespace {

constexpr double kMostSeconds = 86'400;
/// Long enough for a GPU to reach the clocks of long work.
constexpr double kWarmUpSeconds = 2;

struct CalibrationQuestion {
  std::string output;
  std::string measurements;
  double seconds = kMostSeconds;
  bool force = false;
};

Result<CalibrationQuestion> read_calibration_question(const Arguments& arguments) {
  if (!arguments.positionals().empty()) {
    return Error::invalid_argument("calibrate", arguments.positionals().front(), "no words",
                                   "headroom calibrate --output my-gpu.json");
  }
  CalibrationQuestion question{.output = arguments.value("output").value_or(""),
                               .measurements = arguments.value("measurements").value_or(""),
                               .force = arguments.has("force")};
  if (!question.output.ends_with(".json")) {
    return Error::invalid_argument("output", question.output.empty() ? "nothing" : question.output,
                                   "a file that ends in .json, as --gpu takes it",
                                   "headroom calibrate --output my-gpu.json");
  }
  if (question.measurements.empty()) {
    question.measurements = question.output + "l";  // JSON lines: my-gpu.jsonl
  }
  if (Status writable = check_writable(question.measurements); !writable) {
    return std::move(writable).error();
  }
  if (const auto text = arguments.value("seconds")) {
    const Result<double> seconds = parse_real("seconds", *text, 0, kMostSeconds);
    if (!seconds) {
      return seconds.error();
    }
    question.seconds = *seconds;
  }
  return question;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[11];  // NOLINT(modernize-avoid-c-arrays): strftime's buffer.
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts));
}

/// The catalogue's entry of the device that was opened.
Result<calibrate::CatalogueGpu> gpu_of(const Arguments& arguments, const HeadroomDeviceInfo& info) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  const std::optional<std::string> named = arguments.value("gpu");
  Result<calibrate::CatalogueGpu> gpu =
      calibrate::catalogue_gpu(folder->path, named.value_or(info.name));
  if (!gpu) {
    Error error = std::move(gpu).error();
    if (!named && error.code == ErrorCode::kInvalidArgument) {
      error.fix = "name the GPU of the catalogue that it is like, or a file for it, with --gpu";
    }
    return error;
  }
  const DeviceTraits& traits = gpu->device.traits;
  if (traits.compute_major != info.compute_major || traits.compute_minor != info.compute_minor) {
    const auto text = [](int major, int minor) {
      return std::to_string(major) + "." + std::to_string(minor);
    };
    return Error::invalid_argument("gpu",
                                   gpu->device.name + ", whose compute capability is " +
                                       text(traits.compute_major, traits.compute_minor),
                                   "a GPU of compute capability " +
                                       text(info.compute_major, info.compute_minor) + ", as " +
                                       info.name + " has",
                                   "name another --gpu");
  }
  return gpu;
}

/// A line on a terminal that shows how far the measurements are.
class CalibrationLine {
 public:
  explicit CalibrationLine(const Context& context)
      : context_(context), shown_(context.terminal.color && !context.json) {}
  ~CalibrationLine() {
    if (shown_) {
      context_.err << "\r\033[K";
    }
  }
  CalibrationLine(const CalibrationLine&) = delete;
  CalibrationLine& operator=(const CalibrationLine&) = delete;

  void draw(const calibrate::CaseProgress& now) const {
    if (!shown_ || now.next == nullptr) {
      return;
    }
    constexpr std::size_t kBar = 20;
    const double share = static_cast<double>(now.done) / static_cast<double>(now.all);
    context_.err << "\r\033[K" << bar(context_.terminal, share, kBar) << " " << now.done << " of "
                 << now.all << ": " << now.next->name << std::flush;
  }

 private:
  const Context& context_;
  bool shown_;
};

/// Whether every case is measured when this returns.
Result<bool> measure_all(exec::Device& device, const std::vector<calibrate::Case>& cases,
                         calibrate::MeasurementWriter& writer, const CalibrationQuestion& question,
                         const Context& context) {
  const bool complete = std::ranges::all_of(
      cases, [&writer](const calibrate::Case& one) { return writer.find(one.name) != nullptr; });
  if (complete) {
    return true;
  }
  const double begin = calibrate::steady_seconds();
  Result<std::unique_ptr<calibrate::Bench>> bench = calibrate::Bench::make(device, cases);
  if (!bench) {
    return std::move(bench).error();
  }
  if (device.info().can_compute != 0) {
    const double most = std::min(kWarmUpSeconds, question.seconds / 2);
    if (Status warm = bench.value()->warm_up(most); !warm) {
      return std::move(warm).error();
    }
  }
  const CalibrationLine line(context);
  return calibrate::run_cases(
      *bench.value(), cases, writer,
      {.progress = [&line](const calibrate::CaseProgress& now) { line.draw(now); },
       .stop = [&] { return calibrate::steady_seconds() - begin >= question.seconds; }});
}

Result<ExitCode> answer_incomplete(const calibrate::MeasurementWriter& writer, std::size_t cases,
                                   const CalibrationQuestion& question, const Context& context) {
  const std::size_t done = writer.content().measurements.size();
  if (context.json) {
    ir::JsonFields document;
    document.add("schema_version", 1);
    document.add("answer", "incomplete");
    document.add("measurements", question.measurements);
    document.add("measured_cases", done);
    document.add("all_cases", cases);
    context.out << to_pretty_json(std::move(document).finish()) << "\n";
  } else {
    context.out << "measured " << done << " of " << cases << " cases in " << question.measurements
                << "; the same command goes on with the others\n";
  }
  return ExitCode::kNo;
}

/// The reason for which the device file is not written; nothing: it may be.
std::optional<Error> refusal(const CalibrationAnswer& answer, const CalibrationQuestion& question) {
  if (question.force) {
    return std::nullopt;
  }
  if (!answer.file.device.can_compute) {
    return Error::environment(
        answer.file.device.product,
        "a stand-in GPU that computes nothing, so that its times mean nothing", "a GPU",
        "--force writes the file all the same");
  }
  if (!answer.unsteady.empty()) {
    const std::size_t count = answer.unsteady.size();
    const calibrate::Measurement& widest = *answer.unsteady.front();
    return Error::environment(
        answer.measurements,
        std::to_string(count) + (count == 1 ? " case" : " cases") + " with a spread above " +
            percent_text(calibrate::kWidestSpread) + ", most in " + widest.name + " (" +
            percent_text(calibrate::spread_of(widest.seconds)) + ")",
        "a GPU that does nothing else while it is measured",
        "remove " + answer.measurements + " and measure again, or write the file with --force");
  }
  return std::nullopt;
}

/// Writes the device file, and reads it as predictions will.
Status write_device_file(const CalibrationAnswer& answer, const std::string& config_dir) {
  const Result<ir::JsonValue> document =
      calibrate::device_document(answer.gpu, answer.file.device, answer.figures);
  if (!document) {
    return document.error();
  }
  const std::string tried = answer.output + ".new.json";
  if (Status written = write_file_atomically(tried, to_pretty_json(*document) + "\n"); !written) {
    return written;
  }
  const Result<calibrate::CatalogueGpu> read = calibrate::catalogue_gpu(config_dir, tried);
  std::error_code fault;
  if (!read) {
    std::filesystem::remove(tried, fault);
    Error error = read.error();
    error.file = answer.measurements;
    error.notes.push_back("a figure that was measured lies outside what the time model accepts");
    return error;
  }
  std::filesystem::rename(tried, answer.output, fault);
  return fault ? Status(Error::environment(answer.output, "cannot be written", {})) : ok();
}

Result<ExitCode> run_calibrate(const Arguments& arguments, const Context& context) {
  const Result<CalibrationQuestion> question = read_calibration_question(arguments);
  if (!question) {
    return question.error();
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  const Result<exec::DeviceChoice> choice =
      read_cuda_device(arguments.value("device").value_or("cuda"));
  if (!choice) {
    Error error = choice.error();
    if (error.key == "cuda" || error.file == "cuda") {
      error.fix.clear();  // The dry run and the CPU, which the executor has instead, take no time.
    }
    return error;
  }
  const Result<std::unique_ptr<exec::Device>> device =
      exec::Device::open(*choice->backend, choice->ordinal, calibrate::kWorkspace);
  if (!device) {
    return device.error();
  }
  const HeadroomDeviceInfo& info = device.value()->info();
  const Result<calibrate::CatalogueGpu> gpu = gpu_of(arguments, info);
  if (!gpu) {
    return gpu.error();
  }
  Result<calibrate::MeasurementWriter> writer = calibrate::MeasurementWriter::open(
      question->measurements, calibrate::measured_device(info, today()));
  if (!writer) {
    return std::move(writer).error();
  }
  const std::vector<calibrate::Case> cases = calibrate::all_cases(gpu->performance.memory.cache);
  const Result<bool> complete =
      measure_all(*device.value(), cases, writer.value(), *question, context);
  if (!complete) {
    return complete.error();
  }
  const calibrate::MeasurementFile& file = writer->content();
  if (!*complete) {
    return answer_incomplete(*writer, cases.size(), *question, context);
  }
  const Result<calibrate::Figures> figures = calibrate::fit_figures(*gpu, file);
  if (!figures) {
    return figures.error();
  }
  CalibrationAnswer answer{.gpu = *gpu,
                           .file = file,
                           .figures = *figures,
                           .unsteady = calibrate::unsteady(file),
                           .output = question->output,
                           .measurements = question->measurements};
  if (std::optional<Error> refused = refusal(answer, *question)) {
    return *std::move(refused);
  }
  if (!file.device.can_compute) {
    add_notes(context, {"measured on a stand-in GPU: the figures mean nothing"});
  }
  if (!gpu->performance.note.empty()) {
    add_notes(context, {gpu->performance.note + ", where this program measures nothing itself"});
  }
  if (Status written = write_device_file(answer, folder->path); !written) {
    return std::move(written).error();
  }
  answer.written = true;
  answer.notes = context.notes->lines;
  context.out << (context.json ? calibration_json(answer)
                               : calibration_text(answer, context.terminal));
  return ExitCode::kYes;
}

}  // namespace

Command calibrate_command() {
  return {
      .verb = {.name = "calibrate",
               .summary = "Measures the GPU of this machine, for predicted step times",
               .positionals = "",
               .detail = "Matrix products, attention, kernels bound by memory, launches and copies "
                         "are measured in a few minutes and written into a file that --gpu takes. "
                         "Every measurement is on disk at once: the same command goes on after an "
                         "interruption. Leave the GPU alone meanwhile: measurements that "
                         "scatter are refused.",
               .options = {{"output", "FILE", "", "device file to write, such as my-gpu.json"},
                           {"gpu", "NAME", "recognised by the driver's name",
                            "GPU of the catalogue, or a file, whose datasheet the figures are "
                            "related to"},
                           {"device", "DEVICE", "cuda", "GPU to measure: cuda, or cuda:N"},
                           {"measurements", "FILE", "that of --output with .jsonl",
                            "file with every repetition, which a later run goes on with"},
                           {"seconds", "SECONDS", "until all is measured",
                            "end after this time; the exit code is 1 if something is left"},
                           {"force", "", "", "write the file even if measurements scatter"}},
               .example = "calibrate --output my-gpu.json"},
      .run = run_calibrate};
}

}  // namespace headroom::cli
