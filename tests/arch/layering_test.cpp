#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

/// A folder and the folders below it in the order of dependencies. A file belongs to the first row
/// that holds it, so that inner folders stand before the outer one.
struct Layer {
  std::string_view folder;
  std::vector<std::string_view> may_include;  ///< Besides itself.
};

// The table of the architecture (docs/architecture.md). A new edge is added here in the change that
// needs it, with the reason.
const std::vector<Layer>& layers() {
  static const std::vector<Layer> table = {
      {"model_ir/base", {}},
      {"model_ir/json", {"model_ir/base"}},
      {"model_ir/spec", {"model_ir/base", "model_ir/json"}},
      {"model_ir/graph", {"model_ir/base", "model_ir/json", "model_ir/spec"}},
      {"model_ir/plan", {"model_ir/base", "model_ir/json", "model_ir/spec", "model_ir/graph"}},
      // A framework stands on PyTorch and on those whose code the real one runs: DeepSpeed and FSDP
      // train transformers' models, LitGPT's adapters and losses are PyTorch's, torchtitan shards
      // by FSDP. The files beside the folders know them all.
      // How a framework is searched stands on the planner; the planner knows `FrameworkSearch`
      // alone.
      {"runtimes/transformers/search",
       {"model_ir", "runtimes", "runtimes/transformers", "costmodel", "planner"}},
      {"runtimes/deepspeed/search",
       {"model_ir", "runtimes", "runtimes/deepspeed", "runtimes/transformers/search", "costmodel",
        "planner"}},
      {"runtimes/fsdp/search",
       {"model_ir", "runtimes", "runtimes/fsdp", "runtimes/transformers/search", "costmodel",
        "planner"}},
      {"runtimes/megatron/search",
       {"model_ir", "runtimes", "runtimes/megatron", "costmodel", "planner"}},
      {"runtimes/torchtitan/search",
       {"model_ir", "runtimes", "runtimes/torchtitan", "runtimes/fsdp", "costmodel", "planner"}},
      {"runtimes/litgpt/search",
       {"model_ir", "runtimes", "runtimes/litgpt", "costmodel", "planner"}},
      {"runtimes/torchtune/search",
       {"model_ir", "runtimes", "runtimes/torchtune", "runtimes/fsdp", "runtimes/fsdp/search",
        "runtimes/transformers/search", "costmodel", "planner"}},
      {"runtimes/search",
       {"model_ir", "runtimes", "planner", "runtimes/transformers/search",
        "runtimes/deepspeed/search", "runtimes/fsdp/search", "runtimes/megatron/search",
        "runtimes/torchtitan/search", "runtimes/torchtune/search", "runtimes/litgpt/search"}},
      {"runtimes/interface", {"model_ir"}},
      {"runtimes/checkpoint", {"model_ir"}},
      {"runtimes/torch", {"model_ir"}},
      {"runtimes/transformers", {"model_ir", "runtimes/interface", "runtimes/torch"}},
      {"runtimes/litgpt",
       {"model_ir", "runtimes/interface", "runtimes/torch", "runtimes/transformers"}},
      {"runtimes/deepspeed",
       {"model_ir", "runtimes/interface", "runtimes/torch", "runtimes/transformers"}},
      {"runtimes/fsdp",
       {"model_ir", "runtimes/interface", "runtimes/torch", "runtimes/transformers"}},
      {"runtimes/torchtitan",
       {"model_ir", "runtimes/interface", "runtimes/torch", "runtimes/fsdp"}},
      {"runtimes/torchtune",
       {"model_ir", "runtimes/interface", "runtimes/torch", "runtimes/transformers",
        "runtimes/fsdp"}},
      {"runtimes/megatron", {"model_ir", "runtimes/interface", "runtimes/torch"}},
      // A plan as what a user types for it, which the command line reads and the window shows.
      {"runtimes/typed", {"model_ir", "runtimes/interface", "runtimes"}},
      {"runtimes", {"model_ir"}},
      {"costmodel/hardware", {"model_ir"}},
      {"costmodel/memory", {"model_ir", "costmodel/hardware"}},
      {"costmodel/time", {"model_ir", "runtimes", "costmodel/hardware"}},
      {"costmodel", {"model_ir", "runtimes"}},
      {"planner/report", {"model_ir", "runtimes", "costmodel", "planner"}},
      {"planner", {"model_ir", "runtimes", "costmodel"}},
      // Not the planner: a checker that shares the search's code shares its bugs.
      {"validators", {"model_ir", "runtimes", "costmodel"}},
      {"cli", {"model_ir", "runtimes", "costmodel", "planner", "validators"}},
      {"gui", {"model_ir", "runtimes", "costmodel", "planner", "validators"}},
  };
  return table;
}

/// Where a library's headers may be included.
struct Library {
  std::string_view name;
  std::vector<std::string_view> prefixes;  ///< What its includes begin with.
  std::vector<std::string_view> folders;
  bool in_headers = false;
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> table = {
      {.name = "nlohmann-json", .prefixes = {"nlohmann/"}, .folders = {"model_ir/json"}},
      {.name = "Boost.Math", .prefixes = {"boost/math/"}, .folders = {"costmodel"}},
      // Vectors with room of their own are members of a node of autograd.
      {.name = "Boost.Container",
       .prefixes = {"boost/container/"},
       .folders = {"runtimes/torch"},
       .in_headers = true},
      // Boost.Graph has the graph algorithms that PyTorch's compiler takes from networkx or writes
      // out: minimum cuts, topological orders, reachability.
      {.name = "Boost", .prefixes = {"boost/"}, .folders = {"runtimes/torch"}},
      {.name = "CLI11", .prefixes = {"CLI/"}, .folders = {"cli"}},
      {.name = "Qt", .prefixes = {"Q"}, .folders = {"gui"}, .in_headers = true},
      {.name = "zlib",
       .prefixes = {"zlib.h"},
       .folders = {"validators/measured", "validators/snapshot"}},
      {.name = "SQLite", .prefixes = {"sqlite3.h"}, .folders = {"validators/snapshot"}},
      // The plugin's own headers name the driver's types; nobody else includes them.
      {.name = "CUDA",
       .prefixes = {"cuda", "cublas", "cudnn"},
       .folders = {"validators/cuda/plugin"},
       .in_headers = true},
      // In a module of its own, which is not linked to the program.
      {.name = "MPI", .prefixes = {"mpi.h"}, .folders = {"cli/mpi"}},
      // The operating system, out of headers so that no caller depends on it.
      {.name = "POSIX",
       .prefixes = {"sys/", "unistd.h", "fcntl.h", "poll.h", "termios.h", "dlfcn.h", "pthread.h",
                    "signal.h", "spawn.h", "glob.h", "ucontext.h", "setjmp.h"},
       .folders = {"model_ir/base", "model_ir/spec/weights", "validators", "cli"}},
  };
  return table;
}

std::string place(const Include& include) {
  return include.file + ":" + std::to_string(include.line) + ": " + include.target;
}

const Layer* layer_of(std::string_view file) {
  const auto found = std::find_if(layers().begin(), layers().end(),
                                  [file](const Layer& layer) { return is_in(file, layer.folder); });
  return found == layers().end() ? nullptr : &*found;
}

bool is_standard(std::string_view target) {
  return target.find('/') == std::string_view::npos && target.find('.') == std::string_view::npos &&
         !target.starts_with('Q');
}

const Library* library_of(std::string_view target) {
  const auto begins = [target](std::string_view prefix) { return target.starts_with(prefix); };
  const auto found =
      std::find_if(libraries().begin(), libraries().end(), [&begins](const Library& library) {
        return std::any_of(library.prefixes.begin(), library.prefixes.end(), begins);
      });
  return found == libraries().end() ? nullptr : &*found;
}

/// Whether a file of `from` may include `target`. An outer folder ("planner") may include its inner
/// ones, and these its own files if the table says so, but not one another.
bool is_downward(const Layer& from, std::string_view target) {
  const Layer* const to = layer_of(target);
  if (to == nullptr) {
    return false;
  }
  // Searches stand above the planner: naming the folder around them is not enough.
  const bool inner = !to->folder.ends_with("/search");
  const auto allows = [&](std::string_view folder) {
    return to->folder == folder ||
           (inner && is_in(to->folder, folder) && !is_in(from.folder, folder));
  };
  return to->folder == from.folder || (inner && is_in(to->folder, from.folder)) ||
         std::any_of(from.may_include.begin(), from.may_include.end(), allows);
}

}  // namespace

TEST_CASE("layering: there is something to check") {
  // 100 includes is far below what the base alone has; a wrong path would make all tests pass.
  CHECK(product_includes().size() > 100);
}

TEST_CASE("layering: every include of our own points down") {
  for (const Include& include : product_includes()) {
    if (!include.is_quoted) {
      continue;
    }
    CAPTURE(place(include));
    const Layer* const from = layer_of(include.file);
    REQUIRE(from != nullptr);
    CHECK(is_downward(*from, include.target));
  }
}

TEST_CASE("layering: the table itself has no way up and no way round") {
  for (const Layer& from : layers()) {
    for (const Layer& to : layers()) {
      CAPTURE(from.folder);
      CAPTURE(to.folder);
      const std::string from_file = std::string(from.folder) + "/x.h";
      const std::string to_file = std::string(to.folder) + "/x.h";
      const bool both_ways = is_downward(from, to_file) && is_downward(to, from_file);
      // Inner folders of the planner stand on its search, which does not know them in its files.
      const bool nested = is_in(from.folder, to.folder) || is_in(to.folder, from.folder);
      CHECK((!both_ways || from.folder == to.folder || nested));
    }
  }
}

TEST_CASE("layering: our own includes are written from the root and exist") {
  for (const Include& include : product_includes()) {
    if (include.is_quoted) {
      CAPTURE(place(include));
      CHECK(std::filesystem::is_regular_file(std::filesystem::path(HEADROOM_SOURCE_DIR) /
                                             include.target));
    }
  }
}

TEST_CASE("layering: libraries are included where the table says, and not in headers") {
  for (const Include& include : product_includes()) {
    if (include.is_quoted || is_standard(include.target)) {
      continue;
    }
    CAPTURE(place(include));
    const Library* const library = library_of(include.target);
    REQUIRE(library != nullptr);  // Another library needs a row in the table, and a reason.
    CHECK(std::any_of(library->folders.begin(), library->folders.end(),
                      [&include](std::string_view folder) { return is_in(include.file, folder); }));
    CHECK((library->in_headers || include.file.ends_with(".cpp")));
  }
}

TEST_CASE("layering: only one file pays for the compile time of CLI11") {
  std::set<std::string> files;
  for (const Include& include : product_includes()) {
    if (include.target.starts_with("CLI/")) {
      files.insert(include.file);
    }
  }
  CHECK(files.size() <= 1);
}

TEST_CASE("layering: what the compiler 12 of GCC or 14 of Clang lacks is not included") {
  for (const Include& include : product_includes()) {
    for (const char* lacking : {"format", "expected", "source_location", "print", "stacktrace"}) {
      CAPTURE(place(include));
      CHECK(include.target != lacking);
    }
  }
}

TEST_CASE("layering: nothing of the product includes tests or configs") {
  for (const Include& include : product_includes()) {
    CAPTURE(place(include));
    CHECK_FALSE(include.target.starts_with("tests/"));
    CHECK_FALSE(include.target.starts_with("configs/"));
  }
}

TEST_CASE("layering: a source includes its own header first") {
  for (const std::string& file : files_below({product_folders(), {".cpp"}})) {
    std::string header = file.substr(0, file.size() - 3) + "h";
    if (!std::filesystem::is_regular_file(std::filesystem::path(HEADROOM_SOURCE_DIR) / header)) {
      continue;
    }
    CAPTURE(file);
    const std::vector<Include> includes = includes_of(file);
    REQUIRE_FALSE(includes.empty());
    CHECK(includes.front().target == header);
  }
}

TEST_CASE("layering: every header begins with pragma once") {
  for (const std::string& file : files_below(
           {{"model_ir", "runtimes", "costmodel", "planner", "validators", "cli", "gui", "tests"},
            {".h"}})) {
    CAPTURE(file);
    CHECK(text_of(file).starts_with("#pragma once\n"));
  }
}

}  // namespace headroom::arch
