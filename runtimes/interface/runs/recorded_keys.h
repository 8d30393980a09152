#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/units.h"
#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

/// Keys that the rows of several recorded programs share (tests/measured/README.md, "Fields").
namespace headroom::ir {

/// Device memory of a row that names no GPU.
inline constexpr Bytes kUnnamedDevice{600'000'000'000};

/// `gpu`, {bytes, cc, sms}: cc is 90 for compute capability 9.0.
void read_recorded_gpu(RunReader& row, RunSetting& run);

/// PYTORCH_ALLOC_CONF, "name:value,...", under `key`; `absent` if the key is missing.
void read_allocator(RunReader& row, std::string_view key, std::string_view absent,
                    AllocatorSettings& settings);

/// A whole number in an object of the row; `absent` if the key is missing.
[[nodiscard]] std::int64_t integer_or(const JsonValue& object, std::string_view key,
                                      std::int64_t absent);

/// "tp8pp2": the degrees above 1, in that order; "none" if there are none.
[[nodiscard]] std::string degrees_of(const JsonValue& setting);

}  // namespace headroom::ir
