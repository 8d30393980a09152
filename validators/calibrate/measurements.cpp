#include "validators/calibrate/measurements.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"

namespace headroom::calibrate {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostCount = 1'000'000;

ir::JsonValue line_of(const MeasuredDevice& device) {
  ir::JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("product", device.product);
  fields.add("libraries", device.libraries);
  fields.add("total_bytes", device.total_bytes);
  fields.add("usable_bytes", device.usable_bytes);
  fields.add("compute_capability_major", device.compute_major);
  fields.add("compute_capability_minor", device.compute_minor);
  fields.add("multiprocessors", device.multiprocessors);
  fields.add("can_compute", device.can_compute);
  fields.add("date", device.date);
  return std::move(fields).finish();
}

ir::JsonValue line_of(const Measurement& measurement) {
  ir::JsonValue::Array seconds;
  for (const double one : measurement.seconds) {
    seconds.emplace_back(one);
  }
  ir::JsonFields fields;
  fields.add("case", measurement.name);
  fields.add("calls", measurement.calls);
  fields.add("seconds", ir::JsonValue{std::move(seconds)});
  return std::move(fields).finish();
}

Result<MeasuredDevice> read_device_line(const std::string& line, const std::string& place) {
  Result<ir::JsonReader> reader = ir::JsonReader::from_text(line, place);
  if (!reader) {
    return std::move(reader).error();
  }
  const ir::JsonObject root = reader->root();
  const auto count = [&root](const char* key, std::int64_t most) {
    return root.integer(key, {.least = 0, .greatest = most});
  };
  static_cast<void>(root.integer("schema_version", {.least = 1, .greatest = 1}));
  const MeasuredDevice device{
      .product = root.text("product"),
      .libraries = root.text("libraries"),
      .total_bytes = count("total_bytes", kMostBytes),
      .usable_bytes = count("usable_bytes", kMostBytes),
      .compute_major = static_cast<std::int32_t>(count("compute_capability_major", kMostCount)),
      .compute_minor = static_cast<std::int32_t>(count("compute_capability_minor", kMostCount)),
      .multiprocessors = static_cast<std::int32_t>(count("multiprocessors", kMostCount)),
      .can_compute = root.boolean("can_compute"),
      .date = root.text("date")};
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  return device;
}

Result<Measurement> read_measurement_line(const std::string& line, const std::string& place) {
  Result<ir::JsonReader> reader = ir::JsonReader::from_text(line, place);
  if (!reader) {
    return std::move(reader).error();
  }
  const ir::JsonObject root = reader->root();
  constexpr double kLongest = 1e6;
  const Measurement measurement{
      .name = root.text("case"),
      .calls = root.integer("calls", {.least = 1, .greatest = kMostCount}),
      .seconds = root.numbers_or_none("seconds", {.least = 0, .greatest = kLongest})};
  if (measurement.seconds.empty()) {
    root.refuse("seconds", "the seconds of one call, for each repetition");
  }
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  return measurement;
}

/// Whether measurements of both belong into one file. What is free changes from run to run.
bool same_device(MeasuredDevice a, const MeasuredDevice& b) {
  a.usable_bytes = b.usable_bytes;
  a.date = b.date;
  return a == b;
}

}  // namespace

MeasuredDevice measured_device(const HeadroomDeviceInfo& info, std::string date) {
  return {.product = info.name,
          .libraries = info.libraries,
          .total_bytes = info.total_bytes,
          .usable_bytes = info.free_bytes,
          .compute_major = info.compute_major,
          .compute_minor = info.compute_minor,
          .multiprocessors = info.multiprocessors,
          .can_compute = info.can_compute != 0,
          .date = std::move(date)};
}

Result<std::optional<MeasurementFile>> read_measurements(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return std::optional<MeasurementFile>{};
  }
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  std::optional<MeasurementFile> file;
  std::size_t begin = 0;
  int number = 0;
  for (std::size_t end = text->find('\n'); end != std::string::npos;
       begin = end + 1, end = text->find('\n', begin)) {
    const std::string line = text->substr(begin, end - begin);
    const std::string place = path + ", line " + std::to_string(++number);
    if (!file) {
      Result<MeasuredDevice> device = read_device_line(line, place);
      if (!device) {
        return std::move(device).error();
      }
      file = MeasurementFile{.device = std::move(device).value(), .measurements = {}};
      continue;
    }
    Result<Measurement> measurement = read_measurement_line(line, place);
    if (!measurement) {
      return std::move(measurement).error();
    }
    file->measurements.push_back(std::move(measurement).value());
  }
  return file;
}

Result<MeasurementWriter> MeasurementWriter::open(const std::string& path,
                                                  const MeasuredDevice& device) {
  Result<std::optional<MeasurementFile>> found = read_measurements(path);
  if (!found) {
    return std::move(found).error();
  }
  std::optional<MeasurementFile>& before = found.value();
  if (before && !same_device(before->device, device)) {
    return Error::invalid_input(
        path, {}, "measurements of " + before->device.product + " with " + before->device.libraries,
        "those of " + device.product + " with " + device.libraries,
        "remove the file, or name another one with --measurements");
  }
  MeasurementFile content =
      before ? std::move(*before) : MeasurementFile{.device = device, .measurements = {}};
  content.device.usable_bytes = device.usable_bytes;
  MeasurementWriter writer(path, std::move(content));
  // Written anew, so that no piece of a line is left at the end.
  std::string lines = ir::to_json(line_of(writer.content_.device)) + "\n";
  for (const Measurement& measurement : writer.content_.measurements) {
    lines += ir::to_json(line_of(measurement)) + "\n";
  }
  if (Status written = write_file_atomically(path, lines); !written) {
    return std::move(written).error();
  }
  return writer;
}

Status MeasurementWriter::append(const std::string& line) const {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << line << '\n';
  file.close();
  return file ? ok() : Status(Error::environment(path_, "cannot be written", {}));
}

Status MeasurementWriter::add(const Measurement& measurement) {
  if (Status written = append(ir::to_json(line_of(measurement))); !written) {
    return written;
  }
  content_.measurements.push_back(measurement);
  return ok();
}

const Measurement* MeasurementWriter::find(const std::string& name) const {
  const auto found = std::ranges::find(content_.measurements, name, &Measurement::name);
  return found == content_.measurements.end() ? nullptr : &*found;
}

}  // namespace headroom::calibrate
