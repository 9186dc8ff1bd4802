// Arrays that sessions share with each other, in any process and language (docs/sharing.md).
#ifndef CHX_CLIENT_SHARING_H_
#define CHX_CLIENT_SHARING_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/array_map.h"
#include "client/session.h"

namespace chx {

// What whoever opens an array may do with it.
enum class ShareRights { kRead, kWrite };

// Who may open an array, and for how long.
struct ShareOptions {
  ShareRights rights = ShareRights::kRead;
  std::chrono::milliseconds expires{0};  // from now; 0: never
  std::string tenant;                    // who may open it; "": this session's; "*": everybody
  bool keep = false;                     // whether holders keep it when this session ends
};

// How an array of another session is opened.
enum class OpenMode {
  kShared,  // with the rights that were given
  kCopy,    // the array's first write gives it memory of its own
};

// A capability: whoever has the text can open the array. Its memory moves to where sessions share
// it, with all its views; writes by this session are seen by those who have opened it. Waits.
// kValue: Export has shown the array's memory, or it is another session's.
absl::StatusOr<std::string> Share(const Array& array, const ShareOptions& options = {});
// The array behind a capability, on the same memory. It is in no graph. Waits. Once the capability
// is revoked or has expired, reads and operators fail with errors of kind kContext.
Array OpenShared(Session& session, absl::string_view capability, OpenMode mode = OpenMode::kShared);
// Ends the use of what was opened by a capability of this session.
absl::Status Revoke(Session& session, absl::string_view capability);

// Who may look a name up, and for how long it stays.
struct PublishOptions {
  std::vector<std::string> readers;  // other tenants that may look it up; "*": all
  bool keep = false;                 // whether it stays when this session ends
  // How the publisher's language puts the arrays together again; Python's is its own.
  std::string structure;
};

// Arrays under a name of [a-z0-9._/-], for reading. The new version's number. Waits.
absl::StatusOr<uint64_t> Publish(Session& session, const std::string& name, const ArrayMap& arrays,
                                 const PublishOptions& options = {});
// The same for arrays in another order than that of their paths, which are one for each.
absl::StatusOr<uint64_t> Publish(Session& session, const std::string& name,
                                 absl::Span<const std::string> paths,
                                 absl::Span<const ArrayPtr> arrays, const PublishOptions& options);

// Which version of whose name is looked up.
struct LookupOptions {
  std::string tenant;    // whose name it is; "": this session's
  uint64_t version = 0;  // 0: the newest
  OpenMode mode = OpenMode::kShared;
};

// The arrays under a name.
struct Published {
  uint64_t version = 0;
  std::string structure;
  std::vector<std::string> paths;  // in the publisher's order
  std::vector<ArrayPtr> arrays;    // by these paths
  ArrayMap map() const;
};

// The arrays that are published under a name. Waits. kContext: none are, or this tenant may not
// read it. Programs are found by LookupProgram (chx/program.h).
absl::StatusOr<Published> Lookup(Session& session, const std::string& name,
                                 const LookupOptions& options = {});
// Takes back a version, or with 0 all. Any session of the tenant may.
absl::Status Unpublish(Session& session, const std::string& name, uint64_t version = 0);

// A name in a listing.
struct PublishedName {
  std::string tenant;
  std::string name;
  uint64_t version = 0;
  uint64_t arrays = 0;
  uint64_t bytes = 0;
};
// All that this session may look up and that begins so. Waits.
absl::StatusOr<std::vector<PublishedName>> Names(Session& session, const std::string& prefix = "");

}  // namespace chx

#endif  // CHX_CLIENT_SHARING_H_
