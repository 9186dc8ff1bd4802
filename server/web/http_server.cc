#include "server/web/http_server.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <list>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

namespace chx::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

std::string TextOf(const http::request<http::string_body>& request, http::field field) {
  const auto value = request[field];
  return {value.data(), value.size()};
}

WebRequest RequestOf(const http::request<http::string_body>& message) {
  WebRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  request.path = target.substr(0, target.find('?'));
  request.host = TextOf(message, http::field::host);
  request.origin = TextOf(message, http::field::origin);
  request.authorization = TextOf(message, http::field::authorization);
  request.cookie = TextOf(message, http::field::cookie);
  request.body = message.body();
  return request;
}

// What a request that cannot be read is told.
WebResponse RefusalOf(const error_code& error) {
  WebResponse response;
  response.status = error == http::error::header_limit ? 431
                    : error == http::error::body_limit ? 413
                                                       : 400;
  response.body = "expects an HTTP/1.1 request of a few kilobytes\n";
  return response;
}

// One peer's, whatever it is read by.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void Cut() = 0;
};

// By age. Objects that end take themselves out.
using Connections = std::list<Connection*>;

template <typename Stream>  // beast::tcp_stream, or TLS on it
class ConnectionOn final : public Connection,
                           public std::enable_shared_from_this<ConnectionOn<Stream>> {
 public:
  ConnectionOn(Stream stream, const WebListener* listener, Pages* pages, Connections* connections)
      : stream_(std::move(stream)), listener_(*listener), pages_(*pages), all_(*connections) {
    place_ = all_.insert(all_.end(), this);
  }
  ~ConnectionOn() override { all_.erase(place_); }

  void Start() {
    if constexpr (kTls) {
      Patience(HttpServer::kRequestSeconds);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (!error) self->Read(HttpServer::kRequestSeconds);
                              });
    } else {
      Read(HttpServer::kRequestSeconds);
    }
  }
  void Cut() override { beast::get_lowest_layer(stream_).close(); }

 private:
  static constexpr bool kTls = !std::is_same_v<Stream, beast::tcp_stream>;

  void Patience(int seconds) {
    beast::get_lowest_layer(stream_).expires_after(std::chrono::seconds(seconds));
  }
  // What comes within that time is one request, from its first byte to its last.
  void Read(int seconds) {
    parser_.emplace();
    parser_->header_limit(HttpServer::kMaxHeaderBytes);
    parser_->body_limit(HttpServer::kMaxBodyBytes);
    Patience(seconds);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](error_code error, size_t /*bytes*/) {
                       self->Take(error);
                     });
  }
  void Take(error_code error) {
    if (!error) {
      const http::request<http::string_body> message = parser_->release();
      const WebResponse response = pages_.Answer(listener_, RequestOf(message));
      return Write(response, message.method() == http::verb::head, message.keep_alive());
    }
    // A peer that has left or is late hears nothing; others hear what was wrong.
    const bool is_http = error.category() == http::make_error_code(http::error{}).category();
    if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) {
      return;
    }
    Write(RefusalOf(error), /*is_head=*/false, /*keep_alive=*/false);
  }
  void Write(const WebResponse& answer, bool is_head, bool keep_alive) {
    auto message = std::make_shared<http::response<http::string_body>>();
    message->version(11);
    message->result(static_cast<unsigned>(answer.status));
    message->set(http::field::content_type, answer.type);
    for (const auto& [name, value] : SecurityHeaders()) message->set(name, value);
    for (const auto& [name, value] : answer.headers) message->set(name, value);
    message->keep_alive(keep_alive);
    message->content_length(answer.body.size());
    if (!is_head) message->body() = answer.body;
    Patience(HttpServer::kRequestSeconds);
    const auto then = [self = this->shared_from_this(), message, keep_alive](error_code error,
                                                                             size_t /*bytes*/) {
      if (!error && keep_alive) self->Read(HttpServer::kIdleSeconds);
      if (!keep_alive) self->End();
    };
    if (is_head) {
      // The length is that of the body which a GET would get.
      auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*message);
      http::async_write_header(
          stream_, *serializer,
          [then, serializer](error_code error, size_t bytes) { then(error, bytes); });
    } else {
      http::async_write(stream_, *message, then);
    }
  }
  void End() {
    error_code ignored;
    beast::get_lowest_layer(stream_).socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  Stream stream_;
  const WebListener& listener_;
  Pages& pages_;
  Connections& all_;
  Connections::iterator place_;
  beast::flat_buffer buffer_{HttpServer::kMaxHeaderBytes + HttpServer::kMaxBodyBytes};
  absl::optional<http::request_parser<http::string_body>> parser_;
};

tcp ProtocolOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

}  // namespace

struct HttpServer::State {
  explicit State(Pages* pages) : pages(pages) {}

  struct Door {
    Door(asio::io_context* io, int socket, WebListener listener)
        : acceptor(*io, ProtocolOf(socket), socket), pause(*io), listener(std::move(listener)) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    const WebListener listener;
  };

  void Accept(Door* door) {
    door->acceptor.async_accept([this, door](error_code error, tcp::socket socket) {
      if (!error) {
        Begin(std::move(socket), door->listener);
        return Accept(door);
      }
      // No descriptors, or no memory: there will be some again.
      door->pause.expires_after(std::chrono::milliseconds(100));
      door->pause.async_wait([this, door](error_code /*error*/) { Accept(door); });
    });
  }
  void Begin(tcp::socket socket, const WebListener& listener) {
    if (connections.size() >= kMaxConnections) connections.front()->Cut();
    if (listener.tls) {
      using Tls = beast::ssl_stream<beast::tcp_stream>;
      std::make_shared<ConnectionOn<Tls>>(Tls(std::move(socket), tls), &listener, pages,
                                          &connections)
          ->Start();
    } else {
      std::make_shared<ConnectionOn<beast::tcp_stream>>(beast::tcp_stream(std::move(socket)),
                                                        &listener, pages, &connections)
          ->Start();
    }
  }

  Pages* const pages;
  // Before what uses it, which ends with it.
  std::vector<std::unique_ptr<Door>> doors;
  Connections connections;
  asio::ssl::context tls{asio::ssl::context::tls_server};
  asio::io_context io{1};
};

HttpServer::HttpServer(Pages* pages) : state_(std::make_unique<State>(pages)) {}

// Timers and sockets have to go before the context.
HttpServer::~HttpServer() { state_->doors.clear(); }

bool HttpServer::UseTls(const std::string& certificate, const std::string& key) {
  asio::ssl::context& tls = state_->tls;
  SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(tls.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(tls.native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(tls.native_handle(), SSL_MODE_RELEASE_BUFFERS);
  error_code error;
  tls.use_certificate_chain(asio::buffer(certificate), error);
  if (!error) tls.use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
  return !error;
}

void HttpServer::Listen(int socket, WebListener listener) {
  state_->doors.push_back(std::make_unique<State::Door>(&state_->io, socket, std::move(listener)));
  state_->Accept(state_->doors.back().get());
}

void HttpServer::Run() {
  while (!state_->pages->broken() && state_->io.run_one() > 0) {
  }
}

}  // namespace chx::server
