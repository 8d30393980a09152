#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random.h"

namespace headroom::test {

/// One to four random changes of a JSON text: a token is removed, repeated, exchanged with another
/// one or replaced by a hostile value, or `mutated_bytes` does its work. The result need not be
/// JSON.
[[nodiscard]] std::string mutated_json(std::string_view text, Random& random);

/// One to four random changes of any bytes: bits flipped, stretches removed, repeated or
/// overwritten, the end cut off.
[[nodiscard]] std::string mutated_bytes(std::string_view bytes, Random& random);

/// One to four random changes of a pickle: an operation or a few are put in or written over others,
/// a number becomes a hostile one, or `mutated_bytes` does its work.
[[nodiscard]] std::string mutated_pickle(std::string_view bytes, Random& random);

/// One to three random changes of a command line: a word is removed, repeated, exchanged with
/// another one, taken from `pool`, replaced by a hostile value or changed inside.
[[nodiscard]] std::vector<std::string> mutated_words(std::vector<std::string> words,
                                                     const std::vector<std::string>& pool,
                                                     Random& random);

}  // namespace headroom::test
