// SPDX-License-Identifier: Apache-2.0
/*
 * vm.h - struct vm: the KVM descriptors, RAM, buses, address and interrupt allocators, and how a machine ends.
 *
 * Devices get a struct vm and nothing else of the machine. vm_create() makes a real one; vm_create_bare() makes one
 * without KVM (descriptors -1) on which all of this works too, for unit tests and fuzzers: doorbells and interrupts
 * are then plain eventfds.
 */
#ifndef VMM_VM_H
#define VMM_VM_H

#include "base.h"
#include "bus.h"
#include "irq.h"
#include "mem.h"

/*
 * A device the guest cannot discover by itself: one ACPI node (or FDT node) each, emitted in the order of addresses
 * (hard case B15). hid is an ACPI _HID: "PNP0501" 16550, "PNP0B00" RTC, "PNP0303" keyboard, "LNRO0005" virtio-mmio,
 * "QEMU0001" pvpanic.
 */
struct vm_platform {
	const char *hid; /* static string */
	uint64_t base, len;
	bool is_pio;
	uint64_t
		port2; /* is_pio: a second range, one byte (the keyboard controller's command port); 0: none */
	int gsi; /* -1: none */
	bool level;
};
#define VM_PLATFORM_MAX 64

/* How a machine ends; the first one to say so wins. */
enum vm_end {
	VM_RUNNING,
	VM_POWEROFF,     /* ACPI S5 */
	VM_RESET,        /* reset register, i8042 pulse, port 0xcf9 */
	VM_TRIPLE_FAULT, /* KVM_EXIT_SHUTDOWN */
	VM_PANIC,        /* pvpanic */
	VM_USER,         /* escape sequence on the terminal, or a signal */
	VM_TIMEOUT,
	VM_ERROR, /* KVM_RUN failed, internal error, unknown exit */
};

#define VM_GSI_PINS   24
#define VM_MSI_ROUTES 1024

struct irq_table; /* irq.c */

struct vm {
	int kvm_fd, vm_fd; /* -1 without KVM */
	struct mem *mem;
	struct bus mmio, pio;

	unsigned ncpus;
	const char *cpu_mask; /* see vm_params */

	struct vm_platform platform[VM_PLATFORM_MAX];
	unsigned nplatform;

	bool has_pci;        /* describe the host bridge, MCFG and _PRT */
	int16_t pci_gsi[32]; /* GSI of each slot's INTA, for the boot tables; -1: none */

	uint64_t mmio_next; /* next virtio-mmio window */
	struct irq_table *irqs;

	int end_fd; /* eventfd: readable once the machine has ended */
	int end;    /* enum vm_end; atomic; negative while end_detail is being written */
	char end_detail[128];
};

struct vm_params {
	uint64_t mem_size;
	enum mem_pages pages;
	unsigned ncpus;
	/*
	 * CPU features to hide from the guest, as /proc/cpuinfo names them, separated by commas; NULL: none. Borrowed
	 * until vcpus_create() has returned, which refuses names it does not know.
	 */
	const char *cpu_mask;
};

/* 0 or -errno; every failure is logged with its remedy (no /dev/kvm, no right to open it, module not loaded). */
int vm_create(struct vm **out, const struct vm_params *) must_check;
int vm_create_bare(struct vm **out, const struct vm_params *) must_check;
/* After the vCPUs and all device threads have ended. */
void vm_destroy(struct vm *);

/*
 * A guest write of len bytes (0: any) to addr on the bus becomes an eventfd signal without an exit. Nothing without
 * KVM, where the write reaches the range's owner, who must signal fd himself (as he must when KVM lets one through).
 */
int vm_doorbell_add(struct vm *, uint64_t addr, unsigned len, int fd) must_check;
void vm_doorbell_del(struct vm *, uint64_t addr, unsigned len, int fd);
/* The same for a write of four bytes with this value only. */
int vm_doorbell_add_value(struct vm *, uint64_t addr, uint32_t value, int fd) must_check;
void vm_doorbell_del_value(struct vm *, uint64_t addr, uint32_t value, int fd);

/* Tells the boot tables of a device. -ENOSPC. Before the vCPUs start. */
int vm_platform_add(struct vm *, const struct vm_platform *) must_check;
/* A window of len bytes (4 KiB aligned) below 4 GiB for a platform device. -ENOSPC. */
int vm_mmio_alloc(struct vm *, uint64_t len, uint64_t *base) must_check;

/*
 * Ends the machine. Any thread; only the first call counts. detail (may be NULL) is copied before vm_get_end() changes
 * and end_fd becomes readable. Never blocks.
 */
void vm_set_end(struct vm *, enum vm_end, const char *detail);
enum vm_end vm_get_end(const struct vm *);
const char *vm_end_name(enum vm_end);

#endif
