// A session with some arrays and a limit.
#ifndef CHX_TESTS_SESSION_MEMORY_FIXTURE_H_
#define CHX_TESTS_SESSION_MEMORY_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {

inline constexpr int64_t kLimit = int64_t{6} << 20;

class MemoryTest : public SessionTest {
 protected:
  ~MemoryTest() override { session_ = nullptr; }  // before the store

  // The session has a float32 array 1 in the default graph, 2 with 15000 elements, and 3, an int64.
  void Begin(int64_t limit = kLimit) {
    SessionLimits limits;
    limits.memory_bytes = limit;
    Reset(limits);
    auto account = std::make_shared<MemoryAccount>(limit);
    session_ = std::make_unique<Session>(
        &devices_, limits,
        SessionResources{false, account, nullptr, store_.Join(DefaultTenant(), account)});
    Upload(1, {1}, {1});
    Upload(2, std::vector<float>(15000), {15000});
    Run({command::RequireGrad{1},
         Op("zeros", {}, {3}, {AttrValue(Ints{1}), AttrValue(Dtype::kInt64)}),
         Op("add", {A(1), S(1)}, {4})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
  }

  bool OutOfMemory() const {
    const auto is_memory = [](const RootErrorPtr& error) {
      return error != nullptr && KindOf(error->status) == ErrorKind::kMemory;
    };
    return std::any_of(output_.errors.begin(), output_.errors.end(),
                       [&](const SessionOutput::Error& e) { return is_memory(e.error); }) ||
           std::any_of(output_.values.begin(), output_.values.end(),
                       [&](const SessionOutput::Value& v) { return is_memory(v.error); });
  }

  SharedStore store_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_MEMORY_FIXTURE_H_
