#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
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
  setenv("HEADROOM_GPU_COUNT", "2", 1);
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

TEST_CASE("stand-in libraries: NVRTC answers for its own CUDA version") {
  for (const auto& [name, expected] : {std::pair{"libnvrtc.so.12", std::pair{12, 8}},
                                       std::pair{"libnvrtc.so.13", std::pair{13, 0}}}) {
    int major = 0;
    int minor = 0;
    function<int(int*, int*)>(library(name), "nvrtcVersion", name)(&major, &minor);
    CHECK(std::pair{major, minor} == expected);
  }
}

TEST_CASE("stand-in libraries: a function of the host that was captured runs with the graph") {
  void* runtime = library("libcudart.so.13");
  auto* const stream = reinterpret_cast<void*>(std::uintptr_t{48});
  int calls = 0;
  const HostFunction count = [](void* number) { ++*static_cast<int*>(number); };
  auto* const call = function<int(void*, HostFunction, void*)>(runtime, "cudaLaunchHostFunc");
  CHECK(call(stream, count, &calls) == 0);
  CHECK(calls == 1);
  void* graph = nullptr;
  void* executable = nullptr;
  CHECK(function<int(void*, int)>(runtime, "cudaStreamBeginCapture")(stream, 0) == 0);
  CHECK(call(stream, count, &calls) == 0);
  CHECK(calls == 1);
  CHECK(function<int(void*, void**)>(runtime, "cudaStreamEndCapture")(stream, &graph) == 0);
  CHECK(function<int(void**, void*, unsigned long long)>(runtime, "cudaGraphInstantiate")(
            &executable, graph, 0) == 0);
  CHECK(function<int(void*)>(runtime, "cudaGraphDestroy")(graph) == 0);
  auto* const run_graph = function<int(void*, void*)>(runtime, "cudaGraphLaunch");
  run_graph(executable, stream);
  run_graph(executable, stream);
  CHECK(calls == 3);
  CHECK(function<int(void*)>(runtime, "cudaGraphExecDestroy")(executable) == 0);
}

TEST_CASE("stand-in libraries: each device has its context, which makes it the current one") {
  void* driver = library("libcuda.so.1");
  auto* const retain = function<int(void**, int)>(driver, "cuDevicePrimaryCtxRetain");
  auto* const current = function<int(void**)>(driver, "cuCtxGetCurrent");
  void* first = nullptr;
  void* second = nullptr;
  CHECK(retain(&first, 0) == 0);
  CHECK(retain(&second, 1) == 0);
  CHECK(first != second);
  CHECK(function<int(const void*)>(driver, "cuCtxPushCurrent_v2")(second) == 0);
  int chosen = -1;
  CHECK(function<int(int*)>(library("libcudart.so.13"), "cudaGetDevice")(&chosen) == 0);
  CHECK(chosen == 1);
  void* found = nullptr;
  CHECK(function<int(void**)>(driver, "cuCtxPopCurrent_v2")(&found) == 0);
  CHECK(found == second);
  CHECK(current(&found) == 0);
  CHECK(found == first);
  CHECK(retain(&found, 99) == kInvalidDevice);
}

TEST_CASE("stand-in libraries: peaks of a pool are set back to what is in use") {
  void* runtime = library("libcudart.so.12");
  constexpr int kUsed = 7, kUsedPeak = 8;
  void* pool = nullptr;
  function<int(void**, int)>(runtime, "cudaDeviceGetDefaultMemPool")(&pool, 0);
  const auto attribute = [&](int which) {
    std::uint64_t value = 0;
    function<int(void*, int, void*)>(runtime, "cudaMemPoolGetAttribute")(pool, which, &value);
    return value;
  };
  void* address = nullptr;
  function<int(void**, std::size_t, void*)>(runtime, "cudaMallocAsync")(&address, 8 << 20, nullptr);
  function<int(void*, void*)>(runtime, "cudaFreeAsync")(address, nullptr);
  CHECK(attribute(kUsedPeak) >= attribute(kUsed) + (8 << 20));
  std::uint64_t value = 1;
  auto* const set = function<int(void*, int, void*)>(runtime, "cudaMemPoolSetAttribute");
  CHECK(set(pool, kUsedPeak, &value) == kInvalidValue);
  value = 0;
  CHECK(set(pool, kUsedPeak, &value) == 0);
  CHECK(attribute(kUsedPeak) == attribute(kUsed));
}

TEST_CASE("stand-in libraries: every status has its names, and an unknown one has none") {
  void* runtime = library("libcudart.so.12");
  void* driver = library("libcuda.so.1");
  auto* const name = function<const char*(int)>(runtime, "cudaGetErrorName");
  auto* const driver_name = function<int(int, const char**)>(driver, "cuGetErrorName");
  const char* text = nullptr;
  CHECK(std::string(name(712)) == "cudaErrorHostMemoryAlreadyRegistered");
  CHECK(std::string(name(900)) == "cudaErrorStreamCaptureUnsupported");
  CHECK(std::string(name(kInvalidDevice)) == "cudaErrorInvalidDevice");
  CHECK(driver_name(kInvalidHandle, &text) == 0);
  CHECK(std::string(text) == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(driver_name(12345, &text) == kInvalidValue);
  CHECK(text == nullptr);
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

TEST_CASE("stand-in libraries: a sum over ranks multiplies what this rank holds") {
  void* runtime = library("libcudart.so.13");
  void* collectives = library("libnccl.so.2");
  void* communicator = nullptr;
  function<int(void**, int, UniqueId, int)>(collectives, "ncclCommInitRank")(&communicator, 8, {},
                                                                             0);
  void* buffer = nullptr;
  function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&buffer, 1024);
  auto* const copy = function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy");
  auto* const nccl_all_reduce =
      function<int(const void*, void*, std::size_t, int, int, void*, void*)>(collectives,
                                                                             "ncclAllReduce");
  constexpr int kInt64 = 4, kSum = 0, kMax = 2;
  const std::vector<std::int64_t> sent = {3, 5};
  std::vector<std::int64_t> got(2);
  copy(buffer, sent.data(), 16, 1);
  nccl_all_reduce(buffer, buffer, 2, kInt64, kMax, communicator, nullptr);
  copy(got.data(), buffer, 16, 2);
  CHECK(got == sent);
  nccl_all_reduce(buffer, buffer, 2, kInt64, kSum, communicator, nullptr);
  copy(got.data(), buffer, 16, 2);
  CHECK(got == std::vector<std::int64_t>{24, 40});
  function<int(void*)>(collectives, "ncclCommDestroy")(communicator);
  function<int(void*)>(runtime, "cudaFree")(buffer);
}

TEST_CASE("stand-in libraries: other ranks send what this rank sends itself") {
  void* runtime = library("libcudart.so.13");
  void* collectives = library("libnccl.so.2");
  constexpr int kInt64 = 4, kRanks = 3, kRank = 1;
  void* communicator = nullptr;
  function<int(void**, int, UniqueId, int)>(collectives, "ncclCommInitRank")(&communicator, kRanks,
                                                                             {}, kRank);
  const auto allocate = function<int(void**, std::size_t)>(runtime, "cudaMalloc");
  const auto copy = function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy");
  const auto start = function<int()>(collectives, "ncclGroupStart");
  const auto end = function<int()>(collectives, "ncclGroupEnd");
  using Exchange = int(void*, std::size_t, int, int, void*, void*);
  const auto send = function<Exchange>(collectives, "ncclSend");
  const auto receive = function<Exchange>(collectives, "ncclRecv");
  void* from = nullptr;
  void* to = nullptr;
  allocate(&from, 1024);
  allocate(&to, 1024);
  const std::vector<std::int64_t> sent = {1, 2, 3, 4, 5, 6};  // Two for each rank.
  copy(from, sent.data(), 48, 1);
  start();
  start();  // A group inside another one ends with it.
  for (int peer = 0; peer < kRanks; ++peer) {
    send(static_cast<char*>(from) + peer * 16, 2, kInt64, peer, communicator, nullptr);
    receive(static_cast<char*>(to) + peer * 16, 2, kInt64, peer, communicator, nullptr);
  }
  end();
  end();
  std::vector<std::int64_t> got(6);
  copy(got.data(), to, 48, 2);
  CHECK(got == std::vector<std::int64_t>{3, 4, 3, 4, 3, 4});
  // Two exchanges of one size in a group each have a message of their own.
  start();
  for (const int half : {0, 1}) {
    for (int peer = 0; peer < kRanks; ++peer) {
      send(static_cast<char*>(from) + peer * 16 + half * 8, 1, kInt64, peer, communicator, nullptr);
      receive(static_cast<char*>(to) + half * 24 + peer * 8, 1, kInt64, peer, communicator,
              nullptr);
    }
  }
  end();
  std::vector<std::int64_t> part(3);
  copy(part.data(), to, 24, 2);
  CHECK(part == std::vector<std::int64_t>{3, 3, 3});
  copy(part.data(), static_cast<char*>(to) + 24, 24, 2);
  CHECK(part == std::vector<std::int64_t>{4, 4, 4});
  // Without a message to itself, nothing is known, and what was known is forgotten.
  start();
  send(from, 2, kInt64, 0, communicator, nullptr);
  receive(to, 6, kInt64, 0, communicator, nullptr);
  end();
  copy(got.data(), to, 48, 2);
  CHECK(got == std::vector<std::int64_t>(6));
  function<int(const void*, void*, std::size_t, int, void*, void*)>(collectives, "ncclAlltoAll")(
      from, to, 2, kInt64, communicator, nullptr);
  copy(got.data(), to, 48, 2);
  CHECK(got == std::vector<std::int64_t>{3, 4, 3, 4, 3, 4});
  function<int(void*)>(collectives, "ncclCommDestroy")(communicator);
  function<int(void*)>(runtime, "cudaFree")(from);
  function<int(void*)>(runtime, "cudaFree")(to);
}

TEST_CASE("stand-in libraries: a part of a communicator has the size that was announced") {
  void* collectives = library("libnccl.so.2");
  void* whole = nullptr;
  void* part = nullptr;
  function<int(void**, int, UniqueId, int)>(collectives, "ncclCommInitRank")(&whole, 8, {}, 5);
  function<void(int, int)>(collectives, "headroom_gpu_next_group")(2, 1);
  auto* const nccl_comm_split =
      function<int(void*, int, int, void**, const void*)>(collectives, "ncclCommSplit");
  CHECK(nccl_comm_split(whole, 0, 0, &part, nullptr) == 0);
  int ranks = 0;
  int rank = 0;
  function<int(const void*, int*)>(collectives, "ncclCommCount")(part, &ranks);
  function<int(const void*, int*)>(collectives, "ncclCommUserRank")(part, &rank);
  CHECK(ranks == 2);
  CHECK(rank == 1);
  auto* const destroy = function<int(void*)>(collectives, "ncclCommDestroy");
  destroy(part);
  constexpr int kNoColour = -1;
  CHECK(nccl_comm_split(whole, kNoColour, 0, &part, nullptr) == 0);
  CHECK(part == nullptr);
  destroy(whole);
}

TEST_CASE("stand-in libraries: an announced count is what the next kernel's count reads") {
  void* runtime = library("libcudart.so.12");
  auto* const copy = function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy");
  void* address = nullptr;
  function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&address, 4096);
  const float known = 0.5F;
  copy(static_cast<char*>(address) + 512, &known, sizeof known, 1);
  function<void(long long)>(runtime, "headroom_gpu_next_count")(77);
  float read = 0;
  copy(&read, static_cast<char*>(address) + 512, sizeof read, 2);
  CHECK(read == known);
  int count = 0;
  copy(&count, address, sizeof count, 2);
  CHECK(count == 77);
  copy(&count, address, sizeof count, 2);
  CHECK(count == 0);
  function<int(void*)>(runtime, "cudaFree")(address);
}

TEST_CASE("stand-in libraries: zeros reach every byte of a large download") {
  void* runtime = library("libcudart.so.13");
  constexpr std::size_t kBytes = std::size_t{3} << 20;
  void* address = nullptr;
  function<int(void**, std::size_t)>(runtime, "cudaMalloc")(&address, kBytes);
  std::vector<char> plain(kBytes, 'x');
  function<int(void*, const void*, std::size_t, int)>(runtime, "cudaMemcpy")(plain.data(), address,
                                                                             kBytes - 1, 2);
  CHECK(plain == [] {
    std::vector<char> expected(kBytes, '\0');
    expected.back() = 'x';
    return expected;
  }());
  function<int(void*)>(runtime, "cudaFree")(address);
}

TEST_CASE("stand-in libraries: memory is registered once, and given back by the call that fits") {
  void* runtime = library("libcudart.so.12");
  auto* const enrol = function<int(void*, std::size_t, unsigned)>(runtime, "cudaHostRegister");
  auto* const withdraw = function<int(void*)>(runtime, "cudaHostUnregister");
  constexpr Status kAlready = 712, kNotRegistered = 713;
  std::vector<char> own(4096);
  CHECK(enrol(own.data(), own.size(), 0) == 0);
  CHECK(enrol(own.data(), own.size(), 0) == kAlready);
  CHECK(withdraw(own.data()) == 0);
  CHECK(withdraw(own.data()) == kNotRegistered);
}

TEST_CASE("stand-in libraries: forms with other arguments are found by the caller's version") {
  void* driver = library("libcuda.so.1");
  void* found = nullptr;
  int result = -1;
  auto* const find =
      function<int(const char*, void**, int, std::uint64_t, int*)>(driver, "cuGetProcAddress_v2");
  find("cuGetProcAddress", &found, 11030, 0, &result);
  CHECK(found == dlsym(driver, "cuGetProcAddress"));
  find("cuGetProcAddress", &found, 12080, 0, &result);
  CHECK(found == dlsym(driver, "cuGetProcAddress_v2"));
  find("cuStreamGetCaptureInfo", &found, 12030, 0, &result);
  CHECK(found == dlsym(driver, "cuStreamGetCaptureInfo_v3"));
  find("cuStreamGetCtx", &found, 12010, 0, &result);
  CHECK(found == dlsym(driver, "cuStreamGetCtx"));
  find("cuStreamGetCtx", &found, 12050, 0, &result);
  CHECK(found == dlsym(driver, "cuStreamGetCtx_v2"));
  find("cuCtxSynchronize", &found, 13000, 0, &result);
  CHECK(found == dlsym(driver, "cuCtxSynchronize"));
}

TEST_CASE("stand-in libraries: a stream belongs to the current context, and to no green one") {
  void* driver = library("libcuda.so.1");
  void* current = nullptr;
  CHECK(function<int(void**)>(driver, "cuCtxGetCurrent")(&current) == 0);
  void* found = nullptr;
  CHECK(function<int(void*, void**)>(driver, "cuStreamGetCtx")(nullptr, &found) == 0);
  CHECK(found == current);
  void* green = &found;
  CHECK(function<int(void*, void**, void**)>(driver, "cuStreamGetCtx_v2")(nullptr, &found,
                                                                          &green) == 0);
  CHECK(found == current);
  CHECK(green == nullptr);
}

TEST_CASE("stand-in libraries: a product of matrices counts its operations in any layout") {
  void* blas = library("libcublasLt.so.13");
  std::uint64_t left[8] = {};
  std::uint64_t right[8] = {};
  auto* const init =
      function<int(void*, std::size_t, int, std::uint64_t, std::uint64_t, std::int64_t)>(
          blas, "cublasLtMatrixLayoutInit_internal");
  init(left, sizeof left, 0, 8, 16, 8);      // k x m, transposed
  init(right, sizeof right, 0, 16, 32, 16);  // the result, m x n
  char text[4096] = {};
  auto* const work = function<int(char*, std::size_t)>(blas, "headroom_gpu_work");
  work(text, sizeof text);
  function<int(void*, void*, const void*, const void*, const void*, const void*, const void*,
               const void*, const void*, const void*, void*, const void*)>(blas, "cublasLtMatmul")(
      nullptr, nullptr, nullptr, nullptr, left, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, right);
  work(text, sizeof text);
  CHECK(std::string(text).find("\"gemms\":1,\"gemm_flops\":8192,") != std::string::npos);
}

}  // namespace headroom::standin
