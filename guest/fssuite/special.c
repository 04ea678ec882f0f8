// SPDX-License-Identifier: Apache-2.0
/*
 * special.c - fifos, sockets and watches: what lives in this kernel and only has its name in the
 * directory.
 */
#include "suite.h"
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

static bool check_fifo(void)
{
	struct stat st;
	char c;
	int fd;

	must(mkfifo("p", 0600) == 0 && lstat("p", &st) == 0 && S_ISFIFO(st.st_mode));
	must_fail(open("p", O_WRONLY | O_NONBLOCK), ENXIO);
	must((fd = open("p", O_RDWR)) >= 0);
	must(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1 && c == 'x');
	must(close(fd) == 0 && rename("p", "q") == 0 && chmod("q", 0640) == 0);
	must(lstat("q", &st) == 0 && S_ISFIFO(st.st_mode) && (st.st_mode & 07777) == 0640);
	return true;
}

static bool check_fifo_processes(void)
{
	char buf[8];
	pid_t pid;
	int fd;

	must(mkfifo("p", 0600) == 0);
	pid = fork();
	if (pid == 0) {
		fd = open("p", O_WRONLY);
		_exit(fd >= 0 && write(fd, "message", 7) == 7 ? 0 : 1);
	}
	must((fd = open("p", O_RDONLY)) >= 0 && read(fd, buf, 8) == 7);
	must(memcmp(buf, "message", 7) == 0 && child_good(pid));
	return true;
}

static bool check_socket(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), a;
	struct stat st;
	char byte = 0;

	must(s >= 0 && c >= 0 && bind(s, (struct sockaddr *)&name, sizeof(name)) == 0);
	must_fail(bind(c, (struct sockaddr *)&name, sizeof(name)), EADDRINUSE);
	must(lstat("sock", &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0755);
	must_fail(open("sock", O_RDONLY), ENXIO);
	must_fail(connect(c, (struct sockaddr *)&name, sizeof(name)), ECONNREFUSED);
	must(listen(s, 1) == 0 && connect(c, (struct sockaddr *)&name, sizeof(name)) == 0);
	must((a = accept(s, NULL, NULL)) >= 0 && write(c, "!", 1) == 1);
	must(read(a, &byte, 1) == 1 && byte == '!');
	must(unlink("sock") == 0 && write(c, "?", 1) == 1 && read(a, &byte, 1) == 1 && byte == '?');
	return true;
}

/* The next event has all bits of mask, and the name (NULL: none). */
static bool event_is(int fd, uint32_t mask, const char *name)
{
	_Alignas(struct inotify_event) char buf[sizeof(struct inotify_event) + 256];
	struct inotify_event *e = (struct inotify_event *)buf;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	/* A buffer that holds one event: the rest stays in the queue. */
	if (poll(&p, 1, 5000) != 1 ||
	    read(fd, buf, sizeof(*e) + (name ? 16 : 0)) < (ssize_t)sizeof(*e))
		return false;
	return (e->mask & mask) == mask && (name ? e->len && !strcmp(e->name, name) : !e->len);
}

static bool check_inotify(void)
{
	int fd = inotify_init1(0), file;

	must(fd >= 0 && mkdir("d", 0755) == 0);
	must(inotify_add_watch(fd, "d",
			       IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVE | IN_CLOSE_WRITE) >= 0);
	must((file = open("d/f", O_CREAT | O_WRONLY, 0644)) >= 0 && event_is(fd, IN_CREATE, "f"));
	must(write(file, "x", 1) == 1 && event_is(fd, IN_MODIFY, "f"));
	must(close(file) == 0 && event_is(fd, IN_CLOSE_WRITE, "f"));
	must(rename("d/f", "d/g") == 0 && event_is(fd, IN_MOVED_FROM, "f"));
	must(event_is(fd, IN_MOVED_TO, "g") && mkdir("d/e", 0755) == 0);
	must(event_is(fd, IN_CREATE | IN_ISDIR, "e") && unlink("d/g") == 0);
	must(event_is(fd, IN_DELETE, "g"));
	return true;
}

const struct check special_checks[] = {
	CHECK(fifo, "a fifo works"),
	CHECK(fifo_processes, "two processes meet at a fifo"),
	CHECK(socket, "a local socket is bound, found, and outlives its name"),
	CHECK(inotify, "watches tell of changes made in here"),
	{0},
};
