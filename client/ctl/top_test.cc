#include "client/ctl/top.h"

#include <gtest/gtest.h>

namespace chx::ctl {
namespace {

SessionStatus Session(uint64_t number, double compute, uint64_t commands, uint64_t memory) {
  SessionStatus session;
  session.number = number;
  session.client_name = "client";
  session.tenant = "default";
  session.state = "attached";
  session.compute_seconds = compute;
  session.commands = commands;
  session.memory_bytes = memory;
  return session;
}

std::vector<uint64_t> Order(const std::vector<Rates>& rates) {
  std::vector<uint64_t> numbers;
  for (const Rates& each : rates) numbers.push_back(each.session.number);
  return numbers;
}

TEST(TopTest, RatesAreDifferencesOverTheTime) {
  const std::vector<SessionStatus> before = {Session(1, 10, 1000, 5), Session(2, 0, 0, 9),
                                             Session(3, 1, 1, 1)};
  const std::vector<SessionStatus> after = {Session(1, 10.5, 1200, 5), Session(2, 2, 20, 9),
                                            Session(4, 0.2, 500, 1)};
  const std::vector<Rates> rates = RatesOf(before, after, 2, "compute");
  EXPECT_EQ(Order(rates), (std::vector<uint64_t>{2, 1, 4}));
  EXPECT_DOUBLE_EQ(rates[0].compute_share, 1);
  EXPECT_DOUBLE_EQ(rates[1].compute_share, 0.25);
  EXPECT_DOUBLE_EQ(rates[1].commands_per_second, 100);
  EXPECT_DOUBLE_EQ(rates[2].commands_per_second, 250);
  EXPECT_EQ(Order(RatesOf(before, after, 2, "memory")), (std::vector<uint64_t>{2, 1, 4}));
  EXPECT_EQ(Order(RatesOf(before, after, 2, "commands")), (std::vector<uint64_t>{4, 1, 2}));
}

TEST(TopTest, ATableHasALineForEach) {
  const std::string table = TopTable(RatesOf({}, {Session(7, 0.5, 10, 2048)}, 1, "compute"), false);
  EXPECT_NE(table.find("50 %"), std::string::npos) << table;
  EXPECT_NE(table.find("2.0 KiB"), std::string::npos) << table;
}

}  // namespace
}  // namespace chx::ctl
