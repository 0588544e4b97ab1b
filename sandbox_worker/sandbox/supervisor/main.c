#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
        {"snapshot", take_snapshot},    {"restore", restore_snapshot},
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

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "launch")) return launch(count - 2, words + 2);
    struct channel channel = {.fd = count > 1 ? atoi(words[1]) : -1, .finished = true};
    int ends[2];
    if (channel.fd < 3) return 64;
    prctl(PR_SET_DUMPABLE, 0);  // commands share its uid
    syscall(SYS_close_range, 3, channel.fd - 1, 0);
    syscall(SYS_close_range, channel.fd + 1, ~0U, 0);
    fcntl(channel.fd, F_SETFD, FD_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return 71;
    child_ended = ends[0], told = ends[1];
    struct sigaction wake = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &wake, NULL);
    signal(SIGPIPE, SIG_IGN);
    serve(&channel);
}
