// SPDX-License-Identifier: Apache-2.0
/*
 * vcpu.c - KVM_RUN and what to do when it returns.
 *
 * Each thread installs its filter, then unblocks the kick signal, then runs its vCPU until it is
 * told to stop or the machine has ended. The signal is blocked from before the thread exists until
 * its handler has a kvm_run to write to, so a kick is never lost and never finds nothing (hard
 * cases C1, C5). Exits go to the vm's buses, whose owners lock for themselves; whatever is not
 * understood ends the machine with the registers in the log (C23). Spec: KVM API, section 5
 * (kvm_run). Calls: vm.h, bus.h, arch.h, sandbox.h, window.h.
 */
#include "vcpu.h"
#include "arch.h"
#include "irq.h"
#include "log.h"
#include "sandbox.h"
#include "vm.h"
#include "window.h"
#include <assert.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

struct vcpu {
	struct vcpus *all; /* borrowed */
	unsigned id;
	int fd;
	struct kvm_run *run; /* shared with KVM; owned by the thread while it runs */
	pthread_t thread;
	bool started;          /* thread is valid; main's */
	unsigned windows_seen; /* window_repair()'s */
};

struct vcpus {
	struct vm *vm; /* borrowed */
	size_t run_size;
	bool stop; /* atomic; set before the kick */
	unsigned n;
	struct vcpu v[];
};

/* Beyond the common list and irq_syscalls. Most come from devices whose registers the guest writes. */
static const struct syscall_rule vcpu_rules[] = {
	SYSCALL_IOCTL(KVM_RUN, "run the guest"),
	SYSCALL_IOCTL(KVM_GET_REGS, "show the registers after a fatal exit"),
	SYSCALL_IOCTL(KVM_GET_SREGS, "show the registers after a fatal exit"),
	SYSCALL_IOCTL(KVM_SET_GSI_ROUTING, "the guest wrote an MSI-X entry"),
	SYSCALL_IOCTL(KVM_IRQFD, "the guest wrote an MSI-X entry for the first time"),
	SYSCALL_IOCTL(KVM_IOEVENTFD, "the guest moved a BAR, enabled or reset a device"),
	SYSCALL_IOCTL(KVM_SET_USER_MEMORY_REGION, "the guest moved a BAR that is a window"),
};
static const struct syscalls vcpu_syscalls = {.rules = vcpu_rules, .n = ARRAY_LEN(vcpu_rules)};

/* A signal handler gets no argument that names its thread's vCPU; this is the only way to it. */
static __thread struct kvm_run *kick_run;

static void kick_handler(int sig)
{
	(void)sig;
	/* Sent from outside to a thread that has no vCPU: it means nothing. */
	if (!kick_run)
		return;
	/* Partner: KVM reads it on entry, in this very thread: a kick that lands just before
	 * KVM_RUN still counts. */
	__atomic_store_n(&kick_run->immediate_exit, 1, __ATOMIC_RELAXED);
}

/*
 * Looks at vm->end itself: vm_get_end() still says running while the detail is being written, and a
 * vCPU whose exit came second must not enter the guest in that moment either (hard case C3).
 */
static bool should_run(const struct vcpu *v)
{
	return !__atomic_load_n(&v->all->stop, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&v->all->vm->end, __ATOMIC_ACQUIRE) == VM_RUNNING;
}

/* The last access is only committed by the next KVM_RUN, which then must not go on (hard case C2). */
static void complete_access(const struct vcpu *v)
{
	__atomic_store_n(&v->run->immediate_exit, 1, __ATOMIC_RELAXED);
	ioctl(v->fd, KVM_RUN, 0);
}

printf_like(3, 4) static void end_with_dump(const struct vcpu *v, enum vm_end end, const char *fmt,
					    ...)
{
	char detail[sizeof(v->all->vm->end_detail)];
	int n = snprintf(detail, sizeof(detail), "vcpu%u: ", v->id);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail + n, sizeof(detail) - (size_t)n, fmt, ap);
	va_end(ap);
	/* Once: a vCPU that fails after the machine has ended adds nothing. The reason is said by who reads the end. */
	if (should_run(v)) {
		complete_access(v);
		arch_vcpu_dump(v->fd, v->id);
	}
	vm_set_end(v->all->vm, end, detail);
}

/* String instructions come as one exit with many elements (hard case C24). */
static void handle_io(const struct vcpu *v)
{
	struct kvm_run *run = v->run;
	uint8_t *data = (uint8_t *)run + run->io.data_offset;
	struct bus *bus = &v->all->vm->pio;

	for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
		if (run->io.direction == KVM_EXIT_IO_OUT)
			bus_write(bus, run->io.port, data, run->io.size);
		else
			bus_read(bus, run->io.port, data, run->io.size);
	}
}

static void handle_mmio(const struct vcpu *v)
{
	struct kvm_run *run = v->run;
	struct bus *bus = &v->all->vm->mmio;

	if (run->mmio.is_write)
		bus_write(bus, run->mmio.phys_addr, run->mmio.data, run->mmio.len);
	else
		bus_read(bus, run->mmio.phys_addr, run->mmio.data, run->mmio.len);
}

static void handle_system_event(const struct vcpu *v)
{
	struct vm *vm = v->all->vm;

	switch (v->run->system_event.type) {
	case KVM_SYSTEM_EVENT_SHUTDOWN:
		vm_set_end(vm, VM_POWEROFF, "system event: shutdown");
		return;
	case KVM_SYSTEM_EVENT_RESET:
		vm_set_end(vm, VM_RESET, "system event: reset");
		return;
	case KVM_SYSTEM_EVENT_CRASH:
		vm_set_end(vm, VM_PANIC, "system event: crash");
		return;
	}
	end_with_dump(v, VM_ERROR, "unknown system event %u", v->run->system_event.type);
}

static void handle_exit(const struct vcpu *v)
{
	const struct kvm_run *run = v->run;

	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		handle_io(v);
		return;
	case KVM_EXIT_MMIO:
		handle_mmio(v);
		return;
	case KVM_EXIT_INTR:
		return;
	case KVM_EXIT_SHUTDOWN:
		end_with_dump(v, VM_TRIPLE_FAULT, "triple fault");
		return;
	case KVM_EXIT_SYSTEM_EVENT:
		handle_system_event(v);
		return;
	case KVM_EXIT_FAIL_ENTRY:
		end_with_dump(v, VM_ERROR, "the processor refused to enter the guest (0x%llx)",
			      (unsigned long long)run->fail_entry.hardware_entry_failure_reason);
		return;
	case KVM_EXIT_INTERNAL_ERROR:
		end_with_dump(v, VM_ERROR, "KVM internal error %u", run->internal.suberror);
		return;
	}
	end_with_dump(v, VM_ERROR, "unexpected KVM exit %u", run->exit_reason);
}

/* What a window cannot mend: a write where the host's disk is full or the file is read-only, or where nothing is mapped. */
static void end_by_error(const struct vcpu *v, int error)
{
	bool window = error == EFAULT && v->all->vm->mem->windows;

	end_with_dump(v, VM_ERROR, "KVM_RUN: %s%s", strerror(error),
		      window ? " (DAX: nothing mapped, read-only, or the host's disk is full)"
			     : "");
}

static void run_once(struct vcpu *v)
{
	int error;

	/* Runs guest code until something needs us; the argument is unused. */
	if (ioctl(v->fd, KVM_RUN, 0) == 0) {
		handle_exit(v);
		return;
	}
	error = errno;
	if (error == EFAULT && window_repair(v->all->vm, &v->windows_seen))
		return;
	if (error != EINTR && error != EAGAIN) {
		end_by_error(v, error);
		return;
	}
	/*
	 * Kicked, or woken before its start-up interrupt. Cleared before should_run() looks: a kick
	 * after that sets it again, and one before it has left its reason to be seen.
	 */
	__atomic_store_n(&v->run->immediate_exit, 0, __ATOMIC_RELAXED);
}

static void kick_mask(int how, sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(how, &set, old);
}

static void *vcpu_thread(void *arg)
{
	const struct syscalls *const sets[] = {&vcpu_syscalls, &irq_syscalls};
	struct vcpu *v = arg;
	char name[16];

	kick_run = v->run;
	snprintf(name, sizeof(name), "vcpu%u", v->id);
	if (sandbox_enter(name, sets, ARRAY_LEN(sets))) {
		vm_set_end(v->all->vm, VM_ERROR, "no filter for a vCPU thread");
		return NULL;
	}
	kick_mask(SIG_UNBLOCK, NULL);
	while (should_run(v))
		run_once(v);
	return NULL;
}

/* What KVM offers must be asked, not tried: vCPUs beyond its limit fail half way. */
static int check_count(const struct vm *vm)
{
	int max = ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_MAX_VCPUS);

	if (max <= 0 || vm->ncpus <= (unsigned)max)
		return 0;
	log_err("vm: %u vCPUs: this host's KVM offers %d", vm->ncpus, max);
	return -EINVAL;
}

static int vcpu_init(struct vcpu *v, const struct arch_boot *boot)
{
	struct vm *vm = v->all->vm;
	void *run;

	v->fd = ioctl(vm->vm_fd, KVM_CREATE_VCPU, v->id);
	if (v->fd < 0) {
		log_err("vcpu%u: KVM_CREATE_VCPU (%s): %m", v->id,
			log_remedy(errno, "lower vcpu_count"));
		return -errno;
	}
	/* The page through which KVM tells why it came back. */
	run = mmap(NULL, v->all->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (run == MAP_FAILED) {
		log_err("vcpu%u: mmap of kvm_run: %m", v->id);
		return -errno;
	}
	v->run = run;
	return arch_vcpu_init(vm, v->fd, v->id, boot);
}

int vcpus_create(struct vcpus **out, struct vm *vm, const struct arch_boot *boot)
{
	struct vcpus *all;
	int r, size;

	assert(vm->vm_fd >= 0 && vm->ncpus > 0);
	r = check_count(vm);
	if (r)
		return r;
	size = ioctl(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(struct kvm_run)) {
		log_err("vcpu: KVM_GET_VCPU_MMAP_SIZE: %m");
		return -EINVAL;
	}
	all = calloc(1, sizeof(*all) + vm->ncpus * sizeof(all->v[0]));
	if (!all) {
		log_err("vcpu: out of memory");
		return -ENOMEM;
	}
	all->vm = vm;
	all->run_size = (size_t)size;
	for (; all->n < vm->ncpus; all->n++)
		all->v[all->n] = (struct vcpu){.all = all, .id = all->n, .fd = -1};
	for (unsigned i = 0; i < all->n; i++) {
		r = vcpu_init(&all->v[i], i == 0 ? boot : NULL);
		if (r)
			goto fail;
	}
	*out = all;
	return 0;
fail:
	vcpus_destroy(all);
	return r;
}

static int start_thread(struct vcpu *v)
{
	int r = pthread_create(&v->thread, NULL, vcpu_thread, v);

	if (r) {
		log_err("vcpu%u: no thread (%s): %s", v->id, log_remedy(r, "lower vcpu_count"),
			strerror(r));
		return -r;
	}
	v->started = true;
	return 0;
}

int vcpus_start(struct vcpus *all)
{
	/* Without SA_RESTART, so that a kick ends KVM_RUN and whatever call a device waits in. */
	struct sigaction sa = {.sa_handler = kick_handler};
	sigset_t old;
	int r = 0;

	sigemptyset(&sa.sa_mask);
	if (sigaction(SIGRTMIN, &sa, NULL) < 0) {
		log_err("vcpu: kick signal: %m");
		return -errno;
	}
	kick_mask(SIG_BLOCK, &old);
	for (unsigned i = 0; i < all->n && !r; i++)
		r = start_thread(&all->v[i]);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		vcpus_stop(all);
	return r;
}

/*
 * One kick is enough for a vCPU in the guest; one that is inside a device's register comes out when
 * the device is done. It is named when that takes long, and kicked again, since the device may sit
 * in a call the kick interrupts.
 */
static void join(struct vcpu *v)
{
	struct timespec until;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		if (pthread_timedjoin_np(v->thread, NULL, &until) == 0)
			break;
		log_warn("vcpu%u: has not stopped for a second: in a device's register", v->id);
		pthread_kill(v->thread, SIGRTMIN);
	}
	v->started = false;
}

void vcpus_stop(struct vcpus *all)
{
	__atomic_store_n(&all->stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < all->n; i++)
		if (all->v[i].started)
			pthread_kill(all->v[i].thread, SIGRTMIN);
	for (unsigned i = 0; i < all->n; i++)
		if (all->v[i].started)
			join(&all->v[i]);
}

void vcpus_destroy(struct vcpus *all)
{
	if (!all)
		return;
	vcpus_stop(all);
	for (unsigned i = 0; i < all->n; i++) {
		if (all->v[i].run)
			munmap(all->v[i].run, all->run_size);
		close_fd(&all->v[i].fd);
	}
	free(all);
}
