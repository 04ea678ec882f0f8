// SPDX-License-Identifier: Apache-2.0
/*
 * doctor.c - `wherry doctor`: what this host can do for us, one line each, with the remedy where it cannot.
 *
 * Exit status: 0 a good KVM, 10 none, 11 no right to open it, 12 one that emulates ring 0. --quiet prints nothing.
 */
#include "kvm_probe.h"
#include "verbs.h"
#include "../devices/share.h"
#include "../vmm/log.h"
#include "../vmm/loop.h"
#include "../vmm/vm.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

static void kvm_line(const struct kvm_probe *p)
{
	errno = p->err;
	switch (p->kind) {
	case KVM_GOOD:
		printf("kvm        good: runs a kernel at full speed (%u million instructions/s in "
		       "ring 0)\n",
		       p->mips);
		break;
	case KVM_EMULATES:
		printf("kvm        emulates ring 0 (%u million instructions/s): ring-3 code runs "
		       "at full speed, Linux does\n"
		       "           not. Boot tests need another host, or the emulated one of "
		       "tests/lab\n",
		       p->mips);
		break;
	case KVM_NO_RIGHT:
		printf("kvm        no right to open /dev/kvm: add your user to its group (usermod "
		       "-aG kvm $USER), log in "
		       "again\n");
		break;
	case KVM_NONE:
		printf("kvm        none (%s: %m): load kvm_intel or kvm_amd, enable virtualization "
		       "in the firmware or in\n"
		       "           the outer hypervisor\n",
		       p->why);
		break;
	}
}

static void engine_line(void)
{
	struct iothread *io;
	int r;

	log_set_level(LOG_ERR);
	r = iothread_create(&io, "doctor", LOOP_URING, 8, NULL);
	if (!r)
		iothread_destroy(io);
	errno = -r;
	if (!r)
		printf("io_uring   yes\n");
	else
		printf("io_uring   no (%m): devices use epoll and threads, which is slower\n");
}

static void pages_line(void)
{
	char buf[128] = "";
	auto_fd fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	buf[strcspn(buf, "\n")] = 0;
	if (n <= 0)
		printf("huge pages none: this kernel has them not, guest RAM is in small pages, "
		       "which is slower\n");
	else if (strstr(buf, "[never]"))
		printf("huge pages %s: guest RAM is in small pages, which is slower: write madvise "
		       "to\n"
		       "           /sys/kernel/mm/transparent_hugepage/enabled\n",
		       buf);
	else
		printf("huge pages %s\n", buf);
}

static void limit_line(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	printf("files      at most %llu open (hard limit): by default a share may use half of "
	       "them\n",
	       (unsigned long long)r.rlim_max);
}

/* What owner auto would come to. Tried: root in a container may lack the capabilities, or the ids. */
static void user_line(void)
{
	if (share_owner_passes())
		printf("user       shares pass owners through\n");
	else if (geteuid())
		printf("user       not root: shares are squashed to this user\n");
	else
		printf("user       root, but without CAP_SETUID, CAP_SETGID and CAP_CHOWN or with "
		       "one id only:\n"
		       "           shares are squashed to this user\n");
}

int verb_doctor(int argc, char **argv)
{
	static const int status[] = {
		[KVM_GOOD] = 0, [KVM_NONE] = 10, [KVM_NO_RIGHT] = 11, [KVM_EMULATES] = 12};
	bool quiet = argc == 2 && !strcmp(argv[1], "--quiet");
	struct kvm_probe p;

	if (argc > 1 && !quiet) {
		log_err("doctor: %s: no such flag; there is --quiet", argv[1]);
		return EXIT_NO_START;
	}
	p = kvm_probe();
	if (quiet)
		return status[p.kind];
	kvm_line(&p);
	engine_line();
	pages_line();
	limit_line();
	user_line();
	return status[p.kind];
}
