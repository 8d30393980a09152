#include "tests/arch/missing_includes.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

using Findings = std::vector<std::string>;

/// What a file of this text lacks beside a few headers.
Findings findings_in(const std::string& text, const std::string& path = "base/user.h") {
  SourceSet sources;
  sources.add({.path = "base/bytes.h",
               .text = "#pragma once\n#include <cstdint>\nnamespace headroom {\n"
                       "struct Bytes { std::int64_t value; };\n"
                       "constexpr int kGiB = 1;\nBytes rounded(Bytes bytes);\n}\n"});
  sources.add({.path = "base/plan.h",
               .text = "#pragma once\n#include \"base/bytes.h\"\nnamespace headroom {\n"
                       "struct Plan { Bytes peak; };\nenum class Mode { kFast, kSlow };\n"
                       "#define HEADROOM_CHECK(x) (x)\n}\n"});
  sources.add({.path = "base/announced.h", .text = "namespace headroom {\nstruct Plan;\n}\n"});
  sources.add({.path = path, .text = text});
  return missing_includes(sources, path);
}

}  // namespace

TEST_CASE("includes: every file compiles by itself, wherever a unity build puts it") {
  std::vector<std::string_view> folders = product_folders();
  folders.emplace_back("tests");
  SourceSet sources;
  for (const std::string& file : files_below({folders, {".h", ".cpp"}})) {
    sources.add({.path = file, .text = text_of(file)});
  }
  CHECK(sources.files().size() > 500);
  for (const auto& file : sources.files()) {
    CAPTURE(file.first);
    for (const std::string& missing : missing_includes(sources, file.first)) {
      FAIL_CHECK(missing);
    }
  }
}

TEST_CASE("includes: a standard name needs a header that gives it") {
  CHECK(findings_in("std::span<int> all;") == Findings{"span needs span"});
  CHECK(findings_in("#include <span>\nstd::span<int> all;").empty());
  CHECK(findings_in("#include \"base/plan.h\"\nstd::int64_t all;").empty());  // Through bytes.h.
  CHECK(findings_in("auto x = std::next(begin);") == Findings{"next needs iterator"});
  CHECK(findings_in("int most = INT64_MAX;") == Findings{"INT64_MAX needs cstdint"});
  CHECK(findings_in("std::no_such_name all;") ==
        Findings{"no_such_name needs a row of tests/arch/standard_names.cpp"});
}

TEST_CASE("includes: a type, a constant or a macro of ours needs its header") {
  CHECK(findings_in("Bytes peak;") == Findings{"Bytes needs base/bytes.h"});
  CHECK(findings_in("headroom::Bytes peak();") == Findings{"Bytes needs base/bytes.h"});
  CHECK(findings_in("int all = 2 * kGiB;") == Findings{"kGiB needs base/bytes.h"});
  CHECK(findings_in("void run() { HEADROOM_CHECK(1); }") ==
        Findings{"HEADROOM_CHECK needs base/plan.h"});
  CHECK(findings_in("void set(Mode mode = Mode::kFast);") == Findings{"Mode needs base/plan.h"});
  CHECK(findings_in("#include \"base/plan.h\"\nBytes peak; Plan plan; int x = kGiB;").empty());
}

TEST_CASE("includes: a function of ours needs its header where it is called") {
  CHECK(findings_in("inline auto f(int x) { return rounded(x); }") ==
        Findings{"rounded needs base/bytes.h"});
  CHECK(findings_in("inline auto f(Any x) { return x.rounded(x) + my::rounded(x); }").empty());
  CHECK(findings_in("int rounded(int x);\nint f() { return rounded(1); }").empty());
}

TEST_CASE("includes: an announced type serves for references, not for values") {
  const std::string announced = "#include \"base/announced.h\"\n";
  CHECK(findings_in(announced + "void run(const Plan& plan, Plan* other);").empty());
  CHECK(findings_in(announced + "struct Run { Plan plan; };") ==
        Findings{"Plan needs base/plan.h"});
  CHECK(findings_in("void run(const Plan& plan);") == Findings{"Plan needs base/plan.h"});
}

TEST_CASE("includes: names of its own and of others are not ours") {
  CHECK(findings_in("struct Bytes {}; Bytes peak;").empty());
  CHECK(findings_in("struct Run { struct Bytes {}; Bytes peak; };").empty());
  CHECK(findings_in("template <typename Bytes> void run(Bytes x);").empty());
  CHECK(findings_in("other::Bytes peak; int x = my.kGiB;").empty());
  CHECK(findings_in("// Bytes\n/* kGiB */ const char* x = \"Bytes \\\" kGiB\";").empty());
  CHECK(findings_in("const char* x = R\"a(Bytes )\" kGiB)a\"; char c = '\"';").empty());
}

TEST_CASE("includes: a header names the Qt classes it includes, announces or gets with others") {
  CHECK(findings_in("QString text;") == Findings{"QString needs QString"});
  CHECK(findings_in("#include <QString>\nQString text;").empty());
  CHECK(findings_in("class QString;\nvoid show(const QString& text);").empty());
  CHECK(findings_in("#include <QWidget>\nvoid resizeEvent(QResizeEvent* event);").empty());
  CHECK(findings_in("QString text;", "base/user.cpp").empty());
}

}  // namespace headroom::arch
