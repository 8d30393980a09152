#include "gui/models/verdict_text.h"

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

const Fact& fact(const VerdictText& text, const QString& caption) {
  for (const Fact& candidate : text.facts) {
    if (candidate.caption == caption) {
      return candidate;
    }
  }
  FAIL("no fact is called " << caption);
  return text.facts.front();
}

}  // namespace

TEST_CASE("verdict_text: what fits says how much is to spare, and of what") {
  // 16 + 1 + 16 allocated, 34 reserved, 79 of capacity: 45 to spare.
  const VerdictText text = verdict_text(test::fake_estimate(1));
  CHECK(text.headline == QStringLiteral("Fits"));
  CHECK(text.margin == QStringLiteral("45.0\u00a0GiB to spare"));
  CHECK(text.basis == QStringLiteral("57.0\u00a0% of the capacity of 79.0\u00a0GiB"));
  CHECK(fact(text, QStringLiteral("Peak reserved")).value == QStringLiteral("34.0\u00a0GiB"));
  CHECK(fact(text, QStringLiteral("Peak allocated")).value == QStringLiteral("33.0\u00a0GiB"));
  CHECK(fact(text, QStringLiteral("Where")).value ==
        QStringLiteral("step 1, backward, layer 31: silu"));
  CHECK(fact(text, QStringLiteral("Where")).detail == QStringLiteral("step1.backward"));
}

TEST_CASE("verdict_text: what does not fit says how much is missing, and where it runs out") {
  cost::StepEstimate estimate = test::fake_estimate(60);
  estimate.program.phases = {
      {.name = ir::parse_phase_name("load"), .begin = 0, .end = 0, .work = {}},
      {.name = ir::parse_phase_name("step1.forward"), .begin = 0, .end = 0, .work = {}}};
  estimate.failure = cost::OutOfMemory{
      .event = 0, .phase = 1, .requested = Bytes{}, .allocated = Bytes{}, .reserved = Bytes{}};
  const VerdictText text = verdict_text(estimate);
  CHECK(text.headline == QStringLiteral("Does not fit"));
  CHECK(text.margin == QStringLiteral("14.0\u00a0GiB missing"));
  CHECK(text.basis.contains(QStringLiteral("memory runs out in step1.forward")));
  CHECK(text.sentence.contains(QStringLiteral("14.0\u00a0GiB missing")));
}

TEST_CASE("verdict_text: a chance below one half reads as in the answer of fit") {
  cost::StepEstimate estimate = test::fake_estimate(20);
  estimate.verdict = cost::Verdict::kTight;
  estimate.chance = 0.5;
  CHECK(verdict_text(estimate).headline == QStringLiteral("Tight"));
  estimate.chance = 0.49;
  const VerdictText text = verdict_text(estimate);
  CHECK(text.headline == QStringLiteral("Probably does not fit"));
  CHECK(text.sentence.startsWith(QStringLiteral("Probably does not fit: ")));
}

TEST_CASE("verdict_text: names the largest category and every term outside the allocator") {
  cost::StepEstimate estimate = test::fake_estimate(20);
  estimate.verdict = cost::Verdict::kTight;
  estimate.retries = 3;
  const VerdictText text = verdict_text(estimate);
  CHECK(text.headline == QStringLiteral("Tight"));
  CHECK(text.basis.contains(QStringLiteral("(3×)")));
  CHECK(fact(text, QStringLiteral("Most of it")).value == QStringLiteral("activations"));
  const QString tip = fact(text, QStringLiteral("Outside the allocator")).tip;
  CHECK(tip.contains(
      QStringLiteral("CUDA context: 1.00\u00a0GiB, at most 2.00\u00a0GiB (measured, a ruler)")));
}

TEST_CASE("verdict_text: a step's time is a fact with its parts, unless memory runs out") {
  cost::StepEstimate estimate = test::fake_estimate(1);
  cost::StepTime step;
  step.total = Seconds{0.5};
  step.tokens = 8192;
  step.gpus = 2;
  step.model_flops = 2e14;
  step.peak = FlopsPerSecond{1e15};
  step.parts.add(cost::StepPart::kMatrix, Seconds{0.496});
  step.parts.add(cost::StepPart::kOptimizer, Seconds{0.004});
  estimate.time = step;
  const VerdictText text = verdict_text(estimate);
  const Fact& time = fact(text, QStringLiteral("Step time"));
  CHECK(time.value == QStringLiteral("500\u00a0ms"));
  CHECK(time.detail == QStringLiteral("on 2 GPUs"));
  const Fact& rate = fact(text, QStringLiteral("Tokens/s/GPU"));
  CHECK(rate.value == QStringLiteral("8,192"));
  CHECK(rate.detail == QStringLiteral("MFU 20.0\u00a0%"));
  CHECK(time.tip.endsWith(QStringLiteral("\nmatrix products: 496\u00a0ms")));
  const std::size_t with = text.facts.size();
  estimate.verdict = cost::Verdict::kDoesNotFit;
  CHECK(verdict_text(estimate).facts.size() == with - 2);
}

TEST_CASE("verdict_text: host memory is named where a plan needs any") {
  cost::StepEstimate estimate = test::fake_estimate(1);
  const std::size_t without = verdict_text(estimate).facts.size();
  estimate.program.host_bytes = 12 * kGiB;
  const VerdictText text = verdict_text(estimate);
  CHECK(text.facts.size() == without + 1);
  CHECK(fact(text, QStringLiteral("Host memory")).value == QStringLiteral("12.0\u00a0GiB"));
}

}  // namespace headroom::gui
