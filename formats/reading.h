// How parsers of files get at the bytes.
#ifndef CHX_FORMATS_READING_H_
#define CHX_FORMATS_READING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace chx {

// Reads exactly so many bytes, the next ones.
using ReadFn = absl::FunctionRef<absl::Status(char* out, size_t bytes)>;
// The same, from a byte on.
using ReadAtFn = absl::FunctionRef<absl::Status(uint64_t begin, char* out, size_t bytes)>;

// Reads piece by piece, so that no more memory is used than there are bytes.
absl::Status ReadString(ReadFn read, uint64_t bytes, std::string* out);

}  // namespace chx

#endif  // CHX_FORMATS_READING_H_
