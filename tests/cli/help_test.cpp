// `headroom VERB --help` and its pages, read by somebody who has never seen the program.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/plan_parts.h"
#include "tests/support/cli.h"

namespace headroom::cli {
namespace {

using test::Answer;

std::size_t count_options(const std::string& help) {
  std::size_t count = 0;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    count += line.starts_with("  --") ? 1U : 0U;
  }
  return count;
}

/// The names of the pages that a verb's help lists.
std::vector<std::string> pages_of(const std::string& help) {
  std::vector<std::string> pages;
  std::istringstream lines(help.substr(std::min(help.find("--help TOPIC"), help.size())));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    if (line.starts_with("  ") && line[2] != ' ') {
      pages.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return pages;
}

}  // namespace

TEST_CASE("help: fit and plan show the options that many people use, and name their pages") {
  for (const char* verb : {"fit", "plan", "explain", "timeline", "sweep", "emit deepspeed"}) {
    CAPTURE(verb);
    const Answer help = test::headroom(std::string(verb) + " --help");
    CHECK(count_options(help.out) >= 15);
    CHECK(count_options(help.out) <= 28);
    for (const char* option : {"--gpus ", "--precision ", "--micro-batch ", "--seq "}) {
      CAPTURE(option);
      CHECK(help.says("\n  " + std::string(option)));
    }
    CHECK(help.says("--help TOPIC"));
    CHECK(help.says("\n  all "));
  }
  CHECK(test::headroom("fit --help").says("\n  megatron "));
  CHECK_FALSE(test::headroom("fit --help").says("overlap-grad-reduce"));
}

TEST_CASE("help: every option of a verb stands on one of its pages") {
  for (const char* verb : {"fit", "plan", "timeline", "sweep", "emit"}) {
    const std::string all = test::headroom(std::string(verb) + " --help all").out;
    std::string pages;
    for (const std::string& page : pages_of(test::headroom(std::string(verb) + " --help").out)) {
      const Answer answer = test::headroom(std::string(verb) + " --help " + page);
      CAPTURE(page);
      CHECK(answer.code == ExitCode::kYes);
      pages += page == "all" ? "" : answer.out;
    }
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  --")) {
        const std::string option = line.substr(0, line.find(' ', 4));
        CAPTURE(verb);
        CAPTURE(option);
        CHECK(pages.find("\n" + option) != std::string::npos);
      }
    }
  }
}

TEST_CASE("help: the page of a framework has every key of its table, with default and own name") {
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    const Answer page = test::headroom("fit --help " + std::string(part->option));
    std::string plain;  // Without line breaks, which can be anywhere.
    std::istringstream words(page.out);
    for (std::string word; words >> word;) {
      plain += word + " ";
    }
    for (const ir::OptionField& field : part->fields) {
      if (field.in_spec) {
        CAPTURE(field.name);
        CHECK(plain.find(std::string(field.own.name)) != std::string::npos);
        std::string key(field.key);
        std::ranges::replace(key, '_', '-');
        CHECK(page.says("\n    " + key));
      }
    }
  }
  CHECK(test::headroom("fit --help megatron").says("recompute=none|selective|uniform|block"));
  CHECK(test::headroom("fit --help fsdp").says("reshard=yes|no"));
  CHECK(test::headroom("fit --help deepspeed").out == test::headroom("fit --help zero").out);
}

TEST_CASE("help: pages about adapters, the allocator, hardware, and one option") {
  CHECK(test::headroom("fit --help lora").says("\n    r=N"));
  CHECK(test::headroom("fit --help qlora").says("\n    bits=4|8"));
  CHECK(test::headroom("fit --help allocator").says("\n    max_split_size_mb:N"));
  CHECK(test::headroom("fit --help hardware").says("\n  --network RATE"));

  CHECK(test::headroom("plan --help megatron").says("\n  --overlap-grad-reduce SWITCH"));
  CHECK(test::headroom("help fit megatron").out == test::headroom("fit --help megatron").out);
}

TEST_CASE("help: an unknown page is refused with the closest one") {
  const Answer answer = test::headroom("fit --help megatrn");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("headroom fit --help megatron"));
  CHECK(answer.out.empty());
}

TEST_CASE("help: defaults are one phrase, not two joined by a semicolon") {
  for (const char* line : {"fit --help all", "plan --help all"}) {
    const std::string help = test::headroom(line).out;
    for (std::size_t at = help.find("[default:"); at != std::string::npos;
         at = help.find("[default:", at + 1)) {
      const std::string usual = help.substr(at, help.find(']', at) - at);
      CAPTURE(usual);
      CHECK(usual.find(';') == std::string::npos);
    }
  }
}

TEST_CASE("messages: what is refused names what to type") {
  struct Case {
    std::string_view line;
    std::string_view says;
  };
  for (const Case& given : std::initializer_list<Case>{
           {"--megatron recompute=full", "full recomputation is uniform or block"},
           {"--megatron recompute-modules=mlp", "needs recompute=selective"},
           {"--gpus 2 --megatron cp=2,attention=unfused", "attention=fused or flash"},
           {"--tpp 2", "--tpp is not an option of headroom fit"},
           {"--zero", "type --zero STAGE"},
           {"--gpus 1 --gpus 2", "--gpus is given more than once"},
           {"--json=yes", "--json takes no value"},
           {"--lora rnk=3", "use 'r"},
           {"--lora banana=3", "one of r, dropout, dora, rslora, targets, save"}}) {
    CAPTURE(given.line);
    const Answer answer = test::headroom("fit gpt2 --gpu h100 " + std::string(given.line));
    CHECK(answer.code == ExitCode::kUsage);
    CAPTURE(answer.err);
    CHECK(answer.complains(given.says));
    CHECK_FALSE(answer.complains("use ''"));
  }
}

}  // namespace headroom::cli
