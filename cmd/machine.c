// SPDX-License-Identifier: Apache-2.0
/*
 * machine.c - the recipe: from the typed model to a running machine, and back to nothing.
 *
 * Read machine_create() and machine_start() from top to bottom: that is the order in which a machine comes to be.
 * Only this file knows both the vmm/ and the devices/ side.
 */
#include "machine.h"
#include "cmdline.h"
#include "../devices/pci.h"
#include "../devices/virtio.h"
#include "../vmm/boot.h"
#include "../vmm/log.h"
#include "../vmm/sandbox.h"
#include "../vmm/vcpu.h"
#include "../vmm/window.h"
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

struct machine {
	struct vm *vm;
	struct pci_host *pci;
	struct device *devices, **last; /* in boot order */
	struct vcpus *vcpus;
	struct arch_boot boot;
	int signal_fd;
};

/* ---- making ---- */

/* How many descriptors there is room for from the start; 64 KiB of the kernel's memory. */
#define FDS_AT_ONCE 8192

/*
 * Inodes and files of the shares are descriptors: take what the administrator allows (hard case D55). The kernel makes
 * the table of a process with threads larger only when all CPUs have seen the old one, some 10 ms each time it
 * doubles; as long as there is one thread that costs nothing.
 */
static void raise_limits(void)
{
	struct rlimit r;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)MIN(r.rlim_cur, (rlim_t)FDS_AT_ONCE) - 1);
	if (fd >= 0)
		close(fd);
	/* A guest's write past RLIMIT_FSIZE is an error of that request, not a signal that ends us (D61). */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* What nohup and the like have us ignore stays ignored. */
static void add_unless_ignored(sigset_t *set, int sig)
{
	struct sigaction old;

	if (!sigaction(sig, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaddset(set, sig);
}

static sigset_t end_signal_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < ARRAY_LEN(end_signals); i++)
		add_unless_ignored(&set, end_signals[i]);
	return set;
}

/*
 * From here on these signals are read by machine_wait(), whatever thread they were sent to. SIGUSR1 does not end the
 * machine: its devices look at the host's side again.
 */
static int block_signals(struct machine *m)
{
	sigset_t set = end_signal_set();

	add_unless_ignored(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	m->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signal_fd >= 0)
		return 0;
	log_err("signals: %m (raise ulimit -n)");
	return -errno;
}

void machine_die_on_signal(void (*handler)(int))
{
	struct sigaction once = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
	sigset_t set = end_signal_set();

	for (unsigned i = 0; i < ARRAY_LEN(end_signals); i++)
		if (sigismember(&set, end_signals[i]))
			sigaction(end_signals[i], &once, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int open_image(const char *path, const char *what)
{
	/* Not held up by a fifo without a writer; boot_load() then refuses it. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		log_err("%s %s: %m: name a file that this user may read", what, path);
		return -errno;
	}
	return fd;
}

static int add_device(struct machine *m, const struct device_type *type, const void *cfg)
{
	unsigned index = 0;
	int r;

	for (struct device *d = m->devices; d; d = d->next)
		index += d->type == type;
	r = type->create(m->vm, cfg, index, m->last);
	if (!r)
		m->last = &(*m->last)->next;
	return r;
}

/* Platform devices are in every machine: what the file does not name is made from its defaults. */
static int add_platform(struct machine *m, const struct config *c, const struct device_type *type)
{
	auto_free void *cfg = NULL;
	int r;

	for (unsigned i = 0; i < c->ndev; i++)
		if (c->dev[i].type == type)
			return add_device(m, type, c->dev[i].cfg);
	cfg = calloc(1, MAX(type->opts.size, (size_t)1));
	if (!cfg)
		return -ENOMEM;
	r = opt_defaults(&type->opts, cfg);
	if (!r)
		r = add_device(m, type, cfg);
	opt_fini(&type->opts, cfg);
	return r;
}

/* Registry order, and within a type the order given: names and slots follow from it (hard case B15). */
static int add_devices(struct machine *m, const struct config *c)
{
	for (unsigned t = 0; device_types[t]; t++) {
		int r = 0;

		if (device_types[t]->class == DEVICE_PLATFORM)
			r = add_platform(m, c, device_types[t]);
		for (unsigned i = 0; i < c->ndev && !r; i++)
			if (c->dev[i].type == device_types[t] &&
			    device_types[t]->class != DEVICE_PLATFORM)
				r = add_device(m, c->dev[i].type, c->dev[i].cfg);
		if (r)
			return r;
	}
	return 0;
}

static struct virtio_dev *virtio_of(struct device *d)
{
	return d->type->class == DEVICE_VIRTIO ? container_of(d, struct virtio_dev, base) : NULL;
}

static int attach_devices(struct machine *m, int transport)
{
	if (transport == TRANSPORT_PCI) {
		int r = pci_host_create(&m->pci, m->vm);

		if (r)
			return r;
	}
	for (struct device *d = m->devices; d; d = d->next) {
		struct virtio_dev *v = virtio_of(d);
		int r = 0;

		if (!v)
			continue;
		r = virtio_attach(v, m->vm);
		if (!r)
			r = m->pci ? virtio_pci_create(v, m->vm, m->pci)
				   : virtio_mmio_create(v, m->vm);
		if (r)
			return r;
	}
	return 0;
}

static int load_kernel(struct machine *m, const struct config *c, int transport, int kernel,
		       int initrd)
{
	char cmdline[sizeof(m->boot.cmdline)];
	struct boot_files files = {.kernel_fd = kernel,
				   .initrd_fd = initrd,
				   .kernel_path = c->boot.kernel_image_path,
				   .initrd_path = c->boot.initrd_path,
				   .cmdline = cmdline};
	int r = cmdline_build(c, m->vm, transport == TRANSPORT_MMIO, cmdline, sizeof(cmdline));

	return r ? r : boot_load(m->vm->mem, &files, &m->boot);
}

static const enum mem_pages pages_of[] = {[PAGES_TRANSPARENT] = MEM_PAGES_THP,
					  [PAGES_NONE] = MEM_PAGES_SMALL,
					  [PAGES_2M] = MEM_PAGES_HUGETLB_2M};

int machine_create(struct machine **out, const struct config *c)
{
	struct vm_params params = {.mem_size = MIB(c->machine.mem_size_mib),
				   .pages = pages_of[c->machine.huge_pages],
				   .ncpus = c->machine.vcpu_count,
				   .cpu_mask = c->machine.cpu_mask};
	int transport = cmdline_transport(c), r = -ENOMEM;
	auto_fd kernel = -1;
	auto_fd initrd = -1;
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		return r;
	m->last = &m->devices;
	m->signal_fd = -1;
	raise_limits();
	r = kernel = open_image(c->boot.kernel_image_path, "kernel");
	if (r < 0)
		goto fail;
	if (c->boot.initrd_path) {
		r = initrd = open_image(c->boot.initrd_path, "initrd");
		if (r < 0)
			goto fail;
	}
	r = block_signals(m);
	if (r)
		goto fail;
	r = vm_create(&m->vm, &params);
	if (r)
		goto fail;
	r = arch_platform_init(m->vm);
	if (r)
		goto fail;
	r = add_devices(m, c);
	if (r)
		goto fail;
	r = attach_devices(m, transport);
	if (r)
		goto fail;
	r = load_kernel(m, c, transport, kernel, initrd);
	if (r)
		goto fail;
	r = arch_boot_write(m->vm, &m->boot);
	if (r)
		goto fail;
	r = vcpus_create(&m->vcpus, m->vm, &m->boot);
	if (r)
		goto fail;
	*out = m;
	return 0;
fail:
	machine_destroy(m);
	return r;
}

/* ---- running ---- */

#define RULE(name, reason)                      \
	{                                       \
		.nr = SYS_##name, .why = reason \
	}
static const struct syscall_rule main_rules[] = {
	RULE(poll, "waiting for the end of the machine"),
	RULE(timerfd_create, "the time limit"),
	RULE(timerfd_settime, "the time limit"),
	RULE(setitimer, "a bound on the tear-down"),
	RULE(fstat, "stdio at exit"),
	RULE(newfstatat, "stdio at exit"),
	RULE(rt_sigaction, "a second request to end is taken at its word"),
	RULE(lseek, "how large a disk is now"),
	{.nr = SYS_fcntl,
	 .why = "a disk's lock is given up at the end",
	 .masked = true,
	 .arg = 1,
	 .mask = UINT32_MAX,
	 .value = F_OFD_SETLK},
	SYSCALL_IOCTL(KVM_IRQFD, "interrupts are taken apart at the end"),
	SYSCALL_IOCTL(KVM_IOEVENTFD, "doorbells are taken apart at the end"),
	SYSCALL_IOCTL(KVM_SET_GSI_ROUTING, "interrupt routes are taken apart at the end"),
	SYSCALL_IOCTL(KVM_IRQ_LINE, "a pin is lowered at the end"),
	SYSCALL_IOCTL(KVM_SET_USER_MEMORY_REGION, "windows are taken away at the end"),
};
static const struct syscalls main_syscalls = {main_rules, ARRAY_LEN(main_rules)};

int machine_start(struct machine *m)
{
	const struct syscalls *sets[] = {&main_syscalls};
	int r = window_init(); /* over the terminal's handlers, which get what is not ours */

	if (r)
		return r;
	for (struct device *d = m->devices; d; d = d->next) {
		struct virtio_dev *v = virtio_of(d);

		if (v)
			r = virtio_run(v);
		else if (d->run)
			r = d->run(d);
		if (r)
			return r;
	}
	r = vcpus_start(m->vcpus);
	if (r)
		return r;
	/* Last: a filter is inherited by threads made after it. */
	return sandbox_enter("wherry", sets, ARRAY_LEN(sets));
}

/* One that cannot (it has said why) does not keep the others from it. */
static void refresh_devices(struct machine *m)
{
	for (struct device *d = m->devices; d; d = d->next)
		if (d->refresh)
			(void)d->refresh(d);
}

static void read_signal(struct machine *m, struct machine_end *end)
{
	struct signalfd_siginfo info;

	if (read(m->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		refresh_devices(m);
	} else {
		end->signal = (int)info.ssi_signo;
		vm_set_end(m->vm, VM_USER, strsignal(end->signal));
	}
}

void machine_wait(struct machine *m, unsigned timeout_s, struct machine_end *end)
{
	auto_fd timer = timeout_s ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC) : -1;
	struct pollfd p[] = {{.fd = m->vm->end_fd, .events = POLLIN},
			     {.fd = m->signal_fd, .events = POLLIN},
			     {.fd = timer, .events = POLLIN}};

	*end = (struct machine_end){0};
	if (timeout_s)
		timerfd_settime(timer, 0, &(struct itimerspec){.it_value.tv_sec = timeout_s}, NULL);
	while (vm_get_end(m->vm) == VM_RUNNING) {
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			vm_set_end(m->vm, VM_ERROR, "waiting for the machine failed");
		if (p[1].revents)
			read_signal(m, end);
		if (p[2].revents)
			vm_set_end(m->vm, VM_TIMEOUT, NULL);
	}
	end->why = vm_get_end(m->vm);
	snprintf(end->detail, sizeof(end->detail), "%s", m->vm->end_detail);
}

void machine_destroy(struct machine *m)
{
	if (!m)
		return;
	if (m->vcpus)
		vcpus_stop(m->vcpus);
	/* Guest RAM is unmapped only after the last thread that could touch it is gone (hard case C4). */
	for (struct device *d = m->devices; d; d = d->next)
		if (virtio_of(d))
			virtio_detach(virtio_of(d));
	for (struct device *d = m->devices, *next; d; d = next) {
		next = d->next;
		d->destroy(d);
	}
	pci_host_destroy(m->pci);
	vcpus_destroy(m->vcpus);
	vm_destroy(m->vm);
	close_fd(&m->signal_fd);
	free(m);
}
