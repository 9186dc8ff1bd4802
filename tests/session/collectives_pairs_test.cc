// Messages from one rank of a process group to another.
#include "absl/strings/match.h"
#include "tests/session/ranks_fixture.h"

namespace chx::server {
namespace {

using absl::StrContains;

class CollectivesPairsTest : public RanksTest {
 protected:
  static Handle Send(Rank& rank, Handle x, int64_t peer, int64_t tag = 0) {
    return rank.Call("send", 1, {x}, {peer, tag});
  }
  static Handle Receive(Rank& rank, int64_t peer, size_t size, int64_t tag = 0) {
    return rank.Call("recv", 1, {rank.New(Values(size))}, {peer, tag});
  }
};

TEST_F(CollectivesPairsTest, MessagesOfATagComeInOrder) {
  FormGroup(2);
  Rank& a = *ranks_[0];
  Rank& b = *ranks_[1];
  // Nobody has asked for them yet.
  EXPECT_EQ(*a.Read(Send(a, a.New({1, 2}), 1)), Values());
  Send(a, a.New({3}), 1, 5);
  Send(a, a.New({4, 5}), 1);
  EXPECT_EQ(*b.Read(Receive(b, 0, 1, 5)), Values({3}));
  EXPECT_EQ(*b.Read(Receive(b, 0, 2)), Values({1, 2}));
  EXPECT_EQ(*b.Read(Receive(b, 0, 2)), Values({4, 5}));
  // A rank may send to itself.
  Send(a, a.New({6}), 0);
  EXPECT_EQ(*a.Read(Receive(a, 0, 1)), Values({6}));
  // Who asks first waits.
  All([](Rank& rank) {
    const auto own = static_cast<float>(rank.rank());
    if (rank.rank() == 1) Send(rank, rank.New({own}), 0);
    EXPECT_EQ(*rank.Read(Receive(rank, 1 - rank.rank(), 1)), Values({1 - own}));
    if (rank.rank() == 0) Send(rank, rank.New({own}), 1);
  });
}

TEST_F(CollectivesPairsTest, WhatIsWrongIsSaidAndTheGroupGoesOn) {
  FormGroup(2);
  Rank& a = *ranks_[0];
  Rank& b = *ranks_[1];
  a.set_line("send.py:3");
  Send(a, a.New({1, 2}), 1);
  std::string error = b.Error(Receive(b, 0, 3));
  EXPECT_TRUE(
      StrContains(error, "[recv] expects float32(3,), got float32(2,), sent at rank 0 (send.py:3)"))
      << error;
  // An error is sent as one, and one that receives into an error has received all the same.
  const Handle bad = a.Call("matmul", 0, {a.New({1, 2}), a.New({1})});
  Send(a, bad, 1);
  error = b.Error(Receive(b, 0, 2));
  EXPECT_TRUE(StrContains(error, "[matmul]") && StrContains(error, "at rank 0")) << error;
  Send(a, a.New({7}), 1);
  Send(a, a.New({8}), 1);
  const Handle wrong = b.Call("matmul", 0, {b.New({1, 2}), b.New({1})});
  EXPECT_NE(b.Error(b.Call("recv", 1, {wrong}, {0, 0})), "");
  EXPECT_EQ(*b.Read(Receive(b, 0, 1)), Values({8}));
  for (int64_t peer : {-1, 2}) {
    error = a.Error(Send(a, a.New({1}), peer));
    EXPECT_TRUE(StrContains(error, "[send] expects a rank in [0, 2), got")) << error;
    EXPECT_NE(a.Error(Receive(a, peer, 1)), "");
  }
  // What no client sends: attributes that are missing, or of other types.
  for (const char* name : {"send", "recv"}) {
    const OpDef& op = *OpRegistry::Global().Find(name);
    command::ApplyOp apply;
    apply.op = static_cast<uint16_t>(op.id + 1);
    apply.inputs.emplace_back(a.New({1}));
    const AttrValue group(Ints{1, 0, 2});
    using Attrs = std::vector<AttrValue>;
    for (const Attrs& attrs : {Attrs{}, Attrs{group}, Attrs{group, AttrValue(Ints{1})},
                               Attrs{group, AttrValue(Ints{1}), AttrValue(Ints{0})},
                               Attrs{group, AttrValue(), AttrValue(), AttrValue()}}) {
      apply.attrs.assign(attrs.begin(), attrs.end());
      apply.results = {a.NewHandle()};
      a.Do({apply});
      EXPECT_NE(a.Error(apply.results[0]), "") << name << attrs.size();
    }
  }
  Send(a, a.New({9}), 1);
  EXPECT_EQ(*b.Read(Receive(b, 0, 1)), Values({9}));
}

TEST_F(CollectivesPairsTest, WhatARankHasSentBeforeItsEndIsReceived) {
  FormGroup(2);
  Rank& b = *ranks_[1];
  Send(*ranks_[0], ranks_[0]->New({1}), 1);
  ranks_[0].reset();
  EXPECT_EQ(*b.Read(Receive(b, 0, 1)), Values({1}));
  const std::string error = b.Error(Receive(b, 0, 1));
  EXPECT_TRUE(StrContains(error, "rank 0 has left")) << error;
}

TEST_F(CollectivesPairsTest, ARankThatDoesNotSendIsNamed) {
  UseTimeout(std::chrono::milliseconds(50));
  FormGroup(2);
  const std::string error = ranks_[1]->Error(Receive(*ranks_[1], 0, 1));
  EXPECT_TRUE(StrContains(error, "rank 0 did not send to rank 1 within 50ms")) << error;
}

// Messages wait in the sender's quota, and give it back.
TEST_F(CollectivesPairsTest, MessagesAreChargedToTheirSender) {
  limits_.memory_bytes = int64_t{8} << 20;
  FormGroup(2);
  Rank& a = *ranks_[0];
  Rank& b = *ranks_[1];
  const size_t count = 1 << 18;  // a MiB
  const Handle x = a.New(Values(count));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) Send(a, x, 1);
    for (int i = 0; i < 5; ++i) {
      const Handle y = Receive(b, 0, count);
      EXPECT_EQ(b.Error(y), "");
      b.Do({command::Release{{y, y - 1}}});
    }
  }
  std::string error;
  for (int i = 0; i < 8 && error.empty(); ++i) error = a.Error(Send(a, x, 1));
  EXPECT_TRUE(StrContains(error, "out of memory")) << error;
  error = b.Error(b.Call("all_reduce", 1, {b.New({1})}));
  EXPECT_TRUE(StrContains(error, "rank 0 has no memory for what it sends")) << error;
}

}  // namespace
}  // namespace chx::server
