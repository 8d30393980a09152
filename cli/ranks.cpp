#include "cli/ranks.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <type_traits>
#include <utility>

namespace headroom::cli {
namespace {

/// Number of processes that the launcher's environment states.
int launched() {
  // These are set by Open MPI; by MPICH, Intel MPI and Slurm's PMI; and by MVAPICH2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const char* const text = std::getenv(name)) {
      return std::atoi(text);
    }
  }
  return 1;
}

/// The path of the module: beside the program (build folder), or in `../lib/headroom` (installation
/// prefix).
std::string module_path() {
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path installed =
      folder.parent_path() / "lib" / "headroom" / "headroom_mpi.so";
  const std::filesystem::path beside = folder / "headroom_mpi.so";
  return (std::filesystem::exists(beside, ignored) ? beside : installed).string();
}

void take_text(void* into, const char* text, int length) {
  static_cast<std::vector<std::string>*>(into)->emplace_back(text,
                                                             static_cast<std::size_t>(length));
}

}  // namespace

/// The functions that `cli/mpi/ranks_module.cpp` exports.
struct Ranks::Module {
  using Take = void (*)(void*, const char*, int);
  bool (*join)(int*, int*) = nullptr;
  bool (*gather)(const char*, int, Take, void*) = nullptr;
  void (*wait)() = nullptr;
  void (*leave)() = nullptr;
  bool joined = false;

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() {
    // Leaving MPI waits for the other ranks, which would wait for this one. So after an exception
    // the rank does not leave, and the launcher ends all ranks.
    if (joined && std::uncaught_exceptions() == 0) {
      leave();
    }
  }

  /// Loads the module. RTLD_GLOBAL is needed because MPI's plugins look up its symbols globally.
  [[nodiscard]] bool load() {
    void* const library = dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      return false;
    }
    const auto find = [&](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find("headroom_ranks_join", join) && find("headroom_ranks_gather", gather) &&
           find("headroom_ranks_wait", wait) && find("headroom_ranks_leave", leave);
  }
};

Result<Ranks> Ranks::join() {
  Ranks ranks;
  if (launched() <= 1) {
    return ranks;
  }
  auto module = std::make_shared<Module>();
  if (!module->load()) {
    return Error::environment(module_path(), "no such module, or it does not load",
                              "a program built with MPI, to be split over processes",
                              "install an MPI for development (libopenmpi-dev) and build again");
  }
  module->joined = module->join(&ranks.rank_, &ranks.size_);
  if (!module->joined) {
    return Error::environment("MPI", "it does not start", "an MPI of the launcher's own kind");
  }
  ranks.module_ = std::move(module);
  return ranks;
}

Result<std::vector<std::string>> Ranks::gather(const std::string& text) const {
  std::vector<std::string> texts;
  if (module_ == nullptr) {
    texts.push_back(text);
    return texts;
  }
  if (text.size() > INT_MAX ||
      !module_->gather(text.data(), static_cast<int>(text.size()), take_text, &texts)) {
    return Error::environment("MPI", "lines that did not arrive", "the lines of every rank",
                              "run the same command again: it completes the file of --output");
  }
  return texts;
}

void Ranks::wait() const {
  if (module_ != nullptr) {
    module_->wait();
  }
}

}  // namespace headroom::cli
