#include "server/sharing/names.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMaxListed = 4096;

absl::Status Gone(absl::string_view why) { return MakeError(ErrorKind::kContext, why); }

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

// As it is sent.
size_t TreeBytes(const ArraySpec& spec) { return 16 * static_cast<size_t>(spec.ndim()) + 64; }
size_t TreeBytes(const SharedProgram& program) {
  size_t bytes = 64;
  for (const ArraySpec& spec : program.arguments) bytes += TreeBytes(spec);
  for (const ArraySpec& spec : program.results) bytes += TreeBytes(spec);
  return bytes;
}

int64_t BytesOf(const NewPublication& publication) {
  size_t bytes = 2 * publication.structure.size() + 1024;
  for (const auto& [path, array] : publication.arrays) bytes += 2 * path.size() + 512;
  for (const std::string& reader : publication.readers) bytes += 2 * reader.size() + 64;
  for (const SharedProgram& program : publication.programs) bytes += 4 * TreeBytes(program);
  return static_cast<int64_t>(bytes) + publication.code_bytes;
}

absl::Status CheckPublication(const NewPublication& publication) {
  CHX_RETURN_IF_ERROR(Names::CheckName("publish", publication.name));
  if (publication.arrays.empty() && publication.programs.empty()) {
    return ValueError("[publish] expects arrays, got none");
  }
  size_t bytes = publication.structure.size();
  for (const auto& [path, array] : publication.arrays) bytes += path.size() + TreeBytes(array.spec);
  for (const SharedProgram& program : publication.programs) bytes += TreeBytes(program);
  if (bytes > Names::kMaxTreeBytes) {
    return ValueError("[publish] expects paths and a structure of at most ", Names::kMaxTreeBytes,
                      " bytes, got ", bytes);
  }
  for (const auto& [path, array] : publication.arrays) {
    if (path.size() <= Names::kMaxPathBytes) continue;
    return ValueError("[publish] expects paths of at most ", Names::kMaxPathBytes, " bytes, got ",
                      path.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Names::CheckName(absl::string_view op, absl::string_view name) {
  const bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return IsPlain(c) || c == '/'; });
  if (!name.empty() && name.size() <= kMaxNameBytes && plain) return absl::OkStatus();
  return ValueError("[", op, "] expects a name of 1 to ", kMaxNameBytes,
                    " of the characters a-z, 0-9, '.', '_', '-' and '/'");
}

void Names::Publication::End(absl::string_view arrays, absl::string_view programs) const {
  if (withdrawal != nullptr) withdrawal->End(Gone(programs));
  for (const auto& grant : grants) {
    grant->End(Gone(withdrawal != nullptr ? programs : arrays));
  }
}

bool Names::MayRead(const Sharer& sharer, const Key& key, const Publication& publication) {
  if (key.first == sharer.tenant->name) return true;
  return std::any_of(
      publication.readers.begin(), publication.readers.end(),
      [&](const std::string& reader) { return reader == "*" || reader == sharer.tenant->name; });
}

absl::Status Names::CheckRoom(const std::string& tenant, const std::string& name, size_t arrays) {
  size_t names = 0;
  for (auto it = names_.lower_bound({tenant, ""}); it != names_.end() && it->first.first == tenant;
       ++it) {
    ++names;
    for (const auto& [number, version] : it->second.versions) arrays += version.grants.size();
    if (it->first.second == name && it->second.versions.size() >= kMaxVersions) {
      return MemoryError("[publish] the name has ", kMaxVersions,
                         " versions, which is the limit: unpublish some");
    }
  }
  if (names >= kMaxNamesOfTenant || arrays > kMaxArraysOfTenant) {
    return MemoryError("[publish] a tenant publishes at most ", kMaxNamesOfTenant, " names and ",
                       kMaxArraysOfTenant, " arrays: unpublish some");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Names::Publish(const Sharer& owner, NewPublication publication) {
  CHX_RETURN_IF_ERROR(CheckSharingAllowed("publish", owner));
  CHX_RETURN_IF_ERROR(CheckPublication(publication));
  Publication made;
  CHX_ASSIGN_OR_RETURN(made.charge, MemoryCharge::Of(owner.account, BytesOf(publication)));
  made.owner = owner.number;
  made.keep = publication.keep;
  made.readers = std::move(publication.readers);
  made.tree.structure = std::move(publication.structure);
  made.tree.programs = std::move(publication.programs);
  made.code = std::move(publication.code);
  const bool is_tree = made.tree.programs.empty();
  if (!is_tree) made.withdrawal = std::make_shared<Withdrawal>();
  for (auto& [path, array] : publication.arrays) {
    if (is_tree) made.tree.arrays.emplace_back(std::move(path), array.spec);
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<Grant> grant,
                         Grant::New(owner, std::move(array), /*write=*/false));
    made.grants.push_back(std::move(grant));
  }
  const std::string& tenant = owner.tenant->name;
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(CheckRoom(tenant, publication.name, made.grants.size()));
  Name& name = names_[{tenant, publication.name}];
  const uint64_t version = made.tree.version = ++name.last_version;
  name.versions.emplace(version, std::move(made));
  return version;
}

absl::StatusOr<Names::Publication*> Names::Find(const Sharer& sharer, const Query& query) {
  CHX_RETURN_IF_ERROR(CheckSharingAllowed("lookup", sharer));
  CHX_RETURN_IF_ERROR(CheckName("lookup", query.name));
  const Key key(query.tenant.empty() ? sharer.tenant->name : std::string(query.tenant),
                std::string(query.name));
  auto name = names_.find(key);
  if (name != names_.end()) {
    // The newest of those that the session may see.
    auto& versions = name->second.versions;
    for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
      if (query.version != 0 && it->first != query.version) continue;
      if (MayRead(sharer, key, it->second)) return &it->second;
    }
  }
  const std::string version = query.version == 0 ? "" : absl::StrCat(" in version ", query.version);
  return MakeError(
      ErrorKind::kContext,
      absl::StrCat("[lookup] expects a name that is published and that this tenant may "
                   "read, got ",
                   query.name, version));
}

absl::StatusOr<SharedTree> Names::Describe(const Sharer& sharer, const Query& query) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(const Publication* const found, Find(sharer, query));
  return found->tree;
}

absl::StatusOr<SharedTree> Names::Open(const Sharer& holder, const Query& query, bool copy,
                                       std::vector<OpenedArray>* arrays) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(Publication* const found, Find(holder, query));
  if (found->withdrawal != nullptr) {
    return ValueError("[lookup] expects a name of arrays, got one of programs: ", query.name);
  }
  for (const std::unique_ptr<Grant>& grant : found->grants) {
    CHX_ASSIGN_OR_RETURN(OpenedArray opened, grant->Open(holder, copy));
    arrays->push_back(std::move(opened));
  }
  return found->tree;
}

absl::StatusOr<OpenedPrograms> Names::OpenPrograms(const Sharer& holder, const Query& query) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(Publication* const found, Find(holder, query));
  if (found->withdrawal == nullptr) {
    return ValueError("[lookup] expects a name of programs, got one of arrays: ", query.name);
  }
  OpenedPrograms opened{found->tree, {}, found->code, found->withdrawal};
  for (const std::unique_ptr<Grant>& grant : found->grants) {
    CHX_ASSIGN_OR_RETURN(OpenedArray array, grant->Open(holder, /*copy=*/false));
    opened.arrays.push_back(std::move(array));
  }
  return opened;
}

absl::Status Names::Unpublish(const Sharer& sharer, absl::string_view name, uint64_t version) {
  CHX_RETURN_IF_ERROR(CheckName("unpublish", name));
  Ended ended;  // after the lock
  MutexLock lock(&mutex_);
  auto it = names_.find({sharer.tenant->name, std::string(name)});
  if (it != names_.end()) {
    auto& versions = it->second.versions;
    for (auto each = versions.begin(); each != versions.end();) {
      const auto here = each++;
      if (version != 0 && here->first != version) continue;
      here->second.End("the array is not published any more",
                       "the program is not published any more");
      ended.push_back(std::move(here->second));
      versions.erase(here);
    }
    if (versions.empty()) names_.erase(it);
  }
  if (!ended.empty()) return absl::OkStatus();
  return MakeError(ErrorKind::kContext,
                   "[unpublish] expects a name and version that this tenant has published");
}

std::vector<SharedName> Names::List(const Sharer& sharer, absl::string_view prefix) {
  std::vector<SharedName> list;
  MutexLock lock(&mutex_);
  for (const auto& [key, name] : names_) {
    if (!absl::StartsWith(key.second, prefix)) continue;
    for (const auto& [number, version] : name.versions) {
      if (list.size() >= kMaxListed) return list;
      if (!MayRead(sharer, key, version)) continue;
      SharedName listed;
      listed.tenant = key.first;
      listed.name = key.second;
      listed.version = number;
      listed.arrays = version.grants.size();
      for (const auto& grant : version.grants) {
        listed.bytes += static_cast<uint64_t>(grant->array().spec.nbytes());
      }
      list.push_back(std::move(listed));
    }
  }
  return list;
}

void Names::Leave(uint64_t number) {
  Ended ended;
  MutexLock lock(&mutex_);
  for (auto name = names_.begin(); name != names_.end();) {
    const auto here = name++;
    auto& versions = here->second.versions;
    for (auto version = versions.begin(); version != versions.end();) {
      const auto each = version++;
      if (each->second.owner != number) continue;
      each->second.owner = 0;
      if (each->second.keep) continue;
      each->second.End("the session that published this array has ended, and its memory with it",
                       "the session that published this program has ended, and its arrays with it");
      ended.push_back(std::move(each->second));
      versions.erase(each);
    }
    if (versions.empty()) names_.erase(here);
  }
}

}  // namespace chx::server
