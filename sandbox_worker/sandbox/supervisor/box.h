// PID 1 of a box: serves the worker's requests over one socket, one at a time. Static, so that it starts at once and
// needs nothing of the box that it stands in.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HEADER = 'H', DATA = 'D', FINISH = 'E' };
enum { CHUNK = 1 << 18, MAX_HEADER = 16 << 20 };

// Bytes that grow.
struct bytes {
    char *at;
    size_t size, room;
};

// The fields of a header: pointers into its payload, each ended by a NUL.
struct fields {
    char *payload;
    char **at;
    size_t count;
};

// The socket. A request is a header, data, a finish; a reply is data, then a header.
struct channel {
    int fd;
    bool finished;
};

void *grown(void *old, size_t size);
void add(struct bytes *to, const void *data, size_t size);

struct fields next_request(struct channel *channel);
bool next_data(struct channel *channel, struct bytes *piece);
void drop_data(struct channel *channel);
void send_frame(struct channel *channel, char kind, const void *data, size_t size);
void reply(struct channel *channel, size_t count, const char *const *fields);
void refuse(struct channel *channel, const char *format, ...);

// Each serves one request whole, its reply included.
void run_command(struct channel *channel, const struct fields *fields);
void write_file(struct channel *channel, const struct fields *fields);
void read_file(struct channel *channel, const struct fields *fields);
void take_snapshot(struct channel *channel, const struct fields *fields);
void restore_snapshot(struct channel *channel, const struct fields *fields);

int launch(int count, char **words);
