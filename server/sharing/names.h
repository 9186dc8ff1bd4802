// Arrays and programs that are published under names, in versions.
#ifndef CHX_SERVER_SHARING_NAMES_H_
#define CHX_SERVER_SHARING_NAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/shared_names.h"
#include "server/sharing/grant.h"
#include "server/sharing/withdrawal.h"

namespace chx::server {

// What a session publishes.
struct NewPublication {
  std::string name;                                         // [a-z0-9._/-], 1 to 200 characters
  std::vector<std::pair<std::string, SharedArray>> arrays;  // by their paths
  std::string structure;             // the client's: how it puts the arrays together again
  std::vector<std::string> readers;  // other tenants that may open it; "*": all
  bool keep = false;                 // it outlives the session
  // Programs, in place of a tree; `arrays`, without paths, are what they capture. What sessions
  // make of them is theirs to know (server/session/published_programs.h).
  std::vector<SharedProgram> programs;
  std::shared_ptr<const void> code;
  int64_t code_bytes = 0;
};

// Programs as a session that has opened them has them.
struct OpenedPrograms {
  SharedTree tree;
  std::vector<OpenedArray> arrays;
  std::shared_ptr<const void> code;
  std::shared_ptr<const Withdrawal> withdrawal;
};

// All of a daemon. A name belongs to a tenant: all its sessions may publish and take back under it.
// Thread-safe.
class Names {
 public:
  static constexpr size_t kMaxNamesOfTenant = 4096;
  static constexpr size_t kMaxVersions = 64;
  static constexpr size_t kMaxArraysOfTenant = 16384;
  static constexpr size_t kMaxNameBytes = 200;
  static constexpr size_t kMaxPathBytes = 1000;
  static constexpr size_t kMaxPrograms = 64;                // of a version
  static constexpr size_t kMaxTreeBytes = size_t{2} << 20;  // as it is sent

  // What is asked for: version 0 is the newest, tenant "" the caller's own.
  struct Query {
    absl::string_view tenant;
    absl::string_view name;
    uint64_t version = 0;
  };

  static absl::Status CheckName(absl::string_view op, absl::string_view name);
  // The new version's number: 1, 2, ...
  absl::StatusOr<uint64_t> Publish(const Sharer& owner, NewPublication publication);
  // The same error for what is not there and what the session may not see.
  absl::StatusOr<SharedTree> Describe(const Sharer& sharer, const Query& query);
  absl::StatusOr<SharedTree> Open(const Sharer& holder, const Query& query, bool copy,
                                  std::vector<OpenedArray>* arrays);
  absl::StatusOr<OpenedPrograms> OpenPrograms(const Sharer& holder, const Query& query);
  // Version 0: all. Holders' arrays and programs end.
  absl::Status Unpublish(const Sharer& sharer, absl::string_view name, uint64_t version);
  // What the session may open, of all tenants, that begins so.
  std::vector<SharedName> List(const Sharer& sharer, absl::string_view prefix);
  // The session has ended.
  void Leave(uint64_t number);

 private:
  struct Publication {
    uint64_t owner = 0;
    bool keep = false;
    std::vector<std::string> readers;
    SharedTree tree;
    std::vector<std::unique_ptr<Grant>> grants;  // as tree.arrays, or what programs capture
    std::shared_ptr<const void> code;            // of programs
    std::shared_ptr<Withdrawal> withdrawal;      // of programs; null: it is a tree
    MemoryCharge charge;

    void End(absl::string_view arrays, absl::string_view programs) const;
  };
  struct Name {
    uint64_t last_version = 0;
    std::map<uint64_t, Publication> versions;
  };
  using Key = std::pair<std::string, std::string>;  // tenant, name
  using Ended = std::vector<Publication>;

  static bool MayRead(const Sharer& sharer, const Key& key, const Publication& publication);
  absl::Status CheckRoom(const std::string& tenant, const std::string& name, size_t arrays)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Publication*> Find(const Sharer& sharer, const Query& query)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Key, Name> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_SHARING_NAMES_H_
