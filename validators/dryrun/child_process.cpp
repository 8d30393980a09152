#include "validators/dryrun/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX's signals.
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

extern char** environ;  // NOLINT(readability-redundant-declaration): only GNU declares it.

namespace headroom::check {
namespace {

using Clock = std::chrono::steady_clock;

/// Pointers as exec wants them. Valid as long as `words` is.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (const std::string& word : words) {
    all.push_back(const_cast<char*>(word.c_str()));  // NOLINT: exec's old declaration.
  }
  all.push_back(nullptr);
  return all;
}

/// While it lives, the signals to pass on and that of ended children wait for `sigtimedwait`.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
      sigaddset(&held_, one);
    }
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;  // Whoever ignores SIGCHLD cannot wait for a child.
    sigaction(SIGCHLD, &usual, &child_before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() {
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  [[nodiscard]] const sigset_t& before() const { return before_; }
  /// The next held signal; 0 after a tenth of a second without one.
  [[nodiscard]] int next() const {
    constexpr timespec kTenth{.tv_sec = 0, .tv_nsec = 100'000'000};
    return std::max(0, sigtimedwait(&held_, nullptr, &kTenth));
  }

 private:
  sigset_t held_{};
  sigset_t before_{};
  struct sigaction child_before_ {};
};

/// What a child gets: streams, a process group of its own, and the signals as they were.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }

  void open(int descriptor, int flags) {
    posix_spawn_file_actions_addopen(&files_, descriptor, "/dev/null", flags, 0);
  }
  void copy(int from, int to) { posix_spawn_file_actions_adddup2(&files_, from, to); }
  void own_group(const sigset_t& mask) {
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGCHLD);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigmask(&attributes_, &mask);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  /// The number of an error; 0: started.
  [[nodiscard]] int start(const ChildCommand& command, pid_t& child) const {
    return posix_spawnp(&child, command.command.front().c_str(), &files_, &attributes_,
                        pointers(command.command).data(), pointers(command.environment).data());
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

Error cannot_start(const std::string& program, int fault) {
  if (fault == ENOENT) {
    return Error::environment(program, "command not found", {},
                              "activate the environment that has it, or name it with its path");
  }
  if (fault == EACCES) {
    return Error::environment(program, "cannot be started: it is no program that may be executed",
                              {},
                              "start it with its interpreter (python " + program +
                                  "), or make it executable (chmod +x " + program + ")");
  }
  return Error::environment(program, std::string("cannot be started: ") + std::strerror(fault), {});
}

/// The child's half of `start_tied`: only calls that are safe after a fork.
[[noreturn]] void become(const ChildCommand& command, char* const* words, char* const* environment,
                         const sigset_t& mask, pid_t parent, int report) {
  setpgid(0, 0);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &usual, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    _exit(0);  // It was killed before the system knew that we wait for that.
  }
  if (isatty(STDIN_FILENO) == 1) {
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    close(nothing);
  }
  if (command.output_to_error) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvpe(words[0], words, environment);
  const int fault = errno;
  const ssize_t written = ::write(report, &fault, sizeof fault);
  _exit(written == sizeof fault ? 1 : 2);
}

/// Starts a program in a process group of its own; if this process is killed, the system ends it.
/// The number of an error; 0: started.
///
/// Source: prctl(2), PR_SET_PDEATHSIG, which posix_spawn cannot set.
int start_tied(const ChildCommand& command, const sigset_t& mask, pid_t& child) {
  const std::vector<char*> words = pointers(command.command);
  const std::vector<char*> environment = pointers(command.environment);
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) {
    return errno;
  }
  const pid_t parent = getpid();
  child = fork();
  if (child == 0) {
    become(command, words.data(), environment.data(), mask, parent, report[1]);
  }
  int fault = child < 0 ? errno : 0;
  close(report[1]);
  if (child > 0) {
    setpgid(child, child);  // Parent and child both call it; either may come first.
    ssize_t got = 0;
    do {
      got = ::read(report[0], &fault, sizeof fault);
    } while (got < 0 && errno == EINTR);
    if (got == sizeof fault) {
      waitpid(child, nullptr, 0);
    } else {
      fault = 0;
    }
  }
  close(report[0]);
  return fault;
}

void set_end(int status, ChildEnd& end) {
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Waits for the child and passes signals on to its group.
ChildEnd wait_for(pid_t child, const HeldSignals& signals) {
  constexpr int kPatience = 3;
  ChildEnd end;
  int passed_on = 0;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      set_end(status, end);
      break;
    }
    if (ended < 0 && errno != EINTR) {
      break;
    }
    const int signal = signals.next();
    if (signal > 0 && signal != SIGCHLD) {
      end.told = end.interrupted ? end.told : signal;
      end.interrupted = true;
      kill(-child, ++passed_on < kPatience ? signal : SIGKILL);
    }
  }
  if (end.interrupted) {
    kill(-child, SIGKILL);  // What the program started and left behind.
  }
  return end;
}

/// Starts a command whose standard output goes to `descriptor` and whose errors are dropped.
std::optional<pid_t> start_writing_to(int descriptor, const ChildCommand& command) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  SpawnSettings settings;
  settings.own_group(mask);
  settings.open(STDIN_FILENO, O_RDONLY);
  settings.copy(descriptor, STDOUT_FILENO);
  settings.open(STDERR_FILENO, O_WRONLY);
  pid_t child = 0;
  return settings.start(command, child) == 0 ? std::optional(child) : std::nullopt;
}

/// Reads up to the end; false if there is more than `most`, or if it takes longer than `patience`.
bool read_all(int descriptor, std::size_t most, std::chrono::milliseconds patience,
              std::string& output) {
  const Clock::time_point until = Clock::now() + patience;
  while (output.size() < most) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    std::array<char, 4'096> some{};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) {
      return false;
    }
    const ssize_t got = ::read(descriptor, some.data(), some.size());
    if (got <= 0) {
      return got == 0;
    }
    output.append(some.data(), static_cast<std::size_t>(got));
  }
  return false;
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    all.emplace_back(*line);
  }
  return all;
}

Result<ChildEnd> run_child(const ChildCommand& command) {
  const HeldSignals signals;
  const Clock::time_point start = Clock::now();
  pid_t child = 0;
  if (const int fault = start_tied(command, signals.before(), child); fault != 0) {
    return cannot_start(command.command.front(), fault);
  }
  ChildEnd end = wait_for(child, signals);
  end.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return end;
}

std::string output_of(const ChildCommand& command, int seconds) {
  constexpr std::size_t kMost = 64 * 1'024;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {};
  }
  const std::optional<pid_t> child = start_writing_to(ends[1], command);
  close(ends[1]);
  std::string output;
  const bool whole = child && read_all(ends[0], kMost, std::chrono::seconds(seconds), output);
  close(ends[0]);
  int status = 0;
  if (child) {
    if (!whole) {
      kill(-*child, SIGKILL);
    }
    waitpid(*child, &status, 0);
  }
  return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : std::string();
}

}  // namespace headroom::check
