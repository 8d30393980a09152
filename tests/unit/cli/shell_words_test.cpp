#include "cli/shell_words.h"

#include <doctest/doctest.h>

namespace headroom::cli {

TEST_CASE("shell words: the launchers' variables stay variables, every other dollar is quoted") {
  CHECK(shell_word_with_variables("$HEAD_NODE:29500") == "$HEAD_NODE:29500");
  CHECK(shell_word_with_variables("$NODE_RANK") == "$NODE_RANK");
  CHECK(shell_word_with_variables("$HEAD_NODE:a b") == "$HEAD_NODE':a b'");
  CHECK(shell_word_with_variables("$NODE_RANK_OF") == "'$NODE_RANK_OF'");
  CHECK(shell_word_with_variables("$(rm -r x)") == "'$(rm -r x)'");
  CHECK(shell_word_with_variables("$HOME:x") == "'$HOME:x'");
  CHECK(shell_word_with_variables("train.py") == "train.py");
}

}  // namespace headroom::cli
