#pragma once

#include <filesystem>
#include <string>

#include "model_ir/base/error.h"

namespace headroom::check {

/// A temporary folder with an empty folder for the reports of a program, removed with everything in
/// it at the end of its scope. Its path has no blanks, colons or semicolons.
class ReportFolder {
 public:
  ReportFolder();
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;
  ~ReportFolder();

  /// False if no temporary folder can be created.
  [[nodiscard]] bool exists() const { return !path_.empty(); }
  [[nodiscard]] std::string reports() const { return (path_ / "reports").string(); }
  /// The path of a file of that name in the folder.
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// `folder` under a path that LD_PRELOAD and PYTHONPATH can name.
  [[nodiscard]] std::string plain_name(const std::string& folder, const char* name) const;

 private:
  std::filesystem::path path_;
};

/// The error that says that there is none.
[[nodiscard]] Error no_report_folder();

}  // namespace headroom::check
