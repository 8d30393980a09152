#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/calibrate/statistics.h"
#include "validators/executor/device_abi.h"

namespace headroom::calibrate {

/// The device that was measured, as the first line of a file of measurements names it.
struct MeasuredDevice {
  std::string product;    ///< "NVIDIA H100 80GB HBM3"
  std::string libraries;  ///< "driver for CUDA 13.0, cuBLASLt 13.1"
  std::int64_t total_bytes = 0;
  std::int64_t usable_bytes = 0;  ///< Free once the context was made and the kernels were loaded.
  std::int32_t compute_major = 0;
  std::int32_t compute_minor = 0;
  std::int32_t multiprocessors = 0;
  bool can_compute = true;  ///< False: the stand-in GPU of the dry run.
  std::string date;         ///< "2026-11-27"
  friend bool operator==(const MeasuredDevice&, const MeasuredDevice&) = default;
};
[[nodiscard]] MeasuredDevice measured_device(const HeadroomDeviceInfo& info, std::string date);

/// The measurements that are on disk so far.
struct MeasurementFile {
  MeasuredDevice device;
  std::vector<Measurement> measurements;
};

/// Reads a file of measurements: JSON lines, the device first. A last line without its end, which
/// an interrupted program leaves, does not count. Nothing if the file does not exist or is empty.
///
/// Errors:  kEnvironment if it cannot be read; kInvalidInput with the line that has another form.
[[nodiscard]] Result<std::optional<MeasurementFile>> read_measurements(const std::string& path);

/// Writes measurements line by line; each is on disk when `add` returns.
class MeasurementWriter {
 public:
  /// Goes on with the file if it has measurements of this device, otherwise begins it.
  ///
  /// Errors:  those of `read_measurements`; kInvalidInput for measurements of another device or
  ///          with other libraries; kEnvironment if the file cannot be written.
  [[nodiscard]] static Result<MeasurementWriter> open(const std::string& path,
                                                      const MeasuredDevice& device);

  /// Errors:  kEnvironment if the file cannot be written.
  [[nodiscard]] Status add(const Measurement& measurement);
  [[nodiscard]] const MeasurementFile& content() const { return content_; }
  /// The measurement of that case; nullptr: it has not been measured yet.
  [[nodiscard]] const Measurement* find(const std::string& name) const;

 private:
  MeasurementWriter(std::string path, MeasurementFile content)
      : path_(std::move(path)), content_(std::move(content)) {}
  [[nodiscard]] Status append(const std::string& line) const;

  std::string path_;
  MeasurementFile content_;
};

}  // namespace headroom::calibrate
