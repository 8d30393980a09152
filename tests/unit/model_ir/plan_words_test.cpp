#include "model_ir/plan/plan_words.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/registry.h"

namespace headroom::ir {

TEST_CASE("parse_word: every word names its value and comes back") {
  const auto check = [](const auto words) {
    for (const auto& word : words) {
      CHECK(word_of(words, word.value) == word.text);
      CHECK(parse_word(words, "option", word.text).value() == word.value);
    }
  };
  check(precision_words());
  check(optimizer_words());
  check(attention_words());
  check(loss_words());
  check(offload_words());
}

TEST_CASE("parse_word: an unknown word is refused with all words and the closest one") {
  const auto found = parse_word(attention_words(), "attention", "egaer");
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::kInvalidArgument);
  CHECK(found.error().key == "attention");
  CHECK(found.error().got == "egaer");
  CHECK(found.error().wanted == "one of sdpa, eager, flash, sdpa-no-cudnn");
  CHECK(found.error().fix == "use 'eager'");
}

TEST_CASE("parse_checkpointing: words and steps") {
  CHECK(parse_checkpointing("c", "none").value() == Checkpointing{});
  CHECK(parse_checkpointing("c", "full").value() == Checkpointing{Recompute::kFull, 1, 0});
  CHECK(parse_checkpointing("c", "every-4").value() == Checkpointing{Recompute::kFull, 4, 0});
  CHECK(parse_checkpointing("c", "every-2-reentrant").value() ==
        Checkpointing{Recompute::kFullReentrant, 2, 0});
  CHECK(parse_checkpointing("c", "first-8").value() == Checkpointing{Recompute::kFull, 1, 8});
  CHECK(parse_checkpointing("c", "first-8-reentrant").value() ==
        Checkpointing{Recompute::kFullReentrant, 1, 8});
  for (const char* text :
       {"", "ful", "first-", "first-0", "first-x", "every-", "every-0", "every-x", "every-2x",
        "every--1", "every-99999999999999999999", "FULL"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_checkpointing("c", text));
  }
}

TEST_CASE("checkpointing_text: reads back") {
  for (const Recompute recompute : {Recompute::kFull, Recompute::kFullReentrant}) {
    for (const std::int64_t every : {1, 2, 7}) {
      for (const Checkpointing& one :
           {Checkpointing{recompute, every, 0}, Checkpointing{recompute, 1, every}}) {
        CHECK(parse_checkpointing("c", checkpointing_text(one)).value() == one);
      }
    }
  }
  CHECK(checkpointing_text({}) == "none");
}

TEST_CASE("describe: adapters, Liger and the layers that are recomputed are named") {
  ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.world = 8;
  plan.recompute = Recompute::kFull;
  plan.recompute_every = 11;
  edit_zero(plan).stage = 3;
  const auto says = [&plan](std::string_view words) {
    return runtime_of(plan).describe(plan).find(words) != std::string::npos;
  };
  CHECK(says("recomputes one layer in 11"));
  CHECK_FALSE(says("LoRA"));
  plan.lora = LoraPlan{};
  plan.lora->rank = 8;
  plan.liger = true;
  CHECK(says(", LoRA r=8"));
  CHECK(says(", liger"));
  plan.quant = QuantPlan{};
  CHECK(says("QLoRA r=8"));
  plan.quant->bits = 8;
  plan.lora->dora = true;
  CHECK(says("8-bit DoRA r=8"));
}

}  // namespace headroom::ir
