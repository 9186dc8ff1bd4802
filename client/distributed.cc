#include "client/distributed.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/gradients.h"
#include "client/ops.h"
#include "ops/error.h"

namespace chx {
namespace {

// Variables that say a process's rank, and how many there are.
struct RankVariables {
  const char* rank;
  const char* size;
};
constexpr RankVariables kRankVariables[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"JOB_COMPLETION_INDEX", "WORLD_SIZE"},
};

// Those that are set; null: none.
const RankVariables* VariablesOfLauncher() {
  for (const RankVariables& variables : kRankVariables) {
    const bool set = std::getenv(variables.rank) != nullptr;
    if (set && std::getenv(variables.size) != nullptr) return &variables;
  }
  return nullptr;
}

absl::StatusOr<int64_t> NumberIn(const char* variable) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(std::getenv(variable), &number)) {
    return ValueError("[join_group] expects a number in ", variable, ", got '",
                      std::getenv(variable), "'");
  }
  return number;
}

void SetFrom(const char* variable, std::string* text) {
  const char* const value = std::getenv(variable);
  if (value != nullptr) *text = value;
}

}  // namespace

bool GroupOptions::AreInEnvironment() { return VariablesOfLauncher() != nullptr; }

absl::StatusOr<GroupOptions> GroupOptions::FromEnvironment() {
  const RankVariables* const variables = VariablesOfLauncher();
  if (variables == nullptr) {
    return ValueError(
        "[join_group] expects a rank and a size, or in the environment RANK and WORLD_SIZE, or "
        "those of Open MPI or MPICH, or JOB_COMPLETION_INDEX and WORLD_SIZE");
  }
  GroupOptions options;
  SetFrom("CHX_GROUP_NAME", &options.name);
  SetFrom("CHX_GROUP_SECRET", &options.secret);
  SetFrom("CHX_GROUP_ADDRESS", &options.address);
  CHX_ASSIGN_OR_RETURN(options.rank, NumberIn(variables->rank));
  CHX_ASSIGN_OR_RETURN(options.size, NumberIn(variables->size));
  return options;
}

absl::StatusOr<int64_t> internal::JoinGroup(Session& session, const GroupOptions& options) {
  CommandQueue& queue = session.queue();
  CHX_RETURN_IF_ERROR(queue.CheckUsable());
  if (!session.connection().knows_groups()) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[join_group] the daemon at ", session.connection().address(),
                                  " is older: its sessions form no process groups"));
  }
  command::JoinGroup join;
  join.group = static_cast<int64_t>(queue.AllocateHandle());
  join.rank = options.rank;
  join.size = options.size;
  join.name = options.name;
  join.secret = options.secret;
  join.address = options.address;
  CHX_RETURN_IF_ERROR(queue.AnswerTo(queue.AppendRequest(join), true).status());
  return join.group;
}

absl::Status internal::LeaveGroup(Session& session, int64_t number) {
  CommandQueue& queue = session.queue();
  CHX_RETURN_IF_ERROR(queue.CheckUsable());
  {
    MutexLock lock(&queue.mutex());
    queue.Append(command::LeaveGroup{number});
  }
  return session.Flush();
}

absl::StatusOr<ProcessGroup> ProcessGroup::Init(Session& session, const GroupOptions& options) {
  CHX_ASSIGN_OR_RETURN(const int64_t number, internal::JoinGroup(session, options));
  return ProcessGroup(Ref<Session>(&session), options, number);
}

absl::StatusOr<absl::optional<ProcessGroup>> ProcessGroup::Sub(absl::Span<const int> ranks,
                                                               const std::string& name) const {
  for (auto it = ranks.begin(); it != ranks.end(); ++it) {
    if (*it >= 0 && *it < size() && std::find(ranks.begin(), it, *it) == it) continue;
    return ValueError("[join_group] expects different ranks in [0, ", size(), "), got ",
                      absl::StrJoin(ranks, ", "));
  }
  const auto self = std::find(ranks.begin(), ranks.end(), rank());
  if (self == ranks.end()) return absl::optional<ProcessGroup>();
  GroupOptions options = options_;
  options.name = absl::StrCat(options_.name, "/", name.empty() ? absl::StrJoin(ranks, ",") : name);
  options.rank = self - ranks.begin();
  options.size = static_cast<int64_t>(ranks.size());
  CHX_ASSIGN_OR_RETURN(ProcessGroup group, Init(*session_, options));
  return absl::optional<ProcessGroup>(std::move(group));
}

absl::Status ProcessGroup::Barrier() const {
  const Array here = ones(*session_, {1});
  const std::vector<Array> all = distributed::all_reduce({here}, *this);
  CHX_RETURN_IF_ERROR(all[0].status());
  return session_->Confirm(*all[0].body());
}

absl::Status ProcessGroup::Leave() const { return internal::LeaveGroup(*session_, number_); }

uint64_t internal::NewReducer() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

absl::Status GradientReducer::Backward(absl::Span<const Array> losses,
                                       const BackwardArgs& args) const {
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> outputs, internal::BodiesOf(losses));
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> parameters, internal::BodiesOf(parameters_));
  return group_.session().gradients().ReduceBackward(outputs, parameters, group_, reduction_, args);
}

}  // namespace chx
