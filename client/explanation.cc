#include "client/explanation.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace chx {
namespace {

constexpr int kRow = 18;  // pixels
constexpr int kWidth = 900;
constexpr size_t kTimeWidth = 10;  // characters

// An operator's kernel, with its operands as text.
struct Call {
  std::string op;
  std::string inputs;
  std::string outputs;
};

// Calls that run as one.
struct Step {
  std::vector<Call> calls;
  int64_t block = 0;        // elements that go through all calls together
  int64_t nanoseconds = 0;  // of all runs that were measured
};

// How the daemon runs a recording for arguments of one kind.
struct Plan {
  std::vector<Step> steps;
  int64_t omitted = 0;  // steps that there are besides these
  int64_t measured = 0;
  std::vector<std::string> arena;  // temporaries
  int64_t results = 0;             // bytes
  int64_t in_sequences = 0;        // steps that the device may repeat as one with those beside them
  int64_t repeated = 0;            // how often it has repeated a sequence
  int64_t beside = 0;              // collectives that go on while other steps run
  std::vector<std::string> shared;
  std::vector<std::string> dropped;

  double nanoseconds() const {
    double sum = 0;
    for (const Step& step : steps) sum += static_cast<double>(step.nanoseconds);
    return sum;
  }
};

struct Parsed {
  std::string declined;  // why there is no plan
  std::vector<Plan> plans;
};

std::string Size(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (value < 1024) return absl::StrFormat("%.4g %s", value, unit);
    value /= 1024;
  }
  return absl::StrFormat("%.4g GiB", value);
}

std::string Time(double nanoseconds) {
  if (nanoseconds < 1e6) return absl::StrFormat("%.1f µs", nanoseconds / 1e3);
  return absl::StrFormat("%.2f ms", nanoseconds / 1e6);
}

// The names with how often they are there, in the order of the first ones.
std::string Names(const std::vector<std::string>& ops) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& op : ops) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&op](const auto& count) { return count.first == op; });
    if (found == counts.end()) {
      counts.emplace_back(op, 1);
    } else {
      ++found->second;
    }
  }
  return absl::StrJoin(counts, ", ", [](std::string* text, const auto& count) {
    absl::StrAppend(text, count.first);
    if (count.second > 1) absl::StrAppend(text, " ×", count.second);
  });
}

// A line of the daemon's.
class Line {
 public:
  explicit Line(absl::string_view line) : fields_(absl::StrSplit(line, '\t')) {}
  absl::string_view kind() const { return fields_[0]; }
  std::string Text(size_t i) const {
    return i + 1 < fields_.size() ? std::string(fields_[i + 1]) : std::string();
  }
  int64_t Number(size_t i) const {
    int64_t number = 0;
    return absl::SimpleAtoi(Text(i), &number) ? number : 0;
  }

 private:
  std::vector<absl::string_view> fields_;
};

void AddTo(Plan* plan, const Line& line) {
  if (line.kind() == "step") {
    plan->steps.push_back({{}, line.Number(1), line.Number(0)});
  } else if (line.kind() == "call" && !plan->steps.empty()) {
    plan->steps.back().calls.push_back({line.Text(0), line.Text(1), line.Text(2)});
  } else if (line.kind() == "more") {
    plan->omitted = line.Number(0);
  } else if (line.kind() == "arena") {
    plan->arena.push_back(absl::StrCat(Size(line.Number(1)), " on device ", line.Number(0)));
  } else if (line.kind() == "results") {
    plan->results = line.Number(0);
  } else if (line.kind() == "sequences") {
    plan->in_sequences = line.Number(0);
    plan->repeated = line.Number(1);
  } else if (line.kind() == "beside") {
    plan->beside = line.Number(0);
  } else if (line.kind() == "shared") {
    plan->shared.push_back(line.Text(0));
  } else if (line.kind() == "dropped") {
    plan->dropped.push_back(line.Text(0));
  }
}

// The daemon's lines (docs/protocol.md).
Parsed Parse(const std::string& lines) {
  Parsed parsed;
  for (absl::string_view each : absl::StrSplit(lines, '\n')) {
    const Line line(each);
    if (line.kind() == "program") {
      parsed.declined = line.Text(0);
    } else if (line.kind() == "plan") {
      parsed.plans.emplace_back();
      parsed.plans.back().measured = line.Number(1);
    } else if (!parsed.plans.empty()) {
      AddTo(&parsed.plans.back(), line);
    }
  }
  return parsed;
}

std::vector<std::string> Facts(const Plan& plan) {
  const std::string arena = plan.arena.empty() ? "none" : absl::StrJoin(plan.arena, ", ");
  std::vector<std::string> facts = {
      absl::StrCat("temporaries: ", arena, "; results: ", Size(plan.results))};
  if (!plan.shared.empty()) {
    facts.push_back(absl::StrCat("computed once, used again: ", Names(plan.shared)));
  }
  if (!plan.dropped.empty()) {
    facts.push_back(absl::StrCat("left out, as nothing depends on it: ", Names(plan.dropped)));
  }
  if (plan.in_sequences > 0) {
    facts.push_back(absl::StrCat("in sequences that the device repeats as one: ", plan.in_sequences,
                                 " steps, ", plan.repeated, " repetitions"));
  }
  if (plan.beside > 0) {
    facts.push_back(absl::StrCat("collectives that go on while other steps run: ", plan.beside));
  }
  if (plan.measured > 0) {
    const double each = plan.nanoseconds() / static_cast<double>(plan.measured);
    facts.push_back(absl::StrCat("measured: ", plan.measured, " runs of ", Time(each), " each"));
  }
  return facts;
}

std::string Heading(const Explained& recording, const Parsed& parsed) {
  const std::string how = parsed.plans.empty()
                              ? absl::StrCat("runs by its commands: ", parsed.declined)
                              : "runs by a plan";
  return absl::StrCat(recording.title, ": ", how);
}

// Characters: "µ" is two bytes.
size_t Columns(absl::string_view text) {
  return text.size() - (absl::StrContains(text, "µ") ? 1 : 0);
}

// How long a step takes, in columns; empty: nobody knows.
std::string Share(const Plan& plan, const Step& step) {
  const double all = plan.nanoseconds();
  if (all == 0 || plan.measured == 0) return "";
  const auto own = static_cast<double>(step.nanoseconds);
  const std::string each = Time(own / static_cast<double>(plan.measured));
  const std::string space(kTimeWidth - std::min(Columns(each), kTimeWidth), ' ');
  return absl::StrFormat("%s%s %3.0f%%  ", space, each, 100 * own / all);
}

std::string CallText(const Call& call, absl::string_view arrow) {
  return absl::StrCat(call.op, "(", call.inputs, ") ", arrow, " ", call.outputs);
}

std::string FusedText(const Step& step) {
  if (step.block == 0) return "fused, in one kernel";
  return absl::StrCat("fused, in blocks of ", step.block, " elements");
}

void AppendPlan(const Plan& plan, std::string* text) {
  for (const std::string& fact : Facts(plan)) absl::StrAppend(text, "  ", fact, "\n");
  for (const Step& step : plan.steps) {
    const std::string share = Share(plan, step);
    std::string begin = absl::StrCat("  ", share);
    if (step.calls.size() > 1) {
      absl::StrAppend(text, begin, FusedText(step), ":\n");
      begin = std::string(4 + Columns(share), ' ');
    }
    for (const Call& call : step.calls) {
      absl::StrAppend(text, begin, CallText(call, "->"), "\n");
    }
  }
  if (plan.omitted > 0) absl::StrAppend(text, "  and ", plan.omitted, " more\n");
}

// A picture that grows downwards.
class Drawing {
 public:
  void Add(const Explained& recording, const Parsed& parsed) {
    Write(Heading(recording, parsed), 8, "font-weight=\"bold\"");
    y_ += kRow + 4;
    for (const Plan& plan : parsed.plans) Add(plan);
  }

  std::string Finish() const {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"monospace\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s\n</svg>\n",
        kWidth, y_ + 8, absl::StrJoin(parts_, "\n"));
  }

 private:
  void Write(absl::string_view text, int x, absl::string_view style = "") {
    const std::string escaped = absl::StrReplaceAll(
        text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#x27;"}});
    parts_.push_back(
        absl::StrFormat("<text x=\"%d\" y=\"%d\" %s>%s</text>", x, y_ + 13, style, escaped));
  }

  void Add(const Plan& plan) {
    for (const std::string& fact : Facts(plan)) {
      Write(fact, 8, "fill=\"#555\"");
      y_ += kRow;
    }
    for (const Step& step : plan.steps) Add(plan, step);
    if (plan.omitted > 0) {
      Write(absl::StrCat("and ", plan.omitted, " more"), 16);
      y_ += kRow;
    }
    y_ += 8;
  }

  void Add(const Plan& plan, const Step& step) {
    const bool fused = step.calls.size() > 1;
    const int height = kRow * static_cast<int>(step.calls.size() + (fused ? 1 : 0)) + 4;
    parts_.push_back(absl::StrFormat(
        "<rect x=\"8\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"#99a\"/>",
        y_, kWidth - 16, height, fused ? "#fff1d6" : "#eef3fb"));
    const std::string share = Share(plan, step);
    if (!share.empty()) {
      const double bar = 200 * static_cast<double>(step.nanoseconds) / plan.nanoseconds();
      parts_.push_back(
          absl::StrFormat("<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" fill=\"#e07a5f\"/>",
                          kWidth - 216, y_ + 3, bar));
      Write(absl::StripAsciiWhitespace(share), kWidth - 224, "text-anchor=\"end\" fill=\"#555\"");
    }
    if (fused) {
      Write(FusedText(step), 16, "fill=\"#a60\"");
      y_ += kRow;
    }
    for (const Call& call : step.calls) {
      Write(CallText(call, "→"), fused ? 24 : 16);
      y_ += kRow;
    }
    y_ += 8;
  }

  std::vector<std::string> parts_;
  int y_ = 8;
};

}  // namespace

std::string ExplanationAsText(absl::Span<const Explained> recordings) {
  if (recordings.empty()) return "nothing has been recorded";
  std::string text;
  for (const Explained& recording : recordings) {
    const Parsed parsed = Parse(recording.lines);
    absl::StrAppend(&text, Heading(recording, parsed), "\n");
    for (size_t i = 0; i < parsed.plans.size(); ++i) {
      if (parsed.plans.size() > 1) {
        absl::StrAppend(&text, " plan ", i + 1, " of ", parsed.plans.size(), "\n");
      }
      AppendPlan(parsed.plans[i], &text);
    }
  }
  text.pop_back();
  return text;
}

std::string ExplanationAsSvg(absl::Span<const Explained> recordings) {
  Drawing drawing;
  for (const Explained& recording : recordings) drawing.Add(recording, Parse(recording.lines));
  return drawing.Finish();
}

}  // namespace chx
