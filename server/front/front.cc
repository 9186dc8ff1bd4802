#include "server/front/front.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "server/front/door.h"
#include "server/log/log.h"
#include "server/process/child.h"
#include "server/process/confine.h"

namespace chx::server {
namespace {

constexpr size_t kMaxRelays = 4096;
constexpr size_t kMemoryBytes = 192 << 20;

}  // namespace

int RunFront() {
  ConfigureLogFromEnvironment("chxd-front");
  const size_t descriptors = ConfineProcess(kMemoryBytes);
  fcntl(kControlDescriptor, F_SETFL, O_NONBLOCK);
  // Strangers have one each, relays two; the rest are in reserve.
  Strangers::Limits strangers;
  strangers.in_all = std::min(strangers.in_all, descriptors / 4);
  strangers.per_address = std::min(strangers.per_address, strangers.in_all / 2);
  Door door(kControlDescriptor, strangers, std::min(kMaxRelays, descriptors / 4));
  door.Run();
  return 0;
}

}  // namespace chx::server
