#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/hardware/performance.h"
#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "validators/calibrate/measurements.h"

namespace headroom::calibrate {

/// The GPU whose datasheet the measured figures are related to.
struct CatalogueGpu {
  cost::DeviceSpec device;
  std::string file;                     ///< The file that it was read from.
  cost::DevicePerformance performance;  ///< The rates that are assumed of it without measurements.
};
/// Errors:  those of `load_device` and of `performance_of`.
[[nodiscard]] Result<CatalogueGpu> catalogue_gpu(const std::string& config_dir,
                                                 const std::string& name);

/// Medians of measurements by what they mean.
struct Figures {
  cost::DevicePerformance performance;  ///< The fitted figures; the rest is that of the catalogue.
  /// Median and 90th percentile of |predicted / measured - 1| over the 16-bit products.
  double median_error = 0;
  double p90_error = 0;
  /// Rates of copies from and to pageable memory, which the time model does not use.
  BytesPerSecond pageable_to_device{};
  BytesPerSecond pageable_to_host{};
  /// Time of fp16 products over that of bf16 products of the same sizes, and the rate of products
  /// in TF32: the time model has one rate for both 16-bit types, and none for TF32.
  double fp16_time = 1;
  FlopsPerSecond tf32{};
  /// Time of one product without a workspace over its time with one.
  double without_workspace = 1;
};

/// Fits the figures of the time model to measurements of every case of `all_cases`.
///
/// Model:   costmodel/hardware/fit. Memory and launches first, then products, then attention, each
///          with what is known already.
/// Errors:  kInvalidArgument if a case has not been measured.
[[nodiscard]] Result<Figures> fit_figures(const CatalogueGpu& gpu, const MeasurementFile& file);

/// Cases whose repetitions lie further apart than `kWidestSpread`, the widest first.
[[nodiscard]] std::vector<const Measurement*> unsteady(const MeasurementFile& file);

/// The device file: the catalogue's entry (configs/schema/gpu.schema.json) with the measured size
/// of the memory, and what was measured as its member "performance".
///
/// Errors:  those of reading the catalogue's entry.
[[nodiscard]] Result<ir::JsonValue> device_document(const CatalogueGpu& gpu,
                                                    const MeasuredDevice& device,
                                                    const Figures& figures);

}  // namespace headroom::calibrate
