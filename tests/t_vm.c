// SPDX-License-Identifier: Apache-2.0
/*
 * t_vm.c - struct vm: allocators and ends without KVM, creation with it, and the errors of hosts
 * that have none.
 */
#include "../vmm/vm.h"
#include "../vmm/arch.h"
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/wait.h>

static struct vm *bare(void)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 2};
	struct vm *vm = NULL;

	need(vm_create_bare(&vm, &params) == 0);
	return vm;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void test_bare(void)
{
	struct vm *vm = bare();

	ok(vm->kvm_fd == -1 && vm->vm_fd == -1 && vm->ncpus == 2 && vm->mem->total == MIB(2),
	   "a bare vm has RAM and no descriptors");
	is(vm->pci_gsi[0], -1, "no slot has an interrupt yet");
	is(vm_doorbell_add(vm, ARCH_MMIO_BASE, 4, vm->end_fd), 0, "a doorbell without KVM is fine");
	vm_doorbell_del(vm, ARCH_MMIO_BASE, 4, vm->end_fd);
	vm_destroy(vm);
	vm_destroy(NULL);
}

static void test_mmio_alloc(void)
{
	struct vm *vm = bare();
	uint64_t a = 0, b = 0, c = 0;
	unsigned n = 2;

	is(vm_mmio_alloc(vm, 0, &a), -ENOSPC, "a window of nothing is refused");
	is(vm_mmio_alloc(vm, UINT64_MAX, &a), -ENOSPC, "so is one of everything");
	is(a, 0, "and nothing is written");
	need(vm_mmio_alloc(vm, 512, &a) == 0 && vm_mmio_alloc(vm, KIB(4), &b) == 0);
	is(a, ARCH_MMIO_BASE, "windows begin where the map says");
	is(b, ARCH_MMIO_BASE + KIB(4), "and are 4 KiB apart");
	while (vm_mmio_alloc(vm, KIB(4), &c) == 0)
		n++;
	is(n, ARCH_MMIO_SIZE / KIB(4), "they fill their area");
	is(c, ARCH_MMIO_BASE + ARCH_MMIO_SIZE - KIB(4), "to its end");
	vm_destroy(vm);
}

static void test_platform(void)
{
	const struct vm_platform serial = {
		.hid = "PNP0501", .base = 0x3f8, .len = 8, .is_pio = true, .gsi = 4};
	struct vm *vm = bare();
	unsigned n = 0;

	while (vm_platform_add(vm, &serial) == 0)
		n++;
	is(n, VM_PLATFORM_MAX, "the list of platform devices takes as many as it says");
	is(vm_platform_add(vm, &serial), -ENOSPC, "and then says so");
	is(vm->platform[n - 1].gsi, 4, "they are copied");
	vm_destroy(vm);
}

static void test_end(void)
{
	char lengthy[300];
	struct vm *vm = bare();

	is(vm_get_end(vm), VM_RUNNING, "a new vm runs");
	ok(!readable(vm->end_fd), "its end_fd is silent");
	memset(lengthy, 'x', sizeof(lengthy) - 1);
	lengthy[sizeof(lengthy) - 1] = '\0';
	vm_set_end(vm, VM_PANIC, lengthy);
	vm_set_end(vm, VM_POWEROFF, "late");
	is(vm_get_end(vm), VM_PANIC, "the first end counts");
	is(strlen(vm->end_detail), sizeof(vm->end_detail) - 1, "its detail is cut to fit");
	ok(readable(vm->end_fd), "end_fd tells");
	vm_destroy(vm);

	vm = bare();
	vm_set_end(vm, VM_RESET, NULL);
	is(vm->end_detail[0], 0, "an end needs no detail");
	vm_destroy(vm);
}

static void test_end_names(void)
{
	unsigned different = 0;

	for (int i = VM_RUNNING; i <= VM_ERROR; i++)
		for (int j = i + 1; j <= VM_ERROR; j++)
			different += strcmp(vm_end_name((enum vm_end)i),
					    vm_end_name((enum vm_end)j)) != 0;
	is(different, (VM_ERROR + 1) * VM_ERROR / 2, "every end has a name of its own");
	is(strcmp(vm_end_name((enum vm_end)99), "unknown"), 0, "even one that does not exist");
}

struct racer {
	struct vm *vm;
	pthread_barrier_t *start;
	enum vm_end end;
	enum vm_end
		seen; /* what the machine's end was right after, VM_RUNNING while it is written */
};

static void *race(void *arg)
{
	struct racer *r = arg;

	pthread_barrier_wait(r->start);
	vm_set_end(r->vm, r->end, vm_end_name(r->end));
	r->seen = vm_get_end(r->vm);
	return NULL;
}

/* One round: true if all threads agree and the detail is the winner's. */
static bool race_round(void)
{
	struct racer racers[VM_ERROR];
	pthread_t threads[VM_ERROR];
	pthread_barrier_t start;
	struct vm *vm = bare();
	bool agree = true;
	eventfd_t n = 0;

	need(pthread_barrier_init(&start, NULL, VM_ERROR) == 0);
	for (int i = 0; i < VM_ERROR; i++) {
		racers[i] = (struct racer){.vm = vm, .start = &start, .end = (enum vm_end)(i + 1)};
		need(pthread_create(&threads[i], NULL, race, &racers[i]) == 0);
	}
	for (int i = 0; i < VM_ERROR; i++)
		need(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < VM_ERROR; i++)
		agree = agree && (racers[i].seen == VM_RUNNING || racers[i].seen == vm_get_end(vm));
	agree = agree && strcmp(vm->end_detail, vm_end_name(vm_get_end(vm))) == 0;
	agree = agree && eventfd_read(vm->end_fd, &n) == 0 && n == 1;
	pthread_barrier_destroy(&start);
	vm_destroy(vm);
	return agree;
}

static void test_end_race(void)
{
	unsigned good = 0;

	for (int i = 0; i < 100; i++)
		good += race_round();
	is(good, 100, "of many threads that end the machine exactly one wins, with its own detail");
}

static void test_kvm(void)
{
	struct vm_params params = {.mem_size = GIB(5), .ncpus = 1};
	struct vm *vm = NULL;

	is(vm_create(&vm, &params), 0, "a vm with 5 GiB is made");
	need(vm);
	ok(vm->kvm_fd >= 0 && vm->vm_fd >= 0, "it has its descriptors");
	ok(fcntl(vm->kvm_fd, F_GETFD) & FD_CLOEXEC && fcntl(vm->vm_fd, F_GETFD) & FD_CLOEXEC,
	   "no child inherits them");
	is(arch_pci64_base(vm), GIB(6), "the 64-bit PCI window lies above all RAM");
	is(vm_doorbell_add(vm, ARCH_MMIO_BASE, 4, vm->end_fd), 0, "a doorbell is added");
	is(vm_doorbell_add(vm, ARCH_MMIO_BASE, 4, vm->end_fd), -EEXIST, "but not twice");
	vm_doorbell_del(vm, ARCH_MMIO_BASE, 4, vm->end_fd);
	is(vm_doorbell_add(vm, ARCH_MMIO_BASE, 0, vm->end_fd), 0, "one for any length, after that");
	vm_destroy(vm);

	vm = NULL;
	params = (struct vm_params){.mem_size = MIB(4), .ncpus = 255};
	is(vm_create(&vm, &params), -EINVAL, "255 vCPUs are refused");
	ok(vm == NULL, "and nothing is written");
}

/* Runs vm_create() in a child that prepare() has put on another kind of host; what it logs goes to
 * said. */
static int create_elsewhere(bool (*prepare)(void), char *said, size_t n)
{
	const struct vm_params params = {.mem_size = MIB(4), .ncpus = 1};
	struct vm *vm = NULL;
	int p[2], status = 0;
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	need(pipe(p) == 0);
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		if (!prepare() || dup2(p[1], STDERR_FILENO) < 0)
			_exit(255);
		_exit(-vm_create(&vm, &params));
	}
	close(p[1]);
	while (len < n - 1 && (got = read(p[0], said + len, n - 1 - len)) > 0)
		len += (size_t)got;
	said[len] = '\0';
	close(p[0]);
	need(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool hide_dev(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/dev", "tmpfs", 0, NULL) == 0;
}

static bool become_nobody(void)
{
	return setgid(65534) == 0 && setuid(65534) == 0 && access("/dev/kvm", R_OK | W_OK) != 0;
}

static void test_other_hosts(void)
{
	char said[1024];
	int r = create_elsewhere(hide_dev, said, sizeof(said));

	if (r == 255) {
		skip("no right to make a mount namespace", "a host without /dev/kvm");
	} else {
		is(r, ENOENT, "a missing /dev/kvm is an error");
		ok(strstr(said, "no /dev/kvm") && strstr(said, "kvm_intel") &&
			   strchr(said, '\n') == said + strlen(said) - 1,
		   "of one line with the remedy");
	}
	if (access("/dev/kvm", F_OK) != 0) {
		skip("no /dev/kvm", "a /dev/kvm that may not be opened");
		return;
	}
	r = create_elsewhere(become_nobody, said, sizeof(said));
	if (r == 255) {
		skip("everybody may open it, or this is not root",
		     "a /dev/kvm that may not be opened");
		return;
	}
	is(r, EACCES, "a /dev/kvm that may not be opened is an error");
	ok(strstr(said, "no right") && strstr(said, "usermod") &&
		   strchr(said, '\n') == said + strlen(said) - 1,
	   "of one line with the remedy");
}

int main(void)
{
	test_bare();
	test_mmio_alloc();
	test_platform();
	test_end();
	test_end_names();
	test_end_race();
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		test_kvm();
	else
		skip("no /dev/kvm", "a vm with KVM");
	test_other_hosts();
	return done();
}
