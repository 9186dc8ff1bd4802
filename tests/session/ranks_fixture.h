// Sessions that are ranks of process groups, each driven by commands on a thread of its own.
#ifndef CHX_TESTS_SESSION_RANKS_FIXTURE_H_
#define CHX_TESTS_SESSION_RANKS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "server/collectives/process_groups.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"

namespace chx::server {

using Values = std::vector<float>;

// A client of one session.
class Rank {
 public:
  Rank(const Devices* devices, ProcessGroups* groups, const SessionLimits& limits,
       const std::string& tenant, int rank, int size)
      : groups_(*groups), rank_(rank), size_(size) {
    auto account = std::make_shared<MemoryAccount>(limits.memory_bytes);
    SessionResources resources;
    resources.account = account;
    resources.groups = std::make_unique<GroupMember>(groups, tenant, account);
    session_ = std::make_unique<Session>(devices, limits, std::move(resources));
  }

  int rank() const { return rank_; }
  Session& session() { return *session_; }

  absl::Status Join(int64_t group, const std::string& name = "g", const std::string& secret = "") {
    command::JoinGroup join;
    join.request_id = 7;
    join.group = group;
    join.rank = rank_;
    join.size = size_;
    join.name = name;
    join.secret = secret;
    join.address = address_;
    return Join(join);
  }
  absl::Status Join(const command::JoinGroup& join) {
    SessionOutput output;
    session_->Execute({Command(join)}, &output);
    const RootErrorPtr& error = output.values.back().error;
    return error == nullptr ? absl::OkStatus() : error->status;
  }

  void Do(std::vector<Command> commands) {
    SessionOutput output;
    session_->Execute(commands, &output, batch_);
  }
  // Of the commands that follow.
  void set_batch(uint64_t batch) { batch_ = batch; }
  Handle New(const Values& values, std::vector<int64_t> shape = {}) {
    if (shape.empty()) shape.push_back(static_cast<int64_t>(values.size()));
    command::Upload upload;
    upload.result = ++last_;
    upload.device = device_;
    upload.shape.assign(shape.begin(), shape.end());
    upload.data = absl::string_view(reinterpret_cast<const char*>(values.data()),
                                    values.size() * sizeof(float));
    Do({upload});
    return upload.result;
  }
  // Calls a collective of a group, with the attributes after the first one.
  Handle Call(const std::string& name, int64_t group, const std::vector<Handle>& inputs,
              const std::vector<int64_t>& attrs = {}) {
    const OpDef& op = *OpRegistry::Global().Find(name);
    command::ApplyOp apply;
    apply.op = static_cast<uint16_t>(op.id + 1);
    apply.location = 1;
    for (Handle input : inputs) apply.inputs.emplace_back(input);
    const size_t results = op.variadic_outputs ? inputs.size() : 1;
    for (size_t i = 0; i < results; ++i) apply.results.push_back(++last_);
    if (op.kind == OpKind::kCollective) apply.attrs.emplace_back(Ints{group, rank_, size_});
    for (int64_t attr : attrs) apply.attrs.emplace_back(attr);
    for (size_t i = apply.attrs.size(); i < op.attrs.size(); ++i) {
      apply.attrs.push_back(op.attrs[i].default_value);
    }
    const Handle first = apply.results[0];
    Do({command::DefineLocation{1, line_}, apply});
    return first;
  }
  absl::StatusOr<Values> Read(Handle handle) {
    const absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(handle);
    if (!copy.ok()) return copy.status();
    Values values(copy->data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), copy->data.data(), copy->data.size());
    return values;
  }
  std::string Error(Handle handle) {
    const absl::StatusOr<Values> values = Read(handle);
    return values.ok() ? "" : std::string(values.status().message());
  }
  // As a manager of sessions does it.
  void End() {
    session_->stop().EndSession();
    groups_.WakeStopped();
  }
  // What it does then, when nobody uses the session any more. Nor may the rank be used.
  void Destroy() { session_.reset(); }
  void set_line(std::string line) { line_ = std::move(line); }
  // Where groups meet that it joins from now on.
  void set_address(std::string address) { address_ = std::move(address); }
  // Of New, from now on.
  void set_device(uint16_t device) { device_ = device; }
  uint16_t device() const { return device_; }
  Handle NewHandle() { return ++last_; }

 private:
  ProcessGroups& groups_;
  const int rank_;
  const int size_;
  std::unique_ptr<Session> session_;
  Handle last_ = 0;
  uint64_t batch_ = 0;
  uint16_t device_ = 0;
  std::string line_ = "train.py:1";
  std::string address_;
};

// Row `row` of rank `rank`: values that tell all of them apart.
inline float At(int rank, int row) { return static_cast<float>(10 * (rank + 1) + row); }

// That each collective of group 1 gives what it says, to a rank of `size`; of all ranks at the same
// time.
inline void CheckEachCollective(Rank& rank, int size) {
  const int self = rank.rank();
  const bool root = self == size - 1;
  const float own = At(self, 0);
  Values rows;
  Values column;
  Values gathered;
  float sum = 0;
  for (int i = 0; i < size; ++i) {
    rows.push_back(At(self, i));
    column.push_back(At(i, self));
    gathered.push_back(At(i, 0));
    sum += At(i, 0);
  }
  const Handle x = rank.New({own});
  const Handle many = rank.New(rows, {size, 1});
  EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {x})), Values({sum}));
  EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {x}, {1})),
            Values({sum / static_cast<float>(size)}));
  EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {x}, {2})), Values({At(size - 1, 0)}));
  EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {x}, {3})), Values({At(0, 0)}));
  const Handle first = rank.Call("all_reduce", 1, {x, many, x});
  EXPECT_EQ(*rank.Read(first), Values({sum}));
  EXPECT_EQ(*rank.Read(first + 2), Values({sum}));
  // Entries of these take `root` and `reduction` in the order of the table.
  const OpDef& reduce = *OpRegistry::Global().Find("reduce");
  std::vector<int64_t> to_last(reduce.attrs.size() - 1, 0);
  to_last[reduce.AttrIndex("root") - 1] = size - 1;
  EXPECT_EQ(*rank.Read(rank.Call("reduce", 1, {x}, to_last)), root ? Values({sum}) : Values());
  EXPECT_EQ(*rank.Read(rank.Call("broadcast", 1, {x}, {size - 1})), Values({At(size - 1, 0)}));
  EXPECT_EQ(*rank.Read(rank.Call("all_gather", 1, {x})), gathered);
  EXPECT_EQ(*rank.Read(rank.Call("gather", 1, {x}, {size - 1})), root ? gathered : Values());
  EXPECT_EQ(*rank.Read(rank.Call("scatter", 1, {root ? many : x}, {size - 1})),
            Values({At(size - 1, self)}));
  EXPECT_EQ(*rank.Read(rank.Call("reduce_scatter", 1, {many})),
            Values({sum + static_cast<float>(size * self)}));
  EXPECT_EQ(*rank.Read(rank.Call("all_to_all", 1, {many})), column);
  const Handle none = rank.New({}, {0});
  EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {none})), Values());
}

// The same of a backward pass through a collective, of two ranks: its gradient. Gives the loss.
inline Handle CheckBackward(Rank& rank) {
  const float own = static_cast<float>(rank.rank() + 1);
  const Handle x = rank.New({own, own});
  rank.Do({command::RequireGrad{x, 0}});
  const Handle y = rank.Call("all_reduce", 1, {x});
  const Handle loss = rank.Call("multiply", 0, {y, rank.New({own, 10 * own})});
  command::Backward backward;
  backward.outputs = {loss};
  const Handle grad = rank.NewHandle();
  rank.Do({backward, command::GetGrad{x, 0, grad}});
  EXPECT_EQ(*rank.Read(grad), Values({3, 30}));
  return loss;
}

class RanksTest : public ::testing::Test {
 protected:
  // `other`: null: the list has devices of native only.
  explicit RanksTest(const std::string& devices = "native:0",
                     std::unique_ptr<Backend> other = nullptr)
      : backend_(CreateNativeBackend({})), other_backend_(std::move(other)) {
    std::vector<Backend*> backends = {backend_.get()};
    if (other_backend_ != nullptr) backends.push_back(other_backend_.get());
    const absl::Status opened = devices_.Open(devices, backends);
    EXPECT_TRUE(opened.ok()) << opened;
    limits_.compute_slots = &slots_;
    UseTimeout(std::chrono::seconds(30));
  }

  void UseTimeout(std::chrono::milliseconds timeout) {
    ranks_.clear();
    groups_ = std::make_unique<ProcessGroups>(timeout);
  }
  std::unique_ptr<Rank> NewRank(int rank, int size, const std::string& tenant = "lab") {
    return std::make_unique<Rank>(&devices_, groups_.get(), limits_, tenant, rank, size);
  }
  // Calls `run` for each rank at the same time.
  void All(const std::function<void(Rank&)>& run) {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&run, &rank] { run(*rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void MakeRanks(int size) {
    ranks_.clear();
    for (int i = 0; i < size; ++i) ranks_.push_back(NewRank(i, size));
  }
  // That are in group 1.
  void FormGroup(int size) {
    MakeRanks(size);
    All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> other_backend_;
  Devices devices_;
  ComputeSlots slots_{1};
  SessionLimits limits_;
  std::unique_ptr<ProcessGroups> groups_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_RANKS_FIXTURE_H_
