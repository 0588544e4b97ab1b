// One command of a box: started in its own session, watched, and ended with everything that it left.
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct command {
    double seconds;
    unsigned long long most;
    size_t cap;
    struct self self;
};

double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

// The request's data as a file to read from its start: no pipe to feed while the command runs.
static int spool(struct channel *channel) {
    struct bytes piece = {0};
    int fd = -1;
    while (next_data(channel, &piece)) {
        if (fd < 0) fd = memfd_create("stdin", MFD_CLOEXEC);
        for (size_t done = 0; fd >= 0 && done < piece.size;) {
            ssize_t written = write(fd, piece.at + done, piece.size - done);
            if (written <= 0) close(fd), fd = -2;
            else done += (size_t)written;
        }
        if (fd == -2) break;
    }
    free(piece.at);
    if (fd == -1) return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

// A zombie counts against the limit of processes; the command itself is left for end_all.
void bury_orphans(pid_t but) {
    for (siginfo_t ended = {0};; ended.si_pid = 0) {
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid || ended.si_pid == but) return;
        waitpid(ended.si_pid, NULL, 0);
    }
}

// Until the command ends, or has taken all that it may: take its output, bury its orphans.
static enum why watch(struct channel *channel, const struct command *command, pid_t pid, int pidfd, int reader,
                      struct kept *kept, double deadline) {
    extern int child_ended;
    struct pollfd on[] = {{pidfd, POLLIN, 0}, {reader, POLLIN, 0}, {channel->in, POLLIN, 0}, {child_ended, POLLIN, 0}};
    if (channel->cancelled) return CANCELLED;
    for (;;) {
        double left = deadline - now();
        if (left <= 0) return TIME;
        if (poll(on, 4, left > 3600 ? 3600000 : (int)(left * 1000) + 1) < 0) continue;
        if (on[2].revents && next_word(channel) == CANCEL) return CANCELLED;
        if (on[2].revents) renew();
        if (on[0].revents) return ENDED;
        if (on[3].revents) {
            char ignored[512];
            (void)!read(child_ended, ignored, sizeof ignored);
            bury_orphans(pid);
        }
        if (on[1].revents && !take(reader, kept)) on[1].fd = -1;
        if (kept->total > command->most) return OUTPUT;
    }
}

// Kill whatever lives in the box but us, wait for all of it, and give the command's own status.
//
// One kill(-1) is atomic against fork; what is killed comes to us, so no child left means nothing left.
int end_all(pid_t pid) {
    int status = 0, ended;
    kill(-1, SIGKILL);
    for (pid_t found; (found = waitpid(-1, &ended, 0)) > 0 || errno == EINTR;)
        if (found == pid) status = ended;
    return status;
}

// The child, its descriptor, and the reading end of its output. False with errno.
static bool start(const struct command *command, int input, pid_t *pid, int *pidfd, int *reader) {
    int pipe[2];
    if (input < 0 || pipe2(pipe, O_CLOEXEC | O_NONBLOCK)) return false;
    *reader = pipe[0];
    if (!(*pid = fork())) {
        fcntl(pipe[1], F_SETFL, 0);
        setsid();
        become(&command->self, input, pipe[1]);
    }
    *pidfd = *pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, *pid, 0);
    int failed = *pidfd < 0 ? errno : 0;
    if (failed && *pid > 0) end_all(*pid);
    if (failed) close(pipe[0]);
    close(pipe[1]);
    errno = failed;
    return !failed;
}

static void serve(struct channel *channel, const struct command *command, int input) {
    struct kept kept = kept_of(command->cap);
    double started = now();
    pid_t pid;
    int pidfd, reader;
    if (!start(command, input, &pid, &pidfd, &reader)) {
        int failed = errno;
        drop_data(channel);
        return reply(channel, 2, (const char *[]){"broken", strerror(failed)});
    }
    enum why why = watch(channel, command, pid, pidfd, reader, &kept, started + command->seconds);
    const char *full = full_mount();  // before the killing: what only a dead process held is free again
    int status = end_all(pid);
    double seconds = now() - started;
    while (take(reader, &kept)) {}  // what is still in the pipe: every writer is dead, so this ends
    close(pidfd), close(reader);
    report(channel, &kept, &(struct ending){why, status, full, seconds, ""});
}

// Fields: run, seconds, bytes kept, most bytes printed, folder, user, resource limits, number of words, the words, then
// the environment.
void run_command(struct channel *channel, const struct fields *fields) {
    char **at = fields->at;
    size_t words = fields->count > 7 ? strtoul(at[7], NULL, 10) : 0;
    if (!words || words > fields->count - 8) return refuse(channel, "no command");
    if (session_is_open()) return refuse(channel, "a session is open");
    struct command command = {strtod(at[1], NULL), strtoull(at[3], NULL, 10), strtoul(at[2], NULL, 10), {at[4], at[5], at[6], NULL, NULL, 2}};
    const char *why = unfit(&command.self);
    if (why) return refuse(channel, "%s", why);
    command.self.words = list_of(at + 8, words);
    command.self.environment = list_of(at + 8 + words, fields->count - 8 - words);
    int input = spool(channel);
    serve(channel, &command, input);
    if (input >= 0) close(input);
    free(command.self.words), free(command.self.environment);
}
