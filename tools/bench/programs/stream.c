/* The bytes of a connection: plain, or over TLS. Compiled with BENCH_TLS and libssl, `tls=1` has every connection encrypted:
   TLS 1.3 with one cipher suite, without a check of the certificate and without resumption. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

bool is_encrypted;

#ifdef BENCH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

#define CIPHER_SUITE "TLS_AES_256_GCM_SHA384"

static SSL_CTX *context;
static SSL **by_socket; /* the connection of each descriptor; NULL: plain */
static size_t socket_count;

static void fail(const char *what) {
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    die("%s: %s", what, reason);
}

static void make_context(void) {
    context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, CIPHER_SUITE))
        fail("TLS");
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

void stream_open(int socket) {
    if (!is_encrypted) return;
    if (!context) make_context();
    if ((size_t)socket >= socket_count) {
        size_t count = (size_t)socket * 2 + 64;
        by_socket = realloc(by_socket, count * sizeof *by_socket);
        if (!by_socket) die("out of memory");
        memset(by_socket + socket_count, 0, (count - socket_count) * sizeof *by_socket);
        socket_count = count;
    }
    SSL *tls = by_socket[socket] = SSL_new(context);
    if (!tls || !SSL_set_fd(tls, socket) || SSL_connect(tls) != 1) fail("the TLS handshake");
}

static SSL *tls_of(int socket) { return (size_t)socket < socket_count ? by_socket[socket] : NULL; }

/* The result of an operation of OpenSSL in the form of send and recv. */
static ssize_t result_of(SSL *tls, int count) {
    if (count > 0) return count;
    switch (SSL_get_error(tls, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: return errno ? -1 : 0;
    default: fail("TLS");
    }
    return -1;
}

ssize_t stream_send(int socket, const void *bytes, size_t length) {
    SSL *tls = tls_of(socket);
    if (!tls) return send(socket, bytes, length, MSG_NOSIGNAL);
    ERR_clear_error();
    return result_of(tls, SSL_write(tls, bytes, length > INT32_MAX ? INT32_MAX : (int)length));
}

ssize_t stream_receive(int socket, void *bytes, size_t length) {
    SSL *tls = tls_of(socket);
    if (!tls) return recv(socket, bytes, length, 0);
    ERR_clear_error();
    return result_of(tls, SSL_read(tls, bytes, length > INT32_MAX ? INT32_MAX : (int)length));
}

#else

void stream_open(int socket) {
    (void)socket;
    if (is_encrypted) die("this program was compiled without TLS");
}

ssize_t stream_send(int socket, const void *bytes, size_t length) { return send(socket, bytes, length, MSG_NOSIGNAL); }

ssize_t stream_receive(int socket, void *bytes, size_t length) { return recv(socket, bytes, length, 0); }

#endif
