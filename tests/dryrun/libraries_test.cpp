#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "validators/dryrun/standin/cuda_abi.h"

namespace headroom::standin {
namespace {

/// A library of the stand-in, as a program that links against it sees it. It is loaded in the
/// process of the test; RTLD_GLOBAL because the driver's entry points are looked up among all
/// libraries.
void* library(const char* name) {
  setenv("HEADROOM_GPU_BYTES", "1000000000", 1);
  setenv("HEADROOM_GPU_CONTEXT", "100000000", 1);
  setenv("HEADROOM_GPU_NAME", "Test GPU", 1);
  void* main = dlopen(HEADROOM_STANDIN_DIR "/libheadroom_gpu.so", RTLD_NOW | RTLD_GLOBAL);
  REQUIRE_MESSAGE(main != nullptr, dlerror());
  void* found = dlopen((std::string(HEADROOM_STANDIN_DIR "/") + name).c_str(), RTLD_NOW);
  REQUIRE_MESSAGE(found != nullptr, dlerror());
  return found;
}

template <class Function>
Function* function(void* from, const char* name) {
  void* found = dlsym(from, name);
  REQUIRE_MESSAGE(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

template <class Function>
Function* function(void* from, const char* name, const char* version) {
  void* found = dlvsym(from, name, version);
  REQUIRE_MESSAGE(found != nullptr, name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

TEST_CASE("stand-in libraries: the runtime answers for its own CUDA version") {
  int version = 0;
  function<int(int*)>(library("libcudart.so.12"), "cudaRuntimeGetVersion",
                      "libcudart.so.12")(&version);
  CHECK(version == 12080);
  function<int(int*)>(library("libcudart.so.13"), "cudaRuntimeGetVersion",
                      "libcudart.so.13")(&version);
  CHECK(version == 13000);
}

TEST_CASE("stand-in libraries: runtime, driver and NVML agree on the memory of the device") {
  void* runtime = library("libcudart.so.13");
  void* address = nullptr;
  CHECK(function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&address, 200'000'000) == 0);
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(function<int(std::size_t*, std::size_t*)>(library("libcuda.so.1"), "cuMemGetInfo_v2")(
            &free, &total) == 0);
  CHECK(total == 1'000'000'000);
  CHECK(free == 1'000'000'000 - 100'000'000 - 201'326'592);
  std::uint64_t memory[3] = {};
  void* handle = nullptr;
  void* management = library("libnvidia-ml.so.1");
  CHECK(function<int(unsigned, void**)>(management, "nvmlDeviceGetHandleByIndex_v2")(0, &handle) ==
        0);
  CHECK(function<int(void*, void*)>(management, "nvmlDeviceGetMemoryInfo")(handle, memory) == 0);
  CHECK(memory[0] == total);
  CHECK(memory[1] == free);
  CHECK(function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&handle, 800'000'000) ==
        kOutOfMemory);
  CHECK(handle == nullptr);
  CHECK(function<int()>(runtime, "cudaGetLastError")() == kOutOfMemory);
  CHECK(function<int()>(runtime, "cudaGetLastError")() == kSuccess);
  CHECK(function<int(void*)>(runtime, "cudaFree")(address) == 0);
}

TEST_CASE("stand-in libraries: small uploads come back and kernels' results are zero") {
  void* runtime = library("libcudart.so.12");
  auto* const copy = function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy");
  void* address = nullptr;
  function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&address, 4096);
  const std::vector<int> sent = {1, 2, 3};
  std::vector<int> got(3, -1);
  copy(address, sent.data(), 12, 1);
  copy(got.data(), address, 12, 2);
  CHECK(got == sent);
  int other = -1;
  copy(&other, static_cast<char*>(address) + 64, 4, 2);
  CHECK(other == 0);
  function<int(void*)>(runtime, "cudaFree")(address);
}

TEST_CASE("stand-in libraries: memory behind mapped addresses goes with its last mapping") {
  void* driver = library("libcuda.so.1");
  std::size_t total = 0;
  const auto free = [&] {
    std::size_t bytes = 0;
    function<int(std::size_t*, std::size_t*)>(driver, "cuMemGetInfo_v2")(&bytes, &total);
    return bytes;
  };
  const std::size_t before = free();
  constexpr std::size_t kBytes = std::size_t{20} << 20;
  std::uint64_t address = 0;
  std::uint64_t handle = 0;
  AllocationProperties where{};
  where.location_type = kLocationDevice;
  function<int(std::uint64_t*, std::size_t, std::size_t, std::uint64_t, unsigned long long)>(
      driver, "cuMemAddressReserve")(&address, 4 * kBytes, 0, 0, 0);
  CHECK(free() == before);
  function<int(std::uint64_t*, std::size_t, const AllocationProperties*, unsigned long long)>(
      driver, "cuMemCreate")(&handle, kBytes, &where, 0);
  CHECK(free() == before - kBytes);
  auto* const map =
      function<int(std::uint64_t, std::size_t, std::size_t, std::uint64_t, unsigned long long)>(
          driver, "cuMemMap");
  CHECK(map(address, kBytes, 0, handle, 0) == 0);
  function<int(std::uint64_t)>(driver, "cuMemRelease")(handle);
  CHECK(free() == before - kBytes);
  CHECK(map(address + kBytes, kBytes, 0, handle + 1, 0) == kInvalidValue);
  CHECK(function<int(std::uint64_t, std::size_t)>(driver, "cuMemUnmap")(address, kBytes) == 0);
  CHECK(free() == before);
}

TEST_CASE("stand-in libraries: driver functions are found by their plain names") {
  void* driver = library("libcuda.so.1");
  void* found = nullptr;
  int result = -1;
  auto* const find =
      function<int(const char*, void**, int, std::uint64_t, int*)>(driver, "cuGetProcAddress_v2");
  CHECK(find("cuMemGetInfo", &found, 12080, 0, &result) == kSuccess);
  CHECK(found == dlsym(driver, "cuMemGetInfo_v2"));
  CHECK(result == 0);
  CHECK(find("cuNoSuchFunction", &found, 12080, 0, &result) == kNotFound);
  CHECK(result == 1);
}

TEST_CASE("stand-in libraries: what is missing is refused by name, once") {
  void* runtime = library("libcudart.so.13");
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    auto* const missing = function<int()>(runtime, "cudaMallocArray");
    _exit(missing() == kNotSupported && missing() == kNotSupported ? 0 : 1);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text ==
        "headroom dryrun: the stand-in GPU does not have cudaMallocArray; the program is told that "
        "it is not supported\n");
}

TEST_CASE("stand-in libraries: a gathered buffer repeats what this rank sent") {
  void* runtime = library("libcudart.so.13");
  void* collectives = library("libnccl.so.2");
  void* communicator = nullptr;
  function<int(void**, int, UniqueId, int)>(collectives, "ncclCommInitRank")(&communicator, 4, {},
                                                                             2);
  void* from = nullptr;
  void* to = nullptr;
  auto* const allocate = function<int(void**, std::size_t)>(runtime, "cudaMalloc");
  auto* const copy = function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy");
  allocate(&from, 1024);
  allocate(&to, 1024);
  const std::int64_t size = 77;
  copy(from, &size, 8, 1);
  constexpr int kInt64 = 4;
  function<int(const void*, void*, std::size_t, int, void*, void*)>(collectives, "ncclAllGather")(
      from, to, 1, kInt64, communicator, nullptr);
  std::vector<std::int64_t> got(4);
  copy(got.data(), to, 32, 2);
  CHECK(got == std::vector<std::int64_t>{77, 77, 77, 77});
  CHECK(function<int(void*)>(collectives, "ncclCommDestroy")(communicator) == 0);
}

}  // namespace headroom::standin
