#include "server/engine/turn_queue.h"

#include <algorithm>

namespace chx::server {

TurnClock::duration Weighted(TurnClock::duration used, const TurnGroup& group) {
  return std::chrono::duration_cast<TurnClock::duration>(used / group.weight.load());
}

TurnGroup* TurnQueue::GroupOf(const TurnAccount& account) {
  return account.group != nullptr ? account.group : &own_;
}

std::vector<TurnQueue::GroupLine>::iterator TurnQueue::LineOf(TurnGroup* group) {
  return std::find_if(lines_.begin(), lines_.end(),
                      [group](const GroupLine& line) { return line.group == group; });
}

void TurnQueue::Add(TurnWaiter* waiter, TurnClock::time_point now) {
  TurnAccount& account = *waiter->account;
  TurnGroup* const group = GroupOf(account);
  auto line = LineOf(group);
  if (line == lines_.end()) {
    group->used = std::clamp(group->used, floor_, floor_ + Weighted(kMostDebt * slots_, *group));
    line = lines_.insert(line, {group, now, {}});
  }
  account.used =
      std::clamp<TurnClock::duration>(account.used, group->floor, group->floor + kMostDebt);
  line->waiters.emplace(account.used, waiter);
  ++waiting_;
}

void TurnQueue::Remove(TurnWaiter* waiter) {
  const auto line = LineOf(GroupOf(*waiter->account));
  line->waiters.erase({waiter->account->used, waiter});
  if (line->waiters.empty()) lines_.erase(line);
  --waiting_;
}

std::vector<TurnQueue::GroupLine>::const_iterator TurnQueue::NextLine(
    TurnClock::time_point now) const {
  const auto before = [now](const GroupLine& a, const GroupLine& b) {
    const auto rank = [now](const GroupLine& line) {
      return line.group->priority + (now - line.since) / kAging;
    };
    return rank(a) != rank(b) ? rank(a) > rank(b) : a.group->used < b.group->used;
  };
  return std::min_element(lines_.begin(), lines_.end(), before);
}

TurnWaiter* TurnQueue::Next(TurnClock::time_point now) const {
  return lines_.empty() ? nullptr : NextLine(now)->waiters.begin()->second;
}

TurnWaiter* TurnQueue::TakeNext(TurnClock::time_point now) {
  if (lines_.empty()) return nullptr;
  GroupLine& line = lines_[NextLine(now) - lines_.cbegin()];
  TurnGroup* const group = line.group;
  TurnWaiter* const waiter = line.waiters.begin()->second;
  line.since = now;
  floor_ = std::max(floor_, group->used);
  group->floor = std::max(group->floor, waiter->account->used);
  Remove(waiter);
  return waiter;
}

bool TurnQueue::GoesFirst(TurnAccount* account) {
  const TurnGroup& group = *GroupOf(*account);
  for (const GroupLine& line : lines_) {
    if (line.group->priority > group.priority) return false;
  }
  account->used = std::max<TurnClock::duration>(account->used, group.floor - kHeadStart);
  return account->used + kFarBehind <= group.floor &&
         group.used <= floor_ + Weighted(kMostDebt * slots_, group);
}

void TurnQueue::Charge(TurnAccount* account, TurnClock::duration used, TurnWaiter* waiting) {
  TurnGroup* const group = GroupOf(*account);
  if (waiting != nullptr) {
    SessionLine& line = LineOf(group)->waiters;
    line.erase({account->used, waiting});
    line.emplace(account->used + used, waiting);
  }
  account->used += used;
  group->used += Weighted(used, *group);
}

TurnWaiter* TurnQueue::Last() const {
  return lines_.empty() ? nullptr : lines_.back().waiters.rbegin()->second;
}

std::vector<TurnWaiter*> TurnQueue::Waiters() const {
  std::vector<TurnWaiter*> all;
  for (const GroupLine& line : lines_) {
    for (const auto& entry : line.waiters) all.push_back(entry.second);
  }
  return all;
}

}  // namespace chx::server
