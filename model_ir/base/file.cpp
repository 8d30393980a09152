#include "model_ir/base/file.h"

#include <fcntl.h>
#include <poll.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <system_error>
#include <vector>

namespace headroom {
namespace {

constexpr mode_t kNewFileMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;

/// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// False if the system reports a delayed write error (a full disk, a lost network share).
  bool close() {
    const bool fine = number_ < 0 || ::close(number_) == 0;
    number_ = -1;
    return fine;
  }

 private:
  int number_;
};

std::string reason(int fault) {
  return std::generic_category().message(fault);
}

Error unreadable(const std::string& path, int fault) {
  switch (fault) {
    case ENOENT:
      return Error::environment(path, "no such file", {}, "check the path");
    case EISDIR:
      return Error::environment(path, "is a folder, not a file", {},
                                "name the file inside it, such as config.json");
    case EACCES:
    case EPERM:
      return Error::environment(path, "may not be read (permission denied)", {},
                                "make it readable for this user");
    default:
      return Error::environment(path, "cannot be read (" + reason(fault) + ")", {});
  }
}

Error unwritable(const std::string& path, int fault) {
  return fault == ENOENT
             ? Error::environment(path, "cannot be written: its folder does not exist", {},
                                  "create the folder first")
             : Error::environment(path, "cannot be written (" + reason(fault) + ")", {});
}

bool write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return false;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Status write_in_place(const std::string& path, std::string_view content) {
  Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!out.is_open() || !write_all(out.number(), content) || !out.close()) {
    return unwritable(path, errno);
  }
  return ok();
}

bool is_special(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::int64_t limit) {
  if (path.find('\0') != std::string::npos) {
    return Error::environment("", "a path with a NUL byte", "a path");
  }
  // Without O_NONBLOCK, a named pipe that nobody writes to would block for ever.
  const Descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!in.is_open()) {
    return unreadable(path, errno);
  }
  struct stat info {};
  if (::fstat(in.number(), &info) != 0) {
    return unreadable(path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    return unreadable(path, EISDIR);
  }
  std::string content;
  std::array<char, 16384> buffer{};
  while (true) {
    const ssize_t got = ::read(in.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {  // A pipe whose writer has not written yet.
      pollfd waiting{.fd = in.number(), .events = POLLIN, .revents = 0};
      static_cast<void>(::poll(&waiting, 1, -1));
      continue;
    }
    if (got < 0) {
      return unreadable(path, errno);
    }
    if (got == 0 && content.empty() && S_ISFIFO(info.st_mode)) {
      return Error::environment(path, "a pipe that nobody writes to", "a file or a pipe with data",
                                "give the path of a file");
    }
    if (got == 0) {
      return content;
    }
    if (static_cast<std::int64_t>(content.size()) + got > limit) {
      return Error::invalid_input(path, "", "more than " + std::to_string(limit) + " bytes",
                                  "a smaller file", "check that this is the file you mean");
    }
    content.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Status write_file_atomically(const std::string& path, std::string_view content) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Error::environment(path, "no usable file name", "the path of a file");
  }
  if (is_special(path)) {
    return write_in_place(path, content);
  }
  std::string temporary = path + ".XXXXXX";
  Descriptor out(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!out.is_open()) {
    return unwritable(path, errno);
  }
  // mkostemp makes a private file; the result gets the mode that any new file of this user has.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool done = write_all(out.number(), content) &&
                    ::fchmod(out.number(), kNewFileMode & ~mask) == 0 && out.close() &&
                    ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!done) {
    const int fault = errno;
    ::unlink(temporary.c_str());
    return unwritable(path, fault);
  }
  return ok();
}

Status check_writable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Error::environment(path, "cannot be written: it is a folder", "the path of a file");
  }
  if (is_special(path)) {
    return ok();
  }
  const std::size_t last = path.rfind('/');
  const std::string folder = last == std::string::npos ? "." : path.substr(0, last + 1);
  return ::access(folder.c_str(), W_OK) == 0 ? ok() : Status(unwritable(path, errno));
}

}  // namespace headroom
