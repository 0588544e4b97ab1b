// How long a box lives: until its time is up, or its worker stops renewing the lease. And what its quotas still hold.
#define _GNU_SOURCE
#include "box.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

enum { EXPIRED = 75 };

static double ends_at, lease;
static volatile double due;
static struct {
    size_t count;
    char **paths;
} mounts;

// Only the clock counts: a command may send the signal too, and while its own is pending the timer's is lost.
static void on_alarm(int number) {
    (void)number;
    if (now() >= due) _exit(EXPIRED);
}

void renew(void) {
    double left = ends_at - now(), seconds = lease && lease < left ? lease : left;
    if (seconds <= 0) _exit(EXPIRED);
    struct timeval until = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) + 1};
    due = now() + seconds;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_interval = {1, 0}, .it_value = until}, NULL);
}

void live(double seconds, double lease_seconds) {
    struct sigaction end = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &end, NULL);
    ends_at = now() + seconds, lease = lease_seconds;
    renew();
}

void note_mounts(size_t count, char **paths) { mounts.count = count, mounts.paths = paths; }

// The first folder in which nothing more can be written; empty while all have room.
const char *full_mount(void) {
    for (size_t i = 0; i < mounts.count; i++) {
        struct statvfs found;
        if (!statvfs(mounts.paths[i], &found) && found.f_blocks && (!found.f_bavail || (found.f_files && !found.f_ffree)))
            return mounts.paths[i];
    }
    return "";
}

unsigned long long used_bytes(void) {
    unsigned long long used = 0;
    for (size_t i = 0; i < mounts.count; i++) {
        struct statvfs found;
        if (!statvfs(mounts.paths[i], &found)) used += (unsigned long long)(found.f_blocks - found.f_bfree) * found.f_frsize;
    }
    return used;
}
