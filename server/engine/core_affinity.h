// Which cores a thread may run on. Nothing here has an effect if the process may use less of its
// cores' time than there is (the quota of a container): then cores are not what it has, and other
// processes would choose the same ones.
#ifndef CHX_SERVER_ENGINE_CORE_AFFINITY_H_
#define CHX_SERVER_ENGINE_CORE_AFFINITY_H_

namespace chx::server {

// The calling thread runs on the core with this number only, counted among those that the process
// may use, until it is called again; a negative number: on any of them. Threads that it starts
// meanwhile stay there, too.
void StayOnCore(int number);

// The calling thread, and those that it starts, run on all cores but one, the same for all such
// threads; on a machine of one core on that.
void LeaveOneCore();

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_CORE_AFFINITY_H_
