#include "proto/wire.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "proto/chunk.h"

namespace chx {
namespace {

TEST(Wire, StatusesKeepTheirKind) {
  for (int kind = 0; kind < kNumErrorKinds; ++kind) {
    const absl::Status status = MakeError(static_cast<ErrorKind>(kind), "[op] expects x, got y");
    EXPECT_EQ(wire::FromGrpc(wire::ToGrpc(status)), status) << kind;
    v1::Error message;
    wire::ToMessage(status, "op", "float32(2, 3)", "a.py:7", &message);
    const absl::Status back = wire::FromMessage(message);
    EXPECT_EQ(KindOf(back), KindOf(status));
    EXPECT_EQ(back.message(), "[op] expects x, got y\n  inputs: float32(2, 3)\n  at: a.py:7");
  }
  EXPECT_TRUE(wire::FromGrpc(wire::ToGrpc(absl::OkStatus())).ok());
  v1::Error from_the_future;
  from_the_future.set_kind(200);
  EXPECT_EQ(KindOf(wire::FromMessage(from_the_future)), ErrorKind::kChainerx);
}

// Not every file name is UTF-8; an error about such a file must still reach the client.
TEST(Wire, LocationsAreBytes) {
  v1::Error message, back;
  wire::ToMessage(ValueError("x"), "op", "", "caf\xe9.py:7", &message);
  ASSERT_TRUE(back.ParseFromString(message.SerializeAsString()));
  EXPECT_EQ(back.location(), "caf\xe9.py:7");
}

TEST(Wire, ArrayHeadersAreChecked) {
  EXPECT_TRUE(wire::CheckArrayHeader("upload", kMaxNdim, kNumDtypes - 1).ok());
  EXPECT_EQ(KindOf(wire::CheckArrayHeader("upload", kMaxNdim + 1, 0)), ErrorKind::kDimension);
  EXPECT_EQ(KindOf(wire::CheckArrayHeader("upload", 1, kNumDtypes)), ErrorKind::kDtype);
}

grpc::ByteBuffer Cut(const std::string& bytes, std::mt19937* random) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = 1 + (*random)() % 7;
    slices.emplace_back(bytes.substr(at, size));
    at += size;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

TEST(Chunk, IsTheMessageItStandsFor) {
  std::mt19937 random(7);
  for (size_t size : {0, 1, 127, 128, 100000}) {
    v1::UploadChunk message;
    message.mutable_header()->set_handle(5);
    message.set_data(std::string(size, 'd'));
    const std::string header = message.header().SerializeAsString();
    const std::string made = BytesOf(MakeChunk(header, grpc::Slice(message.data())));
    v1::UploadChunk parsed;
    ASSERT_TRUE(parsed.ParseFromString(made));
    EXPECT_EQ(parsed.SerializeAsString(), message.SerializeAsString());
    ParsedChunk chunk;
    ASSERT_TRUE(ParseChunk(Cut(message.SerializeAsString(), &random), &chunk).ok());
    EXPECT_EQ(chunk.header, header);
    std::string data;
    for (absl::string_view piece : chunk.pieces) data.append(piece.data(), piece.size());
    EXPECT_EQ(data, message.data());
  }
}

TEST(Chunk, WhatIsCutOrStrangeIsAnError) {
  std::mt19937 random(7);
  v1::UploadChunk message;
  message.mutable_header()->set_handle(5);
  message.set_data("0123456789");
  const std::string whole = message.SerializeAsString();
  const size_t header = whole.size() - 12;
  ParsedChunk chunk;
  for (size_t size = 0; size < whole.size(); ++size) {
    const bool complete = size == 0 || size == header;
    EXPECT_EQ(ParseChunk(Cut(whole.substr(0, size), &random), &chunk).ok(), complete) << size;
  }
  EXPECT_FALSE(ParseChunk(Cut(whole + "x", &random), &chunk).ok());
  EXPECT_FALSE(ParseChunk(Cut("\x1a\x01x", &random), &chunk).ok());
  const std::string long_header = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_FALSE(ParseChunk(Cut(long_header, &random), &chunk).ok());
}

}  // namespace
}  // namespace chx
