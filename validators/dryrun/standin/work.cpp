#include "validators/dryrun/standin/work.h"

#include <array>
#include <cstdio>
#include <sstream>

namespace headroom::standin {

std::string json_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Work::to_json() const {
  std::ostringstream out;
  out.precision(17);
  out << "{\"kernels\":" << kernels << ",\"gemms\":" << gemms << ",\"gemm_flops\":" << gemm_flops
      << ",\"h2d\":" << uploaded << ",\"d2h\":" << downloaded << ",\"d2d\":" << copied
      << ",\"collectives\":[";
  const char* separator = "";
  for (const auto& [key, done] : collectives) {
    out << separator << "[" << json_string(key.first) << "," << key.second << "," << done.calls
        << "," << done.bytes << "]";
    separator = ",";
  }
  out << "]}";
  return out.str();
}

}  // namespace headroom::standin
