#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace headroom::cuda::emulation {

/// A kernel as the host has it.
struct Kernel {
  int most_threads = 0;
  std::size_t argument_bytes = 0;
  void (*body)(const void* arguments) = nullptr;
};

/// All kernels, by their names.
[[nodiscard]] std::map<std::string, Kernel, std::less<>>& kernels();

/// Adds a kernel to them.
struct Registration {
  Registration(const char* name, int most_threads, std::size_t argument_bytes,
               void (*body)(const void* arguments)) {
    kernels()[name] = {
        .most_threads = most_threads, .argument_bytes = argument_bytes, .body = body};
  }
};

}  // namespace headroom::cuda::emulation
