#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model_ir/base/units.h"

namespace headroom::cost {

/// A link's rate in one direction, which is what `LinkSpec` and `Topology` hold.
///
/// Reads a number, a unit and, if the figure is for both directions together, the word for it:
/// "50 GB/s", "400 Gbit/s" (bits: 50 GB/s), "900 GB/s bidirectional" (halved: 450 GB/s). Units are
/// kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, Mbit/s, Gbit/s and Tbit/s, spelt so: "Gb/s"
/// and "GBps" could be either and are refused. Nothing for anything else, and for a rate of zero or
/// less.
[[nodiscard]] std::optional<BytesPerSecond> parse_bandwidth(std::string_view text);

/// A rate for people, one direction: "450 GB/s".
[[nodiscard]] std::string to_text(BytesPerSecond rate);

}  // namespace headroom::cost
