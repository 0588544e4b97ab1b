// Joins control groups, drops the uid, and only then becomes bubblewrap: the order is what makes it safe.
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int broke(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 71;
}

// Words: a uid or -, files to join by, a word --, the command.
int launch(int count, char **words) {
    if (count < 3) return 64;
    const char *uid = *words++;
    for (count--; count && strcmp(*words, "--"); words++, count--) {
        int fd = open(*words, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1) return broke(*words);
        close(fd);
    }
    if (count < 2) return 64;
    if (strcmp(uid, "-")) {
        uid_t id = (uid_t)strtoul(uid, NULL, 10);
        if (!id) return 64;
        if (setgroups(0, NULL) || setresgid(id, id, id) || setresuid(id, id, id)) return broke("dropping the uid");
        if (setuid(0) == 0) return broke("the uid came back");
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    }
    execv(words[1], words + 1);
    return broke(words[1]);
}
