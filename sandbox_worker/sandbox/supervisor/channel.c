#include "box.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// Without memory there is nothing left to serve: the worker sees the box end.
void *grown(void *old, size_t size) {
    void *new = realloc(old, size ? size : 1);
    if (!new) _exit(1);
    return new;
}

void add(struct bytes *to, const void *data, size_t size) {
    if (to->size + size > to->room) {
        to->room = to->size + size + to->room / 2;
        to->at = grown(to->at, to->room);
    }
    if (size) memcpy(to->at + to->size, data, size);
    to->size += size;
}

// When the worker is gone the box goes too.
static void exactly(int fd, void *into, size_t size) {
    for (char *at = into; size;) {
        ssize_t got = read(fd, at, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(0);
        at += got, size -= (size_t)got;
    }
}

static void all(int fd, const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t sent = write(fd, at, size);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) _exit(0);
        at += sent, size -= (size_t)sent;
    }
}

// A renewed lease is seen to here. What is to be cancelled between two requests has ended already.
static char next_head(struct channel *channel, size_t *size) {
    unsigned char head[5];
    do {
        exactly(channel->in, head, sizeof head);
        *size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        if (head[0] == RENEW) renew();
        if (head[0] == CANCEL) channel->cancelled = true;
    } while (!*size && (head[0] == RENEW || head[0] == CANCEL));
    return (char)head[0];
}

// What the worker says while a command runs: nothing else is allowed then.
char next_word(struct channel *channel) {
    unsigned char head[5];
    exactly(channel->in, head, sizeof head);
    if ((head[0] != RENEW && head[0] != CANCEL) || head[1] || head[2] || head[3] || head[4]) _exit(1);
    return (char)head[0];
}

struct fields next_request(struct channel *channel) {
    size_t size;
    if (next_head(channel, &size) != HEADER || size > MAX_HEADER) _exit(1);
    struct fields found = {.payload = grown(NULL, size + 1), .count = 1};
    exactly(channel->in, found.payload, size);
    found.payload[size] = 0;
    for (size_t i = 0; i < size; i++) found.count += !found.payload[i];
    found.at = grown(NULL, found.count * sizeof *found.at);
    char *at = found.payload;
    for (size_t i = 0; i < found.count; i++, at += strlen(at) + 1) found.at[i] = at;
    channel->finished = channel->cancelled = false;
    return found;
}

// The next piece of the request's data; false at its end.
bool next_data(struct channel *channel, struct bytes *piece) {
    size_t size;
    if (channel->finished) return false;
    char kind = next_head(channel, &size);
    if ((kind != DATA && kind != FINISH) || size > CHUNK) _exit(1);
    channel->finished = kind == FINISH;
    if (size > piece->room) piece->at = grown(piece->at, piece->room = size);
    exactly(channel->in, piece->at, piece->size = size);
    return !channel->finished;
}

void drop_data(struct channel *channel) {
    struct bytes piece = {0};
    while (next_data(channel, &piece)) {}
    free(piece.at);
}

void send_frame(struct channel *channel, char kind, const void *data, size_t size) {
    unsigned char head[5] = {(unsigned char)kind, size >> 24 & 255, size >> 16 & 255, size >> 8 & 255, size & 255};
    struct iovec both[] = {{head, sizeof head}, {(void *)data, size}};
    ssize_t sent;
    while ((sent = writev(channel->out, both, 2)) < 0 && errno == EINTR) {}
    if (sent < 0) _exit(0);
    if ((size_t)sent < sizeof head) all(channel->out, head + sent, sizeof head - (size_t)sent), sent = sizeof head;
    all(channel->out, (const char *)data + sent - sizeof head, size + sizeof head - (size_t)sent);
}

void reply(struct channel *channel, size_t count, const char *const *fields) {
    struct bytes payload = {0};
    for (size_t i = 0; i < count; i++) add(&payload, fields[i], strlen(fields[i]) + (i + 1 < count));
    send_frame(channel, HEADER, payload.at, payload.size);
    free(payload.at);
}

// The request is not served; what is left of it is read first, for the worker still sends it.
void refuse(struct channel *channel, const char *format, ...) {
    char why[512];
    va_list values;
    va_start(values, format);
    vsnprintf(why, sizeof why, format, values);
    va_end(values);
    drop_data(channel);
    reply(channel, 2, (const char *[]){"refused", why});
}
