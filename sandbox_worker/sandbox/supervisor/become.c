// In the child: turn into what was asked for, as the user and under the limits that were asked for.
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

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

// By name or number, as /etc/passwd of the box has it. False where there is no such user.
static bool find_user(const char *user, uid_t *uid, gid_t *gid) {
    char *end;
    unsigned long number = strtoul(user, &end, 10);
    bool numeric = *user && !*end && number < 0xFFFFFFFF;
    const struct passwd *found = numeric ? getpwuid((uid_t)number) : getpwnam(user);
    *uid = found ? found->pw_uid : (uid_t)number, *gid = found ? found->pw_gid : (gid_t)number;
    return found || numeric;
}

// Why a command cannot be this; NULL if it can.
const char *unfit(const struct self *self) {
    static char why[512];
    uid_t uid;
    gid_t gid;
    if (*self->user && !find_user(self->user, &uid, &gid)) return snprintf(why, sizeof why, "user: there is no user %.200s", self->user), why;
    if (*self->user && uid != geteuid() && geteuid()) return snprintf(why, sizeof why, "user: commands of this box run as uid %u only, not as %.200s", geteuid(), self->user), why;
    int fd = open(self->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return snprintf(why, sizeof why, "folder: %.300s: %s", self->folder, strerror(errno)), why;
    close(fd);
    return NULL;
}

static void become_user(const char *user) {
    uid_t uid;
    gid_t gid;
    if (!*user || !find_user(user, &uid, &gid) || uid == geteuid()) return;
    if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)) fail(126, user, strerror(errno));
}

// The caller has made the session that it belongs to.
void become(const struct self *self, int input, int output) {
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(126);
    prctl(PR_SET_DUMPABLE, 1);  // else its own /proc/self would belong to root
    first_to_be_killed();
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5);  // the supervisor must get its turn among busy children
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    syscall(SYS_close_range, self->last + 1, ~0U, 0);
    limit(self->limits);
    become_user(self->user);
    if (chdir(self->folder)) fail(126, self->folder, strerror(errno));
    environ = self->environment;
    execvp(self->words[0], self->words);
    fail(errno == ENOENT ? 127 : 126, self->words[0], errno == ENOENT ? "not found" : strerror(errno));
}

// A copy of some fields, ended as exec wants it.
char **list_of(char **fields, size_t count) {
    char **list = grown(NULL, (count + 1) * sizeof *list);
    memcpy(list, fields, count * sizeof *list);
    list[count] = NULL;
    return list;
}
