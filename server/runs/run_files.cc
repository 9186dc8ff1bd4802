// RunLoop's part about data in files of the operator's.
#include <string>

#include "ops/error.h"
#include "server/runs/run_loop.h"

namespace chx::server {

absl::StatusOr<ArraySpec> RunLoop::TakeFile(bool own, RunCalls* calls, Part* part) {
  RunFile& file = calls->files[part->files.size()];
  if (options_.data == nullptr) return ValueError("[runs] expects a daemon with --data-root");
  CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                       MemoryCharge::Of(session_->account(), kDataParseBytes));
  CHX_ASSIGN_OR_RETURN(DataArray array, options_.data->Find(file.path, file.member));
  if (own && !(array.stamp == file.stamp)) {
    return ValueError("[runs] the file '", file.path, "' has changed since the run has begun");
  }
  ArraySpec spec(array.dtype, array.shape);
  if (own && !file.spec.empty() && file.spec != spec.ToString()) {
    return ValueError("[runs] expects '", file.member, "' of the file '", file.path, "' to be ",
                      file.spec, ", as it was when the run began, got ", spec.ToString());
  }
  file.stamp = array.stamp;
  file.spec = spec.ToString();
  part->files.push_back({std::move(array), ""});
  return spec;
}

absl::StatusOr<int64_t> RunLoop::FileBytes(const Part& part, int64_t batch_size) {
  int64_t all = 0;
  for (const FilePart& file : part.files) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(batch_size, file.array.row_bytes(), &bytes) ||
        __builtin_add_overflow(all, bytes, &all) || all > INT64_MAX / 4) {
      return MemoryError("[runs] expects smaller minibatches than ", batch_size, " rows");
    }
  }
  return all;
}

absl::Status RunLoop::ReadFiles(Part* part, absl::Span<const int64_t> rows) const {
  for (FilePart& file : part->files) {
    file.rows.resize(rows.size() * static_cast<size_t>(file.array.row_bytes()));
    CHX_RETURN_IF_ERROR(options_.data->Read(file.array, rows, &file.rows[0]));
  }
  return absl::OkStatus();
}

}  // namespace chx::server
