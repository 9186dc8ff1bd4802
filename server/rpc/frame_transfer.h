// Whole arrays over a frame connection, in chunks.
#ifndef CHX_SERVER_RPC_FRAME_TRANSFER_H_
#define CHX_SERVER_RPC_FRAME_TRANSFER_H_

#include <chrono>

#include "proto/chxd.pb.h"
#include "server/rpc/frame_connection.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Serve one call each, from its message on. False: the connection is to end.

// Data frames come after the call, and an empty one at their end. They are read to the end even
// after an error: the connection goes on.
bool ServeUpload(SessionManager* manager, const v1::UploadHeader& header,
                 FrameConnection* connection);
// `patience`: for a client that does not read.
bool ServeDownload(SessionManager* manager, const v1::DownloadRequest& request,
                   std::chrono::milliseconds patience, FrameConnection* connection);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_FRAME_TRANSFER_H_
