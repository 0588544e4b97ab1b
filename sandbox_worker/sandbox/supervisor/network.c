// A socket that listens on the box's own loopback: the worker takes a copy, and serves whoever connects to it in the box.
#define _GNU_SOURCE
#include "box.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listening(unsigned short port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || (!bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, 128))) return fd;
    int failed = errno;
    close(fd), errno = failed;
    return -1;
}

// Fields: listen, port, or nothing once the worker has its copy. Replies with the number of the descriptor.
void listen_for_worker(struct channel *channel, const struct fields *fields) {
    static int listener = -1;
    drop_data(channel);
    if (listener >= 0) close(listener);
    listener = -1;
    if (fields->count > 1 && (listener = listening((unsigned short)atoi(fields->at[1]))) < 0)
        return refuse(channel, "network: %s", strerror(errno));
    char number[16];
    snprintf(number, sizeof number, "%d", listener);
    reply(channel, 2, (const char *[]){"ok", number});
}
