// PID 1 of a box: serves the worker's requests over one socket, one at a time. Static, so that it starts at once and
// needs nothing of the box that it stands in.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HEADER = 'H', DATA = 'D', FINISH = 'E', RENEW = 'R', CANCEL = 'C' };
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

// One socket, or a pipe for each direction. A request is a header, data, a finish; a reply is data, then a header. Between
// them, and while a command runs, the worker may renew its lease or cancel the command.
struct channel {
    int in, out;
    bool finished;
    bool cancelled;  // while the request was still on its way
};

// The head and the tail of an output, and how much there was.
struct kept {
    unsigned long long total;
    struct bytes head, tail;
    size_t head_cap, tail_cap;
};

// Why the watching of a command ended.
enum why { ENDED, TIME, OUTPUT, CANCELLED };

// What a command becomes: where, as whom, under which limits of its own.
struct self {
    const char *folder, *user, *limits;
    char **words, **environment;
    int last;  // of the descriptors that it inherits
};

// How a command ended.
struct ending {
    enum why why;
    int status;  // as waitpid() gives it
    const char *full;  // the folder that had no room left, or empty
    double seconds;
    const char *session;  // "closed": its shell ended; "waiting": it waited for input
};

void *grown(void *old, size_t size);
void add(struct bytes *to, const void *data, size_t size);

struct fields next_request(struct channel *channel);
bool next_data(struct channel *channel, struct bytes *piece);
void drop_data(struct channel *channel);
void send_frame(struct channel *channel, char kind, const void *data, size_t size);
void reply(struct channel *channel, size_t count, const char *const *fields);
void refuse(struct channel *channel, const char *format, ...);
char next_word(struct channel *channel);

void live(double seconds, double lease_seconds);
void renew(void);
unsigned long long used_bytes(void);
void note_mounts(size_t count, char **paths);
const char *full_mount(void);

struct kept kept_of(size_t cap);
bool take(int reader, struct kept *kept);
void keep(struct kept *kept, const char *data, size_t size);
void report(struct channel *channel, struct kept *kept, const struct ending *ending);
double now(void);

const char *unfit(const struct self *self);
void become(const struct self *self, int input, int output);
char **list_of(char **fields, size_t count);
void bury_orphans(pid_t but);
int end_all(pid_t pid);
bool session_is_open(void);

// Each serves one request whole, its reply included.
void run_command(struct channel *channel, const struct fields *fields);
void write_file(struct channel *channel, const struct fields *fields);
void read_file(struct channel *channel, const struct fields *fields);
void take_snapshot(struct channel *channel, const struct fields *fields);
void restore_snapshot(struct channel *channel, const struct fields *fields);
void empty_folder(struct channel *channel, const struct fields *fields);
void open_session(struct channel *channel, const struct fields *fields);
void say_in_session(struct channel *channel, const struct fields *fields);
void close_session(struct channel *channel, const struct fields *fields);
void listen_for_worker(struct channel *channel, const struct fields *fields);

int launch(int count, char **words);
