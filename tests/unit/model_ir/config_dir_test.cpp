#include "model_ir/base/config_dir.h"

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"

namespace headroom {

TEST_CASE(
    "find_config_dir: option, then environment, then beside the program, then the source tree") {
  const test::TemporaryFolder folder;
  for (const char* place :
       {"option", "variable", "opt/configs", "prefix/share/headroom/configs", "source/configs"}) {
    folder.write(std::string(place) + "/hardware/aliases.json", "{}");
  }
  ConfigDirQuery query = {.option = folder.path("option"),
                          .environment = folder.path("variable"),
                          .program = folder.path("opt/headroom"),
                          .source_tree = folder.path("source/configs")};
  CHECK(*find_config_dir(query) == ConfigDir{folder.path("option"), "--config-dir"});
  query.option.reset();
  CHECK(*find_config_dir(query) == ConfigDir{folder.path("variable"), "HEADROOM_CONFIG_DIR"});
  query.environment.reset();
  CHECK(*find_config_dir(query) == ConfigDir{folder.path("opt/configs"), "installed"});
  query.program = folder.path("prefix/bin/headroom");
  CHECK(*find_config_dir(query) ==
        ConfigDir{folder.path("prefix/share/headroom/configs"), "installed"});
  query.program = folder.path("elsewhere/headroom");
  CHECK(*find_config_dir(query) == ConfigDir{folder.path("source/configs"), "source tree"});
  query.program.clear();
  CHECK(find_config_dir(query)->origin == "source tree");
}

TEST_CASE("find_config_dir: a place that a person named must exist") {
  const test::TemporaryFolder folder;
  folder.write("source/hardware/aliases.json", "{}");
  ConfigDirQuery query = {.option = folder.path("missing"),
                          .environment = std::nullopt,
                          .program = {},
                          .source_tree = folder.path("source")};
  const auto by_option = find_config_dir(query);
  REQUIRE_FALSE(by_option);
  CHECK(by_option.error().code == ErrorCode::kEnvironment);
  CHECK(by_option.error().file == folder.path("missing"));
  query.option = folder.write("file", "not a folder");
  CHECK_FALSE(find_config_dir(query));
  query.option.reset();
  query.environment = folder.path("missing");
  const auto by_variable = find_config_dir(query);
  REQUIRE_FALSE(by_variable);
  CHECK(by_variable.error().fix.find("HEADROOM_CONFIG_DIR") != std::string::npos);
}

TEST_CASE("find_config_dir: if there is none, every place that was tried is named") {
  const auto none = find_config_dir(ConfigDirQuery{.option = std::nullopt,
                                                   .environment = std::nullopt,
                                                   .program = "/nowhere/bin/headroom",
                                                   .source_tree = "/gone/configs"});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kEnvironment);
  for (const char* place :
       {"/nowhere/bin/configs", "/nowhere/share/headroom/configs", "/gone/configs"}) {
    CAPTURE(place);
    CHECK(none.error().file.find(place) != std::string::npos);
  }
}

}  // namespace headroom
