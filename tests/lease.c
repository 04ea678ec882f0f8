// SPDX-License-Identifier: Apache-2.0
/*
 * lease.c - a file that cannot be opened for a while: holds a write lease on FILE, which whoever opens it waits for.
 *
 * Says "held", then "wanted" when an open waits; keeps the lease until it is killed, or the kernel takes it away after
 * /proc/sys/fs/lease-break-time seconds (45). Exit status 2: FILE cannot have a lease.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	sigset_t wanted;
	int sig;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGIO);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK)) {
		perror(argv[argc - 1]);
		return 2;
	}
	puts("held");
	fflush(stdout);
	while (!sigwait(&wanted, &sig)) {
		puts("wanted");
		fflush(stdout);
	}
	return 1;
}
