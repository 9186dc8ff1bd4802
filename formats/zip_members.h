// What is in a ZIP archive without compression: .npz as numpy.savez writes it.
#ifndef CHX_FORMATS_ZIP_MEMBERS_H_
#define CHX_FORMATS_ZIP_MEMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/reading.h"

namespace chx {

struct ZipMember {
  std::string name;
  uint64_t begin = 0;  // of its bytes, in the archive
  uint64_t bytes = 0;
};

// The members of an archive of so many bytes, which are within it. Not looked at: checksums.
absl::StatusOr<std::vector<ZipMember>> ReadZipMembers(ReadAtFn read, uint64_t bytes);

}  // namespace chx

#endif  // CHX_FORMATS_ZIP_MEMBERS_H_
