#include "validators/dryrun/report_folder.h"

#include <cstdlib>
#include <string_view>
#include <system_error>

namespace headroom::check {
namespace {

/// Separators of LD_PRELOAD and PYTHONPATH, which have no way to quote them (ld.so(8)).
constexpr std::string_view kSeparators = ": ;";

}  // namespace

ReportFolder::ReportFolder() {
  std::error_code fault;
  std::filesystem::path base = std::filesystem::temp_directory_path(fault);
  if (fault || base.string().find_first_of(kSeparators) != std::string::npos) {
    base = "/tmp";
  }
  std::string name = (base / "headroom-dryrun-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) {
    path_ = name;
    std::filesystem::create_directory(path_ / "reports", fault);
  }
}

ReportFolder::~ReportFolder() {
  std::error_code ignored;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, ignored);
  }
}

std::string ReportFolder::plain_name(const std::string& folder, const char* name) const {
  if (folder.find_first_of(kSeparators) == std::string::npos) {
    return folder;
  }
  std::error_code fault;
  const std::filesystem::path link = path_ / name;
  std::filesystem::create_directory_symlink(std::filesystem::absolute(folder), link, fault);
  return fault ? folder : link.string();
}

Error no_report_folder() {
  return Error::environment("TMPDIR", "no temporary folder can be created", {},
                            "set TMPDIR to a folder that can be written");
}

}  // namespace headroom::check
