#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "model_ir/base/units.h"
#include "validators/snapshot/pickle_document.h"
#include "validators/snapshot/pickle_opcodes.h"

namespace headroom::check {
namespace {

constexpr std::int64_t kGreatestInteger = (std::int64_t{1} << 59) - 1;
constexpr std::size_t kFreeTables = std::size_t{16} << 20;
constexpr std::size_t kMostBytes = std::numeric_limits<std::uint32_t>::max() / 2;

PickleValue integer_value(std::int64_t value) {
  const std::int64_t held = std::clamp(value, -kGreatestInteger - 1, kGreatestInteger);
  return {PickleKind::kInteger, static_cast<std::uint64_t>(held)};
}

}  // namespace

/// The machine that a pickle is a program of. It has the opcodes of plain data alone.
class PickleReader {
 public:
  PickleReader(std::string bytes, std::string_view file, const PickleLimits& limits)
      : file_(file), limits_(limits) {
    document_.file_ = std::move(bytes);
    bytes_ = document_.file_;
    budget_ = kFreeTables + limits.bytes_per_byte * bytes_.size();
  }

  Result<PickleDocument> read() {
    if (auto fault = check_start()) {
      return *std::move(fault);
    }
    while (!fault_ && !stopped_) {
      begin_ = at_;
      step(static_cast<Opcode>(byte()));
    }
    if (fault_) {
      return *std::move(fault_);
    }
    return std::move(document_);
  }

 private:
  using Container = PickleDocument::Container;

  std::optional<Error> check_start() const {
    if (bytes_.size() > kMostBytes) {
      return error("a file of " + to_text(Bytes{static_cast<std::int64_t>(bytes_.size())}),
                   "at most 2 GiB", "record fewer events (max_entries)");
    }
    constexpr std::uint8_t kLeast = 2;
    constexpr std::uint8_t kGreatest = 5;
    if (bytes_.size() > 1 && static_cast<Opcode>(bytes_[0]) == Opcode::kProto) {
      const auto protocol = static_cast<std::uint8_t>(bytes_[1]);
      if (kLeast <= protocol && protocol <= kGreatest) {
        return std::nullopt;
      }
      return error("a pickle of protocol " + std::to_string(protocol), "protocol 2 to 5", {});
    }
    const std::string_view kind = kind_of_file(bytes_);
    return error(bytes_.empty() ? "an empty file"
                 : kind.empty() ? "no pickle"
                                : std::string(kind),
                 "a pickle of protocol 2 to 5, which torch.cuda.memory._dump_snapshot(FILE) writes",
                 {});
  }

  [[nodiscard]] Error error(const std::string& got, std::string_view wanted,
                            std::string_view fix) const {
    return Error::invalid_input(file_, "byte " + std::to_string(begin_), got, wanted, fix);
  }

  void fail(const std::string& got, std::string_view wanted, std::string_view fix = {}) {
    if (!fault_) {
      fault_ = error(got, wanted, fix);
    }
  }

  void fail_cut_off() {
    fail("the file ends inside the pickle", "a complete pickle",
         "copy the file again, or write it anew: the process may have been killed while it wrote");
  }

  // Bytes of the file. After a fault they are 0.

  [[nodiscard]] bool has(std::size_t count) {
    if (bytes_.size() - at_ >= count) {
      return true;
    }
    fail_cut_off();
    return false;
  }
  std::uint8_t byte() {
    return has(1) ? static_cast<std::uint8_t>(bytes_[at_++]) : std::uint8_t{0};
  }
  /// A little-endian number of `width` bytes, at most 8.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    if (has(width)) {
      for (std::size_t i = 0; i < width; ++i) {
        value |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at_ + i])} << (8 * i);
      }
      at_ += width;
    }
    return value;
  }
  std::string_view bytes(std::uint64_t count) {
    if (!has(count)) {
      return {};
    }
    const std::string_view found = bytes_.substr(at_, count);
    at_ += count;
    return found;
  }

  // Values.

  PickleValue text_value(std::string_view text) {
    const auto [known, is_new] =
        text_ids_.try_emplace(text, static_cast<std::uint32_t>(document_.texts_.size()));
    if (is_new) {
      constexpr std::size_t kNode = 64;  // A text's entry in the tables, measured with glibc.
      spend(kNode);
      document_.texts_.push_back(text);
    }
    return {PickleKind::kText, known->second};
  }
  PickleValue real_value(std::uint64_t big_endian) {
    std::uint64_t swapped = 0;
    for (int i = 0; i < 8; ++i) {
      swapped = swapped << 8 | (big_endian >> (8 * i) & 0xFF);
    }
    spend(sizeof(double));
    document_.reals_.push_back(std::bit_cast<double>(swapped));
    return {PickleKind::kReal, document_.reals_.size() - 1};
  }
  /// Little-endian two's complement of any width. Beyond 8 bytes only the sign and whether the
  /// number fits matter.
  static PickleValue long_value(std::string_view digits) {
    if (digits.empty()) {
      return integer_value(0);
    }
    const bool negative = (static_cast<std::uint8_t>(digits.back()) & 0x80U) != 0;
    if (digits.size() > sizeof(std::int64_t)) {
      return integer_value(negative ? INT64_MIN : INT64_MAX);
    }
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(digits[i]);
    }
    return integer_value(static_cast<std::int64_t>(value));
  }
  PickleValue new_container(PickleKind kind) {
    spend(sizeof(Container));
    document_.containers_.emplace_back();
    return {kind, document_.containers_.size() - 1};
  }

  /// Moves the top of the stack, from `first` on, into `container`. One that cannot grow in place
  /// moves to the end of the table and gets twice the room.
  void move_into(PickleValue container, std::size_t first) {
    const auto added = static_cast<std::uint32_t>(stack_.size() - first);
    Container& target = document_.containers_[container.payload()];
    std::vector<PickleValue>& items = document_.items_;
    if (target.count + added > target.room) {
      const bool is_last = std::size_t{target.begin} + target.room == items.size();
      const std::uint32_t room =
          target.count == 0 ? added : std::max(target.count + added, 2 * target.count);
      spend((is_last ? room - target.room : room) * sizeof(PickleValue));
      if (fault_) {
        return;
      }
      if (!is_last) {
        const std::size_t begin = items.size();
        items.resize(begin + room);
        std::copy_n(items.begin() + target.begin, target.count,
                    items.begin() + static_cast<std::ptrdiff_t>(begin));
        target.begin = static_cast<std::uint32_t>(begin);
      } else {
        items.resize(std::size_t{target.begin} + room);
      }
      target.room = room;
    }
    std::copy(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end(),
              items.begin() + target.begin + target.count);
    target.count += added;
    stack_.resize(first);
  }

  /// Counts `bytes` that a table grows by.
  void spend(std::size_t bytes) {
    spent_ += bytes;
    if (spent_ > budget_) {
      fail("values that take more than " + to_text(Bytes{static_cast<std::int64_t>(budget_)}),
           "a snapshot, whose values take about three times the size of the file");
    }
  }

  // The stack.

  void push(PickleValue value) {
    if (stack_.size() == stack_.capacity()) {
      spend(std::max<std::size_t>(stack_.capacity(), 64) * sizeof(PickleValue));
    }
    stack_.push_back(value);
  }
  /// The least size of the stack: the newest mark.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  [[nodiscard]] bool holds(std::size_t count) {
    if (stack_.size() >= floor() + count) {
      return true;
    }
    fail("an operation without its operands", "a pickle");
    return false;
  }
  std::optional<std::size_t> pop_mark() {
    if (marks_.empty()) {
      fail("an end of a list or dictionary without its begin", "a pickle");
      return std::nullopt;
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }
  void mark() {
    if (marks_.size() == limits_.depth) {
      fail("lists and dictionaries nested " + std::to_string(limits_.depth + 1) + " deep",
           "at most " + std::to_string(limits_.depth) + " levels; a snapshot has 8");
      return;
    }
    marks_.push_back(stack_.size());
  }

  void make_list_of(std::size_t first) {
    const PickleValue list = new_container(PickleKind::kList);
    move_into(list, first);
    push(list);
  }
  void make_list_of_top(std::size_t count) {
    if (holds(count)) {
      make_list_of(stack_.size() - count);
    }
  }
  void make_container_from_mark(PickleKind kind) {
    if (const auto mark = pop_mark()) {
      const PickleValue container = new_container(kind);
      if (kind == PickleKind::kDict && (stack_.size() - *mark) % 2 != 0) {
        fail("a dictionary with a key that has no value", "a pickle");
        return;
      }
      move_into(container, *mark);
      push(container);
    }
  }
  /// Adds what stands above `first` to the container below it.
  void extend(PickleKind kind, std::size_t first) {
    if (first == floor() || stack_[first - 1].kind() != kind) {
      fail("items for something that is no list or dictionary", "a pickle");
    } else if (kind == PickleKind::kDict && (stack_.size() - first) % 2 != 0) {
      fail("a dictionary with a key that has no value", "a pickle");
    } else {
      move_into(stack_[first - 1], first);
    }
  }
  void extend_from_mark(PickleKind kind) {
    if (const auto mark = pop_mark()) {
      extend(kind, *mark);
    }
  }
  void extend_by_top(PickleKind kind, std::size_t count) {
    if (holds(count + 1)) {
      extend(kind, stack_.size() - count);
    }
  }

  // The memo. Python numbers its entries in the order in which they are made.

  void put(std::uint64_t index) {
    if (!holds(1)) {
      return;
    }
    if (index > memo_.size()) {
      fail("entry " + std::to_string(index) + " of a memo of " + std::to_string(memo_.size()),
           "a memo without gaps");
    } else if (index == memo_.size()) {
      spend(sizeof(PickleValue));
      memo_.push_back(stack_.back());
    } else {
      memo_[index] = stack_.back();
    }
  }
  void get(std::uint64_t index) {
    if (index < memo_.size()) {
      push(memo_[index]);
    } else {
      fail("entry " + std::to_string(index) + " of a memo of " + std::to_string(memo_.size()),
           "an entry that was made before");
    }
  }

  // Opcodes, by what they do.

  void step(Opcode opcode) {
    if (!read_scalar(opcode) && !read_text(opcode) && !build(opcode) && !control(opcode)) {
      refuse(opcode);
    }
  }

  bool read_scalar(Opcode opcode) {
    switch (opcode) {
      case Opcode::kBinInt:
        push(integer_value(static_cast<std::int32_t>(number(4))));
        return true;
      case Opcode::kBinInt1:
        push(integer_value(byte()));
        return true;
      case Opcode::kBinInt2:
        push(integer_value(static_cast<std::int64_t>(number(2))));
        return true;
      case Opcode::kLong1:
        push(long_value(bytes(byte())));
        return true;
      case Opcode::kLong4:
        push(long_value(bytes(number(4))));
        return true;
      case Opcode::kBinFloat:
        push(real_value(number(8)));
        return true;
      case Opcode::kNone:
        push({});
        return true;
      case Opcode::kNewTrue:
      case Opcode::kNewFalse:
        push({PickleKind::kBool, opcode == Opcode::kNewTrue ? 1U : 0U});
        return true;
      default:
        return false;
    }
  }

  bool read_text(Opcode opcode) {
    switch (opcode) {
      case Opcode::kShortBinUnicode:
      case Opcode::kShortBinString:
      case Opcode::kShortBinBytes:
        push(text_value(bytes(byte())));
        return true;
      case Opcode::kBinUnicode:
      case Opcode::kBinString:
      case Opcode::kBinBytes:
        push(text_value(bytes(number(4))));
        return true;
      case Opcode::kBinUnicode8:
      case Opcode::kBinBytes8:
        push(text_value(bytes(number(8))));
        return true;
      default:
        return false;
    }
  }

  bool build(Opcode opcode) {
    switch (opcode) {
      case Opcode::kEmptyList:
      case Opcode::kEmptyTuple:
        push(new_container(PickleKind::kList));
        return true;
      case Opcode::kEmptyDict:
        push(new_container(PickleKind::kDict));
        return true;
      case Opcode::kTuple1:
        make_list_of_top(1);
        return true;
      case Opcode::kTuple2:
        make_list_of_top(2);
        return true;
      case Opcode::kTuple3:
        make_list_of_top(3);
        return true;
      case Opcode::kList:
      case Opcode::kTuple:
        make_container_from_mark(PickleKind::kList);
        return true;
      case Opcode::kDict:
        make_container_from_mark(PickleKind::kDict);
        return true;
      case Opcode::kAppend:
        extend_by_top(PickleKind::kList, 1);
        return true;
      case Opcode::kAppends:
        extend_from_mark(PickleKind::kList);
        return true;
      case Opcode::kSetItem:
        extend_by_top(PickleKind::kDict, 2);
        return true;
      case Opcode::kSetItems:
        extend_from_mark(PickleKind::kDict);
        return true;
      default:
        return false;
    }
  }

  bool control(Opcode opcode) {
    switch (opcode) {
      case Opcode::kProto:
        byte();
        return true;
      case Opcode::kFrame:
        number(8);  // Frames are for reading ahead; what they hold is read as it comes.
        return true;
      case Opcode::kMark:
        mark();
        return true;
      case Opcode::kPop:
        if (holds(1)) {
          stack_.pop_back();
        }
        return true;
      case Opcode::kPopMark:
        if (const auto mark = pop_mark()) {
          stack_.resize(*mark);
        }
        return true;
      case Opcode::kDup:
        if (holds(1)) {
          push(PickleValue{stack_.back()});
        }
        return true;
      case Opcode::kMemoize:
        put(memo_.size());
        return true;
      case Opcode::kBinPut:
        put(byte());
        return true;
      case Opcode::kLongBinPut:
        put(number(4));
        return true;
      case Opcode::kBinGet:
        get(byte());
        return true;
      case Opcode::kLongBinGet:
        get(number(4));
        return true;
      case Opcode::kStop:
        stop();
        return true;
      default:
        return false;
    }
  }

  void stop() {
    if (stack_.size() != 1 || !marks_.empty()) {
      fail("an end with " + std::to_string(stack_.size()) + " values", "one value");
      return;
    }
    document_.root_ = stack_.back();
    stopped_ = true;
  }

  /// The name that GLOBAL and its like would import: "torch._utils._rebuild_tensor_v2".
  std::string imported_name(Opcode opcode) {
    const auto shown = [](std::string_view word) {
      constexpr std::size_t kMost = 60;
      return std::string(word.substr(0, kMost));
    };
    if (opcode == Opcode::kGlobal || opcode == Opcode::kInst) {
      const std::size_t end = bytes_.find('\n', at_);
      const std::size_t next = end == std::string_view::npos ? end : bytes_.find('\n', end + 1);
      return next == std::string_view::npos ? std::string()
                                            : shown(bytes_.substr(at_, end - at_)) + "." +
                                                  shown(bytes_.substr(end + 1, next - end - 1));
    }
    const std::size_t size = stack_.size();
    const bool named = opcode == Opcode::kStackGlobal && size >= 2 &&
                       stack_[size - 1].kind() == PickleKind::kText &&
                       stack_[size - 2].kind() == PickleKind::kText;
    return named ? shown(document_.text(stack_[size - 2])) + "." +
                       shown(document_.text(stack_[size - 1]))
                 : std::string();
  }

  void refuse(Opcode opcode) {
    if (fault_) {
      return;
    }
    const std::optional<std::string_view> word = refused_opcode(opcode);
    if (!word) {
      fail("the byte " + std::to_string(static_cast<unsigned>(opcode)) + ", which is no operation",
           "a pickle of protocol 2 to 5");
      return;
    }
    const std::string name = imported_name(opcode);
    const bool tensors = name.find("torch") != std::string::npos ||
                         name.find("OrderedDict") != std::string::npos ||
                         name.find("numpy") != std::string::npos;
    fail("the operation " + std::string(*word) + (name.empty() ? "" : " of " + name) +
             (tensors ? ": the file seems to be a checkpoint or another file of tensors"
                      : ": the file seems to be a pickle of Python objects"),
         "plain data, as in a memory snapshot; nothing that a pickle asks to import or to call is "
         "run",
         "use the file that torch.cuda.memory._dump_snapshot(FILE) wrote");
  }

  std::string_view file_;
  PickleLimits limits_;
  PickleDocument document_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  ///< Of the operation that is being read.
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::unordered_map<std::string_view, std::uint32_t> text_ids_;
  std::size_t spent_ = 0;
  std::size_t budget_ = 0;
  std::optional<Error> fault_;
  bool stopped_ = false;
};

Result<PickleDocument> read_pickle(std::string bytes, std::string_view file,
                                   const PickleLimits& limits) {
  return PickleReader(std::move(bytes), file, limits).read();
}

}  // namespace headroom::check
