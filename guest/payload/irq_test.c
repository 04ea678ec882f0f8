// SPDX-License-Identifier: Apache-2.0
/*
 * irq_test.c - interrupts, without taking any: they are off, so one that arrives stays in the local APIC's request
 * register, which can be read.
 *
 * That covers the whole way from the device's thread through irqfd and routing to the CPU: MSI-X messages, or the
 * IOAPIC's edge pin of an mmio window. Each test has a vector of its own, since a request once seen never goes away.
 * Hard cases: B2 to B5 (masks and pending bits). Spec: Intel SDM 3A, 11.8 (IRR); 82093AA; PCI 3.0, 6.8.2 (MSI-X).
 */
#include "virtio.h"
#include <linux/pci_regs.h>

#define LAPIC          0xfee00000ull
#define LAPIC_SPURIOUS 0xf0
#define LAPIC_ENABLE   0x1ff
#define LAPIC_IRR      0x200
#define IOAPIC         0xfec00000ull
#define IOAPIC_DATA    0x10
#define IOAPIC_ENTRY   0x10
#define ARRIVE_MS      1000
#define QUIET_MS       20

enum { VECTOR_FIRST = 0x41, VECTOR_AGAIN, VECTOR_MASKED, VECTOR_QUIET, VECTOR_PIN };

static bool arrived(unsigned vector, uint64_t ms)
{
	uint64_t t0 = cpu_tsc();

	do {
		if (mmio_read32(LAPIC + LAPIC_IRR + vector / 32 * 0x10) >> vector % 32 & 1)
			return true;
	} while (!clock_passed(t0, ms));
	return false;
}

/* One request whose completion the driver asks, or asks not, to be interrupted for. */
static void request(struct vdev *d, bool interrupt)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	struct seg s[] = {{h, sizeof(*h)}, {pool, 512}, {hdr_in[0], 1}};

	*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN};
	vq_want_interrupt(&d->q[0], interrupt);
	vq_call(&d->q[0], s, 1, 2);
}

/* ---- MSI-X ---- */

struct msix {
	struct vdev *d;
	unsigned cap;
	uint64_t table, pending;
};

static uint64_t msix_area(const struct vdev *d, unsigned reg)
{
	uint32_t v = pci_read(d->bdf, reg, 4);

	return pci_bar(d->bdf, v & PCI_MSIX_TABLE_BIR) + (v & ~PCI_MSIX_TABLE_BIR);
}

/* Vector 0 of the table sends this one; queue 0 uses it. */
static void msix_program(const struct msix *m, unsigned vector, bool masked)
{
	mmio_write32(m->table + PCI_MSIX_ENTRY_VECTOR_CTRL, PCI_MSIX_ENTRY_CTRL_MASKBIT);
	mmio_write32(m->table + PCI_MSIX_ENTRY_LOWER_ADDR, (uint32_t)LAPIC);
	mmio_write32(m->table + PCI_MSIX_ENTRY_UPPER_ADDR, 0);
	mmio_write32(m->table + PCI_MSIX_ENTRY_DATA, vector);
	mmio_write32(m->table + PCI_MSIX_ENTRY_VECTOR_CTRL,
		     masked ? PCI_MSIX_ENTRY_CTRL_MASKBIT : 0);
}

static void msix_up(struct msix *m, struct vdev *d)
{
	uint64_t vector = d->common + offsetof(struct virtio_pci_common_cfg, queue_msix_vector);

	*m = (struct msix){.d = d, .cap = pci_capability(d->bdf, PCI_CAP_ID_MSIX, 0)};
	m->table = msix_area(d, m->cap + PCI_MSIX_TABLE);
	m->pending = msix_area(d, m->cap + PCI_MSIX_PBA);
	pci_write(d->bdf, m->cap + PCI_MSIX_FLAGS, 2, PCI_MSIX_FLAGS_ENABLE);
	virtio_negotiate(d, virtio_ring_features());
	virtio_queue_up(d, 0);
	mmio_write16(vector, 0);
	is(mmio_read16(vector), 0, "irq: the queue takes vector 0");
	virtio_set_status(d, STATUS_DRIVER_OK);
}

static void test_msix(struct vdev *d)
{
	struct msix m;

	msix_up(&m, d);
	msix_program(&m, VECTOR_FIRST, false);
	request(d, true);
	ok(arrived(VECTOR_FIRST, ARRIVE_MS), "irq: a completion's message arrives");
	msix_program(&m, VECTOR_AGAIN, false);
	request(d, true);
	ok(arrived(VECTOR_AGAIN, ARRIVE_MS), "irq: and goes where it is moved to");
	msix_program(&m, VECTOR_QUIET, false);
	request(d, false);
	ok(!arrived(VECTOR_QUIET, QUIET_MS), "irq: no message comes when none was asked for");
	msix_program(&m, VECTOR_MASKED, true);
	request(d, true);
	ok(!arrived(VECTOR_MASKED, QUIET_MS), "irq: none comes through a mask");
	ok(mmio_read32(m.pending) & 1, "irq: it is pending");
	mmio_write32(m.table + PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
	ok(arrived(VECTOR_MASKED, ARRIVE_MS), "irq: and comes when the mask is taken away");
	ok(!(mmio_read32(m.pending) & 1), "irq: pending no longer");
	virtio_reset(d);
	pci_write(d->bdf, m.cap + PCI_MSIX_FLAGS, 2, 0);
}

/* ---- the pin of an mmio window ---- */

static void ioapic_program(uint32_t pin, unsigned vector)
{
	mmio_write32(IOAPIC, IOAPIC_ENTRY + 2 * pin + 1);
	mmio_write32(IOAPIC + IOAPIC_DATA, 0);
	mmio_write32(IOAPIC, IOAPIC_ENTRY + 2 * pin);
	mmio_write32(IOAPIC + IOAPIC_DATA, vector);
}

static void test_pin(struct vdev *d)
{
	uint64_t cause = d->base + VIRTIO_MMIO_INTERRUPT_STATUS;

	virtio_up(d, virtio_ring_features(), 1);
	ioapic_program(d->gsi, VECTOR_PIN);
	request(d, true);
	ok(arrived(VECTOR_PIN, ARRIVE_MS), "irq: a completion's interrupt arrives");
	is(mmio_read32(cause), VIRTIO_MMIO_INT_VRING, "irq: its cause is the queue");
	mmio_write32(d->base + VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	is(mmio_read32(cause), 0, "irq: and can be acknowledged");
	/* Not first: KVM hands a pin's interrupts over by a thread of its own, and one of before may be on its way. */
	ioapic_program(d->gsi, VECTOR_QUIET);
	request(d, false);
	ok(!arrived(VECTOR_QUIET, QUIET_MS), "irq: no interrupt comes when none was asked for");
	is(mmio_read32(cause), 0, "irq: and there is no cause for one");
	ioapic_program(d->gsi, VECTOR_FIRST);
	request(d, true);
	ok(arrived(VECTOR_FIRST, ARRIVE_MS), "irq: the next one arrives as well");
	virtio_reset(d);
	is(mmio_read32(cause), 0, "irq: a reset takes the cause away");
}

void irq_test(struct vdev *d)
{
	mmio_write32(LAPIC + LAPIC_SPURIOUS, LAPIC_ENABLE);
	if (d->pci)
		test_msix(d);
	else
		test_pin(d);
}
