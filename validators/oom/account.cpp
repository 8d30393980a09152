#include "validators/oom/account.h"

#include <algorithm>

namespace headroom::check {
namespace {

PrintedSize plus(const PrintedSize& a, const PrintedSize& b) {
  return {.bytes = a.bytes + b.bytes, .slack = a.slack + b.slack};
}

/// a - b; 0 where that is less than the rounding.
Bytes left_of(const PrintedSize& a, const PrintedSize& b) {
  const Bytes rest = a.bytes - b.bytes;
  return rest <= a.slack + b.slack ? Bytes{0} : rest;
}

/// Notes that `part` is larger than `whole`, if it is by more than the rounding.
void check_within(const PrintedSize& part, const PrintedSize& whole, const std::string& what,
                  OomAccount& account) {
  if (part.bytes - part.slack > whole.bytes + whole.slack) {
    account.contradictions.push_back(what + " (" + to_text(part.bytes) + ", " +
                                     to_text(whole.bytes) + ")");
  }
}

/// The sum of what processes hold, `self` left out.
PrintedSize sum_besides(const std::vector<OtherProcess>& processes,
                        const std::optional<OtherProcess>& self) {
  PrintedSize sum;
  for (const OtherProcess& process : processes) {
    sum = self && process == *self ? sum : plus(sum, process.used);
  }
  return sum;
}

/// The process that must be this one although PyTorch did not recognise it: the one that holds
/// least beyond what PyTorch reserved, since the rest of it is a CUDA context and libraries.
std::optional<OtherProcess> unrecognised_self(const OutOfMemoryMessage& message) {
  if (message.process || !message.reserved) {
    return std::nullopt;
  }
  // If all of them were others, PyTorch's own memory would have to fit beside them.
  const Bytes all = sum_besides(message.others, std::nullopt).bytes + message.reserved->bytes;
  if (message.capacity && message.free &&
      all + message.free->bytes <= message.capacity->bytes + message.capacity->slack) {
    return std::nullopt;
  }
  std::optional<OtherProcess> self;
  for (const OtherProcess& process : message.others) {
    const bool holds_all = process.used.bytes + process.used.slack >=
                           message.reserved->bytes - message.reserved->slack;
    if (holds_all && (!self || process.used.bytes < self->used.bytes)) {
      self = process;
    }
  }
  return self;
}

/// Whether much of what PyTorch reserved is unallocated.
bool is_fragmented(const OutOfMemoryMessage& message) {
  return message.unallocated && message.reserved &&
         kFragmentedShare * message.unallocated->bytes >= message.reserved->bytes;
}

void check_sums(const OutOfMemoryMessage& message, const std::optional<PrintedSize>& own,
                const std::optional<PrintedSize>& used, OomAccount& account) {
  if (message.reserved && own) {
    check_within(*message.reserved, *own, "PyTorch reserved more than the process is said to hold",
                 account);
  }
  if (message.allocated && message.reserved) {
    check_within(*message.allocated, *message.reserved, "more is allocated than reserved", account);
  }
  if (message.private_pools && message.allocated) {
    check_within(*message.private_pools, *message.allocated,
                 "private pools hold more than PyTorch allocated", account);
  }
  if (message.free && message.capacity) {
    check_within(*message.free, *message.capacity, "more is free than the GPU has", account);
  }
  if (used && message.free && message.capacity) {
    check_within(plus(*used, *message.free), *message.capacity,
                 "what is in use and what is free is more than the GPU has", account);
  }
}

}  // namespace

std::string_view name_of(OomCause cause) {
  switch (cause) {
    case OomCause::kLargerThanGpu:
      return "larger than the GPU";
    case OomCause::kLimit:
      return "limit of the process";
    case OomCause::kOtherProcesses:
      return "other processes";
    case OomCause::kFragmentation:
      return "fragmentation";
    case OomCause::kOutsidePyTorch:
      return "outside PyTorch";
    case OomCause::kFreeButRefused:
      return "free but refused";
    case OomCause::kNotEnough:
      break;
  }
  return "not enough memory";
}

OomAccount account_of(const OutOfMemoryMessage& message) {
  OomAccount account;
  account.assumed_self = unrecognised_self(message);
  const std::optional<PrintedSize> own =
      account.assumed_self ? std::optional(account.assumed_self->used) : message.process;
  if (own && message.reserved) {
    account.outside_pytorch = left_of(*own, *message.reserved);
  }
  std::optional<PrintedSize> used = own ? own : message.reserved;
  if (message.process || account.assumed_self || !message.others.empty()) {
    const PrintedSize others = sum_besides(message.others, account.assumed_self);
    account.other_processes = others.bytes;
    used = used ? plus(*used, others) : others;
  }
  if (message.capacity && message.free && used) {
    account.unaccounted = left_of(*message.capacity, plus(*message.free, *used));
  }
  if (message.free) {
    account.missing = std::max(message.asked.bytes - message.free->bytes, Bytes{0});
  }
  check_sums(message, own, used, account);
  return account;
}

std::vector<OomCause> causes_of(const OutOfMemoryMessage& message, const OomAccount& account) {
  std::vector<OomCause> causes;
  const Bytes asked = message.asked.bytes;
  const Bytes missing = account.missing.value_or(asked);
  const auto covers = [&](Bytes bytes) { return bytes > Bytes{0} && bytes >= missing; };
  if (message.capacity && asked > message.capacity->bytes) {
    return {OomCause::kLargerThanGpu};
  }
  if (message.allowed && message.reserved &&
      message.reserved->bytes + asked > message.allowed->bytes) {
    causes.push_back(OomCause::kLimit);
  }
  const Bytes others = account.other_processes.value_or(Bytes{0});
  const Bytes outside = account.outside_pytorch.value_or(Bytes{0});
  if (missing > Bytes{0} && covers(others)) {
    causes.push_back(OomCause::kOtherProcesses);
  }
  const Bytes unallocated = message.unallocated ? message.unallocated->bytes : Bytes{0};
  if (missing > Bytes{0} && covers(unallocated) && is_fragmented(message)) {
    causes.push_back(OomCause::kFragmentation);
  }
  if (missing > Bytes{0} && outside >= Bytes{kMuchOutside} && covers(outside)) {
    causes.push_back(OomCause::kOutsidePyTorch);
  }
  if (causes.empty() && missing == Bytes{0}) {
    causes.push_back(OomCause::kFreeButRefused);
  }
  if (causes.empty()) {
    causes.push_back(OomCause::kNotEnough);
  }
  return causes;
}

}  // namespace headroom::check
