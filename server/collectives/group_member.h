// A session's part in process groups.
#ifndef CHX_SERVER_COLLECTIVES_GROUP_MEMBER_H_
#define CHX_SERVER_COLLECTIVES_GROUP_MEMBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/collectives/background_calls.h"
#include "server/collectives/process_groups.h"
#include "server/engine/collectives.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

// The groups by the numbers that the client has given them. Used under the session's lock. At its
// end it leaves all groups, and the other ranks' collectives fail.
class GroupMember final : public Collectives {
 public:
  static constexpr size_t kMaxGroups = 256;

  // `account` is charged for groups.
  GroupMember(ProcessGroups* groups, std::string tenant, MemoryAccountPtr account)
      : groups_(*groups), tenant_(std::move(tenant)), account_(std::move(account)) {}
  ~GroupMember() override { LeaveAll("has left"); }

  // As ProcessGroups::Form. The number is not in use.
  absl::Status Form(int64_t number, const GroupRequest& request);
  absl::Status Leave(int64_t number);
  // `why`: as CollectiveEngine::Break.
  void LeaveAll(absl::string_view why);
  void Break(absl::Span<const AttrValue> attrs, absl::string_view why) override;
  void BreakAll(absl::string_view why);

  // Of the group that the call's first attribute names.
  absl::Status Run(const CollectiveCall& call, HostKernels kernels) override;
  absl::StatusOr<std::unique_ptr<StartedCollective>> Start(const CollectiveCall& call,
                                                           HostKernels kernels) override;
  bool IsIn(int64_t number) const { return joined_.contains(number); }
  // How many calls have met other ranks.
  uint64_t met() const { return met_; }
  // Where the client's calls are, by their origin; may be null. The text stays while the call runs.
  void set_locate(std::function<absl::string_view(uint32_t)> locate) {
    locate_ = std::move(locate);
  }

 private:
  struct Group {
    std::shared_ptr<CollectiveEngine> engine;
    GroupAttr self;
    bool remote = false;  // other ranks may be of other daemons
    MemoryCharge charge;
    std::shared_ptr<BackgroundCalls> background;  // null: nothing has been started
    MemoryCharge background_charge;
  };

  // The call's, in which it says the session's rank. *call gets its location.
  absl::StatusOr<Group*> GroupOf(CollectiveCall* call);
  absl::Status Send(int rank, bool remote, const CollectiveCall& call, CollectiveEngine* engine);

  ProcessGroups& groups_;
  const std::string tenant_;
  const MemoryAccountPtr account_;
  std::function<absl::string_view(uint32_t)> locate_;
  uint64_t met_ = 0;
  absl::flat_hash_map<int64_t, Group> joined_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_GROUP_MEMBER_H_
