#include "server/observability/families.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace chx::server {
namespace {

// Integers to the last digit, others as short as they can be read back.
std::string NumberText(double value) {
  if (value == std::floor(value) && std::fabs(value) < 9e15) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrFormat("%.17g", value);
}

void AppendSample(const Family& family, const Family::Sample& sample, std::string* text) {
  absl::StrAppend(text, family.name);
  char separator = '{';
  for (const auto& [name, value] : sample.labels) {
    text->push_back(separator);
    absl::StrAppend(text, name, "=\"",
                    absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                    "\"");
    separator = ',';
  }
  absl::StrAppend(text, sample.labels.empty() ? "" : "}", " ", NumberText(sample.value), "\n");
}

}  // namespace

std::string ToPrometheusText(const std::vector<Family>& families) {
  std::string text;
  for (const Family& family : families) {
    absl::StrAppend(&text, "# HELP ", family.name, " ",
                    absl::StrReplaceAll(family.help, {{"\\", "\\\\"}, {"\n", "\\n"}}), "\n# TYPE ",
                    family.name, family.type == Family::kCounter ? " counter\n" : " gauge\n");
    for (const Family::Sample& sample : family.samples) AppendSample(family, sample, &text);
  }
  return text;
}

}  // namespace chx::server
