#include "server/observability/families.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "server/observability/process_stats.h"

namespace chx::server {
namespace {

TEST(PrometheusText, FamiliesWithAndWithoutSamples) {
  Family requests{"requests_total", "Requests, \"all\"\nof them.", Family::kCounter, {}};
  requests.Add({{"path", "a\\b\"c\nd"}, {"code", "200"}}, 3);
  requests.Add({}, 0.25);
  const Family empty{"nothing", "None.", Family::kGauge, {}};
  EXPECT_EQ(ToPrometheusText({requests, empty}),
            "# HELP requests_total Requests, \"all\"\\nof them.\n"
            "# TYPE requests_total counter\n"
            "requests_total{path=\"a\\\\b\\\"c\\nd\",code=\"200\"} 3\n"
            "requests_total 0.25\n"
            "# HELP nothing None.\n"
            "# TYPE nothing gauge\n");
}

TEST(PrometheusText, LargeIntegersKeepTheirDigits) {
  Family bytes{"bytes", "", Family::kGauge, {}};
  bytes.Add({}, 9007199254740991.0 - 8e15);
  bytes.Add({}, 123456789012.0);
  const std::string text = ToPrometheusText({bytes});
  EXPECT_NE(text.find("bytes 1007199254740991\n"), std::string::npos) << text;
  EXPECT_NE(text.find("bytes 123456789012\n"), std::string::npos) << text;
}

TEST(ProcessStats, OfThisProcess) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GT(stats.resident_bytes, 1 << 20);
  EXPECT_GE(stats.threads, 1);
  EXPECT_GE(stats.open_descriptors, 3);
  EXPECT_GE(stats.max_descriptors, stats.open_descriptors);
  EXPECT_GT(stats.start_time, 1.6e9);
  const int more = dup(STDERR_FILENO);
  EXPECT_EQ(ReadProcessStats().open_descriptors, stats.open_descriptors + 1);
  close(more);
}

}  // namespace
}  // namespace chx::server
