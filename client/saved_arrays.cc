#include "client/saved_arrays.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/graph_mirror.h"
#include "client/random_counter.h"
#include "client/session.h"
#include "ops/error.h"
#include "proto/saved_arrays.h"

namespace chx {
namespace {

constexpr size_t kMaxTreeBytes = 512 << 10;  // as the daemon
constexpr int kMaxTries = 16;                // to load what another thread saves again and again

absl::Status CheckKnown(absl::string_view op, const Connection& connection) {
  if (connection.keeps_names()) return absl::OkStatus();
  return MakeError(
      ErrorKind::kNotImplemented,
      absl::StrCat("[", op, "] expects a daemon that keeps arrays under names, got chxd ", "at ",
                   connection.address(), ", which is older"));
}

constexpr absl::string_view kCounter = "counter";  // what a state begins with that is ours

}  // namespace

SavedArrays::SavedArrays(Session* session, Connection* connection, CommandQueue* queue,
                         RandomCounter* random)
    : session_(*session), connection_(*connection), queue_(*queue), random_(*random) {
  const std::vector<std::string> words = absl::StrSplit(connection->kept().generator(), ' ');
  RandomCounter::State state;
  if (words.size() == 3 && words[0] == kCounter && absl::SimpleAtoi(words[1], &state.seed) &&
      absl::SimpleAtoi(words[2], &state.counter)) {
    random_.Set(state);
  }
}

absl::StatusOr<uint64_t> SavedArrays::Save(absl::string_view name, absl::string_view tree,
                                           absl::Span<ArrayBody* const> arrays) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckKnown("save", connection_));
  if (arrays.size() > CommandWriter::kMaxCount || tree.size() > kMaxTreeBytes) {
    return ValueError("[save] expects fewer arrays, got ", arrays.size());
  }
  CHX_RETURN_IF_ERROR(NoteCounter());
  command::SaveArrays save;
  save.name = name;
  save.tree = tree;
  for (ArrayBody* array : arrays) {
    CHX_RETURN_IF_ERROR(session_.CheckOwn("save", array));
    save.handles.push_back(array->handle);
  }
  CHX_ASSIGN_OR_RETURN(const std::string answer,
                       queue_.AnswerTo(queue_.AppendRequest(std::move(save)), true));
  return DecodeCount(answer);
}

absl::StatusOr<SavedArrays::Tree> SavedArrays::Load(absl::string_view name) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckKnown("load", connection_));
  if (name.empty()) return ValueError("[load] expects a name, got ''");
  for (int tries = 0;; ++tries) {
    command::QuerySaved query;
    query.name = name;
    CHX_ASSIGN_OR_RETURN(const std::string answer,
                         queue_.AnswerTo(queue_.AppendRequest(query), true));
    CHX_ASSIGN_OR_RETURN(SavedTree saved, DecodeSavedTree(answer));
    command::LoadSaved load;
    load.name = name;
    load.version = saved.version;
    for (size_t i = 0; i < saved.arrays.size(); ++i) {
      load.results.push_back(queue_.AllocateHandle());
    }
    const Handles handles = load.results;
    const absl::Status loaded =
        queue_.AnswerTo(queue_.AppendRequest(std::move(load)), false).status();
    if (KindOf(loaded) == ErrorKind::kNotImplemented && tries < kMaxTries) continue;
    CHX_RETURN_IF_ERROR(loaded);
    Tree tree;
    tree.tree = std::move(saved.tree);
    for (size_t i = 0; i < saved.arrays.size(); ++i) {
      const SavedTree::Array& array = saved.arrays[i];
      ArrayPtr body = session_.NewArray(handles[i], array.spec);
      body->storage_unknown = true;  // views of one another have one, as only the daemon knows
      if (array.requires_grad) session_.graphs().AddLeaf(body.get(), array.has_grad);
      tree.arrays.push_back(std::move(body));
    }
    return tree;
  }
}

absl::StatusOr<std::vector<std::string>> SavedArrays::Names() {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckKnown("saved", connection_));
  CHX_ASSIGN_OR_RETURN(const std::string answer,
                       queue_.AnswerTo(queue_.AppendRequest(command::QuerySaved()), true));
  return DecodeNames(answer);
}

absl::Status SavedArrays::Forget(absl::string_view name) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckKnown("forget", connection_));
  command::ForgetSaved forget;
  forget.name = name;
  return queue_.AnswerTo(queue_.AppendRequest(forget), true).status();
}

absl::Status SavedArrays::NoteCounter() {
  const RandomCounter::State state = random_.Now();
  if (noted_ || (state.seed == 0 && state.counter == 0)) return absl::OkStatus();
  return Note(absl::StrCat(kCounter, " ", state.seed, " ", state.counter));
}

absl::Status SavedArrays::NoteGenerator(absl::string_view state) {
  noted_ = true;
  return Note(state);
}

absl::Status SavedArrays::Note(absl::string_view state) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  if (!connection_.keeps_names()) return absl::OkStatus();
  MutexLock lock(&queue_.mutex());
  queue_.Append(command::NoteGenerator{state});
  return absl::OkStatus();
}

}  // namespace chx
