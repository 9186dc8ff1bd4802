// What long loops ask every few milliseconds.
//
// A declaration only: the loops that are compiled for each instruction set include it, and inline
// functions of theirs must not be linked into others.
#ifndef CHX_SERVER_ENGINE_STOP_REQUESTED_H_
#define CHX_SERVER_ENGINE_STOP_REQUESTED_H_

namespace chx::server {

// Whether the command for which this thread works is to stop. Once true it stays true until the
// command ends; whoever asked may leave its results unfinished, for nobody will see them. False on
// threads that work for no session. Costs a few nanoseconds, unless other sessions wait for the
// thread's core, which then go on first (compute_slots.h): no lock may be held but the session's.
bool StopRequested();

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_STOP_REQUESTED_H_
