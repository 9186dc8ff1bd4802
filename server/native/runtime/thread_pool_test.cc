// Loops cover every index once, from several threads at once, and nested.
#include "server/native/runtime/thread_pool.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server::native {
namespace {

TEST(ThreadPoolTest, EveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t n : {0, 1, 7, 100, 1001}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> hits(n, 0);
        pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++hits[i];
        });
        EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), n);
      }
    }
  }
}

TEST(ThreadPoolTest, ShortLoopsStayOnTheCaller) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    pool.ParallelFor(19, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_EQ(end - begin, 19);
    });
  }
}

TEST(ThreadPoolTest, ManyCallersAndNestedLoops) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(6, 0);
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&pool, &sums, c] {
      for (int round = 0; round < 50; ++round) {
        std::vector<int64_t> parts(40, 0);
        pool.ParallelFor(40, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            std::atomic<int64_t> inner{0};
            pool.ParallelFor(20, 2, [&](int64_t b, int64_t e) { inner += e - b; });
            parts[i] = inner * i;
          }
        });
        for (const int64_t part : parts) sums[c] += part;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 50 * 20 * (39 * 40 / 2));
}

TEST(ThreadPoolTest, ChunksAreOfOneSizeWhateverTheThreads) {
  std::vector<int64_t> before;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> largest{0};
    std::vector<std::atomic<int64_t>> ends(100001);
    pool.ParallelFor(100000, 32768, [&](int64_t begin, int64_t end) {
      ends[end] = begin;
      int64_t seen = largest;
      while (seen < end - begin && !largest.compare_exchange_weak(seen, end - begin)) {
      }
    });
    EXPECT_EQ(largest, 25000);
    std::vector<int64_t> begins(ends.begin(), ends.end());
    if (threads > 1) {
      EXPECT_EQ(begins, before);
    }
    before = begins;
  }
}

TEST(ThreadPoolTest, WorkersThatSleepAreWoken) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // Each of the two chunks waits for the other: a sleeping worker would hang here.
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, 1, [&](int64_t, int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

int Nice(int64_t thread) { return getpriority(PRIO_PROCESS, static_cast<id_t>(thread)); }

// Whether all of a loop, and of one within it, ran at this priority. On two threads, at least: each
// of the two chunks waits for the other.
bool RunsAt(ThreadPool* pool, int nice) {
  std::atomic<int> arrived{0};
  std::atomic<bool> all{true};
  const auto look = [&] {
    if (Nice(syscall(SYS_gettid)) != nice) all = false;
  };
  pool->ParallelFor(2, 1, [&](int64_t, int64_t) {
    look();
    pool->ParallelFor(20, 1, [&](int64_t, int64_t) { look(); });
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  return all;
}

TEST(ThreadPoolTest, LoopsOfThreadsOfLowPriorityHaveIt) {
  const int normal = Nice(getpid());
  ThreadPool pool(2);
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), normal + 1), 0);
      EXPECT_TRUE(RunsAt(&pool, normal + 1));
    }).join();
    EXPECT_TRUE(RunsAt(&pool, normal));
  }
}

TEST(ThreadPoolTest, ThreadsMayHaveNothingToDo) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(4);
}

}  // namespace
}  // namespace chx::server::native
