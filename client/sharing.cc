#include "client/sharing.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/published_programs.h"
#include "client/waiting.h"
#include "ops/error.h"
#include "proto/shared_names.h"

namespace chx {
namespace {

absl::Status CheckKnown(Session& session, bool known, absl::string_view what) {
  if (known) return absl::OkStatus();
  return MakeError(ErrorKind::kNotImplemented,
                   absl::StrCat("[share] the daemon at ", session.connection().address(),
                                " is older: its sessions ", what));
}

// Sends a command and waits for its answer. Results that nobody waits for any more are released.
template <typename Request>
absl::StatusOr<std::string> Ask(Session& session, Request request,
                                absl::Span<const Handle> results = {}) {
  CommandQueue& queue = session.queue();
  CHX_RETURN_IF_ERROR(queue.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckKnown(session, session.connection().knows_sharing(), "share no arrays"));
  absl::StatusOr<std::string> answer =
      queue.AnswerTo(queue.AppendRequest(std::move(request)), true);
  if (!answer.ok()) {
    for (Handle result : results) queue.Release(result, 0);
  }
  return answer;
}

absl::StatusOr<uint64_t> VersionFrom(const std::string& answer) {
  uint64_t version = 0;
  if (answer.size() != sizeof(version)) return ChainerxError("chxd answers with no version");
  std::memcpy(&version, answer.data(), sizeof(version));
  return version;
}

absl::StatusOr<SharedTree> Describe(Session& session, const std::string& name,
                                    const LookupOptions& options) {
  command::Lookup lookup;
  lookup.tenant = options.tenant;
  lookup.name = name;
  lookup.version = options.version;
  CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(session, lookup));
  return DecodeSharedTree(answer);
}

}  // namespace

absl::StatusOr<std::string> Share(const Array& array, const ShareOptions& options) {
  CHX_RETURN_IF_ERROR(array.status());
  if (options.expires.count() < 0) return ValueError("[share] expects expires in the future");
  command::GrantAccess grant;
  grant.handle = array.body()->handle;
  grant.write = options.rights == ShareRights::kWrite;
  grant.keep = options.keep;
  grant.expires_ms = options.expires.count();
  grant.tenant = options.tenant;
  return Ask(*array.body()->session, grant);
}

Array OpenShared(Session& session, absl::string_view capability, OpenMode mode) {
  command::OpenShared open;
  open.capability = capability;
  open.copy = mode == OpenMode::kCopy;
  const Handle result = open.result = session.queue().AllocateHandle();
  const absl::StatusOr<std::string> answer = Ask(session, open, {&result, 1});
  if (!answer.ok()) return Array(answer.status());
  const absl::StatusOr<ArraySpec> spec = DecodeSharedSpec(*answer);
  if (!spec.ok()) return Array(spec.status());
  return Array(session.NewArray(result, *spec));
}

absl::Status Revoke(Session& session, absl::string_view capability) {
  command::Revoke revoke;
  revoke.capability = capability;
  return Ask(session, revoke).status();
}

absl::StatusOr<uint64_t> Publish(Session& session, const std::string& name, const ArrayMap& arrays,
                                 const PublishOptions& options) {
  std::vector<std::string> paths;
  std::vector<ArrayPtr> bodies;
  for (const auto& [path, array] : arrays) {
    CHX_RETURN_IF_ERROR(array.status());
    paths.push_back(path);
    bodies.push_back(array.body());
  }
  return Publish(session, name, paths, bodies, options);
}

absl::StatusOr<uint64_t> Publish(Session& session, const std::string& name,
                                 absl::Span<const std::string> paths,
                                 absl::Span<const ArrayPtr> arrays, const PublishOptions& options) {
  if (paths.size() != arrays.size() || arrays.size() > CommandWriter::kMaxCount) {
    return ValueError("[publish] expects a path for each of at most ", CommandWriter::kMaxCount,
                      " arrays, got ", paths.size(), " for ", arrays.size());
  }
  command::Publish publish;
  for (size_t i = 0; i < paths.size(); ++i) {
    CHX_RETURN_IF_ERROR(session.CheckOwn("publish", arrays[i].get()));
    if (paths[i].find('\n') != std::string::npos) {
      return ValueError("[publish] expects paths without line breaks");
    }
    publish.handles.push_back(arrays[i]->handle);
  }
  const std::string text = absl::StrJoin(paths, "\n");
  const std::string readers = absl::StrJoin(options.readers, "\n");
  publish.name = name;
  publish.paths = text;
  publish.readers = readers;
  publish.structure = options.structure;
  publish.keep = options.keep;
  CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(session, std::move(publish)));
  return VersionFrom(answer);
}

absl::StatusOr<uint64_t> internal::PublishPrograms(Session& session, const std::string& name,
                                                   absl::Span<RecordedProgram* const> programs,
                                                   const PublishOptions& options) {
  CHX_RETURN_IF_ERROR(
      CheckKnown(session, session.connection().knows_published_programs(), "publish no programs"));
  command::PublishProgram publish;
  for (const RecordedProgram* program : programs) {
    if (program->session().get() != &session) {
      return ValueError("[publish] expects programs of this session");
    }
    publish.programs.push_back(static_cast<int64_t>(program->number()));
  }
  const std::string readers = absl::StrJoin(options.readers, "\n");
  publish.name = name;
  publish.readers = readers;
  publish.structure = options.structure;
  publish.keep = options.keep;
  CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(session, std::move(publish)));
  return VersionFrom(answer);
}

ArrayMap Published::map() const {
  ArrayMap map;
  for (size_t i = 0; i < arrays.size(); ++i) map.emplace(paths[i], Array(arrays[i]));
  return map;
}

absl::StatusOr<internal::Found> internal::Find(Session& session, const std::string& name,
                                               const LookupOptions& options) {
  // First what there is, then that version of it.
  CHX_ASSIGN_OR_RETURN(SharedTree tree, Describe(session, name, options));
  Found found;
  Published& published = found.arrays;
  published.version = tree.version;
  if (!tree.programs.empty()) {
    published.structure = std::move(tree.structure);
    command::OpenPrograms open;
    open.tenant = options.tenant;
    open.name = name;
    open.version = tree.version;
    CHX_ASSIGN_OR_RETURN(found.programs,
                         session.programs().Open(std::move(open), std::move(tree.programs)));
    return found;
  }
  command::Lookup lookup;
  lookup.tenant = options.tenant;
  lookup.name = name;
  lookup.version = tree.version;
  lookup.copy = options.mode == OpenMode::kCopy;
  for (size_t i = 0; i < tree.arrays.size(); ++i) {
    lookup.results.push_back(session.queue().AllocateHandle());
  }
  const Handles results = lookup.results;
  CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(session, std::move(lookup), results));
  // What was bound, if the version has been published anew in between.
  CHX_ASSIGN_OR_RETURN(tree, DecodeSharedTree(answer));
  if (tree.arrays.size() != results.size()) {
    return ChainerxError("chxd answers with other arrays than asked for");
  }
  published.structure = std::move(tree.structure);
  for (size_t i = 0; i < results.size(); ++i) {
    published.paths.push_back(std::move(tree.arrays[i].first));
    published.arrays.push_back(session.NewArray(results[i], tree.arrays[i].second));
  }
  return found;
}

absl::StatusOr<Published> Lookup(Session& session, const std::string& name,
                                 const LookupOptions& options) {
  CHX_ASSIGN_OR_RETURN(internal::Found found, internal::Find(session, name, options));
  if (found.programs.empty()) return std::move(found.arrays);
  return ValueError("[lookup] expects a name of arrays, got one of programs: ", name);
}

absl::Status Unpublish(Session& session, const std::string& name, uint64_t version) {
  command::Unpublish unpublish;
  unpublish.name = name;
  unpublish.version = version;
  return Ask(session, unpublish).status();
}

absl::StatusOr<std::vector<PublishedName>> Names(Session& session, const std::string& prefix) {
  command::ListNames list;
  list.prefix = prefix;
  CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(session, list));
  CHX_ASSIGN_OR_RETURN(const std::vector<SharedName> decoded, DecodeSharedNames(answer));
  std::vector<PublishedName> names;
  names.reserve(decoded.size());
  for (const SharedName& name : decoded) {
    names.push_back({name.tenant, name.name, name.version, name.arrays, name.bytes});
  }
  return names;
}

}  // namespace chx
