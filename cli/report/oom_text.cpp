#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "cli/report/oom_answer.h"
#include "cli/report/remedies_text.h"
#include "cli/scalars.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

using check::OomCause;
using check::OutOfMemoryMessage;
using check::PrintedSize;

constexpr std::size_t kMostMessages = 4;
constexpr std::size_t kMostNamed = 8;
constexpr std::size_t kOomTermColumns = 34;

std::string oom_row(std::string_view name, Bytes bytes, const std::string& remark = {}) {
  constexpr std::size_t kFigure = 10;
  return "  " + pad_right(name, kOomTermColumns) + pad_left(to_text(bytes), kFigure) +
         (remark.empty() ? "" : "  " + remark) + "\n";
}

std::string text_of(const std::optional<PrintedSize>& size) {
  return size ? to_text(size->bytes) : "an unknown amount";
}

/// What the operator asked for, given the segment: small requests open larger segments.
std::string asked_text(const PrintedSize& asked) {
  constexpr std::int64_t kSmall = 2 * kMiB;
  constexpr std::int64_t kMedium = 20 * kMiB;
  const std::string size = to_text(asked.bytes);
  if (asked.holds(Bytes{kSmall})) {
    return size + " (for a tensor of at most 2 MiB)";
  }
  return asked.holds(Bytes{kMedium}) ? size + " (for a tensor of 1 to 20 MiB)" : size;
}

std::string ranks_text(const OomReading& reading) {
  std::string text;
  for (std::size_t at = 0; at < std::min(reading.ranks.size(), kMostNamed); ++at) {
    text += (text.empty() ? "" : ", ") + printable(reading.ranks[at]);
  }
  const std::size_t ranks = reading.ranks.size() + reading.more_ranks;
  if (ranks > kMostNamed) {
    text += " and " + std::to_string(ranks - kMostNamed) + " more";
  }
  return text;
}

std::string headline(const OomReading& reading) {
  const OutOfMemoryMessage& message = reading.message;
  std::string text = message.kind.empty() ? "" : printable(message.kind) + " ";
  text += "out of memory";
  text += message.gpu ? " on GPU " + std::to_string(*message.gpu) : "";
  const std::string ranks = ranks_text(reading);
  text += ranks.empty() ? "" : " (" + ranks + ")";
  text += reading.times > 1 ? ", printed " + std::to_string(reading.times) + " times" : "";
  text += ": PyTorch asked the driver for " + asked_text(message.asked);
  if (message.free) {
    text += ", " + to_text(message.free->bytes) + " was free";
  }
  if (const auto& missing = reading.account.missing; missing && *missing > Bytes{0}) {
    text += ", so " + to_text(*missing) + " was missing";
  }
  return text;
}

std::string processes_text(const OomReading& reading) {
  const auto& self = reading.account.assumed_self;
  std::string text;
  std::size_t named = 0;
  for (const check::OtherProcess& other : reading.message.others) {
    if (self && other == *self) {
      continue;
    }
    if (named == kMostNamed) {
      return text + ", ...";
    }
    text += (named++ == 0 ? "process " : ", ") + other.number;
  }
  return text;
}

std::string account_rows(const OomReading& reading) {
  const OutOfMemoryMessage& message = reading.message;
  const check::OomAccount& account = reading.account;
  std::string text;
  const auto add = [&text](std::string_view name, const std::optional<PrintedSize>& size,
                           const std::string& remark = {}) {
    text += size ? oom_row(name, size->bytes, remark) : "";
  };
  const auto add_sum = [&text](std::string_view name, const std::optional<Bytes>& size,
                               const std::string& remark = {}) {
    text += size && *size > Bytes{0} ? oom_row(name, *size, remark) : "";
  };
  add("allocated by PyTorch", message.allocated,
      message.private_pools ? to_text(message.private_pools->bytes) + " of it for CUDA graphs"
                            : "");
  add("reserved by PyTorch, unallocated", message.unallocated);
  add_sum("this process, outside PyTorch", account.outside_pytorch);
  add_sum("other processes", account.other_processes, processes_text(reading));
  add("free", message.free);
  add_sum("not accounted for", account.unaccounted);
  add("allowed to this process", message.allowed);
  add("the GPU", message.capacity);
  return text;
}

/// Sums that do not add up, and what was assumed.
std::string remarks(const OomReading& reading, const Terminal& terminal) {
  std::string text;
  const auto add = [&](const std::string& line) {
    text += "  " + wrap(line, terminal.width - 2, 2) + "\n";
  };
  if (const auto& self = reading.account.assumed_self) {
    add("process " + self->number +
        " is taken to be this one: inside a container, PyTorch does "
        "not find its own number among those of the driver");
  }
  for (const std::string& contradiction : reading.account.contradictions) {
    add("the figures do not add up: " + contradiction);
  }
  return text;
}

std::string causes_text(const OomReading& reading, const Terminal& terminal) {
  std::string text = heading(terminal, "what follows from the message");
  for (std::size_t at = 0; at < reading.causes.size(); ++at) {
    text += "  " + std::to_string(at + 1) + ". " +
            wrap(cause_sentence(reading, reading.causes[at]), terminal.width - 5, 5) + "\n";
  }
  return text;
}

std::string reading_text(const OomReading& reading, const Terminal& terminal) {
  std::string text = styled(terminal, Style::kStrong, wrap(headline(reading), terminal.width, 2));
  text +=
      "\n" + account_rows(reading) + remarks(reading, terminal) + causes_text(reading, terminal);
  if (reading.match) {
    text += heading(terminal, "where the run asked for it") + "  " +
            wrap(match_sentence(reading), terminal.width - 2, 2) + "\n";
  }
  return text;
}

double byte_share(Bytes part, Bytes whole) {
  return static_cast<double>(part.value()) / static_cast<double>(whole.value());
}

/// That the run has to need less, and that what fragmentation takes would not help.
std::string not_enough_sentence(const OomReading& reading) {
  const OutOfMemoryMessage& message = reading.message;
  const Bytes missing = reading.account.missing.value_or(message.asked.bytes);
  std::string text = "The GPU is too full for this request";
  if (message.reserved) {
    text += ": PyTorch needs at least " + to_text(message.reserved->bytes + message.asked.bytes);
  }
  if (message.reserved && message.unallocated && message.unallocated->bytes >= missing) {
    text += ". Only " + to_text(message.unallocated->bytes) + " (" +
            percent_text(byte_share(message.unallocated->bytes, message.reserved->bytes)) +
            " of what PyTorch reserved) is lost to fragmentation, and no other process explains "
            "what is missing";
  } else {
    text += ". Neither fragmentation nor other processes explain what is missing";
  }
  return text +
         ", so the run has to need less. headroom fit MODEL --gpu NAME with the options of the "
         "run lists the changes; checkpointing, a smaller micro-batch, a fused loss and sharding "
         "are the usual ones.";
}

/// What the prediction for the run says, and what to change.
std::string run_text(const FitAnswer& fit, const Terminal& terminal) {
  const cost::StepEstimate& estimate = fit.estimate;
  std::string said = "the prediction for this run " +
                     std::string(cost::verdict_words(estimate.verdict, estimate.chance)) +
                     ": a peak of " + to_text(estimate.peak_allocated) + " allocated in " +
                     estimate.peak_moment + ", " + to_text(estimate.peak_reserved) + " reserved, " +
                     to_text(estimate.outside_bytes) + " outside PyTorch";
  if (estimate.verdict == cost::Verdict::kFits) {
    said +=
        "; as it ran out of memory all the same, the options of the run differ from those "
        "given here (micro-batch, longest sequence, checkpointing, optimizer), or it holds "
        "tensors that training does not need";
  }
  std::string text = heading(terminal, "the run") + "  " + wrap(said, terminal.width - 2, 2) + "\n";
  return text + remedies_text(fit, terminal) + next_line(fit, terminal);
}

}  // namespace

std::string cause_sentence(const OomReading& reading, OomCause cause) {
  const OutOfMemoryMessage& message = reading.message;
  const check::OomAccount& account = reading.account;
  switch (cause) {
    case OomCause::kLargerThanGpu:
      return "The request is larger than the whole GPU (" + text_of(message.capacity) +
             "): no setting helps. One tensor has to become smaller: a smaller micro-batch, a "
             "shorter sequence, fused attention, a fused loss, or a sharded model.";
    case OomCause::kLimit:
      return "The process may use " + text_of(message.allowed) +
             " only (torch.cuda.set_per_process_memory_fraction): raise that limit.";
    case OomCause::kOtherProcesses:
      return "Other processes hold " + to_text(*account.other_processes) +
             " of the GPU. Without them this request would have been served: end them "
             "(nvidia-smi lists them), or plan with --budget for what they leave.";
    case OomCause::kFragmentation:
      return "PyTorch holds " + text_of(message.unallocated) +
             " that no tensor uses, in pieces too small for this request: fragmentation. Start "
             "with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch 2.1 or later; "
             "--alloc-conf expandable_segments:True here)" +
             (message.hint == check::MessageHint::kMaxSplitSize
                  ? "; the message names max_split_size_mb, which helps less."
                  : ".");
    case OomCause::kOutsidePyTorch:
      return "This process holds " + to_text(*account.outside_pytorch) +
             " outside of PyTorch's allocator, much more than a CUDA context and NCCL take: "
             "look for other libraries on the same GPU (JAX, TensorFlow, vLLM, a second "
             "communicator, cuDNN or Triton workspaces).";
    case OomCause::kFreeButRefused:
      return "The message counts enough free memory. Either another process gave it back in the "
             "meantime, or a memory pool of its own, a limit of the container or MIG refused the "
             "request: run it again alone, and look at nvidia-smi.";
    case OomCause::kNotEnough:
      break;
  }
  return not_enough_sentence(reading);
}

std::string match_sentence(const OomReading& reading) {
  const check::OomMatch& match = *reading.match;
  const OutOfMemoryMessage& message = reading.message;
  if (!match.same_size) {
    return "No allocation of the predicted run opens a segment of " + to_text(message.asked.bytes) +
           ": the model or the options differ from those of the run. Closest is " + match.moment +
           ", which asks for " + to_text(match.requested) + ".";
  }
  std::string text = "The request has the size of " + match.moment + " (" +
                     std::string(name_of(match.role)) + ", " + to_text(match.requested) + ")";
  if (match.of_size > 1) {
    text += ", one of " + std::to_string(match.of_size) + " allocations of that size";
  }
  if (!match.off) {
    return text +
           ". The message does not say how much was allocated, so it is the one with most "
           "allocated before it.";
  }
  const Bytes off = *match.off;
  text += ". Predicted there: " + to_text(match.allocated) + " allocated; the message says " +
          to_text(message.allocated->bytes);
  if (message.allocated->holds(match.allocated)) {
    return text + ", the same to the digits that it prints.";
  }
  text += ", " + to_text(off < Bytes{0} ? -off : off) + (off < Bytes{0} ? " more" : " less") +
          " than predicted";
  if (match.allocated > Bytes{0}) {
    text += " (" + percent_text(std::abs(byte_share(off, match.allocated))) + ")";
  }
  text += ".";
  return check::agrees(match, message)
             ? text
             : text +
                   " That is too far apart: the options of the run differ from those given "
                   "here.";
}

std::string oom_text(const OomAnswer& answer, const Terminal& terminal) {
  std::string text;
  const std::size_t shown = std::min(answer.readings.size(), kMostMessages);
  for (std::size_t at = 0; at < shown; ++at) {
    text += (text.empty() ? "" : "\n") + reading_text(answer.readings[at], terminal);
  }
  if (answer.readings.size() > shown) {
    text += "\n" + std::to_string(answer.readings.size() - shown) +
            " more messages with other figures are left out (--json has all)\n";
  }
  if (answer.fit) {
    return text + run_text(*answer.fit, terminal);
  }
  return text +
         "\nnext: headroom explain --oom FILE MODEL --gpu NAME, with the options of the "
         "run, names\n      the moment that asked for it and the changes that fit\n";
}

}  // namespace headroom::cli
