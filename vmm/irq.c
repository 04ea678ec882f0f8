// SPDX-License-Identifier: Apache-2.0
/*
 * irq.c - eventfds that become interrupts, and the one table that says which.
 *
 * GSI 0..23 are wired to the PIC and the IOAPIC as KVM wires them by itself (GSI n is pin n, the
 * timer on 0); MSI routes take GSI 24 and up. KVM replaces its whole table at each change, so every
 * change is made here, under one lock. An irqfd is assigned once its route exists and de-assigned
 * before its GSI is given back (hard cases B5, B6); a new address for the same vector only replaces
 * the route, so that no interrupt is lost on the way (B4). Threads: any. Spec: KVM API,
 * KVM_SET_GSI_ROUTING, KVM_IRQFD, KVM_IRQ_LINE. Calls: sandbox.h for the filter's row.
 */
#include "irq.h"
#include "log.h"
#include "sandbox.h"
#include "vm.h"
#include <assert.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define PIC_PINS   16
#define PIN_ROUTES (PIC_PINS + VM_GSI_PINS)

struct msi_route {
	bool taken, routed;
	uint64_t address;
	uint32_t data;
};

struct irq_table {
	pthread_mutex_t
		lock;  /* protects all below and the order of KVM_SET_GSI_ROUTING; innermost */
	uint32_t pins; /* handed out by irq_gsi_alloc() */
	struct msi_route msi[VM_MSI_ROUTES];
	struct kvm_irq_routing *kvm; /* the pins' routes, then room for all MSI routes */
};

static const struct syscall_rule irq_rules[] = {
	SYSCALL_IOCTL(KVM_IRQ_LINE, "raise and lower a level-triggered pin"),
};
const struct syscalls irq_syscalls = {.rules = irq_rules, .n = ARRAY_LEN(irq_rules)};

static struct kvm_irq_routing_entry route_pin(uint32_t gsi, uint32_t chip, uint32_t pin)
{
	return (struct kvm_irq_routing_entry){
		.gsi = gsi,
		.type = KVM_IRQ_ROUTING_IRQCHIP,
		.u.irqchip = {.irqchip = chip, .pin = pin},
	};
}

/* What KVM_CREATE_IRQCHIP sets up too; our table has to repeat it because it replaces KVM's. */
static void table_fill_pins(struct kvm_irq_routing *kvm)
{
	for (uint32_t i = 0; i < VM_GSI_PINS; i++)
		kvm->entries[kvm->nr++] = route_pin(i, KVM_IRQCHIP_IOAPIC, i);
	for (uint32_t i = 0; i < PIC_PINS; i++)
		kvm->entries[kvm->nr++] =
			route_pin(i, i < 8 ? KVM_IRQCHIP_PIC_MASTER : KVM_IRQCHIP_PIC_SLAVE, i % 8);
}

int irq_table_create(struct vm *vm)
{
	struct irq_table *t = calloc(1, sizeof(*t));

	if (!t)
		goto fail;
	vm->irqs = t;
	pthread_mutex_init(&t->lock, NULL);
	t->kvm = calloc(1, sizeof(*t->kvm) +
				   (PIN_ROUTES + VM_MSI_ROUTES) * sizeof(t->kvm->entries[0]));
	if (!t->kvm)
		goto fail;
	table_fill_pins(t->kvm);
	return 0;
fail:
	log_err("vm: interrupt table: out of memory");
	irq_table_destroy(vm);
	return -ENOMEM;
}

void irq_table_destroy(struct vm *vm)
{
	struct irq_table *t = vm->irqs;

	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t->kvm);
	free(t);
	vm->irqs = NULL;
}

/* Gives KVM the whole table. The caller holds the lock. */
static int table_publish(struct vm *vm)
{
	struct irq_table *t = vm->irqs;

	if (vm->vm_fd < 0)
		return 0;
	t->kvm->nr = PIN_ROUTES;
	for (uint32_t i = 0; i < VM_MSI_ROUTES; i++) {
		const struct msi_route *m = &t->msi[i];

		if (!m->routed)
			continue;
		t->kvm->entries[t->kvm->nr++] = (struct kvm_irq_routing_entry){
			.gsi = VM_GSI_PINS + i,
			.type = KVM_IRQ_ROUTING_MSI,
			.u.msi = {.address_lo = (uint32_t)m->address,
				  .address_hi = (uint32_t)(m->address >> 32),
				  .data = m->data},
		};
	}
	/* Takes effect at once, also for irqfds that are assigned. */
	return ioctl(vm->vm_fd, KVM_SET_GSI_ROUTING, t->kvm) < 0 ? -errno : 0;
}

static int irqfd_attach(struct irq *irq)
{
	struct kvm_irqfd arg = {.fd = (uint32_t)irq->fd, .gsi = irq->gsi};

	if (irq->vm->vm_fd < 0 || irq->attached)
		return 0;
	/* From here on KVM turns each write to the eventfd into the interrupt, without us. */
	if (ioctl(irq->vm->vm_fd, KVM_IRQFD, &arg) < 0)
		return -errno;
	irq->attached = true;
	return 0;
}

static void irqfd_detach(struct irq *irq)
{
	struct kvm_irqfd arg = {
		.fd = (uint32_t)irq->fd, .gsi = irq->gsi, .flags = KVM_IRQFD_FLAG_DEASSIGN};

	if (!irq->attached)
		return;
	/* Returns once no injection of this eventfd is on its way; it cannot fail for one that is
	 * assigned. */
	ioctl(irq->vm->vm_fd, KVM_IRQFD, &arg);
	irq->attached = false;
}

static int eventfd_create(int *out)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	*out = fd;
	return 0;
}

int irq_edge_init(struct irq *irq, struct vm *vm, uint32_t gsi)
{
	int r;

	*irq = IRQ_INIT;
	if (gsi >= VM_GSI_PINS)
		return -EINVAL;
	*irq = (struct irq){.vm = vm, .kind = IRQ_EDGE, .fd = -1, .gsi = gsi};
	r = eventfd_create(&irq->fd);
	if (!r)
		r = irqfd_attach(irq);
	if (r)
		irq_fini(irq);
	return r;
}

int irq_level_init(struct irq *irq, struct vm *vm, uint32_t gsi)
{
	int r;

	*irq = IRQ_INIT;
	if (gsi >= VM_GSI_PINS)
		return -EINVAL;
	*irq = (struct irq){.vm = vm, .kind = IRQ_LEVEL, .fd = -1, .gsi = gsi};
	if (vm->vm_fd >= 0)
		return 0;
	r = eventfd_create(&irq->fd);
	if (r)
		irq_fini(irq);
	return r;
}

/* The index of a free MSI route, now taken. */
static int msi_take(struct irq_table *t)
{
	int r = -ENOSPC;

	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < VM_MSI_ROUTES && r < 0; i++) {
		if (t->msi[i].taken)
			continue;
		t->msi[i].taken = true;
		r = i;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

int irq_msi_init(struct irq *irq, struct vm *vm)
{
	int r = msi_take(vm->irqs);

	*irq = IRQ_INIT;
	if (r < 0)
		return r;
	*irq = (struct irq){.vm = vm, .kind = IRQ_MSI, .fd = -1, .gsi = VM_GSI_PINS + (uint32_t)r};
	r = eventfd_create(&irq->fd);
	if (r)
		irq_fini(irq);
	return r;
}

/* The caller holds the lock. On failure the old route, if any, stays. */
static int msi_route_locked(struct irq *irq, uint64_t address, uint32_t data)
{
	struct msi_route *m = &irq->vm->irqs->msi[irq->gsi - VM_GSI_PINS];
	const struct msi_route old = *m;
	int r;

	if (irq->routed && m->address == address && m->data == data)
		return 0;
	*m = (struct msi_route){.taken = true, .routed = true, .address = address, .data = data};
	r = table_publish(irq->vm);
	if (r)
		*m = old;
	else
		r = irqfd_attach(irq);
	if (!r)
		/* Partner: irq_raise(). Who sees it writes to an eventfd that has its route. */
		__atomic_store_n(&irq->routed, true, __ATOMIC_RELEASE);
	return r;
}

int irq_msi_route(struct irq *irq, uint64_t address, uint32_t data)
{
	int r;

	assert(irq->kind == IRQ_MSI);
	pthread_mutex_lock(&irq->vm->irqs->lock);
	r = msi_route_locked(irq, address, data);
	pthread_mutex_unlock(&irq->vm->irqs->lock);
	return r;
}

void irq_fini(struct irq *irq)
{
	irqfd_detach(irq);
	if (irq->kind == IRQ_MSI) {
		struct irq_table *t = irq->vm->irqs;

		/* KVM keeps the old route until the next change; nothing can raise it any more. */
		pthread_mutex_lock(&t->lock);
		t->msi[irq->gsi - VM_GSI_PINS] = (struct msi_route){.taken = false};
		pthread_mutex_unlock(&t->lock);
	}
	close_fd(&irq->fd);
	*irq = IRQ_INIT;
}

void irq_raise(const struct irq *irq)
{
	/*
	 * An eventfd written before its irqfd is assigned fires at the assignment: an interrupt out
	 * of the blue. Acquire: partner of the release in msi_route_locked().
	 */
	if (irq->kind == IRQ_MSI && !__atomic_load_n(&irq->routed, __ATOMIC_ACQUIRE))
		return;
	/* Fails only when the count is at its maximum, and then the interrupt is pending anyway. */
	eventfd_write(irq->fd, 1);
}

void irq_set_level(const struct irq *irq, bool high)
{
	struct kvm_irq_level arg = {.irq = irq->gsi, .level = high};
	eventfd_t drained;

	assert(irq->kind == IRQ_LEVEL);
	if (irq->vm->vm_fd >= 0) {
		/* Cannot fail for a pin of an irqchip that exists. */
		ioctl(irq->vm->vm_fd, KVM_IRQ_LINE, &arg);
		return;
	}
	if (high)
		eventfd_write(irq->fd, 1);
	else
		eventfd_read(irq->fd, &drained);
}

int irq_gsi_alloc(struct vm *vm)
{
	/*
	 * Pins no PC device claims, whether a kernel probes it or not: 0 is the timer, 1 the
	 * keyboard, 2 the cascade, 3 and 4 the serial ports, 8 the RTC, 9 the ACPI interrupt, 12
	 * the mouse, 13 the FPU. The parallel ports (5, 7), the floppy (6) and legacy IDE (14, 15)
	 * are not found here by any driver that would take their pins.
	 */
	static const uint8_t pins[] = {5, 6, 7, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
	_Static_assert(ARRAY_LEN(pins) == IRQ_FREE_PINS, "messages name it");
	struct irq_table *t = vm->irqs;
	int r = -ENOSPC;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < ARRAY_LEN(pins) && r < 0; i++) {
		if (t->pins & 1u << pins[i])
			continue;
		t->pins |= 1u << pins[i];
		r = pins[i];
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}
