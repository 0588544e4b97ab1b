// A command's output: its head and its tail, how much there was, and the reply that tells of it.
#define _GNU_SOURCE
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct kept kept_of(size_t cap) {
    return (struct kept){.head_cap = (cap + 1) / 2, .tail_cap = cap / 2 ? cap / 2 : 1};
}

void keep(struct kept *kept, const char *data, size_t size) {
    kept->total += size;
    size_t room = kept->head_cap - kept->head.size, first = size < room ? size : room;
    add(&kept->head, data, first);
    add(&kept->tail, data + first, size - first);
    if (kept->tail.size <= 4 * kept->tail_cap + CHUNK) return;
    memmove(kept->tail.at, kept->tail.at + kept->tail.size - kept->tail_cap, kept->tail_cap);
    kept->tail.size = kept->tail_cap;
}

// One piece of output; false at its end.
bool take(int reader, struct kept *kept) {
    static char data[CHUNK];
    ssize_t got = read(reader, data, sizeof data);
    if (got > 0) keep(kept, data, (size_t)got);
    return got > 0;
}

// Replies with the output, then: ok, why it ended, exit code or minus a signal, bytes printed, seconds, the folder that is
// full, bytes that the folders hold, what became of the session.
void report(struct channel *channel, struct kept *kept, const struct ending *ending) {
    static const char *const reasons[] = {[ENDED] = "", [TIME] = "time", [OUTPUT] = "output", [CANCELLED] = "cancelled"};
    size_t tail = kept->tail.size < kept->tail_cap ? kept->tail.size : kept->tail_cap;
    int status = ending->status;
    add(&kept->head, kept->tail.at + kept->tail.size - tail, tail);
    send_frame(channel, DATA, kept->head.at, kept->head.size);
    char code[16], total[24], taken[32], used[24];
    snprintf(code, sizeof code, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    snprintf(total, sizeof total, "%llu", kept->total);
    snprintf(taken, sizeof taken, "%.6f", ending->seconds);
    snprintf(used, sizeof used, "%llu", used_bytes());
    const char *const fields[] = {"ok", reasons[ending->why], code, total, taken, ending->full, used, ending->session};
    reply(channel, sizeof fields / sizeof *fields, fields);
    free(kept->head.at);
    free(kept->tail.at);
}
