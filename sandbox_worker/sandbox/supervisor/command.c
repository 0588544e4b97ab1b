// One command of a box: started in its own session, watched, and ended with everything that it left.
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

// The head and the tail of an output, and how much there was.
struct kept {
    unsigned long long total;
    struct bytes head, tail;
    size_t head_cap, tail_cap;
};

struct command {
    double seconds;
    size_t cap;
    const char *folder, *limits;
    char **words, **environment;
};

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void keep(struct kept *kept, const char *data, size_t size) {
    kept->total += size;
    size_t room = kept->head_cap - kept->head.size, first = size < room ? size : room;
    add(&kept->head, data, first);
    add(&kept->tail, data + first, size - first);
    if (kept->tail.size <= 4 * kept->tail_cap + CHUNK) return;
    memmove(kept->tail.at, kept->tail.at + kept->tail.size - kept->tail_cap, kept->tail_cap);
    kept->tail.size = kept->tail_cap;
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

static void fail(int code, const char *what, const char *why) {
    dprintf(1, "%s: %s\n", what, why);
    _exit(code);
}

static void limit(const char *limits) {
    for (const char *at = limits; *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "") {
        int which;
        unsigned long long value;
        if (sscanf(at, "%d=%llu", &which, &value) != 2) fail(126, "limits", at);
        struct rlimit both = {value, value};
        if (setrlimit(which, &both)) fail(126, "limits", strerror(errno));
    }
}

// When memory runs out the kernel must choose the command, not its supervisor.
static void first_to_be_killed(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1000", 4) != 4) fail(126, "oom_score_adj", strerror(errno));
    close(fd);
}

// In the child: turn into the command.
static void become(const struct command *command, int input, int output) {
    setsid();
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(126);
    prctl(PR_SET_DUMPABLE, 1);  // else its own /proc/self would belong to root
    first_to_be_killed();
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);  // the supervisor must get its turn among busy children
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    syscall(SYS_close_range, 3, ~0U, 0);
    if (chdir(command->folder)) fail(126, command->folder, strerror(errno));
    limit(command->limits);
    environ = command->environment;
    execvp(command->words[0], command->words);
    fail(errno == ENOENT ? 127 : 126, command->words[0], errno == ENOENT ? "not found" : strerror(errno));
}

// One piece of output; false at its end.
static bool take(int reader, struct kept *kept) {
    static char data[CHUNK];
    ssize_t got = read(reader, data, sizeof data);
    if (got > 0) keep(kept, data, (size_t)got);
    return got > 0;
}

// A zombie counts against the limit of processes; the command itself is left for end_all.
static void bury_orphans(pid_t command) {
    for (siginfo_t ended = {0};; ended.si_pid = 0) {
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid || ended.si_pid == command) return;
        waitpid(ended.si_pid, NULL, 0);
    }
}

// Until the command ends (true) or its time is up (false): take its output, bury its orphans.
static bool watch(const struct channel *channel, pid_t pid, int pidfd, int reader, int children, struct kept *kept,
                  double deadline) {
    struct pollfd on[] = {{pidfd, POLLIN, 0}, {reader, POLLIN, 0}, {channel->fd, POLLRDHUP, 0}, {children, POLLIN, 0}};
    for (;;) {
        double left = deadline - now();
        if (left <= 0) return false;
        if (poll(on, 4, left > 3600 ? 3600000 : (int)(left * 1000) + 1) < 0) continue;
        if (on[2].revents) _exit(0);  // the worker is gone
        if (on[0].revents) return true;
        if (on[3].revents) {
            char ignored[512];
            (void)!read(children, ignored, sizeof ignored);
            bury_orphans(pid);
        }
        if (on[1].revents && !take(reader, kept)) on[1].fd = -1;
    }
}

// Kill whatever lives in the box but us, wait for all of it, and give the command's own status.
//
// One kill(-1) is atomic against fork; what is killed comes to us, so no child left means nothing left.
static int end_all(pid_t pid) {
    int status = 0, ended;
    kill(-1, SIGKILL);
    for (pid_t found; (found = waitpid(-1, &ended, 0)) > 0 || errno == EINTR;)
        if (found == pid) status = ended;
    return status;
}

static void report(struct channel *channel, struct kept *kept, bool timed_out, int status, double seconds) {
    size_t tail = kept->tail.size < kept->tail_cap ? kept->tail.size : kept->tail_cap;
    add(&kept->head, kept->tail.at + kept->tail.size - tail, tail);
    send_frame(channel, DATA, kept->head.at, kept->head.size);
    char code[16], total[24], taken[32];
    snprintf(code, sizeof code, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    snprintf(total, sizeof total, "%llu", kept->total);
    snprintf(taken, sizeof taken, "%.6f", seconds);
    reply(channel, 5, (const char *[]){"ok", timed_out ? "1" : "0", code, total, taken});
    free(kept->head.at);
    free(kept->tail.at);
}

// The child, its descriptor, and the reading end of its output. False with errno.
static bool start(const struct command *command, int input, pid_t *pid, int *pidfd, int *reader) {
    int pipe[2];
    if (input < 0 || pipe2(pipe, O_CLOEXEC | O_NONBLOCK)) return false;
    *reader = pipe[0];
    if (!(*pid = fork())) {
        fcntl(pipe[1], F_SETFL, 0);
        become(command, input, pipe[1]);
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
    extern int child_ended;
    struct kept kept = {.head_cap = (command->cap + 1) / 2, .tail_cap = command->cap / 2 ? command->cap / 2 : 1};
    double started = now();
    pid_t pid;
    int pidfd, reader;
    if (!start(command, input, &pid, &pidfd, &reader)) return refuse(channel, "%s", strerror(errno));
    bool in_time = watch(channel, pid, pidfd, reader, child_ended, &kept, started + command->seconds);
    int status = end_all(pid);
    double seconds = now() - started;
    while (take(reader, &kept)) {}  // what is still in the pipe: every writer is dead, so this ends
    close(pidfd), close(reader);
    report(channel, &kept, !in_time, status, seconds);
}

// A copy of some fields, ended as exec wants it.
static char **list_of(char **fields, size_t count) {
    char **list = grown(NULL, (count + 1) * sizeof *list);
    memcpy(list, fields, count * sizeof *list);
    list[count] = NULL;
    return list;
}

// Fields: run, seconds, cap, folder, resource limits, number of words, the words, then the environment.
void run_command(struct channel *channel, const struct fields *fields) {
    char **at = fields->at;
    size_t words = fields->count > 5 ? strtoul(at[5], NULL, 10) : 0;
    if (!words || words > fields->count - 6) return refuse(channel, "no command");
    struct command command = {strtod(at[1], NULL), strtoul(at[2], NULL, 10), at[3], at[4], NULL, NULL};
    command.words = list_of(at + 6, words);
    command.environment = list_of(at + 6 + words, fields->count - 6 - words);
    int input = spool(channel);
    serve(channel, &command, input);
    if (input >= 0) close(input);
    free(command.words), free(command.environment);
}
