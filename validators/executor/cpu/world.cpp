#include "validators/executor/cpu/world.h"

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "validators/executor/cpu/cpu_backend.h"
#include "validators/executor/cpu/values.h"

namespace headroom::exec {
namespace {

/// The state that the ranks of one group share.
struct Meeting {
  explicit Meeting(int size) : barrier(size), pointers(static_cast<std::size_t>(size)) {}
  std::barrier<> barrier;
  std::vector<const void*> pointers;
  std::mutex mutex;
  std::condition_variable arrived;
  /// Messages on their way, by sender and receiver.
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(std::shared_ptr<Meeting> meeting, int size, int rank)
      : Group(size, rank), meeting_(std::move(meeting)) {}

  void all_gather(void* whole, const void* part, std::int64_t part_bytes) override {
    meet(part);
    for (int other = 0; other < size(); ++other) {
      std::memmove(static_cast<std::byte*>(whole) + other * part_bytes, of(other),
                   static_cast<std::size_t>(part_bytes));
    }
    meeting_->barrier.arrive_and_wait();
  }

  void reduce_scatter(void* part, void* whole, ir::DType type, std::int64_t count) override {
    meet(whole);
    const std::vector<double> sums = combined(type, rank() * count, count, Group::Reduction::kSum);
    meeting_->barrier.arrive_and_wait();
    put(part, type, sums);
    meeting_->barrier.arrive_and_wait();
  }

  void all_reduce(void* data, ir::DType type, std::int64_t count, Reduction reduction) override {
    meet(data);
    const std::vector<double> sums = combined(type, 0, count, reduction);
    meeting_->barrier.arrive_and_wait();
    put(data, type, sums);
    meeting_->barrier.arrive_and_wait();
  }

  void send(int to, const void* data, std::int64_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(data);
    const std::scoped_lock lock(meeting_->mutex);
    meeting_->messages[{rank(), to}].emplace_back(begin, begin + bytes);
    meeting_->arrived.notify_all();
  }

  void receive(int from, void* data, std::int64_t bytes) override {
    std::unique_lock lock(meeting_->mutex);
    auto& queue = meeting_->messages[{from, rank()}];
    meeting_->arrived.wait(lock, [&queue] { return !queue.empty(); });
    std::memcpy(data, queue.front().data(), static_cast<std::size_t>(bytes));
    queue.pop_front();
  }

 private:
  void meet(const void* data) {
    meeting_->pointers[static_cast<std::size_t>(rank())] = data;
    meeting_->barrier.arrive_and_wait();
  }
  [[nodiscard]] const void* of(int other) const {
    return meeting_->pointers[static_cast<std::size_t>(other)];
  }
  [[nodiscard]] std::vector<double> combined(ir::DType type, std::int64_t begin, std::int64_t count,
                                             Reduction reduction) const {
    std::vector<double> result(static_cast<std::size_t>(count));
    const bool known = cpu::with_type(code_of(type), [&](auto* element) {
      using T = cpu::Element<decltype(element)>;
      for (int other = 0; other < size(); ++other) {
        const T* const values = cpu::in<T>(of(other)) + begin;
        for (std::int64_t i = 0; i < count; ++i) {
          double& value = result[static_cast<std::size_t>(i)];
          const double next = cpu::load(values[i]);
          value = other == 0                     ? next
                  : reduction == Reduction::kSum ? value + next
                                                 : std::max(value, next);
        }
      }
    });
    HEADROOM_ASSERT(known);
    return result;
  }
  static void put(void* to, ir::DType type, const std::vector<double>& values) {
    const bool known = cpu::with_type(code_of(type), [&](auto* element) {
      using T = cpu::Element<decltype(element)>;
      for (std::size_t i = 0; i < values.size(); ++i) {
        cpu::store(cpu::out<T>(to)[i], values[i]);
      }
    });
    HEADROOM_ASSERT(known);
  }

  std::shared_ptr<Meeting> meeting_;
};

/// The groups of all ranks; each group's meeting place is made once.
class Groupings {
 public:
  explicit Groupings(const Division& whole) : whole_(whole) {}
  [[nodiscard]] Groups of(int rank) {
    Division own = whole_;
    own.rank = rank;
    const int t = own.tensor_rank();
    const int d = own.data_rank();
    const int p = own.stage();
    return {.tensor = group(0, d, p, own.tensor, t),
            .data = group(1, t, p, own.data, d),
            .pipeline = group(2, t, d, own.pipeline, p)};
  }

 private:
  [[nodiscard]] std::unique_ptr<Group> group(int kind, int first, int second, int size, int rank) {
    std::shared_ptr<Meeting>& meeting = meetings_[{kind, first, second}];
    if (meeting == nullptr) {
      meeting = std::make_shared<Meeting>(size);
    }
    return std::make_unique<ThreadGroup>(meeting, size, rank);
  }
  Division whole_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace

void run_world(const Execution& execution,
               const std::function<void(Rank& rank, int number)>& visit) {
  const int world = execution.division.world();
  std::vector<Execution> executions(static_cast<std::size_t>(world), execution);
  std::vector<std::unique_ptr<Rank>> ranks;
  Groupings groupings(execution.division);
  for (int number = 0; number < world; ++number) {
    Execution& own = executions[static_cast<std::size_t>(number)];
    own.division.rank = number;
    std::unique_ptr<Device> device = Device::open(cpu_backend(), 0, own.workspace).value();
    const Bytes capacity{device->info().free_bytes};
    ranks.push_back(std::make_unique<Rank>(std::move(device), own, groupings.of(number), capacity,
                                           Memory::Backing::kDevice));
  }
  {
    std::vector<std::jthread> threads;
    for (const std::unique_ptr<Rank>& rank : ranks) {
      threads.emplace_back([&rank] { rank->run(); });
    }
  }
  for (int number = 0; number < world; ++number) {
    visit(*ranks[static_cast<std::size_t>(number)], number);
  }
}

}  // namespace headroom::exec
