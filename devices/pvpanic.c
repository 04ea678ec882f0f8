// SPDX-License-Identifier: Apache-2.0
/*
 * pvpanic.c - one port through which a guest kernel says that it has panicked.
 *
 * Without it a panic looks like a reboot or like silence (hard case C27). Reading gives the events
 * that are understood, writing one reports it. A guest with a crash kernel loaded goes on, into
 * that. Stateless; called by vCPUs.
 * Spec: QEMU, docs/specs/pvpanic; bits from misc/pvpanic.h.
 */
#include "table.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <misc/pvpanic.h>

#define PVPANIC_PORT   0x505
#define PVPANIC_EVENTS (PVPANIC_PANICKED | PVPANIC_CRASH_LOADED)

struct pvpanic {
	struct device base;
	struct vm *vm; /* borrowed */
	struct log_once said_crash;
};

static void pvpanic_read(void *owner, uint64_t off, void *data, unsigned len)
{
	(void)owner, (void)off;
	bus_store(data, len, PVPANIC_EVENTS);
}

static void pvpanic_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct pvpanic *p = owner;
	uint64_t events = bus_load(data, len);

	(void)off;
	if (events & PVPANIC_PANICKED)
		vm_set_end(p->vm, VM_PANIC, "reported through pvpanic");
	else if (events & PVPANIC_CRASH_LOADED)
		log_once(&p->said_crash, LOG_WARN,
			 "%s: the guest has panicked and starts its crash kernel", p->base.name);
}

static const struct bus_ops pvpanic_ops = {.read = pvpanic_read, .write = pvpanic_write};

static void pvpanic_destroy(struct device *d)
{
	struct pvpanic *p = container_of(d, struct pvpanic, base);

	bus_remove(&p->vm->pio, PVPANIC_PORT, p);
	free(p);
}

static int pvpanic_create(struct vm *vm, const void *cfg, unsigned index, struct device **out)
{
	struct pvpanic *p = calloc(1, sizeof(*p));
	int r;

	(void)cfg;
	if (!p)
		return -ENOMEM;
	device_init(&p->base, &pvpanic_device, index, pvpanic_destroy);
	p->vm = vm;
	r = bus_add(&vm->pio, &(struct bus_range){.base = PVPANIC_PORT,
						  .len = 1,
						  .ops = &pvpanic_ops,
						  .owner = p,
						  .name = p->base.name});
	if (!r)
		r = vm_platform_add(vm, &(struct vm_platform){.hid = "QEMU0001",
							      .base = PVPANIC_PORT,
							      .len = 1,
							      .is_pio = true,
							      .gsi = -1});
	if (r) {
		log_err("%s: port 0x505: %s", p->base.name, strerror(-r));
		pvpanic_destroy(&p->base);
		return r;
	}
	*out = &p->base;
	return 0;
}

const struct device_type pvpanic_device = {
	.name = "pvpanic",
	.section = "pvpanic",
	.help = "tells a guest kernel's panic from a reboot",
	.class = DEVICE_PLATFORM,
	.create = pvpanic_create,
};
