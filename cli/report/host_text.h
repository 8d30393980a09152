#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "costmodel/estimate.h"
#include "costmodel/host_memory.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {

/// "the host needs 7.4 TiB, the node has 2.0 TiB"; empty if the node has what the run takes.
[[nodiscard]] std::string host_shortage(const cost::HostMemory& host);

/// "host memory 421 GiB of 2.0 TiB, 380 GiB pinned, while training\n"; empty if nothing is
/// offloaded and there is enough.
[[nodiscard]] std::string host_summary(const cost::HostMemory& host);

/// The host's memory by use, for each rank and for the node; empty if nothing is offloaded and
/// there is enough.
[[nodiscard]] std::string host_lines(const cost::StepEstimate& estimate,
                                     const cost::DeviceSpec& device, const Terminal& terminal);

/// Whether a text has something to say of the host: the run offloads, or the node has not much more
/// than it takes.
[[nodiscard]] bool shows_host(const cost::HostMemory& host);

/// What is assumed of the device's host; empty if its memory is known.
[[nodiscard]] std::string host_assumption(const cost::DeviceSpec& device);
/// The same as a note, for answers that depend on it (`shows_host`).
[[nodiscard]] std::vector<std::string> host_notes(const cost::HostMemory& host,
                                                  const cost::DeviceSpec& device);

/// The same as `configs/schema/fit.schema.json` has it.
/// `assumed`: `host_assumption` of the device.
[[nodiscard]] ir::JsonValue host_json(const cost::HostMemory& host, cost::Verdict verdict,
                                      const std::string& assumed);

}  // namespace headroom::cli
