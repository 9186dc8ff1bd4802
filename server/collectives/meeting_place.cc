#include "server/collectives/meeting_place.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/collective.h"
#include "ops/error.h"
#include "server/collectives/ranks_text.h"
#include "server/peers/handshake.h"

namespace chx::server {

void MeetingPlace::ForgetForming(const Group& group) {
  const auto it = forming_.find(group.key);
  if (it != forming_.end() && it->second.get() == &group) forming_.erase(it);
}

void MeetingPlace::TellFailed(const absl::Status& why, Group* group) {
  group->over = true;
  ForgetForming(*group);
  groups::Notice notice;
  notice.mutable_failed()->set_kind(static_cast<uint32_t>(KindOf(why)));
  notice.mutable_failed()->set_message(std::string(why.message()));
  for (Member* member : group->members) member->channel.Send(notice);
}

void MeetingPlace::TellBroken(groups::Broken broken, const Member* but, Group* group) {
  group->over = true;
  groups::Notice notice;
  *notice.mutable_broken() = std::move(broken);
  for (Member* member : group->members) {
    if (member != but) member->channel.Send(notice);
  }
}

void MeetingPlace::TellFormed(Group* group) {
  group->formed = true;
  ForgetForming(*group);
  groups::Notice notice;
  groups::Notice::Formed& formed = *notice.mutable_formed();
  formed.set_group(RandomBytes(sizeof(GroupNumber)));
  formed.set_key(RandomBytes(32));
  std::vector<const Member*> told;
  for (const Member* member : group->of_rank) {
    if (std::find(told.begin(), told.end(), member) != told.end()) continue;
    told.push_back(member);
    groups::Notice::Formed::Daemon& daemon = *formed.add_daemons();
    daemon.set_address(member->address);
    for (int rank : member->ranks) daemon.add_ranks(rank);
  }
  for (Member* member : group->members) member->channel.Send(notice);
}

absl::Status MeetingPlace::Enter(const groups::Request::Join& join, Member* member, Group* group) {
  const auto size = static_cast<int64_t>(group->of_rank.size());
  if (join.size() != size) {
    return ValueError("[join_group] expects one size from all ranks of process group '",
                      join.name(), "', got ", size, " and, from rank ", join.rank(), ", ",
                      join.size());
  }
  if (group->of_rank[static_cast<size_t>(join.rank())] != nullptr) {
    return ValueError("[join_group] expects one session for each rank of process group '",
                      join.name(), "', got two for rank ", join.rank());
  }
  if (std::find(group->members.begin(), group->members.end(), member) == group->members.end()) {
    group->members.push_back(member);
  }
  member->address = join.address();
  member->ranks.push_back(static_cast<int>(join.rank()));
  std::sort(member->ranks.begin(), member->ranks.end());
  group->of_rank[static_cast<size_t>(join.rank())] = member;
  --group->missing;
  return absl::OkStatus();
}

void MeetingPlace::Join(const groups::Request::Join& join, Member* member, GroupPtr* group) {
  if (join.size() < 1 || join.size() > kMaxGroupSize || join.rank() < 0 ||
      join.rank() >= join.size()) {
    return;  // a daemon has checked it
  }
  if (*group == nullptr) {
    const Key key(join.tenant(), join.name(), join.secret());
    GroupPtr& forming = forming_[key];
    if (forming == nullptr) {
      forming = std::make_shared<Group>();
      forming->key = key;
      forming->of_rank.resize(static_cast<size_t>(join.size()));
      forming->missing = forming->of_rank.size();
    }
    *group = forming;
  }
  if ((*group)->formed || (*group)->over) return;
  const absl::Status entered = Enter(join, member, group->get());
  if (!entered.ok()) {
    // This one may be no member yet.
    auto& members = (*group)->members;
    if (std::find(members.begin(), members.end(), member) == members.end()) {
      members.push_back(member);
    }
    return TellFailed(entered, group->get());
  }
  if ((*group)->missing == 0) TellFormed(group->get());
}

void MeetingPlace::Withdraw(int64_t rank, Member* member, Group* group) {
  if (group->formed || group->over) return;
  const auto it = std::find(member->ranks.begin(), member->ranks.end(), rank);
  if (it == member->ranks.end()) return;
  member->ranks.erase(it);
  group->of_rank[static_cast<size_t>(rank)] = nullptr;
  if (++group->missing == group->of_rank.size()) ForgetForming(*group);
}

void MeetingPlace::LeaveIfWithoutRanks(Member* member, GroupPtr* group) {
  if ((*group)->formed || (*group)->over || !member->ranks.empty()) return;
  auto& members = (*group)->members;
  members.erase(std::remove(members.begin(), members.end(), member), members.end());
  *group = nullptr;
}

void MeetingPlace::Depart(Member* member, Group* group) {
  const std::vector<int> ranks = member->ranks;
  for (const int rank : ranks) Withdraw(rank, member, group);
  auto& members = group->members;
  members.erase(std::remove(members.begin(), members.end(), member), members.end());
  if (!group->formed || group->over) return;
  groups::Broken broken;
  broken.set_why(absl::StrCat(RanksText(ranks), " ", ranks.size() == 1 ? "has" : "have",
                              " gone with the daemon at ", member->address));
  TellBroken(std::move(broken), member, group);
}

void MeetingPlace::Serve(int socket) {
  Member member(socket);
  GroupPtr group;
  groups::Request request;
  while (member.channel.Receive(&request)) {
    const MutexLock lock(&mutex_);
    if (request.has_join()) {
      Join(request.join(), &member, &group);
    } else if (group == nullptr) {
      continue;  // it has left it already
    } else if (request.has_withdraw()) {
      Withdraw(request.withdraw().rank(), &member, group.get());
      LeaveIfWithoutRanks(&member, &group);
    } else if (request.has_give_up() && !group->formed && !group->over) {
      TellFailed(MakeError(ErrorKind::kTimeout,
                           absl::StrCat("[join_group] ", AbsentRanks(group->of_rank),
                                        " did not come to process group '", std::get<1>(group->key),
                                        "' of ", group->of_rank.size(), " within ",
                                        request.give_up().within(),
                                        ": all ranks give the same name, secret and address")),
                 group.get());
    } else if (request.has_broken() && group->formed) {
      TellBroken(request.broken(), &member, group.get());
    }
  }
  if (group == nullptr) return;
  const MutexLock lock(&mutex_);
  Depart(&member, group.get());
}

}  // namespace chx::server
