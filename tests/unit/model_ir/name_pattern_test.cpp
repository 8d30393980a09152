#include "runtimes/checkpoint/name_pattern.h"

#include <regex>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace headroom::ir::checkpoint {

TEST_CASE("name pattern: prefixes and whole names, as Python's re matches them") {
  struct Match {
    const char* pattern;
    const char* name;
    bool prefix;
    bool all;
  };
  for (const Match& one : {
           Match{"lm_head", "lm_head", true, true},
           Match{"model.layers.1", "model.layers.10.mlp", true, false},
           Match{"model.layers.1", "modelxlayersx1", true, true},  // A dot is any letter.
           Match{".*lm_head", "language_model.lm_head", true, true},
           Match{"model.layers.*.self_attn", "model.layers.3.self_attn.q_proj", true, false},
           Match{".*mlp\\.gate$", "model.layers.3.mlp.gate", true, true},
           Match{".*mlp\\.gate$", "model.layers.3.mlp.gate_proj", false, false},
           Match{"(a|bc)+d", "abcad", true, true},
           Match{"^x[0-9]+y?$", "x12", true, true},
           Match{"a|b|c", "c", true, true},
           Match{"[^.]+", "a.b", true, false},
           Match{"\\d\\w\\s", "1a ", true, true},
           Match{"(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false, false},
       }) {
    CAPTURE(one.pattern);
    CAPTURE(one.name);
    const auto pattern = NamePattern::compile(one.pattern);
    REQUIRE(pattern);
    CHECK(pattern->matches_prefix(one.name) == one.prefix);
    CHECK(pattern->matches_all(one.name) == one.all);
  }
}

TEST_CASE("name pattern: what is no expression that can be read is refused") {
  for (const char* text : {"*a", "a**", "(a", "a)", "[a", "a{2}", "(?!a)b", "a\\", "\\1", "+"}) {
    CAPTURE(text);
    CHECK_FALSE(NamePattern::compile(text));
  }
  CHECK_FALSE(NamePattern::compile(std::string(2'000, '.') + "*"));
  CHECK_FALSE(NamePattern::compile(std::string(100, '(')));
}

TEST_CASE("name pattern: wildcards of file names") {
  CHECK(NamePattern::wildcard("model.layers.0.self_attn*")
            .matches_all("model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(NamePattern::wildcard("model.layers.0*").matches_all("model.layers.1.mlp"));
  CHECK(NamePattern::wildcard("*.g?te").matches_all("mlp.gate"));
  CHECK_FALSE(NamePattern::wildcard("lm_head").matches_all("lm_head2"));
}

TEST_CASE("property: a name pattern matches what the standard library's expressions match") {
  test::Random random = test::seeded_random();
  const std::string letters = "ab.|()*+?";
  for (int i = 0; i < 2'000; ++i) {
    std::string text;
    for (std::int64_t size = random.between(1, 7); size > 0; --size) {
      text += letters[static_cast<std::size_t>(random.between(0, 8))];
    }
    std::string name;
    for (std::int64_t size = random.between(0, 5); size > 0; --size) {
      name += "ab"[random.between(0, 1)];
    }
    CAPTURE(text);
    CAPTURE(name);
    const auto pattern = NamePattern::compile(text);
    if (!pattern) {
      continue;
    }
    const std::regex expression(text);
    CHECK(pattern->matches_all(name) == std::regex_match(name, expression));
    CHECK(pattern->matches_prefix(name) ==
          std::regex_search(name, expression, std::regex_constants::match_continuous));
  }
}

}  // namespace headroom::ir::checkpoint
