// Arrays that sessions share with each other.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "ops/error.h"
#include "proto/shared_names.h"
#include "server/session/commands.h"
#include "server/session/published_programs.h"

namespace chx::server {
namespace {

constexpr size_t kMaxReaders = 256;

// Answers with what `run`, of type absl::Status(SharingMember&, SessionOutput::Value*), has made.
template <typename C, typename Run>
void AnswerSharing(const C& c, const char* op, CommandContext& context, Run run) {
  context.Answer(c, op, [&](SessionOutput::Value* value) -> absl::Status {
    SharingMember* const member = context.state.sharing.get();
    if (member == nullptr) return ValueError("[", op, "] this daemon's sessions share nothing");
    absl::Status status = run(*member, value);
    // Results that have been promised.
    if (!status.ok() || value->error != nullptr) {
      if (value->error == nullptr) {
        value->error = context.state.errors.NewError(LocationOf(c), std::move(status), op);
      }
      context.Inherit(ResultsOf(c), value->error);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<SharedArray> Shared(Handle handle, SessionState& state, RootErrorPtr* inherited) {
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, state.handles.Use(handle, inherited));
  SharedArray shared;
  if (*inherited != nullptr) return shared;
  shared.spec = entry->variable.array.spec;
  CHX_ASSIGN_OR_RETURN(shared.storage, state.executor.MoveToStorage(entry->variable.array));
  return shared;
}

// What arrays have moved from is not kept for others.
class TrimAfter {
 public:
  explicit TrimAfter(Executor* executor) : executor_(*executor) {}
  ~TrimAfter() { executor_.Trim(); }
  TrimAfter(const TrimAfter&) = delete;

 private:
  Executor& executor_;
};

absl::Status SetData(std::string data, CommandContext& context, SessionOutput::Value* value) {
  CHX_RETURN_IF_ERROR(context.ChargeValue(static_cast<int64_t>(data.size()), value));
  value->data = std::move(data);
  return absl::OkStatus();
}

absl::Status BindOpened(const OpenedArray& opened, Handle result, SessionState& state) {
  Variable variable;
  CHX_ASSIGN_OR_RETURN(variable.array, state.executor.Attach(opened.lease, opened.spec));
  state.handles.Bind(result, std::move(variable));
  return absl::OkStatus();
}

// Lines of a text that has at most `max` of them.
absl::StatusOr<std::vector<std::string>> Lines(absl::string_view text, size_t max) {
  std::vector<std::string> lines;
  if (text.empty() && max == 0) return lines;
  if (static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= max) {
    return ValueError("[publish] expects at most ", max, " lines, got more");
  }
  return SplitPaths(text);
}

// What both kinds of publications have.
template <typename C>
absl::Status Describe(const C& c, NewPublication* publication) {
  CHX_RETURN_IF_ERROR(Names::CheckName("publish", c.name));
  publication->name = std::string(c.name);
  publication->structure = std::string(c.structure);
  publication->keep = c.keep;
  if (!c.readers.empty()) {
    CHX_ASSIGN_OR_RETURN(publication->readers, Lines(c.readers, kMaxReaders));
  }
  return absl::OkStatus();
}

absl::Status FillPublication(const command::Publish& c, SessionState& state,
                             NewPublication* publication, RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(Describe(c, publication));
  CHX_ASSIGN_OR_RETURN(std::vector<std::string> paths, Lines(c.paths, c.handles.size()));
  if (paths.size() != c.handles.size()) {
    return ValueError("[publish] expects a path for each of ", c.handles.size(), " arrays, got ",
                      paths.size());
  }
  for (size_t i = 0; i < c.handles.size(); ++i) {
    CHX_ASSIGN_OR_RETURN(SharedArray array, Shared(c.handles[i], state, inherited));
    if (*inherited != nullptr) return absl::OkStatus();
    publication->arrays.emplace_back(std::move(paths[i]), std::move(array));
  }
  return absl::OkStatus();
}

}  // namespace

void RunCommand(const command::GrantAccess& c, CommandContext& context) {
  AnswerSharing(
      c, "share", context, [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
        CHX_RETURN_IF_ERROR(CheckSharingAllowed("share", member.sharer()));
        const TrimAfter trim(&context.state.executor);
        if (c.expires_ms < 0) return ValueError("[share] expects expires in the future");
        CapabilityTerms terms;
        terms.write = c.write;
        terms.keep = c.keep;
        terms.tenant = std::string(c.tenant);
        CHX_ASSIGN_OR_RETURN(SharedArray array, Shared(c.handle, context.state, &value->error));
        if (value->error != nullptr) return absl::OkStatus();
        if (c.expires_ms > 0) {  // from when it is given: the array may have taken a while
          terms.expires = absl::Now() + absl::Milliseconds(c.expires_ms);
        }
        CHX_ASSIGN_OR_RETURN(value->data, member.store().capabilities().New(
                                              member.sharer(), std::move(array), terms));
        return absl::OkStatus();
      });
}

void RunCommand(const command::OpenShared& c, CommandContext& context) {
  AnswerSharing(
      c, "open", context, [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
        CHX_RETURN_IF_ERROR(context.state.handles.CheckNew({&c.result, 1}));
        CHX_ASSIGN_OR_RETURN(const OpenedArray opened, member.store().capabilities().Open(
                                                           member.sharer(), c.capability, c.copy));
        CHX_RETURN_IF_ERROR(BindOpened(opened, c.result, context.state));
        return SetData(EncodeSharedSpec(opened.spec), context, value);
      });
}

void RunCommand(const command::Revoke& c, CommandContext& context) {
  AnswerSharing(c, "revoke", context, [&](SharingMember& member, SessionOutput::Value* /*value*/) {
    return member.store().capabilities().Revoke(member.sharer(), c.capability);
  });
}

void RunCommand(const command::Publish& c, CommandContext& context) {
  AnswerSharing(
      c, "publish", context,
      [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
        CHX_RETURN_IF_ERROR(CheckSharingAllowed("publish", member.sharer()));
        const TrimAfter trim(&context.state.executor);
        const auto texts = static_cast<int64_t>(
            2 * (c.paths.size() + c.structure.size() + c.readers.size()) + c.handles.size() * 256);
        CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                             MemoryCharge::Of(context.state.account(), texts));
        NewPublication publication;
        CHX_RETURN_IF_ERROR(FillPublication(c, context.state, &publication, &value->error));
        if (value->error != nullptr) return absl::OkStatus();
        CHX_ASSIGN_OR_RETURN(const uint64_t version, member.store().names().Publish(
                                                         member.sharer(), std::move(publication)));
        value->data.assign(reinterpret_cast<const char*>(&version), sizeof(version));
        return absl::OkStatus();
      });
}

void RunCommand(const command::PublishProgram& c, CommandContext& context) {
  AnswerSharing(
      c, "publish", context,
      [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
        CHX_RETURN_IF_ERROR(CheckSharingAllowed("publish", member.sharer()));
        const TrimAfter trim(&context.state.executor);
        NewPublication publication;
        CHX_RETURN_IF_ERROR(Describe(c, &publication));
        CHX_RETURN_IF_ERROR(FillPrograms(c.programs, &context.state, &publication, &value->error));
        if (value->error != nullptr) return absl::OkStatus();
        CHX_ASSIGN_OR_RETURN(const uint64_t version, member.store().names().Publish(
                                                         member.sharer(), std::move(publication)));
        value->data.assign(reinterpret_cast<const char*>(&version), sizeof(version));
        return absl::OkStatus();
      });
}

void RunCommand(const command::OpenPrograms& c, CommandContext& context) {
  AnswerSharing(c, "lookup", context,
                [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
                  CHX_ASSIGN_OR_RETURN(const OpenedPrograms opened,
                                       member.store().names().OpenPrograms(
                                           member.sharer(), {c.tenant, c.name, c.version}));
                  CHX_RETURN_IF_ERROR(SetData(EncodeSharedTree(opened.tree), context, value));
                  return AddPrograms(opened, c.programs, &context.state);
                });
}

void RunCommand(const command::Lookup& c, CommandContext& context) {
  AnswerSharing(c, "lookup", context,
                [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
                  Names& names = member.store().names();
                  const Names::Query query{c.tenant, c.name, c.version};
                  if (c.results.empty()) {
                    CHX_ASSIGN_OR_RETURN(const SharedTree tree,
                                         names.Describe(member.sharer(), query));
                    return SetData(EncodeSharedTree(tree), context, value);
                  }
                  CHX_RETURN_IF_ERROR(context.state.handles.CheckNew(c.results));
                  std::vector<OpenedArray> arrays;
                  CHX_ASSIGN_OR_RETURN(const SharedTree tree,
                                       names.Open(member.sharer(), query, c.copy, &arrays));
                  if (arrays.size() != c.results.size()) {
                    return ValueError("[lookup] expects a result for each of ", arrays.size(),
                                      " arrays, got ", c.results.size());
                  }
                  for (size_t i = 0; i < arrays.size(); ++i) {
                    CHX_RETURN_IF_ERROR(BindOpened(arrays[i], c.results[i], context.state));
                  }
                  return SetData(EncodeSharedTree(tree), context, value);
                });
}

void RunCommand(const command::Unpublish& c, CommandContext& context) {
  AnswerSharing(c, "unpublish", context,
                [&](SharingMember& member, SessionOutput::Value* /*value*/) {
                  return member.store().names().Unpublish(member.sharer(), c.name, c.version);
                });
}

void RunCommand(const command::ListNames& c, CommandContext& context) {
  AnswerSharing(
      c, "names", context, [&](SharingMember& member, SessionOutput::Value* value) -> absl::Status {
        CHX_RETURN_IF_ERROR(CheckSharingAllowed("names", member.sharer()));
        return SetData(EncodeSharedNames(member.store().names().List(member.sharer(), c.prefix)),
                       context, value);
      });
}

}  // namespace chx::server
