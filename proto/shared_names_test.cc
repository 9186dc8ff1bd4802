#include "proto/shared_names.h"

#include <gtest/gtest.h>

#include <cstring>

namespace chx {
namespace {

ArraySpec SpecOf() {
  ArraySpec spec(Dtype::kFloat32, Shape({2, 3}), 1);
  spec.strides = Strides({4, 8});
  return spec;
}

SharedTree TreeOf() {
  SharedTree tree;
  tree.version = 7;
  tree.structure = "{\"dict\": {}}";
  tree.arrays.emplace_back("layers/0/W", SpecOf());
  tree.arrays.emplace_back("", ArraySpec(Dtype::kInt64, Shape(), 0));
  return tree;
}

TEST(SharedNames, AreWhatTheyWere) {
  const SharedTree tree = *DecodeSharedTree(EncodeSharedTree(TreeOf()));
  EXPECT_EQ(tree.version, 7u);
  EXPECT_EQ(tree.structure, TreeOf().structure);
  ASSERT_EQ(tree.arrays.size(), 2u);
  EXPECT_EQ(tree.arrays[0].first, "layers/0/W");
  EXPECT_EQ(tree.arrays[0].second.strides, Strides({4, 8}));
  EXPECT_EQ(tree.arrays[0].second.device, 1);
  EXPECT_EQ(tree.arrays[1].second.ndim(), 0);
  const auto names = *DecodeSharedNames(EncodeSharedNames({{"lab", "a/b", 3, 4, 5}, {"", "c"}}));
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0].name, "a/b");
  EXPECT_EQ(names[0].bytes, 5u);
  EXPECT_EQ(SplitPaths(JoinPaths({"a", "", "b/c"})).size(), 3u);
}

// A part of an answer, or one with more behind it, is none; nor is one with absurd counts.
TEST(SharedNames, DamagedOnesAreRefused) {
  const std::string tree = EncodeSharedTree(TreeOf());
  for (size_t size = 0; size < tree.size(); ++size) {
    EXPECT_FALSE(DecodeSharedTree(absl::string_view(tree).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeSharedTree(tree + "x").ok());
  const std::string spec = EncodeSharedSpec(SpecOf());
  EXPECT_TRUE(DecodeSharedSpec(spec).ok());
  for (size_t word = 0; word < spec.size() / 8; ++word) {
    std::string damaged = spec;
    std::memset(&damaged[8 * word], 0x7f, 8);
    // Strides may be anything: the daemon alone uses them.
    const bool stride = word == 4 || word == 6;
    EXPECT_EQ(DecodeSharedSpec(damaged).ok(), stride) << word;
  }
  EXPECT_FALSE(DecodeSharedNames(std::string(8, '\x7f')).ok());
}

}  // namespace
}  // namespace chx
