// Operators over lists: what they write, and what a client may get wrong.
#include <utility>

#include "gmock/gmock.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ListsTest : public SessionTest {
 protected:
  ListsTest() {
    Upload(1, {1, 2}, {2});
    Upload(2, {3, 4}, {2});
    Upload(3, {1, 1}, {2});
    Upload(4, {2, 2}, {2});
    Run({Op("add", {A(1), A(99)}, {5})});  // an error under 5
  }

  Command Sgd(std::vector<HandleOperand> operands) {
    return Op("sgd_update", std::move(operands), {}, {AttrValue(1.0)});
  }
};

TEST_F(ListsTest, AllPlacesAreWritten) {
  Run({Sgd({A(1), A(2), A(3), A(4)})});
  EXPECT_THAT(Fetch(1), ElementsAre(0, 1));
  EXPECT_THAT(Fetch(2), ElementsAre(1, 2));
  EXPECT_THAT(Fetch(3), ElementsAre(1, 1));
}

// Internal, but a client may name it. Rows have gradients in any order, several times, or none.
TEST_F(ListsTest, RowsAreUpdated) {
  const auto update = [this](Handle at, const std::vector<float>& rows, double lr) {
    Upload(at, rows, {3});
    Run({Op("astype", {A(at)}, {at + 1}, {Dtype::kInt64}),
         Op("sgd_update_rows", {A(6), A(7), A(at + 1)}, {}, {AttrValue(lr)})});
  };
  Upload(6, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5, 2});
  Upload(7, {1, 2, 3, 4, 5, 6}, {3, 2});
  const size_t before = output_.errors.size();
  update(10, {4, 1, -1}, 1.0);
  EXPECT_THAT(Fetch(6), ElementsAre(0, 1, -1, -1, 4, 5, 6, 7, 2, 1));
  update(20, {4, 1, -1}, -1.0);
  EXPECT_THAT(Fetch(6), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(output_.errors.size(), before) << LastError();
  for (const float bad : {5.0F, -6.0F}) {
    update(bad > 0 ? 30 : 40, {0, bad, 1}, 1.0);
    EXPECT_THAT(LastError(), HasSubstr("sgd_update_rows"));
    EXPECT_THAT(Fetch(6), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_EQ(output_.errors.size(), before + 2);
}

TEST_F(ListsTest, AnyNumberOfOperandsIsAnError) {
  for (int count = 0; count < 6; ++count) {
    for (int bad = -1; bad < count; ++bad) {
      std::vector<HandleOperand> operands;
      operands.reserve(static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) operands.push_back(A(i == bad ? 5 : i % 4 + 1));
      if (count > 0 && count % 2 == 0 && bad < 0) continue;  // a good call
      const size_t before = output_.errors.size();
      Run({Sgd(operands), Op("rmsprop_graves_update", operands, {}),
           Op("gradient_clipping", operands, {}, {})});
      EXPECT_EQ(output_.errors.size(), before + 3) << count << " " << bad;
    }
  }
  EXPECT_THAT(Fetch(1), ElementsAre(1, 2));
}

TEST_F(ListsTest, ABadGradientCostsNoParameter) {
  Run({Sgd({A(1), A(2), A(3), A(5)})});
  EXPECT_EQ(output_.errors.back().handle, 0u);
  EXPECT_THAT(Fetch(1), ElementsAre(1, 2));
  EXPECT_THAT(Fetch(2), ElementsAre(3, 4));
  Run({Sgd({A(1), A(2), A(3), A(4)})});
  EXPECT_THAT(Fetch(2), ElementsAre(1, 2));
}

TEST_F(ListsTest, SharedMemoryIsRefusedBeforeAnythingIsWritten) {
  Upload(6, {1, 2, 3, 4}, {2, 2});
  Upload(8, {5}, {1});
  Run({Op("transpose", {A(6)}, {7}, {AttrValue()}),
       Op("broadcast_to", {A(8)}, {9}, {AttrValue(Ints({2}))})});
  const auto refused = [&](Command command) {
    const size_t before = output_.errors.size();
    Run({std::move(command)});
    ASSERT_EQ(output_.errors.size(), before + 1);
    EXPECT_THAT(LastError(), HasSubstr("share no memory"));
  };
  refused(Sgd({A(1), A(1)}));
  refused(Sgd({A(6), A(7), A(7), A(6)}));
  refused(Sgd({A(9), A(3)}));
  refused(Op("gradient_clipping", {A(1), A(9)}, {}, {AttrValue(0.5)}));
  EXPECT_THAT(Fetch(1), ElementsAre(1, 2));
  EXPECT_THAT(Fetch(6), ElementsAre(1, 2, 3, 4));
  Run({Sgd({A(1), A(1), A(3), A(3)})});  // twice in a row
  EXPECT_THAT(Fetch(1), ElementsAre(-1, 0));
}

}  // namespace
}  // namespace chx::server
