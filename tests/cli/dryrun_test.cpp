// Scripts stand in for training programs: each looks at its environment and writes a report.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX's signals.
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "tests/support/cli.h"
#include "tests/support/dryrun.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"
#include "validators/dryrun/child_process.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;
using test::DryRunFolder;
using test::kDryOomReport;
using test::kDryReport;
using test::replaced;

/// kDryReport with a recognised program: gpt2 under AdamW.
std::string recognised_report(std::string_view changes = {}) {
  const Document model(read_file(test::source_file("configs/models/gpt2.json")).value());
  std::string program = R"(, "program": {"param_dtype": "bfloat16", "optimizer": "AdamW",
    "micro_batch": 1, "sequence": 1024, "checkpointing": false, )";
  program += std::string(changes) + R"("config": )" + ir::to_json(model.at("config")) + "}}";
  return std::string(kDryReport.substr(0, kDryReport.size() - 1)) + program;
}

/// Whether the prediction is that of `fit`. The stand-in's addresses rise, a driver's do not, which
/// moves peaks by a few blocks.
void check_predicted(const Document& answer, const Document& fit) {
  for (const std::string kind : {"allocated", "reserved"}) {
    CAPTURE(kind);
    const std::int64_t expected = fit.integer("peak/" + kind + "_bytes");
    const std::int64_t off = answer.integer("prediction/peak_" + kind + "_bytes") - expected;
    CHECK(std::abs(off) < expected / 500);
  }
}

}  // namespace

TEST_CASE("dryrun: the screen says whether it fits, where it peaks and what was guessed") {
  const DryRunFolder folder;
  const Answer answer = DryRunFolder::run("", {folder.reporting(kDryReport)});
  CHECK(answer.code == ExitCode::kYes);
  // 85017493504 - 552402944 - 251658240 - 72000000000 bytes are 11.3 GiB.
  const std::string expected = read_file(test::source_file("tests/golden/dryrun/fits.txt")).value();
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(test::source_file("tests/golden/dryrun/fits.txt")) << answer.out;
  }
  CHECK(answer.out == expected);
  CHECK(folder.is_clean());
}

TEST_CASE("dryrun: out of memory says how much was missing, in which phase and which line asked") {
  const DryRunFolder folder;
  const Answer answer = DryRunFolder::run("--budget 24GB --gpus 8 --rank 3",
                                          {folder.reporting(kDryOomReport, "exit 1")});
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("does not fit, at least 1.00 GiB short"));
  CHECK(answer.says("out of memory in step 1, backward, asking for 2.00 GiB"));
  CHECK(answer.says("asked by train.py:31 loss\n"));
  CHECK(answer.says("ended with torch.OutOfMemoryError, exit code 1"));
  CHECK(answer.says("rank 3 of 8"));
  CHECK(answer.says("--budget"));
  CHECK(answer.says("largest when it ran out of memory"));
}

TEST_CASE("dryrun: an error that the program caught makes the answer tight, not a no") {
  const DryRunFolder folder;
  const std::string report =
      replaced(kDryOomReport, R"("stopped": "exception")", R"("stopped": "steps")");
  const Answer answer = DryRunFolder::run("", {folder.reporting(report)});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("tight"));
  CHECK(answer.says("the program caught the error"));
}

TEST_CASE("dryrun: attempts before the batch that fits are listed, and what ran is judged") {
  const DryRunFolder folder;
  const std::string report =
      replaced(kDryReport, R"("stopped": "steps")",
               R"("stopped": "steps", "caught": [{"requested": 3221225472, "free": 1073741824,
        "phase": "backward", "step": 1, "batch": [8, 4096], "where": "train.py:31 loss"}])");
  const Answer answer = DryRunFolder::run("", {folder.reporting(report)});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("fits, 11.3 GiB to spare"));
  CHECK(answer.says("step 1, backward, batch 8 x 4096: 2.00 GiB missing, 3.00 GiB asked for by"));
  CHECK(answer.says("are of what ran afterwards"));
  const Document document(DryRunFolder::run("--json", {folder.reporting(report)}).out);
  CHECK(document.integer("processes/0/caught_out_of_memory/0/missing_bytes") == 2'147'483'648);
  CHECK(document.integer("processes/0/caught_out_of_memory/0/batch/0") == 8);
}

TEST_CASE("dryrun: the program gets its environment, and ours stays as it was") {
  const DryRunFolder folder;
  const std::vector<std::string> before = check::own_environment();
  const std::string program =
      folder.reporting(kDryReport, "env > '" + folder.path("environment") + "'");
  const Answer answer =
      DryRunFolder::run("--gpus 64 --rank 9 --steps 5 --routing skewed:0.3 --lag 7 --snapshot " +
                            folder.path("memory.pickle"),
                        {program});
  CHECK(answer.code == ExitCode::kYes);
  const std::string seen = "\n" + read_file(folder.path("environment")).value();
  const auto has = [&seen](std::string_view line) {
    return seen.find("\n" + std::string(line)) != std::string::npos;
  };
  const std::string home = folder.path("home");
  CHECK(has("LD_PRELOAD=" + home + "/lib/libheadroom_gpu.so:" + home + "/lib/libcudart.so.12"));
  CHECK(has("PYTHONPATH=" + home + "/python"));
  for (const char* line :
       {"HEADROOM_DRYRUN_STEPS=5\n", "HEADROOM_DRYRUN_WORLD=64\n", "HEADROOM_DRYRUN_RANK=9\n",
        "HEADROOM_DRYRUN_PER_NODE=8\n", "HEADROOM_DRYRUN_ROUTING=skewed:0.3\n",
        "HEADROOM_GPU_BYTES=85017493504\n", "HEADROOM_GPU_CC=90\n", "HEADROOM_GPU_SMS=132\n",
        "HEADROOM_GPU_NAME=NVIDIA H100 80GB HBM3\n", "HEADROOM_GPU_COUNT=8\n",
        "HEADROOM_GPU_LAG=7\n", "TORCH_CUDNN_SDPA_PREFERRED=0\n",
        "TORCH_NCCL_RANKS_PER_ROOT=1000000\n"}) {
    CAPTURE(line);
    CHECK(has(line));
  }
  // The context, kernels and the communicator that `fit` counts outside PyTorch on an H100.
  CHECK(has("HEADROOM_GPU_CONTEXT=1395458048\n"));
  CHECK(has("HEADROOM_DRYRUN_SNAPSHOT=" + folder.path("memory.pickle")));
  CHECK(check::own_environment() == before);
  CHECK(folder.is_clean());
}

TEST_CASE("dryrun: without --gpus, and with --all-ranks, the program is told of no world") {
  const DryRunFolder folder;
  const std::string program =
      folder.reporting(kDryReport, "env > '" + folder.path("environment") + "'");
  for (const char* options : {"", "--all-ranks", "--all-ranks --gpus 4"}) {
    CAPTURE(options);
    CHECK(DryRunFolder::run(options, {program}).code == ExitCode::kYes);
    const std::string seen = read_file(folder.path("environment")).value();
    CHECK(seen.find("HEADROOM_DRYRUN_WORLD") == std::string::npos);
    const std::string devices = std::string(options).empty()            ? "1"
                                : std::string(options) == "--all-ranks" ? "8"
                                                                        : "4";
    CHECK(seen.find("HEADROOM_GPU_COUNT=" + devices + "\n") != std::string::npos);
  }
}

TEST_CASE("dryrun: a folder with blanks and colons in its name can be preloaded") {
  const DryRunFolder folder;
  const std::string odd = folder.path("a b:c");
  std::filesystem::create_directory_symlink(folder.path("home"), odd);
  setenv("HEADROOM_DRYRUN_HOME", odd.c_str(), 1);
  const std::string program =
      folder.reporting(kDryReport, "env > '" + folder.path("environment") +
                                       "'\n"
                                       "test -e \"${LD_PRELOAD%%:*}\" || exit 7\n"
                                       "test -e \"$PYTHONPATH/sitecustomize.py\" || exit 8");
  const Answer answer = DryRunFolder::run("--json", {program});
  CHECK(Document(answer.out).integer("command/exit_code") == 0);
  CHECK(folder.is_clean());
}

TEST_CASE("dryrun: with --json the answer is one document as the schema says, and exact") {
  const DryRunFolder folder;
  const ir::JsonValue schema = test::read_schema("dryrun.schema.json");
  for (const std::string& report :
       {std::string(kDryReport), std::string(kDryOomReport), recognised_report(),
        replaced(kDryReport, R"("stopped": "steps")",
                 R"("stopped": "steps", "caught": [{"requested": 3, "batch": [8]}])")}) {
    for (const char* last : {"exit 0", "exit 3", "kill -TERM $$"}) {
      if (test::kSanitized && report != kDryReport && std::string_view(last) != "exit 0") {
        continue;
      }
      const std::string program =
          folder.reporting(report, "echo text of the program\n" + std::string(last));
      const Answer answer = DryRunFolder::run("--json", {program, "--json", "--", "x"});
      const Document document(answer.out);
      for (const std::string& fault : test::SchemaCheck::faults(schema, document.at(""))) {
        FAIL_CHECK(fault);
      }
    }
  }
  const Document document(
      DryRunFolder::run("--json", {folder.reporting(kDryReport, "exit 3")}).out);
  CHECK(document.text("verdict") == "fits");
  CHECK(document.integer("command/exit_code") == 3);
  CHECK(document.integer("peak_reserved_bytes") == 72'000'000'000);
  CHECK(document.integer("margin_bytes") ==
        85'017'493'504 - 552'402'944 - 251'658'240 - 72'095'938'816);
  CHECK(document.integer("processes/0/peak/by_category/optimizer_states") == 32'000'000'000);
}

TEST_CASE("dryrun: --output writes the document, and the screen is shown all the same") {
  const DryRunFolder folder;
  const std::string path = folder.path("answer.json");
  const Answer answer = DryRunFolder::run("--output " + path, {folder.reporting(kDryReport)});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("to spare"));
  CHECK(Document(read_file(path).value()).text("verdict") == "fits");
}

TEST_CASE("dryrun: a file that cannot be written is refused before the program starts") {
  const DryRunFolder folder;
  const std::string program = folder.reporting(kDryReport, "touch '" + folder.path("ran") + "'");
  for (const std::string& path : {folder.path("no/such/answer.json"), folder.path("home")}) {
    const Answer answer = DryRunFolder::run("--output " + path, {program});
    CHECK(answer.code == ExitCode::kEnvironment);
    CHECK(answer.complains("cannot be written"));
    CHECK_FALSE(std::filesystem::exists(folder.path("ran")));
  }
}

TEST_CASE("dryrun: the rank with the highest peak decides, the others stand in a table") {
  const DryRunFolder folder;
  folder.write("one.json",
               replaced(kDryReport, R"("rank": null, "world": null)", R"("rank": 1, "world": 2)"));
  std::string lower =
      replaced(kDryReport, R"("rank": null, "world": null)", R"("rank": 0, "world": 2)");
  lower = replaced(lower, R"("reserved": 72000000000, "device": 72900000000)",
                   R"("reserved": 71000000000, "device": 71900000000)");
  folder.write("zero.json", lower);
  const std::string program = folder.script(
      "train.sh", "cp '" + folder.path("one.json") + "' $HEADROOM_DRYRUN_DIR/1-1.json\ncp '" +
                      folder.path("zero.json") + "' $HEADROOM_DRYRUN_DIR/0-1.json\n" +
                      "echo half > $HEADROOM_DRYRUN_DIR/2-1.json.part");
  const Answer answer = DryRunFolder::run("--all-ranks", {program});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("rank 1 of 2"));
  CHECK(answer.says("  rank 0                  65.2 GiB       66.1 GiB\n"));
  CHECK(answer.says("  rank 1                  65.2 GiB       67.1 GiB  the highest\n"));
}

TEST_CASE("dryrun: micro-batches with the same figures are one line") {
  const DryRunFolder folder;
  std::string phases;
  for (int batch = 1; batch <= 16; ++batch) {
    for (const char* name : {"forward", "backward"}) {
      phases += R"(, {"name": ")" + std::string(name) + R"(", "step": 1, "micro_batch": )" +
                std::to_string(batch) + R"(, "peak_allocated": )" +
                (batch == 1 ? "30000000000" : "34000000000") + R"(, "peak_reserved": 36000000000})";
    }
  }
  const std::string report = replaced(
      replaced(kDryReport, R"("work": {"kernels": 0}})", R"("work": {"kernels": 0}})" + phases),
      R"("phase": 3)", R"("phase": 35)");
  const Answer answer = DryRunFolder::run("", {folder.reporting(report)});
  CAPTURE(answer.out);
  CHECK(answer.says("  step 1, forward, batch 2 to 16       31.7 GiB"));
  CHECK(answer.says("  step 1, backward, batch 2 to 16      31.7 GiB"));
  CHECK_FALSE(answer.says("micro-batch 3"));
}

TEST_CASE("dryrun: two programs of one command are said to be two") {
  const DryRunFolder folder;
  folder.write("one.json", kDryReport);
  const std::string copy = "cp '" + folder.path("one.json") + "' $HEADROOM_DRYRUN_DIR/";
  const Answer answer =
      DryRunFolder::run("", {folder.script("train.sh", copy + "0-1.json\n" + copy + "0-2.json")});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("programs of their own"));
}

TEST_CASE("dryrun: a program that ends with an error before its steps is not measured") {
  const DryRunFolder folder;
  const std::string report =
      replaced(kDryReport, R"("stopped": "steps")",
               R"("stopped": "exception", "exception": {"type": "KeyError", "message": "'text'",
                  "where": "train.py:7"})");
  const Answer answer = DryRunFolder::run("", {folder.reporting(report, "exit 1")});
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.says("not measured: the program ended with KeyError, exit code 1"));
  CHECK(answer.says("KeyError: 'text' (train.py:7)"));
  CHECK(answer.says("peak 65.2 GiB"));
  const Answer killed = DryRunFolder::run(
      "", {folder.reporting(replaced(kDryReport, "\"steps\"", "\"end\""), "kill -SEGV $$")});
  CHECK(killed.code == ExitCode::kEnvironment);
  CHECK(killed.says("not measured: the program was ended by signal 11"));
}

TEST_CASE("dryrun: each way to report nothing has its sentence") {
  struct Case {
    std::string lines;
    ExitCode code;
    std::string_view says;
  };
  const DryRunFolder folder;
  const std::string empty =
      R"({"version": 1, "phases": [], "stopped": "exception",
          "exception": {"type": "ImportError", "message": "no module named data", "where": "a.py:1"}})";
  for (const Case& given : std::initializer_list<Case>{
           {"exit 0", ExitCode::kBadInput, "ended without using a CUDA GPU"},
           {"exit 9", ExitCode::kBadInput, "ended with exit code 9 before it used the GPU"},
           {"kill -SEGV $$", ExitCode::kEnvironment, "was ended by signal 11 (SIGSEGV)"},
           {"echo '{\"version\": 1' > $HEADROOM_DRYRUN_DIR/0-1.json", ExitCode::kBadInput,
            "the report of a process of the program is damaged"},
           {"echo '{\"version\": 2, \"stopped\": \"end\"}' > $HEADROOM_DRYRUN_DIR/0-1.json",
            ExitCode::kBadInput, "/version"},
           {"echo '" + replaced(empty, "\n", "") + "' > $HEADROOM_DRYRUN_DIR/0-1.json",
            ExitCode::kBadInput, "ended with ImportError before it allocated anything"}}) {
    CAPTURE(given.lines);
    const Answer answer = DryRunFolder::run("", {folder.script("train.sh", given.lines)});
    CAPTURE(answer.err);
    CHECK(answer.code == given.code);
    CHECK(answer.complains(given.says));
    CHECK(answer.out.empty());
    CHECK(folder.is_clean());
  }
  const Answer missing = DryRunFolder::run("", {"no-such-program-at-all"});
  CHECK(missing.code == ExitCode::kEnvironment);
  CHECK(missing.complains("no-such-program-at-all: command not found"));
  CHECK(folder.is_clean());
}

TEST_CASE("dryrun: a PyTorch that cannot run on the stand-in is refused before it starts") {
  struct Case {
    std::string_view torch;
    std::string_view says;
  };
  const DryRunFolder folder;
  for (const Case& given : std::initializer_list<Case>{
           {R"({"version": "", "cuda": "", "hip": "", "shared": true})", "has no PyTorch"},
           {R"({"version": "2.11.0+cpu", "cuda": "", "hip": "", "shared": true})",
            "has PyTorch 2.11.0+cpu, a build without CUDA"},
           {R"({"version": "2.3.0+cu118", "cuda": "11.8", "hip": "", "shared": true})",
            "has PyTorch 2.3.0+cu118 for CUDA 11.8"},
           {R"({"version": "2.11.0+rocm6.4", "cuda": "", "hip": "6.4", "shared": true})",
            "a build for AMD's GPUs"},
           {R"({"version": "2.11.0", "cuda": "12.8", "hip": "", "shared": false})",
            "the CUDA runtime as a static library"}}) {
    CAPTURE(given.torch);
    const std::string python = folder.script(
        "bin/python3", "test \"$1\" = -c && echo '" + std::string(given.torch) + "' || exit 99");
    // A launcher says in its first line in which Python it runs.
    const std::string launcher = folder.write("bin/torchrun", "#!" + python + "\nimport sys\n");
    std::filesystem::permissions(launcher, std::filesystem::perms::owner_all);
    for (const std::string& program : {python, launcher}) {
      const Answer answer = DryRunFolder::run("", {program, "train.py"});
      CHECK(answer.code == ExitCode::kEnvironment);
      CHECK(answer.complains(given.says));
      CHECK(answer.complains("pip install torch"));
    }
  }
  const std::string good = folder.script(
      "bin/python3",
      R"(test "$1" = -c && echo '{"version": "2.11.0+cu130", "cuda": "13.0", "hip": "",
"shared": true}' || cp ')" +
          folder.write("report.json", kDryReport) + "' $HEADROOM_DRYRUN_DIR/0-1.json");
  CHECK(DryRunFolder::run("", {good, "train.py"}).code == ExitCode::kYes);
}

TEST_CASE("dryrun: missing libraries and missing Python files are named") {
  const DryRunFolder folder;
  std::filesystem::remove(folder.path("home/python/sitecustomize.py"));
  const Answer python = DryRunFolder::run("", {"true"});
  CHECK(python.code == ExitCode::kEnvironment);
  CHECK(python.complains("without the dry run's Python files"));
  std::filesystem::remove(folder.path("home/lib/libheadroom_gpu.so"));
  const Answer libraries = DryRunFolder::run("", {"true"});
  CHECK(libraries.code == ExitCode::kEnvironment);
  CHECK(libraries.complains("without the stand-ins for CUDA's libraries"));
}

TEST_CASE("dryrun: wrong options are refused with what to type") {
  struct Case {
    std::string line;
    std::string_view says;
  };
  for (const Case& given : std::initializer_list<Case>{
           {"dryrun --gpu mi300x -- true", "expected a GPU of NVIDIA"},
           {"dryrun --gpu h10 -- true", "the closest are"},
           {"dryrun -- true", "add --gpu h100"},
           {"dryrun --gpu h100 true", "put -- before it"},
           {"dryrun --gpu h100 --", "put -- before it"},
           {"dryrun --gpu h100 python train.py", "headroom dryrun --gpu h100 -- python train.py"},
           {"dryrun --gpu h100 --rank 3 -- true", "--gpus N as well"},
           {"dryrun --gpu h100 -- /etc/passwd", "start it with its interpreter"},
           {"dryrun --gpu h100 --gpus 0 -- true", "a whole number from 1"},
           {"dryrun --gpu h100 train.py -- true", "options only before --"},
           {"dryrun --gpu h100 --gpus 4 --rank 4 -- true", "--rank"},
           {"dryrun --gpu h100 --all-ranks --rank 1 -- true", "--all-ranks starts every rank"},
           {"dryrun --gpu h100 --routing even -- true", "skewed:F"},
           {"dryrun --gpu h100 --routing skewed:2 -- true", "skewed:F"},
           {"dryrun --gpu h100 --budget 500MiB -- true", "outside of PyTorch"},
           {"dryrun --gpu h100 --snapshot /no/such/folder/x -- true", "a folder that exists"},
           {"dryrun --gpu h100 --against /no/such/plan.json -- true", "/no/such/plan.json"},
           {"dryrun --gpu h100 --stepz 3 -- true", "use --steps"}}) {
    CAPTURE(given.line);
    const Answer answer = test::headroom(given.line);
    CHECK(answer.code != ExitCode::kYes);
    CHECK(answer.code != ExitCode::kBug);
    CHECK(answer.complains(given.says));
  }
}

TEST_CASE("dryrun: a recognised program is predicted by the facade of fit") {
  const DryRunFolder folder;
  const Document answer(DryRunFolder::run("--json", {folder.reporting(recognised_report())}).out);
  const Document fit =
      test::json_of("fit gpt2 --gpu h100-80gb --seq 1024 --attention sdpa-no-cudnn");
  check_predicted(answer, fit);
  CHECK(answer.integer("prediction/by_category/parameters") ==
        fit.integer("peak/by_role/parameters"));
  CHECK(answer.integer("prediction/off_allocated_bytes") ==
        70'000'000'000 - answer.integer("prediction/peak_allocated_bytes"));
  CHECK(answer.text("unpredicted").empty());
  // The catalogue has a model of these dimensions.
  CHECK(answer.text("next") == "headroom fit gpt2 --gpu h100-80gb");
}

TEST_CASE("dryrun: a program under autocast is predicted as one, and the answer says for what") {
  const DryRunFolder folder;
  const std::string report =
      replaced(recognised_report(R"("autocast": "bfloat16", )"), R"("param_dtype": "bfloat16")",
               R"("param_dtype": "float32")");
  const Document answer(DryRunFolder::run("--json", {folder.reporting(report)}).out);
  const Document fit = test::json_of(
      "fit gpt2 --gpu h100-80gb --seq 1024 --precision autocast-bf16 --attention sdpa-no-cudnn");
  check_predicted(answer, fit);
  if (test::kSanitized) {
    return;
  }
  CHECK(DryRunFolder::run("", {folder.reporting(report)})
            .says("predicted for --precision autocast-bf16"));
}

TEST_CASE("dryrun: out of memory before the optimizer, the prediction says what it assumes") {
  const DryRunFolder folder;
  std::string report = replaced(recognised_report(), R"("optimizer": "AdamW",)", "");
  report = replaced(report, R"("stopped": "steps",)",
                    R"("stopped": "exception", "oom": {"requested": 2000, "free": 1000},)");
  const Answer answer = DryRunFolder::run("", {folder.reporting(report, "exit 1")});
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("the optimizer is taken to be adamw"));
  CHECK(answer.says("next: headroom fit gpt2"));
}

TEST_CASE("dryrun: what is not modelled of a program is said in one phrase") {
  struct Case {
    std::string report;
    std::string_view says;
  };
  const DryRunFolder folder;
  for (const Case& given : std::initializer_list<Case>{
           {std::string(kDryReport), "nothing of the model and its plan was recognised"},
           {replaced(recognised_report(), "\"AdamW\"", "\"Shampoo\""),
            "the optimizer is Shampoo, which is not modelled"},
           {replaced(recognised_report(), "\"micro_batch\": 1, \"seq", "\"seq"),
            "the shape of a batch was not recognised"},
           {recognised_report(R"("wrapper": "deepspeed", )"), "the settings of the wrapper"},
           {replaced(recognised_report(), "\"config\": {", "\"other\": {"),
            "no configuration of a transformers model was found"}}) {
    const Answer answer = DryRunFolder::run("", {folder.reporting(given.report)});
    CAPTURE(answer.out);
    CHECK(answer.code == ExitCode::kYes);
    CHECK(answer.says("\nno prediction\n"));
    CHECK(answer.says(given.says));
  }
}

TEST_CASE("dryrun: --against compares with a given plan, and next asks about it") {
  const DryRunFolder folder;
  const std::string plan = folder.path("plan.json");
  CHECK(test::headroom("plan gpt2 --gpu h100-80gb --runtime transformers --global-batch 2 "
                       "--output " +
                       plan)
            .code == ExitCode::kYes);
  const Answer answer = DryRunFolder::run("--against " + plan, {folder.reporting(kDryReport)});
  CHECK(answer.says("\nprediction           predicted    measured\n"));
  CHECK(answer.says("  everything else"));
  CHECK(answer.says("Believe the measured figures"));
  CHECK(answer.says("next: headroom fit --plan " + plan));
}

TEST_CASE("dryrun: signals are passed on to the program, and what was measured is shown") {
  const DryRunFolder folder;
  const std::string program =
      folder.script("train.sh", "trap 'cp " + folder.write("report.json", kDryReport) +
                                    " $HEADROOM_DRYRUN_DIR/0-1.json; exit 5' TERM\n"
                                    "touch " +
                                    folder.path("started") +
                                    "\n"
                                    "while :; do sleep 0.02; done");
  // Threads would take the signal themselves, so a process of its own sends it to this one.
  const std::string sender = folder.script("send.sh", "while ! test -e " + folder.path("started") +
                                                          "; do sleep 0.02; done\n"
                                                          "kill -TERM " +
                                                          std::to_string(getpid()));
  CHECK(std::system((sender + " &").c_str()) == 0);
  const Answer answer = DryRunFolder::run("", {program});
  CHECK(answer.code == ExitCode::kTerminated);
  CHECK(answer.says("was interrupted"));
  CHECK(folder.is_clean());
}

TEST_CASE("dryrun: a program ends when the process that started it is killed") {
  const DryRunFolder folder;
  const std::string program = folder.script(
      "train.sh", "echo $$ > '" + folder.path("id.part") + "'\nmv '" + folder.path("id.part") +
                      "' '" + folder.path("id") + "'\nexec sleep 600");
  const pid_t starter = fork();
  if (starter == 0) {
    const auto ended = check::run_child(
        {.command = {program}, .environment = check::own_environment(), .output_to_error = true});
    _exit(ended ? 0 : 1);
  }
  while (!std::filesystem::exists(folder.path("id"))) {
    usleep(10'000);
  }
  const int child = std::stoi(read_file(folder.path("id")).value());
  CHECK(kill(child, 0) == 0);
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  // Whoever adopts the child takes it from the table of processes, or leaves it there as ended.
  const auto alive = [child] {
    std::ifstream file("/proc/" + std::to_string(child) + "/stat");
    std::string word;
    file >> word >> word >> word;
    return !word.empty() && word != "Z" && word != "X";
  };
  for (int tries = 0; tries < 6'000 && alive(); ++tries) {
    usleep(10'000);
  }
  CHECK_FALSE(alive());
}

TEST_CASE("dryrun: its help shows how the command is typed") {
  const Answer help = test::headroom("dryrun --help");
  CHECK(help.code == ExitCode::kYes);
  CHECK(help.says("usage: headroom dryrun [OPTIONS] -- COMMAND..."));
  CHECK(help.says("example: headroom dryrun --gpu h100-80gb -- python train.py"));
  for (const char* option : {"--gpu ", "--budget ", "--gpus ", "--rank ", "--all-ranks", "--steps ",
                             "--routing ", "--lag ", "--snapshot ", "--against ", "--json"}) {
    CAPTURE(option);
    CHECK(help.says("\n  " + std::string(option)));
  }
  // The words behind -- are not ours.
  CHECK(test::headroom("dryrun --gpu nothing -- true --help").code == ExitCode::kUsage);
}

}  // namespace headroom::cli
