#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int child_ended;  // Readable when a child may have ended.
static int told;

static void on_child(int number) {
    (void)number;
    int before = errno;
    (void)!write(told, "c", 1);
    errno = before;
}

static void serve(struct channel *channel) {
    static const struct {
        const char *name;
        void (*serve)(struct channel *, const struct fields *);
    } operations[] = {
        {"run", run_command},           {"write", write_file},           {"read", read_file},
        {"snapshot", take_snapshot},    {"restore", restore_snapshot},   {"empty", empty_folder},
        {"session", open_session},      {"say", say_in_session},         {"close", close_session},
        {"listen", listen_for_worker},
    };
    reply(channel, 1, (const char *[]){"ready"});
    for (;;) {
        struct fields fields = next_request(channel);
        size_t i = 0, n = sizeof operations / sizeof *operations;
        while (i < n && strcmp(operations[i].name, fields.at[0])) i++;
        if (i == n) refuse(channel, "no such operation");
        else operations[i].serve(channel, &fields);
        free(fields.payload), free(fields.at);
    }
}

// Two descriptors that no command inherits, whatever the numbers were; nothing else stays open but 0, 1 and 2.
static bool take_over(struct channel *channel, int in, int out) {
    channel->in = fcntl(in, F_DUPFD_CLOEXEC, 200), channel->out = fcntl(out, F_DUPFD_CLOEXEC, 200);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (channel->in < 0 || channel->out < 0 || nothing < 0) return false;
    for (int fd = 0; fd < 3; fd++)
        if (fd == in || fd == out) dup2(nothing, fd);
    syscall(SYS_close_range, 3, 199, 0);
    syscall(SYS_close_range, (channel->in > channel->out ? channel->in : channel->out) + 1, ~0U, 0);
    return true;
}

// Words: the descriptors to read and to write, seconds to live, seconds of a lease, the folders with a quota, a word --,
// folders to make.
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "launch")) return launch(count - 2, words + 2);
    struct channel channel = {.finished = true};
    int ends[2];
    if (count < 5) return 64;
    prctl(PR_SET_DUMPABLE, 0);  // commands share its uid
    if (!take_over(&channel, atoi(words[1]), atoi(words[2])) || pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return 71;
    live(strtod(words[3], NULL), strtod(words[4], NULL));
    int mounts = 0;
    while (mounts < count - 5 && strcmp(words[5 + mounts], "--")) mounts++;
    note_mounts((size_t)mounts, words + 5);
    for (int i = 6 + mounts; i < count; i++) mkdir(words[i], 0755);
    child_ended = ends[0], told = ends[1];
    struct sigaction wake = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &wake, NULL);
    signal(SIGPIPE, SIG_IGN);
    serve(&channel);
}
