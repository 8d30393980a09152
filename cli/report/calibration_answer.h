#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "validators/calibrate/device_file.h"

namespace headroom::cli {

/// The measurements of `headroom calibrate`, and the files that hold them.
struct CalibrationAnswer {
  const calibrate::CatalogueGpu& gpu;
  const calibrate::MeasurementFile& file;
  const calibrate::Figures& figures;
  std::vector<const calibrate::Measurement*> unsteady;
  std::string output;        ///< The device file.
  std::string measurements;  ///< The file with every repetition.
  bool written = false;      ///< Whether the device file was written.
  std::vector<std::string> notes{};
};

/// Measured figures beside what the catalogue has, for people.
[[nodiscard]] std::string calibration_text(const CalibrationAnswer& answer,
                                           const Terminal& terminal);
/// The document of `configs/schema/calibration.schema.json`.
[[nodiscard]] std::string calibration_json(const CalibrationAnswer& answer);

}  // namespace headroom::cli
