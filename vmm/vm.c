// SPDX-License-Identifier: Apache-2.0
/*
 * vm.c - struct vm: made, shared out, ended.
 *
 * A bare vm is everything that needs no KVM; vm_create() adds the descriptors, the memory slots and
 * the in-kernel chips, in the order KVM wants them before the first vCPU (hard case C6). The end of
 * a machine is decided once, by a compare-and-swap, and told through an eventfd. Threads: create
 * and destroy on main; allocators before the vCPUs start; doorbells and vm_set_end() on any. Spec:
 * KVM API. Calls: mem.h, bus.h, irq.h, arch.h.
 */
#include "vm.h"
#include "arch.h"
#include "log.h"
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#define ENDING (-1) /* vm->end while the winner writes end_detail */

static const struct {
	int cap;
	const char *name;
} needed_caps[] = {
	{KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY"},
	{KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP"},
	{KVM_CAP_IRQ_ROUTING, "KVM_CAP_IRQ_ROUTING"},
	{KVM_CAP_IRQFD, "KVM_CAP_IRQFD"},
	{KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD"},
	{KVM_CAP_IOEVENTFD_ANY_LENGTH, "KVM_CAP_IOEVENTFD_ANY_LENGTH"},
	{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT"},
};

int vm_create_bare(struct vm **out, const struct vm_params *p)
{
	struct vm *vm = calloc(1, sizeof(*vm));
	int r = -ENOMEM;

	if (!vm) {
		log_err("vm: out of memory");
		return r;
	}
	vm->kvm_fd = vm->vm_fd = vm->end_fd = -1;
	vm->ncpus = p->ncpus;
	vm->cpu_mask = p->cpu_mask;
	vm->mmio_next = ARCH_MMIO_BASE;
	for (unsigned i = 0; i < ARRAY_LEN(vm->pci_gsi); i++)
		vm->pci_gsi[i] = -1;
	bus_init(&vm->mmio, "mmio");
	bus_init(&vm->pio, "pio");

	r = irq_table_create(vm);
	if (r)
		goto fail;
	r = mem_create(&vm->mem, p->mem_size, p->pages);
	if (r)
		goto fail;
	vm->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vm->end_fd < 0) {
		r = -errno;
		log_err("vm: eventfd (%s): %m",
			log_remedy(errno, "does the host's kernel have it?"));
		goto fail;
	}
	*out = vm;
	return 0;
fail:
	vm_destroy(vm);
	return r;
}

#define NOT_KVM "it is not KVM's device: remove it and load kvm_intel or kvm_amd"

/* The reason and the remedy, for what goes wrong on most hosts. */
static int kvm_open(int *out)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		*out = fd;
		return 0;
	}
	switch (errno) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		log_err("no /dev/kvm: load kvm_intel or kvm_amd, or run on a host with "
			"virtualization");
		return -ENOENT;
	case EACCES:
	case EPERM:
		log_err("/dev/kvm: no right to open it: add this user to its group (usermod -aG "
			"kvm NAME, then log in again)");
		return -EACCES;
	}
	log_err("/dev/kvm (%s): %m", log_remedy(errno, NOT_KVM));
	return -errno;
}

static int kvm_check(int kvm_fd)
{
	int version = ioctl(kvm_fd, KVM_GET_API_VERSION, 0);

	if (version < 0) {
		log_err("/dev/kvm: %s: %m", NOT_KVM);
		return -ENOTSUP;
	}
	if (version != KVM_API_VERSION) {
		log_err("/dev/kvm: API version %d, not %d: a current kernel is needed", version,
			KVM_API_VERSION);
		return -ENOTSUP;
	}
	for (unsigned i = 0; i < ARRAY_LEN(needed_caps); i++) {
		if (ioctl(kvm_fd, KVM_CHECK_EXTENSION, needed_caps[i].cap) > 0)
			continue;
		log_err("/dev/kvm: lacks %s: a kernel of 4.13 or later is needed",
			needed_caps[i].name);
		return -ENOTSUP;
	}
	return 0;
}

static int kvm_create_vm(int kvm_fd, int *out)
{
	int fd;

	/* On a loaded host a pending signal interrupts the making of the memory notifier (hard case
	 * C6). */
	do
		fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	while (fd < 0 && errno == EINTR);
	if (fd >= 0) {
		*out = fd;
		return 0;
	}
	if (errno == EBUSY)
		log_err("/dev/kvm: the processor's virtualization is in use by another hypervisor: "
			"stop it");
	else
		log_err("/dev/kvm: KVM_CREATE_VM (%s): %m",
			log_remedy(errno, "the host's dmesg may say why"));
	return -errno;
}

static int kvm_add_ram(const struct vm *vm)
{
	for (unsigned i = 0; i < vm->mem->nregions; i++) {
		const struct mem_region *m = &vm->mem->region[i];
		struct kvm_userspace_memory_region slot = {
			.slot = i,
			.guest_phys_addr = m->base,
			.memory_size = m->len,
			.userspace_addr = (uintptr_t)m->host,
		};

		/* From here on the guest reaches this part of our address space. */
		if (ioctl(vm->vm_fd, KVM_SET_USER_MEMORY_REGION, &slot) < 0) {
			log_err("vm: RAM at 0x%llx, %llu MiB: %m", (unsigned long long)m->base,
				(unsigned long long)(m->len >> 20));
			return -errno;
		}
	}
	return 0;
}

int vm_create(struct vm **out, const struct vm_params *p)
{
	struct vm *vm;
	int r = vm_create_bare(&vm, p);

	if (r)
		return r;
	r = kvm_open(&vm->kvm_fd);
	if (r)
		goto fail;
	r = kvm_check(vm->kvm_fd);
	if (r)
		goto fail;
	r = kvm_create_vm(vm->kvm_fd, &vm->vm_fd);
	if (r)
		goto fail;
	r = kvm_add_ram(vm);
	if (r)
		goto fail;
	r = arch_vm_init(vm);
	if (r)
		goto fail;
	*out = vm;
	return 0;
fail:
	vm_destroy(vm);
	return r;
}

void vm_destroy(struct vm *vm)
{
	if (!vm)
		return;
	/* The descriptors go first: KVM must not look at RAM that is being unmapped (hard case C4). */
	close_fd(&vm->vm_fd);
	close_fd(&vm->kvm_fd);
	close_fd(&vm->end_fd);
	irq_table_destroy(vm);
	mem_destroy(vm->mem);
	bus_fini(&vm->pio);
	bus_fini(&vm->mmio);
	free(vm);
}

static int doorbell_ioctl(const struct vm *vm, struct kvm_ioeventfd arg)
{
	if (vm->vm_fd < 0)
		return 0;
	return ioctl(vm->vm_fd, KVM_IOEVENTFD, &arg) < 0 ? -errno : 0;
}

/* -ENOENT for one that was never added, which is as good as gone. */
static void doorbell_del(const struct vm *vm, struct kvm_ioeventfd arg)
{
	arg.flags |= KVM_IOEVENTFD_FLAG_DEASSIGN;
	doorbell_ioctl(vm, arg);
}

static struct kvm_ioeventfd doorbell(uint64_t addr, unsigned len, int fd)
{
	return (struct kvm_ioeventfd){.addr = addr, .len = len, .fd = fd};
}

static struct kvm_ioeventfd doorbell_value(uint64_t addr, uint32_t value, int fd)
{
	return (struct kvm_ioeventfd){.addr = addr,
				      .len = sizeof(value),
				      .fd = fd,
				      .datamatch = value,
				      .flags = KVM_IOEVENTFD_FLAG_DATAMATCH};
}

int vm_doorbell_add(struct vm *vm, uint64_t addr, unsigned len, int fd)
{
	return doorbell_ioctl(vm, doorbell(addr, len, fd));
}

void vm_doorbell_del(struct vm *vm, uint64_t addr, unsigned len, int fd)
{
	doorbell_del(vm, doorbell(addr, len, fd));
}

int vm_doorbell_add_value(struct vm *vm, uint64_t addr, uint32_t value, int fd)
{
	return doorbell_ioctl(vm, doorbell_value(addr, value, fd));
}

void vm_doorbell_del_value(struct vm *vm, uint64_t addr, uint32_t value, int fd)
{
	doorbell_del(vm, doorbell_value(addr, value, fd));
}

int vm_platform_add(struct vm *vm, const struct vm_platform *p)
{
	if (vm->nplatform == VM_PLATFORM_MAX)
		return -ENOSPC;
	vm->platform[vm->nplatform++] = *p;
	return 0;
}

int vm_mmio_alloc(struct vm *vm, uint64_t len, uint64_t *base)
{
	uint64_t room = ARCH_MMIO_BASE + ARCH_MMIO_SIZE - vm->mmio_next;

	/* room is a multiple of 4 KiB, so what fits it still does when rounded up. */
	if (!len || len > room)
		return -ENOSPC;
	*base = vm->mmio_next;
	vm->mmio_next += ALIGN_UP(len, KIB(4));
	return 0;
}

void vm_set_end(struct vm *vm, enum vm_end end, const char *detail)
{
	int running = VM_RUNNING;

	if (!__atomic_compare_exchange_n(&vm->end, &running, ENDING, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	snprintf(vm->end_detail, sizeof(vm->end_detail), "%s", detail ? detail : "");
	/* Partner: the acquire in vm_get_end(); who sees the end sees its detail. */
	__atomic_store_n(&vm->end, end, __ATOMIC_RELEASE);
	eventfd_write(vm->end_fd, 1);
}

enum vm_end vm_get_end(const struct vm *vm)
{
	int end = __atomic_load_n(&vm->end, __ATOMIC_ACQUIRE);

	return end == ENDING ? VM_RUNNING : (enum vm_end)end;
}

const char *vm_end_name(enum vm_end end)
{
	static const char *const names[] = {
		[VM_RUNNING] = "running",    [VM_POWEROFF] = "power-off",
		[VM_RESET] = "reset",        [VM_TRIPLE_FAULT] = "triple fault",
		[VM_PANIC] = "guest panic",  [VM_USER] = "ended by the user",
		[VM_TIMEOUT] = "time limit", [VM_ERROR] = "error",
	};

	return (unsigned)end < ARRAY_LEN(names) ? names[end] : "unknown";
}
