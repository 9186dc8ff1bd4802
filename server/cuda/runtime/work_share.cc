#include "server/cuda/runtime/work_share.h"

#include <algorithm>

namespace chx::server::cuda {

bool WorkShare::TryBegin(Client* client, Time now) {
  using State = Client::State;
  MutexLock lock(&mutex_);
  if (client->account_.group == nullptr) client->account_.group = &own_;
  NoticeLocked();
  if (client->state_ == State::kIdle) {
    // Who has had little, and asks for little, does not wait for those who have a lot.
    if (client->in_flight_ == 0 && queue_.GoesFirst(&client->account_)) {
      Grant(client, now);
      return true;
    }
    queue_.Add(&client->waiter_, now);
    client->state_ = State::kWaiting;
  }
  while (!queue_.empty()) {
    bool alone = false;
    const Duration in_flight = InFlight(now, client, &alone);
    if (in_flight > (alone ? Duration(kMostAlone) : Duration(kMostShared))) break;
    Client* const next = static_cast<Client::Waiter*>(queue_.Next(now))->client;
    if (in_flight > kLeast && IsAhead(*next, now)) break;
    queue_.TakeNext(now);
    Grant(next, now);
  }
  return client->state_ == State::kGranted;
}

void WorkShare::Grant(Client* client, Time now) {
  client->state_ = Client::State::kGranted;
  client->since_ = now;
  begun_.push_back(client);
}

void WorkShare::GiveUp(Client* client) {
  MutexLock lock(&mutex_);
  if (client->state_ == Client::State::kWaiting) queue_.Remove(&client->waiter_);
  begun_.erase(std::remove(begun_.begin(), begun_.end(), client), begun_.end());
  client->state_ = Client::State::kIdle;
}

void WorkShare::Open(Client* client, Event begin) {
  MutexLock lock(&mutex_);
  client->state_ = Client::State::kOpen;
  client->begin_ = begin;
  client->kernels_ = 0;
  client->kernels_of_piece_ = static_cast<int>(
      std::clamp<int64_t>(kPiece / std::max(client->kernel_, Duration(1)), 1, kMostKernels));
}

void WorkShare::Close(Client* client, Event end) {
  MutexLock lock(&mutex_);
  begun_.erase(std::remove(begun_.begin(), begun_.end(), client), begun_.end());
  pieces_.push_back({client, client->begin_, end, client->kernels_});
  ++client->in_flight_;
  client->state_ = Client::State::kIdle;
  client->begin_ = nullptr;
}

void WorkShare::Notice() {
  MutexLock lock(&mutex_);
  NoticeLocked();
}

void WorkShare::NoticeLocked() {
  // Behind a piece that is not done, its client's others are not either.
  std::vector<const Client*> busy;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const Client* const client = piece->client;
    absl::optional<Duration> elapsed;
    if (std::find(busy.begin(), busy.end(), client) == busy.end()) {
      elapsed = elapsed_(piece->begin, piece->end);
    }
    if (!elapsed.has_value()) {
      busy.push_back(client);
      ++piece;
      continue;
    }
    Finish(*piece, *elapsed);
    piece = pieces_.erase(piece);
  }
}

// The GPU works for several at once. What it has done since the last piece was done counts as this
// one's, so that all together have no more than there was.
void WorkShare::Finish(const Piece& piece, Duration elapsed) {
  Client& client = *piece.client;
  Duration had = std::max(elapsed, Duration::zero());
  if (last_end_ != nullptr) {
    const absl::optional<Duration> since = elapsed_(last_end_, piece.end);
    had = std::clamp(since.value_or(had), Duration::zero(), had);
    spare_.push_back(last_end_);
  }
  last_end_ = piece.end;
  spare_.push_back(piece.begin);
  queue_.Charge(&client.account_, had,
                client.state_ == Client::State::kWaiting ? &client.waiter_ : nullptr);
  if (client.worked_ != nullptr) client.worked_(had);
  // A quarter of the mean is the last piece's.
  if (piece.kernels > 0) client.kernel_ += (had / piece.kernels - client.kernel_) / 4;
  --client.in_flight_;
}

WorkShare::Duration WorkShare::InFlight(Time now, const Client* client, bool* alone) const {
  Duration sum{};
  *alone = queue_.size() == (client->state_ == Client::State::kWaiting ? 1U : 0U);
  for (const Piece& piece : pieces_) {
    sum += Expected(*piece.client, piece.kernels);
    *alone = *alone && piece.client == client;
  }
  for (const Client* begun : begun_) {
    if (now - begun->since_ > kMostOpen) continue;
    sum += std::max<Duration>(kPiece, begun->kernel_);
    *alone = *alone && begun == client;
  }
  return sum;
}

bool WorkShare::IsAhead(const Client& client, Time now) const {
  const TurnGroup& group = *client.account_.group;
  const auto had_less = [&](const Client& other) {
    if (&other == &client || other.state_ == Client::State::kWaiting) return false;
    const TurnGroup& others = *other.account_.group;
    if (&others == &group) return other.account_.used + kPiece < client.account_.used;
    if (others.priority != group.priority) return others.priority > group.priority;
    return others.used + Weighted(kPiece, others) < group.used;
  };
  for (const Piece& piece : pieces_) {
    if (had_less(*piece.client)) return true;
  }
  return std::any_of(begun_.begin(), begun_.end(), [&](const Client* begun) {
    return now - begun->since_ <= kMostOpen && had_less(*begun);
  });
}

void WorkShare::Forget(Client* client) {
  GiveUp(client);
  MutexLock lock(&mutex_);
  NoticeLocked();
  if (client->begin_ != nullptr) spare_.push_back(client->begin_);
  client->begin_ = nullptr;
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (piece->client != client) {
      ++piece;
      continue;
    }
    spare_.insert(spare_.end(), {piece->begin, piece->end});
    piece = pieces_.erase(piece);
  }
}

WorkShare::Event WorkShare::TakeSpare() {
  MutexLock lock(&mutex_);
  if (spare_.empty()) return nullptr;
  const Event event = spare_.back();
  spare_.pop_back();
  return event;
}

std::vector<WorkShare::Event> WorkShare::TakeAll() {
  MutexLock lock(&mutex_);
  std::vector<Event> all = std::move(spare_);
  spare_.clear();
  if (last_end_ != nullptr) all.push_back(last_end_);
  last_end_ = nullptr;
  return all;
}

}  // namespace chx::server::cuda
