#include "server/collectives/group_member.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
namespace {

// About what a rank costs: its share of the engine, and the name.
constexpr int64_t kGroupBytes = 2048;

// A group of several daemons has threads, connections, and memory for what is on its way, too.
constexpr int64_t kRemoteGroupBytes = 8 << 20;

// A thread that runs collectives.
constexpr int64_t kThreadBytes = 64 << 10;

// And a message, beside its elements.
constexpr int64_t kMessageBytes = 512;
constexpr int64_t kRemoteMessageBytes = 4096;

}  // namespace

absl::Status GroupMember::Form(int64_t number, const GroupRequest& request) {
  if (joined_.contains(number)) {
    return ValueError("[join_group] expects a new number, got ", number);
  }
  if (joined_.size() >= kMaxGroups) {
    return MemoryError("[join_group] a session is in at most ", kMaxGroups, " groups");
  }
  Group group;
  group.remote = !request.address.empty();
  CHX_ASSIGN_OR_RETURN(group.charge,
                       MemoryCharge::Of(account_, group.remote ? kRemoteGroupBytes : kGroupBytes));
  CHX_ASSIGN_OR_RETURN(group.engine, groups_.Form(tenant_, request));
  group.self.id = number;
  group.self.rank = static_cast<int>(request.rank);
  group.self.size = static_cast<int>(request.size);
  joined_.emplace(number, std::move(group));
  return absl::OkStatus();
}

absl::Status GroupMember::Leave(int64_t number) {
  const auto it = joined_.find(number);
  if (it == joined_.end()) {
    return ValueError("[leave_group] expects a group of this session, got number ", number);
  }
  it->second.engine->Break(it->second.self.rank, "has left");
  joined_.erase(it);
  return absl::OkStatus();
}

void GroupMember::LeaveAll(absl::string_view why) {
  BreakAll(why);
  joined_.clear();
}

void GroupMember::BreakAll(absl::string_view why) {
  for (auto& [number, group] : joined_) group.engine->Break(group.self.rank, why);
}

void GroupMember::Break(absl::Span<const AttrValue> attrs, absl::string_view why) {
  if (attrs.empty() || attrs[0].ints().empty()) return;
  const auto it = joined_.find(attrs[0].ints()[0]);
  if (it != joined_.end()) it->second.engine->Break(it->second.self.rank, why);
}

absl::Status GroupMember::Send(int rank, bool remote, const CollectiveCall& call,
                               CollectiveEngine* engine) {
  int64_t bytes = remote ? kRemoteMessageBytes : kMessageBytes;
  for (const KernelTensor& x : call.inputs) bytes += x.size() * ItemSize(x.dtype);
  absl::StatusOr<MemoryCharge> charge = MemoryCharge::Of(account_, bytes);
  if (!charge.ok()) {
    engine->Break(rank, "has no memory for what it sends");
    return charge.status();
  }
  return engine->Send(rank, call, std::move(*charge));
}

absl::StatusOr<GroupMember::Group*> GroupMember::GroupOf(CollectiveCall* call) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupAttr::From(call->op.name, call->attrs[0]));
  const auto it = joined_.find(group.id);
  if (it == joined_.end()) {
    return MakeError(ErrorKind::kContext,
                     absl::StrCat("[", call->op.name, "] expects a process group of this session, ",
                                  "got number ", group.id));
  }
  const GroupAttr& self = it->second.self;
  if (group.rank != self.rank || group.size != self.size) {
    return ValueError("[", call->op.name, "] expects rank ", self.rank, " of ", self.size,
                      ", as this session is in the group, got ", group.rank, " of ", group.size);
  }
  if (locate_ != nullptr) call->location = locate_(call->origin);
  return &it->second;
}

absl::Status GroupMember::Run(const CollectiveCall& call, HostKernels kernels) {
  CollectiveCall located = call;
  CHX_ASSIGN_OR_RETURN(Group * group, GroupOf(&located));
  ++met_;
  // The engine stays, whatever this rank does meanwhile.
  const std::shared_ptr<CollectiveEngine> engine = group->engine;
  const int rank = group->self.rank;
  switch (call.op.pattern->kind) {
    case CollectiveKind::kSend:
      return Send(rank, group->remote, located, engine.get());
    case CollectiveKind::kReceive:
      return engine->Receive(rank, located);
    case CollectiveKind::kAll:
      break;
  }
  if (group->background != nullptr) group->background->WaitUntilIdle();
  return engine->Run(rank, located, kernels);
}

absl::StatusOr<std::unique_ptr<StartedCollective>> GroupMember::Start(const CollectiveCall& call,
                                                                      HostKernels kernels) {
  CollectiveCall located = call;
  CHX_ASSIGN_OR_RETURN(Group * group, GroupOf(&located));
  if (call.op.pattern->kind != CollectiveKind::kAll) {
    return ChainerxError("[", call.op.name, "] expects to run by itself");
  }
  if (group->background == nullptr) {
    CHX_ASSIGN_OR_RETURN(MemoryCharge charge, MemoryCharge::Of(account_, kThreadBytes));
    CHX_ASSIGN_OR_RETURN(group->background, BackgroundCalls::New(group->engine, group->self.rank));
    group->background_charge = std::move(charge);
  }
  ++met_;
  return group->background->Start(located, kernels);
}

}  // namespace chx::server
