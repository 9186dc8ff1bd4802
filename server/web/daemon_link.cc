#include "server/web/daemon_link.h"

#include <utility>

namespace chx::server {

const std::string& DaemonLink::Ask(const v1::Call& call, Answer* answer,
                                   const std::function<std::string(v1::Reply*)>& take) {
  const auto now = std::chrono::steady_clock::now();
  if (!answer->text.empty() && now < answer->asked + kKept) return answer->text;
  v1::Reply reply;
  if (daemon_.Call(call, &reply).ok()) {
    answer->text = take(&reply);
  } else {
    answer->text.clear();
    broken_ = true;
  }
  answer->asked = now;
  return answer->text;
}

const std::string& DaemonLink::Metrics() {
  v1::Call call;
  call.mutable_metrics();
  return Ask(call, &metrics_,
             [](v1::Reply* reply) { return std::move(*reply->mutable_metrics()->mutable_text()); });
}

const std::string& DaemonLink::Status() {
  v1::Call call;
  call.mutable_node_status();
  return Ask(call, &status_, [](v1::Reply* reply) { return NodeStatusJson(reply->node_status()); });
}

bool DaemonLink::Serving() {
  v1::Call call;
  call.mutable_health();
  return Ask(call, &health_, [](v1::Reply* reply) {
           return std::string(reply->health().serving() ? "serving" : "draining");
         }) == "serving";
}

}  // namespace chx::server
