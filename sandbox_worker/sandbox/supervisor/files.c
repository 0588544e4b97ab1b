// Files of a box: written, read, packed and unpacked without following a link, and only while no command runs.
#define _GNU_SOURCE
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRIES = 20000, MAX_NAMES = 4 << 20, MAX_DEPTH = 64, DEEPEST = 1000, PAGE = 4096 };

static const char *problem(void) { return errno ? strerror(errno) : "cannot be done"; }

// The folder of a path, reached without following a link; *name points at the last part. -1 with errno.
static int open_folder_of(char *path, bool make, char **name) {
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *name = NULL;
    if (*path != '/') errno = EINVAL;
    for (char *rest = path, *part; fd >= 0 && *path == '/' && (part = strtok_r(rest, "/", &rest));) {
        if (!strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) return close(fd), errno = EINVAL, -1;
        if (*name) {
            if (make && mkdirat(fd, *name, 0755) && errno != EEXIST) return close(fd), -1;
            int inner = openat(fd, *name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            int before = errno;
            close(fd), errno = before, fd = inner;
        }
        *name = part;
    }
    if (fd >= 0 && !*name) return close(fd), errno = EINVAL, -1;
    return fd;
}

// The rest of a request's data, or the part of it that belongs to one file: frames never reach over its end.
struct source {
    struct channel *channel;
    struct bytes piece;
    bool bounded;
    unsigned long long left;
};

static bool more(struct source *source) {
    if (source->bounded && !source->left) return false;
    if (!next_data(source->channel, &source->piece)) return false;
    source->left -= source->bounded ? source->piece.size : 0;
    return true;
}

// Write a new regular file in place of whatever file or link was there. -1 with errno.
static int put(char *path, mode_t mode, struct source *source, unsigned long long *size) {
    char *name;
    int folder = open_folder_of(path, true, &name);
    if (folder < 0) return -1;
    if (unlinkat(folder, name, 0) && errno != ENOENT) return close(folder), -1;
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int failed = fd < 0 ? errno : 0;
    for (*size = 0; !failed && more(source); *size += source->piece.size)
        for (size_t done = 0; !failed && done < source->piece.size;) {
            ssize_t written = write(fd, source->piece.at + done, source->piece.size - done);
            if (written < 0) failed = errno;
            else done += (size_t)written;
        }
    if (!failed && fchmod(fd, mode & 0777)) failed = errno;
    if (failed && fd >= 0) unlinkat(folder, name, 0);
    if (fd >= 0) close(fd);
    close(folder);
    errno = failed;
    return failed ? -1 : 0;
}

// Fields: write, path, mode.
void write_file(struct channel *channel, const struct fields *fields) {
    struct source source = {.channel = channel};
    unsigned long long size;
    if (fields->count != 3 || put(fields->at[1], (mode_t)strtoul(fields->at[2], NULL, 10), &source, &size))
        refuse(channel, "%s", fields->count == 3 ? problem() : "write takes a path and a mode");
    else {
        char said[24];
        snprintf(said, sizeof said, "%llu", size);
        drop_data(channel);
        reply(channel, 2, (const char *[]){"ok", said});
    }
    free(source.piece.at);
}

// Send a regular file; what is wrong if it cannot be.
static const char *send_file(struct channel *channel, int folder, const char *name, unsigned long long limit,
                             unsigned long long *sent) {
    static char data[CHUNK], why[64];
    struct stat found;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return problem();
    snprintf(why, sizeof why, "larger than %llu bytes", limit);
    const char *wrong = NULL;
    if (fstat(fd, &found)) wrong = problem();
    else if (!S_ISREG(found.st_mode)) wrong = "no regular file";
    else if ((unsigned long long)found.st_size > limit) wrong = why;
    ssize_t got = 0;
    for (*sent = 0; !wrong && (got = read(fd, data, sizeof data)) > 0;) {
        *sent += (unsigned long long)got;
        if (*sent > limit) wrong = why;  // files of /proc say that they are empty
        else send_frame(channel, DATA, data, (size_t)got);
    }
    if (!wrong && got < 0) wrong = problem();
    close(fd);
    return wrong;
}

// Fields: read, path, most bytes.
void read_file(struct channel *channel, const struct fields *fields) {
    char *name;
    if (fields->count != 3) return refuse(channel, "read takes a path and a limit");
    int folder = open_folder_of(fields->at[1], false, &name);
    unsigned long long sent = 0;
    errno = folder < 0 ? errno : 0;
    const char *wrong = folder < 0 ? problem() : send_file(channel, folder, name, strtoull(fields->at[2], NULL, 10), &sent);
    bool missing = wrong && errno == ENOENT;
    if (folder >= 0) close(folder);
    drop_data(channel);
    char said[24];
    snprintf(said, sizeof said, "%llu", sent);
    if (!wrong) reply(channel, 2, (const char *[]){"ok", said});
    else reply(channel, 2, (const char *[]){missing ? "missing" : "refused", missing ? "there is no such file" : wrong});
}

// What a snapshot has so far.
struct taken {
    struct channel *channel;
    struct bytes entries;  // kind, mode, size and name of each, as the fields of the reply
    size_t count, names;
    unsigned long long limit, pages;
    char wrong[256];
};

static bool wrong(struct taken *taken, const char *what) {
    if (!*taken->wrong) snprintf(taken->wrong, sizeof taken->wrong, "%s", what);
    return false;
}

// Files count by whole pages, at their full length: that is what they take where they are restored.
static bool note(struct taken *taken, char kind, mode_t mode, unsigned long long size, const char *path) {
    char head[64];
    int length = snprintf(head, sizeof head, "%c%c%u%c%llu", kind, 0, mode & 0777, 0, size);
    add(&taken->entries, "", 1);
    add(&taken->entries, head, (size_t)length + 1);
    add(&taken->entries, path, strlen(path));
    taken->names += strlen(path);
    taken->pages += (size + PAGE - 1) / PAGE;
    char text[96];
    if (++taken->count > MAX_ENTRIES) return snprintf(text, sizeof text, "more than %d files and folders", MAX_ENTRIES), wrong(taken, text);
    if (taken->pages * PAGE > taken->limit) return snprintf(text, sizeof text, "the files take more than %llu bytes", taken->limit), wrong(taken, text);
    if (taken->names > MAX_NAMES) return snprintf(text, sizeof text, "the names of the files take more than %d bytes", MAX_NAMES), wrong(taken, text);
    return true;
}

static int by_name(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

// The names in a folder, sorted; never more of them than fit, for there may be millions.
static char **names_in(struct taken *taken, int folder, size_t *count) {
    int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *found = copy < 0 ? NULL : fdopendir(copy);
    char **names = NULL;
    *count = 0;
    if (!found) return wrong(taken, problem()), NULL;
    for (struct dirent *entry; !*taken->wrong && (entry = readdir(found));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (taken->count + *count >= MAX_ENTRIES) {
            char text[64];
            snprintf(text, sizeof text, "more than %d files and folders", MAX_ENTRIES);
            wrong(taken, text);
        } else {
            if (!(*count & 63)) names = grown(names, (*count + 64) * sizeof *names);
            names[(*count)++] = strdup(entry->d_name);
        }
    }
    closedir(found);
    if (*count) qsort(names, *count, sizeof *names, by_name);
    return names;
}

static void walk(struct taken *taken, int folder, const char *prefix, int depth);

static void enter(struct taken *taken, int folder, const char *name, const char *path, mode_t mode, int depth) {
    if (!note(taken, 'd', mode, 0, path)) return;
    fchmodat(folder, name, mode | 0700, 0);  // nobody else is alive, so it is still no link
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return (void)wrong(taken, problem());
    size_t length = strlen(path);
    char *below = grown(NULL, length + 2);
    memcpy(below, path, length), below[length] = '/', below[length + 1] = 0;
    walk(taken, inner, below, depth + 1);
    free(below);
    fchmod(inner, mode & 07777);
    close(inner);
}

// A regular file, also one that its owner may not read.
static void carry(struct taken *taken, int folder, const char *name, const char *path, const struct stat *found) {
    unsigned long long size = (unsigned long long)found->st_size, sent = 0;
    bool closed = !(found->st_mode & 0400);
    if (!note(taken, 'f', found->st_mode, size, path)) return;
    if (closed) fchmodat(folder, name, (found->st_mode & 07777) | 0400, 0);
    const char *what = send_file(taken->channel, folder, name, size, &sent);
    if (closed) fchmodat(folder, name, found->st_mode & 07777, 0);
    if (what || sent != size) wrong(taken, what ? what : "a file became shorter");
}

static void walk(struct taken *taken, int folder, const char *prefix, int depth) {
    char text[64];
    size_t count;
    if (depth > MAX_DEPTH) {
        snprintf(text, sizeof text, "folders nested more than %d deep", MAX_DEPTH);
        return (void)wrong(taken, text);
    }
    char **names = names_in(taken, folder, &count);
    for (size_t i = 0; i < count; i++) {
        struct stat found;
        if (!*taken->wrong && fstatat(folder, names[i], &found, AT_SYMLINK_NOFOLLOW)) wrong(taken, problem());
        if (!*taken->wrong && (S_ISDIR(found.st_mode) || S_ISREG(found.st_mode))) {
            size_t above = strlen(prefix), own = strlen(names[i]);
            char *path = grown(NULL, above + own + 1);
            memcpy(path, prefix, above), memcpy(path + above, names[i], own + 1);
            if (S_ISDIR(found.st_mode)) enter(taken, folder, names[i], path, found.st_mode, depth);
            else carry(taken, folder, names[i], path, &found);
            free(path);
        }
        free(names[i]);
    }
    free(names);
}

// Fields: snapshot, folder, most bytes. Replies with every file's bytes, then kind, mode, size, name of each entry.
void take_snapshot(struct channel *channel, const struct fields *fields) {
    char *name;
    if (fields->count != 3) return refuse(channel, "snapshot takes a folder and a limit");
    int outer = open_folder_of(fields->at[1], false, &name);
    int root = outer < 0 ? -1 : openat(outer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (outer >= 0) close(outer);
    if (root < 0) return refuse(channel, "%s", problem());
    struct taken taken = {.channel = channel, .limit = strtoull(fields->at[2], NULL, 10)};
    add(&taken.entries, "ok", 2);
    walk(&taken, root, "", 0);
    close(root);
    if (*taken.wrong) refuse(channel, "%s", taken.wrong);
    else drop_data(channel), send_frame(channel, HEADER, taken.entries.at, taken.entries.size);
    free(taken.entries.at);
}

// A link of an image's folder: what it says is the data. It leads nowhere but within the box.
static int link_to(char *path, struct source *source) {
    char *name, says[PAGE];
    size_t size = 0;
    while (more(source)) {
        if (size + source->piece.size >= sizeof says) return errno = ENAMETOOLONG, -1;
        memcpy(says + size, source->piece.at, source->piece.size), size += source->piece.size;
    }
    says[size] = 0;
    int folder = open_folder_of(path, true, &name), failed = folder < 0 || symlinkat(says, folder, name), before = errno;
    if (folder >= 0) close(folder);
    errno = before;
    return failed ? -1 : 0;
}

// Fields: restore, folder, then kind, mode, size and name of each entry; the data is the files' bytes in that order.
void restore_snapshot(struct channel *channel, const struct fields *fields) {
    const char *root = fields->at[1];
    if (fields->count < 2 || (fields->count - 2) % 4) return refuse(channel, "restore takes a folder and entries of four");
    for (size_t pass = 0; pass < 2; pass++)  // modes of folders last, for one may forbid to write into it
        for (size_t i = 0; i < (fields->count - 2) / 4; i++) {
            char **entry = fields->at + 2 + 4 * (pass ? (fields->count - 2) / 4 - 1 - i : i), *path, *name;
            struct source source = {.channel = channel, .bounded = true, .left = strtoull(entry[2], NULL, 10)};
            mode_t mode = (mode_t)strtoul(entry[1], NULL, 10);
            unsigned long long size;
            bool folder = *entry[0] == 'd', failed;
            if (pass && !folder) continue;
            if (asprintf(&path, "%s/%s", root, entry[3]) < 0) _exit(1);
            if (*entry[0] == 'l') failed = link_to(path, &source);
            else if (!folder) failed = put(path, mode, &source, &size);
            else {
                int parent = open_folder_of(path, true, &name);
                failed = parent < 0 || (pass ? fchmodat(parent, name, mode & 0777, 0) : mkdirat(parent, name, 0755) && errno != EEXIST);
                int before = errno;
                if (parent >= 0) close(parent);
                errno = before;
            }
            free(path), free(source.piece.at);
            if (failed) return refuse(channel, "%s: %s", entry[3], problem());
        }
    drop_data(channel);
    reply(channel, 1, (const char *[]){"ok"});
}

static bool empty_below(int folder, int depth);

// One entry of a folder and all below it; a folder that may not be entered is made enterable first.
static bool remove_entry(int folder, const char *name, int depth) {
    if (!unlinkat(folder, name, 0)) return true;
    if (errno != EISDIR && errno != EPERM) return errno == ENOENT;
    fchmodat(folder, name, 0700, 0);
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool emptied = inner >= 0 && empty_below(inner, depth + 1);
    if (inner >= 0) close(inner);
    return emptied && (!unlinkat(folder, name, AT_REMOVEDIR) || errno == EBUSY);  // busy: a folder with a quota of its own
}

static bool empty_below(int folder, int depth) {
    if (depth > DEEPEST) return errno = ELOOP, false;
    int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *found = copy < 0 ? NULL : fdopendir(copy);
    bool emptied = found;
    for (struct dirent *entry; found && (entry = readdir(found));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) emptied &= remove_entry(folder, entry->d_name, depth);
    if (found) closedir(found);
    return emptied;
}

// Fields: empty, then folders: nothing stays in them.
void empty_folder(struct channel *channel, const struct fields *fields) {
    drop_data(channel);
    for (size_t i = 1; i < fields->count; i++) {
        char *name;
        int outer = open_folder_of(fields->at[i], false, &name);
        int folder = outer < 0 ? -1 : openat(outer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (outer >= 0) close(outer);
        bool emptied = folder >= 0 && empty_below(folder, 0);
        if (folder >= 0) close(folder);
        if (!emptied) return refuse(channel, "%s: %s", fields->at[i], problem());
    }
    reply(channel, 1, (const char *[]){"ok"});
}
