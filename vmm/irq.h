// SPDX-License-Identifier: Apache-2.0
/*
 * irq.h - interrupts into the guest: raising one is an eventfd write, wait-free, from any thread.
 *
 * GSI numbers 0..23 are the pins of the IOAPIC (irq_gsi_alloc hands out 5.. for platform devices and PCI INTx), MSI
 * routes live above in their own range (hard case B6). All routing changes go through one table under one lock; the
 * irqfd is assigned after its route exists and taken away before the route changes owner (hard case B5).
 * In a vm without KVM (unit tests) every call works and the eventfd is all there is: a test reads it.
 */
#ifndef VMM_IRQ_H
#define VMM_IRQ_H

#include "base.h"

struct vm;

enum irq_kind { IRQ_NONE, IRQ_EDGE, IRQ_LEVEL, IRQ_MSI };

struct irq {
	struct vm *vm; /* borrowed */
	enum irq_kind kind;
	int fd; /* eventfd; -1 when not made */
	uint32_t gsi;
	bool attached; /* the irqfd is assigned */
	bool routed;   /* MSI: address and data were set */
};
#define IRQ_INIT ((struct irq){.fd = -1})

/* Part of making and freeing a vm (vm.c): sets vm->irqs. -ENOMEM (logged). */
int irq_table_create(struct vm *) must_check;
void irq_table_destroy(struct vm *);

/* Edge-triggered pin. 0 or -errno. */
int irq_edge_init(struct irq *, struct vm *, uint32_t gsi) must_check;
/* Level-triggered pin (PCI INTx): use irq_set_level(). 0 or -errno. */
int irq_level_init(struct irq *, struct vm *, uint32_t gsi) must_check;
/* An MSI vector without a route: it stays silent until irq_msi_route(). -ENOSPC when the routes are used up. */
int irq_msi_init(struct irq *, struct vm *) must_check;
/* Sends it to address/data from now on. May be called again at any time (affinity changes, hard case B4). */
int irq_msi_route(struct irq *, uint64_t address, uint32_t data) must_check;
/* Frees descriptor and route; fine on IRQ_INIT. */
void irq_fini(struct irq *);

/* Edge and MSI; an MSI without a route is dropped. Any thread, no lock. */
void irq_raise(const struct irq *);
/*
 * Level: asserted or not; one owner per pin. Any thread; ioctl(KVM_IRQ_LINE), which the caller's filter must allow
 * (irq_syscalls). Without KVM the eventfd is readable as long as the level is high.
 */
void irq_set_level(const struct irq *, bool high);

struct syscalls;
extern const struct syscalls irq_syscalls;

/* A free IOAPIC pin, or -ENOSPC: there are so many. */
#define IRQ_FREE_PINS 15
int irq_gsi_alloc(struct vm *) must_check;

#endif
