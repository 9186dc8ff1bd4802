// Uploads and downloads over frame connections.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ops/error.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

using TransferTest = DaemonTest;

// Announces an array of float32.
v1::Call UploadOf(const RpcClient& client, uint64_t handle, int64_t elements) {
  v1::Call call;
  v1::UploadHeader* const header = call.mutable_upload();
  header->set_session_id(client.session_id());
  header->set_handle(handle);
  header->set_dtype(static_cast<uint32_t>(Dtype::kFloat32));
  header->add_shape(elements);
  return call;
}

TEST_F(TransferTest, ArraysComeBackAsTheyWere) {
  Start();
  RpcClient client = Opened();
  uint64_t handle = 1;
  for (size_t size : {0, 1, 1000, 300000}) {
    std::vector<float> values(size), back;
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) * 0.5f;
    for (size_t chunk : {1 << 20, 4000, 1 << 18}) {
      if (chunk == 4000 && size > 10000) continue;
      const absl::Status up = client.Upload(++handle, values, chunk);
      ASSERT_TRUE(up.ok()) << up;
      const absl::Status down = client.Download(handle, &back);
      ASSERT_TRUE(down.ok()) << down;
      EXPECT_EQ(back, values);
    }
  }
}

TEST_F(TransferTest, BadTransfersAreErrorsOfTheirCallOnly) {
  Start();
  RpcClient client = Opened();
  EXPECT_TRUE(client.Upload(1, {1, 2, 3}, 100).ok());
  EXPECT_EQ(client.Upload(1, {1, 2, 3}, 100).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client.Upload(0, {1, 2, 3}, 100).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status large = client.Upload(2, std::vector<float>(30 << 20), 1 << 20);
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(KindOf(large), ErrorKind::kMemory);
  std::vector<float> values;
  EXPECT_FALSE(client.Download(99, &values).ok());
  // Too few bytes, too many, and none at all.
  for (const size_t bytes : {size_t{7}, size_t{9}, size_t{0}}) {
    FrameClient connection(address());
    connection.Write(FrameKind::kCall, UploadOf(client, 3, 2));
    if (bytes != 0) connection.WriteData(std::string(bytes, 'x'));
    connection.WriteData("");
    v1::Reply reply;
    EXPECT_EQ(connection.ReadReply(&reply).code(), absl::StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_TRUE(client.Download(1, &values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST_F(TransferTest, ACutUploadLeavesNothing) {
  Start();
  RpcClient client = Opened();
  {
    FrameClient connection(address());
    connection.Write(FrameKind::kCall, UploadOf(client, 9, 10 << 20));
    EXPECT_TRUE(connection.WriteData(std::string(1 << 20, 'x')));
    for (int i = 0; i < 500 && Sessions().sessions(0).memory_bytes() < (40 << 20); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GE(Sessions().sessions(0).memory_bytes(), 40u << 20);
  }
  // The handle and the memory are free again.
  absl::Status status;
  for (int i = 0; i < 500; ++i) {
    status = client.Upload(9, std::vector<float>(12 << 20), 1 << 20);
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status;
}

// A session's end frees what transfers hold whose clients do nothing.
TEST_F(TransferTest, TransfersEndWithTheirSession) {
  Start();
  const uint64_t rest = Sessions().memory_bytes();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(1, std::vector<float>(4 << 20), 1 << 20).ok());
  FrameClient uploading(address());
  uploading.Write(FrameKind::kCall, UploadOf(client, 2, 4 << 20));
  ASSERT_TRUE(uploading.WriteData(std::string(1 << 20, 'x')));
  v1::Call down;
  down.mutable_download()->set_session_id(client.session_id());
  down.mutable_download()->set_handle(1);
  FrameClient downloading(address());
  downloading.Write(FrameKind::kCall, down);  // and reads nothing
  const auto held = [this] { return Sessions().memory_bytes(); };
  for (int i = 0; i < 500 && held() < rest + (48 << 20); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GE(held(), rest + (48 << 20));
  v1::Call kill;
  kill.mutable_kill_session()->set_number(client.opened.session_number());
  v1::Reply reply;
  ASSERT_TRUE(CallOnce(address(), "", kill, &reply).ok());
  const uint64_t connections = 1 << 20;  // what theirs may take, and those that list
  for (int i = 0; i < 500 && held() > rest + connections; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(held(), rest + connections);
  FrameKind kind;
  absl::string_view payload;
  EXPECT_FALSE(uploading.Read(&kind, &payload));
  while (downloading.Read(&kind, &payload)) {
  }
  // Nor do any begin.
  std::vector<float> values;
  EXPECT_EQ(client.Download(1, &values).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace chx::server
