// Which connections may wait to be authenticated, and which one goes when there are too many.
#ifndef CHX_SERVER_FRONT_STRANGERS_H_
#define CHX_SERVER_FRONT_STRANGERS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"

namespace chx::server {

// Counts unauthenticated connections by address. Used by one thread.
class Strangers {
 public:
  struct Limits {
    size_t in_all = 512;
    size_t per_address = 256;
  };
  explicit Strangers(const Limits& limits) : limits_(limits) {}

  // Takes in a connection; ids grow. Returns the one to drop for it: of its own address if that has
  // too many, else of the address that has most. So who fills all places loses its own, and a
  // newcomer gets in. The oldest goes, of those who are silent as long as there are any.
  absl::optional<uint64_t> Enter(uint64_t id, const std::string& address);
  // It has sent something.
  void Speaks(uint64_t id, const std::string& address);
  // Authenticated, or gone.
  void Leave(uint64_t id, const std::string& address);
  // The one to drop where something else is short.
  absl::optional<uint64_t> Greediest() const;
  size_t size() const { return size_; }

 private:
  struct Address {
    std::set<uint64_t> silent;
    std::set<uint64_t> speaking;
    size_t size() const { return silent.size() + speaking.size(); }
    uint64_t First() const { return silent.empty() ? *speaking.begin() : *silent.begin(); }
  };

  const Limits limits_;
  size_t size_ = 0;
  absl::flat_hash_map<std::string, Address> by_address_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_STRANGERS_H_
