#include "client/data_files.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/session.h"
#include "ops/error.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr std::chrono::seconds kAnswerTimeout(60);

absl::StatusOr<Connection*> Usable(Session* session) {
  CHX_RETURN_IF_ERROR(session->queue().CheckUsable());
  Connection& connection = session->connection();
  if (connection.knows_data()) return &connection;
  return MakeError(ErrorKind::kNotImplemented,
                   absl::StrCat("[data] expects a daemon that knows files, got chxd at ",
                                connection.address(), ", which is older"));
}

}  // namespace

absl::StatusOr<std::vector<DataFileArray>> DescribeDataFile(Session* session,
                                                            const std::string& path) {
  CHX_ASSIGN_OR_RETURN(Connection* const connection, Usable(session));
  v1::Reply reply;
  CHX_RETURN_IF_ERROR(connection->AskAboutSession(
      [&path](const std::string& id, uint64_t /*epoch*/, v1::Call* call) {
        call->mutable_describe_data()->set_session_id(id);
        call->mutable_describe_data()->set_path(path);
      },
      kAnswerTimeout, &reply));
  std::vector<DataFileArray> arrays;
  for (const v1::DataMember& member : reply.describe_data().members()) {
    CHX_RETURN_IF_ERROR(wire::CheckArrayHeader("data", member.shape_size(), member.dtype()));
    const std::vector<int64_t> shape(member.shape().begin(), member.shape().end());
    const auto dtype = static_cast<Dtype>(member.dtype());
    CHX_RETURN_IF_ERROR(CheckShape("data", shape, dtype));
    arrays.push_back({member.name(), dtype, Shape(shape)});
  }
  return arrays;
}

absl::StatusOr<ArrayPtr> ReadDataFile(Session* session, const std::string& path,
                                      const DataFileArray& array, DeviceId device,
                                      absl::Span<const int64_t> rows) {
  CHX_ASSIGN_OR_RETURN(Connection* const connection, Usable(session));
  // What was released before makes room.
  CHX_RETURN_IF_ERROR(session->queue().Flush(true));
  v1::ReadDataRequest request;
  const Handle handle = session->queue().AllocateHandle();
  request.set_handle(handle);
  request.set_device(device);
  request.mutable_file()->set_path(path);
  request.mutable_file()->set_member(array.name);
  request.mutable_rows()->Add(rows.begin(), rows.end());
  CHX_RETURN_IF_ERROR(connection->ReadData(std::move(request)));
  ArraySpec spec(array.dtype, array.shape, device);
  if (!rows.empty()) {
    std::vector<int64_t> shape(array.shape.begin(), array.shape.end());
    shape[0] = static_cast<int64_t>(rows.size());
    spec = ArraySpec(array.dtype, Shape(shape), device);
  }
  return session->NewArray(handle, spec);
}

}  // namespace chx
