// SPDX-License-Identifier: Apache-2.0
/*
 * t_irq.c - interrupts on a vm without KVM, where the eventfd shows what was raised. That KVM
 * delivers them is tested by t_vcpu.c.
 */
#include "../vmm/irq.h"
#include "../vmm/sandbox.h"
#include "../vmm/vm.h"
#include "tap.h"
#include <pthread.h>
#include <sys/eventfd.h>

#define MSI_ADDRESS 0xfee00000

static struct vm *vm_make(void)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct vm *vm = NULL;

	need(vm_create_bare(&vm, &params) == 0);
	return vm;
}

/* How often it was raised since the last look. */
static unsigned raised(const struct irq *irq)
{
	eventfd_t n = 0;

	return eventfd_read(irq->fd, &n) == 0 ? (unsigned)n : 0;
}

static void test_pins(void)
{
	const uint32_t legacy =
		1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 12 | 1 << 13;
	struct vm *vm = vm_make();
	uint32_t seen = 0;
	bool twice = false, beyond = false;
	int gsi;

	while ((gsi = irq_gsi_alloc(vm)) >= 0) {
		beyond = beyond || gsi >= VM_GSI_PINS;
		twice = twice || seen & 1u << gsi;
		seen |= 1u << gsi;
	}
	is(gsi, -ENOSPC, "pins run out with -ENOSPC");
	ok(!twice && !beyond, "every pin is on the IOAPIC and handed out once");
	is(seen & legacy, 0, "pins of PC devices are never handed out");
	is(__builtin_popcount(seen), 15, "all others are");
	vm_destroy(vm);
}

static void test_edge(void)
{
	struct vm *vm = vm_make();
	struct irq irq;

	is(irq_edge_init(&irq, vm, VM_GSI_PINS), -EINVAL, "an edge beyond the IOAPIC is refused");
	irq_fini(&irq);
	need(irq_edge_init(&irq, vm, 5) == 0);
	is(raised(&irq), 0, "an edge starts silent");
	irq_raise(&irq);
	irq_raise(&irq);
	is(raised(&irq), 2, "raising an edge twice is seen twice");
	irq_fini(&irq);
	is(irq.fd, -1, "irq_fini closes the eventfd");
	irq_fini(&irq);
	vm_destroy(vm);
}

static void test_level(void)
{
	struct vm *vm = vm_make();
	struct irq irq;

	is(irq_level_init(&irq, vm, VM_GSI_PINS), -EINVAL, "a level beyond the IOAPIC is refused");
	need(irq_level_init(&irq, vm, 10) == 0);
	irq_set_level(&irq, true);
	irq_set_level(&irq, true);
	ok(raised(&irq) > 0, "a high level is readable");
	irq_set_level(&irq, true);
	irq_set_level(&irq, false);
	is(raised(&irq), 0, "a lowered one is not");
	irq_set_level(&irq, false);
	irq_fini(&irq);
	vm_destroy(vm);
}

static void test_msi(void)
{
	struct vm *vm = vm_make();
	struct irq a, b;

	need(irq_msi_init(&a, vm) == 0 && irq_msi_init(&b, vm) == 0);
	ok(a.gsi >= VM_GSI_PINS && b.gsi >= VM_GSI_PINS && a.gsi != b.gsi,
	   "MSI routes lie above the pins, each its own");
	irq_raise(&a);
	is(raised(&a), 0, "an MSI without a route is silent");
	is(irq_msi_route(&a, MSI_ADDRESS, 0x40), 0, "a route can be set");
	is(raised(&a), 0, "what was raised before the route does not come with it");
	irq_raise(&a);
	is(raised(&a), 1, "an MSI with a route is raised");
	is(irq_msi_route(&a, MSI_ADDRESS, 0x40), 0, "the same route again is fine");
	is(irq_msi_route(&a, MSI_ADDRESS + 0x1000, 0x41), 0, "another route is fine");
	irq_raise(&a);
	is(raised(&a), 1, "and the MSI still works");
	is(raised(&b), 0, "its neighbour stays silent");
	irq_fini(&a);
	irq_fini(&b);
	vm_destroy(vm);
}

/* Hard case B6. */
static void test_msi_exhaustion(void)
{
	struct vm *vm = vm_make();
	static struct irq irqs[VM_MSI_ROUTES];
	struct irq more = IRQ_INIT;
	unsigned made = 0, rebound = 0;

	while (made < VM_MSI_ROUTES && irq_msi_init(&irqs[made], vm) == 0)
		made++;
	is(made, VM_MSI_ROUTES, "all MSI routes can be taken");
	is(irq_msi_init(&more, vm), -ENOSPC, "one more is refused");
	irq_fini(&more);
	for (unsigned i = 0; i < 1000; i++) {
		irq_fini(&irqs[7]);
		if (irq_msi_init(&irqs[7], vm) == 0 && irq_msi_route(&irqs[7], MSI_ADDRESS, i) == 0)
			rebound++;
	}
	is(rebound, 1000, "a thousand rebinds leak no route");
	for (unsigned i = 0; i < made; i++)
		irq_fini(&irqs[i]);
	vm_destroy(vm);
}

struct raiser {
	const struct irq *irq;
	bool stop; /* atomic */
};

static void *raise_always(void *arg)
{
	struct raiser *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED))
		irq_raise(r->irq);
	return NULL;
}

/* Hard case B4: affinity changes while the device is busy. */
static void test_route_while_raising(void)
{
	struct vm *vm = vm_make();
	struct irq irq;
	struct raiser r = {.irq = &irq};
	pthread_t thread;
	unsigned failed = 0;

	need(irq_msi_init(&irq, vm) == 0);
	need(pthread_create(&thread, NULL, raise_always, &r) == 0);
	for (uint32_t i = 0; i < 10000; i++)
		failed += irq_msi_route(&irq, MSI_ADDRESS, i) != 0;
	is(failed, 0, "a route changes while another thread raises it");
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	need(pthread_join(thread, NULL) == 0);
	irq_raise(&irq);
	ok(raised(&irq) > 0, "and is raised after that");
	irq_fini(&irq);
	vm_destroy(vm);
}

int main(void)
{
	test_pins();
	test_edge();
	test_level();
	test_msi();
	test_msi_exhaustion();
	test_route_while_raising();
	is(irq_syscalls.n, 1, "a thread that sets levels may make one call for it");
	return done();
}
