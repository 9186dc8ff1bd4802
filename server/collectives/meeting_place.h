// Where the daemons of a group find each other: one of them, whom all ranks' clients name.
#ifndef CHX_SERVER_COLLECTIVES_MEETING_PLACE_H_
#define CHX_SERVER_COLLECTIVES_MEETING_PLACE_H_

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/collectives/group_channel.h"

namespace chx::server {

// A connection for each group of each daemon, which stays as long as the group does there: what
// breaks a group anywhere, or the end of a daemon, is told to all others. Thread-safe.
class MeetingPlace {
 public:
  // Serves a connection to its end.
  void Serve(int socket);

 private:
  struct Member {
    explicit Member(int socket) : channel(socket) {}
    GroupChannel channel;
    std::string address;
    std::vector<int> ranks;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // tenant, name, secret
  struct Group {
    Key key;
    std::vector<Member*> members;
    std::vector<const Member*> of_rank;  // null: it has not come
    size_t missing = 0;
    bool formed = false;
    bool over = false;  // failed, or broken: a new one can form
  };
  using GroupPtr = std::shared_ptr<Group>;

  // Each handles one message of the member's; *group is null until it has joined one.
  void Join(const groups::Request::Join& join, Member* member, GroupPtr* group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Enter(const groups::Request::Join& join, Member* member, Group* group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Withdraw(int64_t rank, Member* member, Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Before it has formed; the member's next rank is of the group that forms then.
  void LeaveIfWithoutRanks(Member* member, GroupPtr* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellFormed(Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellFailed(const absl::Status& why, Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All but the member.
  void TellBroken(groups::Broken broken, const Member* but, Group* group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Depart(Member* member, Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetForming(const Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Key, GroupPtr> forming_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MEETING_PLACE_H_
