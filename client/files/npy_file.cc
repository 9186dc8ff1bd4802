#include "client/files/file_io.h"
#include "client/files/host_array.h"
#include "client/files/npy_format.h"
#include "client/files/npz.h"

namespace chx {
namespace {

absl::StatusOr<HostArray> ReadFile(const FilePlace& place) {
  InputFile file(place);
  CHX_RETURN_IF_ERROR(file.Open());
  const auto read = [&file](char* out, size_t bytes) { return file.Read(out, bytes); };
  absl::StatusOr<HostArray> array = ReadNpy(read, file.bytes());
  CHX_RETURN_IF_ERROR(AtPlace(place, array.status()));
  return array;
}

}  // namespace

absl::Status SaveNpy(const std::string& path, const Array& array) {
  const FilePlace place = {"save_npy", path, ""};
  CHX_RETURN_IF_ERROR(array.status());
  CHX_RETURN_IF_ERROR(AtPlace(place, CheckNpyDtype(array.dtype())));
  CHX_ASSIGN_OR_RETURN(const HostArray host, FetchHostArray(array));
  OutputFile file(place);
  CHX_RETURN_IF_ERROR(file.Open());
  CHX_RETURN_IF_ERROR(file.Write(NpyPrefix(host.dtype, host.shape)));
  CHX_RETURN_IF_ERROR(file.Write(host.data));
  return file.Commit();
}

Array LoadNpy(Session& session, const std::string& path, DeviceId device) {
  const absl::StatusOr<HostArray> array = ReadFile({"load_npy", path, ""});
  return array.ok() ? UploadHostArray(session, *array, device) : Array(array.status());
}

}  // namespace chx
