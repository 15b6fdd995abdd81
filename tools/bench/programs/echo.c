/* The floor of the bench: an epoll server that does nothing but read Kafka frames and answer each with the same bytes, the
   correlation id patched in. What a real broker costs above it is the broker's own work.

       echo PORT FILE      FILE holds one whole answer frame, size field included; prints "ready" when it listens */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER (64 << 10)
#define SMALLEST_FRAME 12 /* size, API key, version, correlation id */

struct connection {
    int socket;
    uint8_t *in;
    size_t in_used, skip; /* skip: bytes of the open frame still to come, which are thrown away */
    uint8_t correlation_id[4];
    bool answer_due; /* when the open frame has come to its end */
};

static uint8_t answer[4096], *out;
static size_t answer_length;
static int poller, listener;

static void fail(const char *what) {
    fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void read_answer(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    answer_length = fread(answer, 1, sizeof answer, file);
    if (answer_length < 8 || !feof(file)) fail(path);
    fclose(file);
    out = malloc((BUFFER / SMALLEST_FRAME + 2) * answer_length);
}

static void listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0)
        fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
}

static void accept_connection(void) {
    int one = 1;
    struct connection *c = calloc(1, sizeof *c);
    c->socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (c->socket < 0) fail("accept");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->in = malloc(BUFFER);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event);
}

static void close_connection(struct connection *c) {
    close(c->socket);
    free(c->in);
    free(c);
}

/* Throws away what is left of the open frame; returns the answer's length if that was its end. */
static size_t finish_frame(struct connection *c, size_t *at, uint8_t *out) {
    size_t skipped = c->skip < c->in_used - *at ? c->skip : c->in_used - *at;
    c->skip -= skipped;
    *at += skipped;
    if (c->skip || !c->answer_due) return 0;
    c->answer_due = false;
    memcpy(out, answer, answer_length);
    memcpy(out + 4, c->correlation_id, 4);
    return answer_length;
}

/* Answers are small and the generator reads them all the time: a full socket buffer is an error here. */
static void serve(struct connection *c) {
    ssize_t count = recv(c->socket, c->in + c->in_used, BUFFER - c->in_used, 0);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN) close_connection(c);
        return;
    }
    c->in_used += (size_t)count;
    size_t at = 0, out_length = 0;
    for (;;) {
        out_length += finish_frame(c, &at, out + out_length);
        if (c->skip || c->in_used - at < SMALLEST_FRAME) break;
        uint32_t length;
        memcpy(&length, c->in + at, 4);
        memcpy(c->correlation_id, c->in + at + 8, 4);
        c->skip = (size_t)ntohl(length) + 4;
        c->answer_due = true;
    }
    memmove(c->in, c->in + at, c->in_used - at);
    c->in_used -= at;
    if (out_length && send(c->socket, out, out_length, MSG_NOSIGNAL) != (ssize_t)out_length) fail("send");
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    read_answer(arguments[2]);
    poller = epoll_create1(0);
    listen_on(atoi(arguments[1]));
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr) serve(events[i].data.ptr);
            else accept_connection();
        }
    }
}
