// Copies of large values.
#ifndef CHX_CLIENT_COPY_BULK_H_
#define CHX_CLIENT_COPY_BULK_H_

#include <cstddef>

namespace chx {

// memcpy for large values. Beyond what caches hold it writes past them: memory that is going to be
// overwritten is not read first. `whole`: the bytes of which these are a part.
void CopyBulk(char* to, const char* from, size_t bytes, size_t whole);

}  // namespace chx

#endif  // CHX_CLIENT_COPY_BULK_H_
