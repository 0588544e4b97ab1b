// One persistent shell of a box. It reads commands from a pipe and tells the status of each through another, so nothing
// that a command prints can look like its end; its terminal is for what reads it, and for interrupts.
#define _GNU_SOURCE
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { TERMINAL = 7, STATUS = 8 };  // as the shell has them; its commands do not
static const double GRACE = 0.25, START = 10;

static struct {
    pid_t shell;
    int pidfd, commands, status, output, master, slave;
} session;

// What is asked of it now.
struct saying {
    double deadline;
    unsigned long long most;
    struct kept kept;
    struct bytes input;
    size_t fed;
    int status;
};

bool session_is_open(void) { return session.shell; }

static bool open_terminal(void) {
    struct termios plain;
    session.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (session.master < 0 || unlockpt(session.master)) return false;
    session.slave = ioctl(session.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (session.slave < 0 || tcgetattr(session.slave, &plain)) return false;
    plain.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    plain.c_oflag &= ~(tcflag_t)OPOST;
    struct winsize size = {.ws_row = 24, .ws_col = 200};
    return !tcsetattr(session.slave, TCSANOW, &plain) && !ioctl(session.slave, TIOCSWINSZ, &size);
}

static void become_shell(const struct self *self, int commands, int output, int status) {
    int terminal = fcntl(session.slave, F_DUPFD_CLOEXEC, 20), told = fcntl(status, F_DUPFD_CLOEXEC, 20);
    setsid();
    if (ioctl(terminal, TIOCSCTTY, 0) || dup2(terminal, TERMINAL) < 0 || dup2(told, STATUS) < 0) _exit(126);
    become(self, commands, output);
}

// The shell with its four ways in and out. False with errno.
static bool start_shell(struct self *self) {
    int commands[2], output[2], status[2];
    if (!open_terminal() || pipe2(commands, O_CLOEXEC) || pipe2(output, O_CLOEXEC) || pipe2(status, O_CLOEXEC)) return false;
    fcntl(output[0], F_SETFL, O_NONBLOCK), fcntl(status[0], F_SETFL, O_NONBLOCK), fcntl(commands[1], F_SETFL, O_NONBLOCK);
    if (!(session.shell = fork())) {
        for (int i = 0; i < 3; i++) {  // away from the numbers that the shell is given
            int *ends[] = {&commands[0], &output[1], &status[1]};
            *ends[i] = fcntl(*ends[i], F_DUPFD_CLOEXEC, 20);
        }
        become_shell(self, commands[0], output[1], status[1]);
    }
    close(commands[0]), close(output[1]), close(status[1]);
    session.commands = commands[1], session.output = output[0], session.status = status[0];
    session.pidfd = session.shell < 0 ? -1 : (int)syscall(SYS_pidfd_open, session.shell, 0);
    return session.pidfd >= 0;
}

// Kill the shell and all else, and give the shell's status.
static int end_session(void) {
    int *fds[] = {&session.pidfd, &session.commands, &session.status, &session.output, &session.master, &session.slave};
    int status = end_all(session.shell);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (*fds[i] > 0) close(*fds[i]), *fds[i] = 0;
    session.shell = 0;
    return status;
}

// The input of the command, then the end of it: nothing that it did not get waits for the next one.
static void feed(struct saying *saying) {
    ssize_t sent = write(session.master, saying->input.at + saying->fed, saying->input.size - saying->fed);
    if (sent > 0) saying->fed += (size_t)sent;
    else if (sent < 0 && errno != EAGAIN) saying->fed = saying->input.size;
}

// The status of the command that the shell was told to run, once it waits for the next. False while it does not.
static bool told(struct saying *saying) {
    char text[16] = {0};
    if (read(session.status, text, sizeof text - 1) <= 0) return false;
    saying->status = (atoi(text) & 255) << 8;
    return true;
}

static void take_terminal(struct saying *saying) {
    char text[4096];
    ssize_t got = read(session.master, text, sizeof text);
    if (got > 0) keep(&saying->kept, text, (size_t)got);
}

// Until the shell wants the next command, or has ended, or this one has taken all that it may. Like watch() of a command.
static enum why wait_for_shell(struct channel *channel, struct saying *saying, double deadline, bool *ended) {
    extern int child_ended;
    struct pollfd on[] = {{session.status, POLLIN, 0}, {session.output, POLLIN, 0}, {channel->in, POLLIN, 0},
                          {child_ended, POLLIN, 0},    {session.master, POLLIN, 0}, {session.pidfd, POLLIN, 0}};
    for (;;) {
        double left = deadline - now();
        if (left <= 0) return TIME;
        on[4].events = saying->fed < saying->input.size ? POLLIN | POLLOUT : POLLIN;
        if (poll(on, 6, left > 3600 ? 3600000 : (int)(left * 1000) + 1) < 0) continue;
        if (on[2].revents && next_word(channel) == CANCEL) return CANCELLED;
        if (on[2].revents) renew();
        if (on[3].revents) {
            char ignored[512];
            (void)!read(child_ended, ignored, sizeof ignored);
            bury_orphans(session.shell);
        }
        if (on[4].revents & POLLOUT) feed(saying);
        if (on[4].revents & POLLIN) take_terminal(saying);
        if (on[0].revents && told(saying)) return ENDED;
        if (on[5].revents) return *ended = true, ENDED;
        if (on[1].revents && !take(session.output, &saying->kept)) on[1].fd = -1;
        if (saying->kept.total > saying->most) return OUTPUT;
    }
}

// Calls with every process of the box but the supervisor.
static void each_other(void (*call)(pid_t, void *), void *with) {
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 1) call(pid, with);
    }
    if (all) closedir(all);
}

static void kill_but_shell(pid_t pid, void *ignored) {
    (void)ignored;
    if (pid != session.shell) kill(pid, SIGKILL);
}

// Whether a descriptor of a process is the terminal, by its own name or as the one that controls it.
static bool is_terminal(pid_t pid, unsigned long fd) {
    char path[64];
    struct stat of, ours;
    snprintf(path, sizeof path, "/proc/%d/fd/%lu", pid, fd);
    if (stat(path, &of) || fstat(session.slave, &ours) || !S_ISCHR(of.st_mode)) return false;
    return of.st_rdev == ours.st_rdev || of.st_rdev == makedev(5, 0);
}

// Whether a process in the foreground waits in a read of the terminal.
static void look_for_reader(pid_t pid, void *found) {
    char path[48], text[64] = {0};
    long call;
    unsigned long reads;
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    bool known = read(fd, text, sizeof text - 1) > 0 && sscanf(text, "%ld %lx", &call, &reads) == 2;
    close(fd);
    if (known && call == SYS_read && is_terminal(pid, reads) && getpgid(pid) == tcgetpgrp(session.master)) *(bool *)found = true;
}

// What took too much is interrupted; then killed; then the shell with it. True where that was the end of the shell.
static bool stop_command(struct channel *channel, struct saying *saying) {
    bool ended = false;
    pid_t group = tcgetpgrp(session.master);
    saying->most = ~0ULL;
    if (group > 1) kill(-group, SIGINT);
    if (wait_for_shell(channel, saying, now() + GRACE, &ended) == ENDED) return ended;
    each_other(kill_but_shell, NULL);
    return wait_for_shell(channel, saying, now() + GRACE, &ended) != ENDED || ended;
}

// One line for the shell: its commands have the terminal for input, and neither of the other two ends. Not heard where
// the shell has ended, or has stopped reading; then also why no longer was waited for it.
static enum why tell(struct channel *channel, const char *text, double deadline, bool *heard) {
    struct pollfd on[] = {{session.commands, POLLOUT, 0}, {channel->in, POLLIN, 0}};
    enum why why = ENDED;
    struct bytes line = {0};
    add(&line, "eval '", 6);
    for (const char *at = text; *at; at++)
        if (*at == '\'') add(&line, "'\\''", 4);
        else add(&line, at, 1);
    add(&line, "' <&7 7<&- 8>&-\n", 16);
    size_t done = 0;
    while (done < line.size && why == ENDED) {
        ssize_t sent = write(session.commands, line.at + done, line.size - done);
        double left = deadline - now();
        if (sent > 0) done += (size_t)sent;
        else if (errno != EAGAIN) break;
        else if (left <= 0) why = TIME;
        else if (poll(on, 2, left > 3600 ? 3600000 : (int)(left * 1000) + 1) > 0 && on[1].revents) {
            if (next_word(channel) == CANCEL) why = CANCELLED;
            else renew();
        }
    }
    free(line.at);
    *heard = done == line.size;
    return why;
}

static void read_input(struct channel *channel, struct saying *saying) {
    struct bytes piece = {0};
    while (next_data(channel, &piece)) add(&saying->input, piece.at, piece.size);
    free(piece.at);
    if (!saying->input.size) return;
    add(&saying->input, saying->input.at[saying->input.size - 1] == '\n' ? "\4" : "\4\4", saying->input.at[saying->input.size - 1] == '\n' ? 1 : 2);
}

// Fields: session, folder, user, resource limits, then the environment.
void open_session(struct channel *channel, const struct fields *fields) {
    static char *const own[] = {"PS1=", "PS2=", "PROMPT_COMMAND=printf '%d\\n' \"$?\" >&8", "HISTFILE=", "TERM=dumb", "PAGER=cat"};
    static char *const words[] = {"bash", "--norc", "--noprofile", "--noediting", "-i", NULL};
    drop_data(channel);
    if (fields->count < 4) return refuse(channel, "session takes a folder, a user and limits");
    if (session.shell) return refuse(channel, "a session is open");
    struct self self = {fields->at[1], fields->at[2], fields->at[3], (char **)words, NULL, STATUS};
    const char *why = unfit(&self);
    if (why) return refuse(channel, "%s", why);
    size_t given = fields->count - 4, more = sizeof own / sizeof *own;
    self.environment = grown(NULL, (given + more + 1) * sizeof *self.environment);
    memcpy(self.environment, fields->at + 4, given * sizeof *self.environment);
    memcpy(self.environment + given, own, sizeof own);
    self.environment[given + more] = NULL;
    struct saying saying = {.most = ~0ULL, .kept = kept_of(400)};
    bool ended = false, heard = false, started = start_shell(&self) && wait_for_shell(channel, &saying, now() + START, &ended) == ENDED && !ended;
    if (started) tell(channel, "readonly PROMPT_COMMAND", now() + START, &heard);
    if (started) started = heard && wait_for_shell(channel, &saying, now() + START, &ended) == ENDED && !ended;
    free(self.environment);
    if (!started) {
        int failed = errno;
        for (int i = 0; i < 64 && session.output > 0 && take(session.output, &saying.kept); i++) {}  // it may print for ever
        end_session();
        refuse(channel, "shell: %.*s", (int)(saying.kept.head.size ? saying.kept.head.size : 64), saying.kept.head.size ? saying.kept.head.at : strerror(failed));
    } else reply(channel, 1, (const char *[]){"ok"});
    free(saying.kept.head.at), free(saying.kept.tail.at);
}

// Fields: say, seconds, bytes kept, most bytes printed, the text; the data is the command's input.
void say_in_session(struct channel *channel, const struct fields *fields) {
    if (fields->count != 5 || !session.shell) return refuse(channel, "there is no session");
    double started = now();
    struct saying saying = {started + strtod(fields->at[1], NULL), strtoull(fields->at[3], NULL, 10), kept_of(strtoul(fields->at[2], NULL, 10)), {0}, 0, 0};
    bool ended = false, waiting = false, heard = false;
    read_input(channel, &saying);
    tcflush(session.slave, TCIFLUSH);
    while (told(&saying)) {}  // an interrupted shell that had nothing to do has said so again
    enum why why = tell(channel, fields->at[4], saying.deadline, &heard);
    ended = !heard;  // what it did not take whole must not meet the next command
    if (heard) why = channel->cancelled ? CANCELLED : wait_for_shell(channel, &saying, saying.deadline, &ended);
    const char *full = full_mount();
    if (why == TIME) each_other(look_for_reader, &waiting);
    if (why != ENDED && heard) ended = stop_command(channel, &saying);
    for (int i = 0; i < 64 && session.output > 0 && take(session.output, &saying.kept); i++) {}  // a job may print for ever
    if (ended) saying.status = end_session();
    struct ending ending = {why, saying.status, full, now() - started, ended ? "closed" : waiting ? "waiting" : ""};
    report(channel, &saying.kept, &ending);
    free(saying.input.at);
}

void close_session(struct channel *channel, const struct fields *fields) {
    (void)fields;
    drop_data(channel);
    if (session.shell) end_session();
    reply(channel, 1, (const char *[]){"ok"});
}
