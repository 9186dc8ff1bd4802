#include "server/rpc/admission.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace chx::server {
namespace {

PeerInfo User(uid_t uid) {
  PeerInfo peer;
  peer.uid = uid;
  return peer;
}

PeerInfo Address(const char* address, const char* token = "") {
  PeerInfo peer;
  peer.kind = PeerInfo::kTcp;
  peer.address = address;
  peer.token_label = token;
  return peer;
}

AdmissionLimits Small() {
  AdmissionLimits limits;
  limits.sessions = 4;
  limits.sessions_per_peer = 2;
  limits.connections = 3;
  limits.connections_per_peer = 3;
  limits.frame_bytes = 1000;
  limits.frame_wait = std::chrono::milliseconds(50);
  return limits;
}

TEST(Admission, APeerHasItsShareAndLeavesTheRest) {
  Admission admission(Small());
  std::vector<Admission::Ticket> tickets;
  for (int i = 0; i < 2; ++i) tickets.push_back(*admission.AdmitSession(User(1000)));
  const absl::Status refused = admission.AdmitSession(User(1000)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("uid 1000 has 2 sessions"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("--max-sessions-per-peer"), std::string::npos) << refused;
  // An address, the same with another token, and a user are three peers.
  tickets.push_back(*admission.AdmitSession(Address("10.0.0.1", "a")));
  tickets.push_back(*admission.AdmitSession(Address("10.0.0.1", "b")));
  const absl::Status full = admission.AdmitSession(User(1)).status();
  EXPECT_NE(full.message().find("4 sessions"), std::string::npos) << full;
  tickets.erase(tickets.begin());
  EXPECT_TRUE(admission.AdmitSession(User(1000)).ok());
}

TEST(Admission, ConnectionsAndSessionsAreCountedApart) {
  Admission admission(Small());
  std::vector<Admission::Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(*admission.AdmitConnection(User(1)));
  EXPECT_FALSE(admission.AdmitConnection(User(2)).ok());
  EXPECT_TRUE(admission.AdmitSession(User(2)).ok());
  tickets.clear();
  EXPECT_TRUE(admission.AdmitConnection(User(2)).ok());
}

TEST(Admission, TicketsMayOutliveIt) {
  Admission::Ticket ticket;
  {
    Admission admission(Small());
    ticket = *admission.AdmitSession(User(1));
  }
  ticket = nullptr;
}

TEST(Admission, WhatIsAdmittedIsChargedToTheDaemon) {
  MemoryBudget memory(1 << 20);
  AdmissionLimits limits = Small();
  limits.memory = &memory;
  Admission admission(limits);
  {
    const Admission::Ticket ticket = *admission.AdmitConnection(User(1));
    EXPECT_GT(memory.used(), 64 << 10);
  }
  EXPECT_EQ(memory.used(), 0);
  EXPECT_TRUE(admission.Reserve(600, &memory));
  EXPECT_EQ(memory.used(), 600);
  admission.Release(600, &memory);
  EXPECT_EQ(memory.used(), 0);
}

TEST(Admission, OneFrameAtATimeComesThroughAtTheLimitOfTheDaemon) {
  MemoryBudget memory(1 << 20);
  AdmissionLimits limits = Small();
  limits.memory = &memory;
  Admission admission(limits);
  memory.Charge(memory.limit());
  // Who has no memory any more can come to close its session, or to release what it has.
  EXPECT_TRUE(admission.AdmitConnection(User(1)).ok());
  const int first = 0, second = 0;
  EXPECT_TRUE(admission.Reserve(200, &first));
  EXPECT_FALSE(admission.Reserve(200, &second));
  EXPECT_TRUE(admission.Reserve(300, &first));
  admission.Release(500, &first);
  EXPECT_TRUE(admission.Reserve(200, &second));
  EXPECT_FALSE(admission.Reserve(200, &first));
  admission.Release(200, &second);
  memory.Release(memory.limit(), false);
  EXPECT_EQ(memory.used(), 0);
}

TEST(Admission, FramesWaitForEachOtherAWhile) {
  Admission admission(Small());
  EXPECT_TRUE(admission.Reserve(600, &admission));
  EXPECT_FALSE(admission.Reserve(600, &admission));
  EXPECT_TRUE(admission.Reserve(400, &admission));
  admission.Release(400, &admission);
  AdmissionLimits patient = Small();
  patient.frame_wait = std::chrono::seconds(60);
  Admission other(patient);
  EXPECT_TRUE(other.Reserve(1000, &other));
  std::thread waiting([&] {
    EXPECT_TRUE(other.Reserve(700, &other));
    other.Release(700, &other);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  other.Release(500, &other);
  other.Release(500, &other);
  waiting.join();
  EXPECT_TRUE(other.Reserve(1000, &other));
}

}  // namespace
}  // namespace chx::server
