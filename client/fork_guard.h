// A forked child holds none of its parent's connections.
#ifndef CHX_CLIENT_FORK_GUARD_H_
#define CHX_CLIENT_FORK_GUARD_H_

#include <sys/types.h>

namespace chx {

// Changes in a child of fork(), where nothing of the parent's may be used: its threads, which may
// have held locks, do not exist there.
int ForkGeneration();

// A child of fork() closes the descriptor: else the daemon would think that the client lives on,
// and bytes from two processes could mix. Nothing is sent: TLS is not shut down.
void CloseInForkedChildren(int fd);
// Closes it here, unless it has been closed already, by a fork or by a program that closes what it
// does not know: the number may be another file's now. `inode`: InodeOf it was when it was opened.
void CloseGuarded(int fd, ino_t inode);
// What tells the file behind a descriptor from others; 0 if there is none.
ino_t InodeOf(int fd);

}  // namespace chx

#endif  // CHX_CLIENT_FORK_GUARD_H_
