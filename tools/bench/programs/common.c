/* What the two generators share: time, memory, big-endian numbers, the file of templates, a connection. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define IN_BUFFER 65536
#define LARGEST_RECORD 16384 /* of TLS: nothing of one may stay in the library, where no poll reports it */
#define LARGEST_ANSWER (256u << 20)
#define LARGEST_GREETING 4096

const char *program;

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (!memory) die("out of memory: %zu bytes", size);
    return memory;
}

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void put_big_endian(uint8_t *at, uint64_t value, int count) {
    for (int i = count - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

uint32_t get_uint32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) die("%s: %s", path, strerror(errno));
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *content = allocate(*length + 1);
    if (fread(content, 1, *length, file) != *length) die("%s: short read", path);
    fclose(file);
    return content;
}

struct template *read_templates(const char *path, size_t *count) {
    size_t length, at = 0;
    uint8_t *content = read_file(path, &length);
    struct template *templates = NULL;
    for (*count = 0; at < length; ++*count) {
        templates = realloc(templates, (*count + 1) * sizeof *templates);
        if (!templates || length - at < 24) die("%s: cut in template %zu", path, *count);
        struct template *new = &templates[*count];
        memcpy(&new->length, content + at, 4);
        memcpy(&new->offset_position, content + at + 4, 4);
        memcpy(&new->session_position, content + at + 8, 4);
        memcpy(&new->load_bytes, content + at + 12, 4);
        memcpy(&new->first_offset, content + at + 16, 8);
        new->frame = content + at + 24;
        at += 24 + (size_t)new->length;
        if (at > length || new->length < 14 || get_uint32(new->frame) != new->length - 4)
            die("%s: template %zu is not one whole frame", path, *count);
    }
    if (!*count) die("%s: no template", path);
    return templates;
}

static void receive_exactly(int socket, uint8_t *bytes, size_t length) {
    for (size_t received = 0; received < length;) {
        ssize_t count = stream_receive(socket, bytes + received, length - received);
        if (count <= 0) die("the broker closed a connection that had just begun");
        received += (size_t)count;
    }
}

/* Asks for the versions, as every client does first, so that no accepting and no set-up is left to be measured. */
static void greet(int socket) {
    static const uint8_t request[14] = {[3] = 10, [5] = 18, [12] = 0xff, [13] = 0xff}; /* version 0, no client id */
    uint8_t size[4], answer[LARGEST_GREETING];
    if (stream_send(socket, request, sizeof request) != sizeof request) die("send: %s", strerror(errno));
    receive_exactly(socket, size, sizeof size);
    if (get_uint32(size) > sizeof answer) die("a first answer of %u bytes", get_uint32(size));
    receive_exactly(socket, answer, get_uint32(size));
}

int connect_to_broker(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect to 127.0.0.1:%d: %s", port, strerror(errno));
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    stream_open(descriptor);
    greet(descriptor);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return descriptor;
}

void wait_for_go(void) {
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) exit(1); /* whoever started this is gone */
}

void wait_for_end(void) {
    fflush(stdout);
    while (getchar() != EOF) continue;
}


static void make_room(struct inbox *inbox, size_t needed) {
    if (needed <= inbox->size) return;
    inbox->bytes = realloc(inbox->bytes, needed);
    if (!inbox->bytes) die("out of memory: %zu bytes", needed);
    inbox->size = needed;
}

ssize_t inbox_receive(struct inbox *inbox, int socket) {
    make_room(inbox, IN_BUFFER);
    if (is_encrypted) make_room(inbox, inbox->used + LARGEST_RECORD);
    ssize_t count = stream_receive(socket, inbox->bytes + inbox->used, inbox->size - inbox->used);
    if (count < 0 && errno != EAGAIN && errno != EINTR) die("recv: %s", strerror(errno));
    if (count > 0) inbox->used += (size_t)count;
    return count;
}

static void forget(struct inbox *inbox, size_t taken) {
    inbox->used -= taken;
    if (taken && inbox->used) memmove(inbox->bytes, inbox->bytes + taken, inbox->used);
}

const uint8_t *inbox_next(struct inbox *inbox, size_t *at, size_t *length) {
    size_t left = inbox->used - *at;
    *length = left >= 4 ? get_uint32(inbox->bytes + *at) : 0;
    if (left >= 4 && (*length < 4 || *length > LARGEST_ANSWER)) die("an answer of %zu bytes", *length);
    if (left < 4 || left < 4 + *length) {
        forget(inbox, *at);
        if (*length) make_room(inbox, 4 + *length);
        return NULL;
    }
    const uint8_t *frame = inbox->bytes + *at + 4;
    *at += 4 + *length;
    return frame;
}
