#pragma once

#include <cstdio>
#include <string>

#include "validators/executor/device_abi.h"

namespace headroom::test {

/// Numbers of checks and of failures so far.
struct Outcome {
  int checks = 0;
  int failed = 0;
  void expect(bool holds, const std::string& what) {
    ++checks;
    if (!holds) {
      ++failed;
      std::printf("FAILED: %s\n", what.c_str());
    }
  }
};

/// Every kernel against the CPU, and against itself: a second run gives the same bits.
void run_kernels(const HeadroomDeviceTable& plugin, Outcome& outcome);
/// Small models: memory to the byte, losses and norms of gradients against the CPU.
void run_training(const HeadroomDeviceTable& plugin, Outcome& outcome);
/// Allocators of every size, and a device that is full before its allocator.
void run_out_of_memory(const HeadroomDeviceTable& plugin, Outcome& outcome);
/// Random plans of real size, one shadow rank each: memory to the byte, every pointer inside a live
/// allocation. Those that do not fit into the device end at the request that was predicted.
void run_plans(const HeadroomDeviceTable& plugin, int count, Outcome& outcome);

}  // namespace headroom::test
