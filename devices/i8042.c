// SPDX-License-Identifier: Apache-2.0
/*
 * i8042.c - the PC's keyboard controller without a keyboard: ports 0x60 and 0x64.
 *
 * It is here for the reset line that guests pulse (reboot=k), and to answer a probe at once: a
 * driver that waits for a chip that is not there costs seconds of boot (hard case C17). Whatever is
 * sent to the missing keyboard is answered as the chip does it, with a time-out error.
 * Called by vCPUs, under the device's lock.
 * Spec: IBM PS/2 Hardware Interface Technical Reference, keyboard controller.
 */
#include "table.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <pthread.h>

#define PORT_DATA    0x60
#define PORT_COMMAND 0x64
#define GSI_KEYBOARD 1

#define STATUS_FULL        0x01 /* a byte waits at the data port */
#define STATUS_POST_PASSED 0x04
#define STATUS_COMMAND     0x08 /* the last write went to the command port */
#define STATUS_UNLOCKED    0x10
#define STATUS_TIMEOUT     0x40
#define CTR_IRQ            0x01
#define CTR_POST_PASSED    0x04
#define CTR_NO_MOUSE       0x20
#define CTR_TRANSLATE      0x40

enum {
	CMD_READ_CTR = 0x20,
	CMD_WRITE_CTR = 0x60,
	CMD_TEST_MOUSE = 0xa9,
	CMD_SELF_TEST = 0xaa,
	CMD_TEST_KEYBOARD = 0xab,
	CMD_READ_OUTPUT = 0xd0,
	CMD_WRITE_OUTPUT = 0xd1,
	CMD_LOOP_MOUSE = 0xd3,
	CMD_WRITE_MOUSE = 0xd4,
	CMD_PULSE = 0xf0, /* and up: the low four bits are the lines that are not pulsed */
};
/* Of the output port, and of a pulse: the reset line is active low. */
#define OUTPUT_NOT_RESET 0x01
#define OUTPUT_A20       0x02
#define REPLY_PASSED     0x55
#define REPLY_CLOCK_LOW  0x01 /* of a port test: nothing is plugged in */
#define REPLY_RESEND     0xfe

struct i8042 {
	struct device base;
	struct vm *vm; /* borrowed */
	struct irq irq;
	pthread_mutex_t lock; /* what follows; a leaf */
	uint8_t ctr, data, status;
	uint8_t pending; /* the command whose data byte comes next; 0: none */
};

static void reply(struct i8042 *k, uint8_t data, uint8_t error)
{
	k->data = data;
	k->status = (uint8_t)((k->status & ~STATUS_TIMEOUT) | STATUS_FULL | error);
	if (k->ctr & CTR_IRQ)
		irq_raise(&k->irq);
}

static void command(struct i8042 *k, uint8_t cmd)
{
	k->status |= STATUS_COMMAND;
	k->pending = 0;
	if (cmd >= CMD_PULSE && !(cmd & OUTPUT_NOT_RESET)) {
		vm_set_end(k->vm, VM_RESET, "keyboard controller");
		return;
	}
	switch (cmd) {
	case CMD_READ_CTR:
		return reply(k, k->ctr, 0);
	case CMD_SELF_TEST:
		return reply(k, REPLY_PASSED, 0);
	case CMD_TEST_KEYBOARD:
		return reply(k, 0, 0);
	case CMD_TEST_MOUSE:
		return reply(k, REPLY_CLOCK_LOW, 0);
	case CMD_READ_OUTPUT:
		return reply(k, OUTPUT_NOT_RESET | OUTPUT_A20, 0);
	case CMD_WRITE_CTR:
	case CMD_WRITE_OUTPUT:
	case CMD_LOOP_MOUSE:
	case CMD_WRITE_MOUSE:
		k->pending = cmd;
		return;
	default: /* enabling and disabling of what is not there */
		return;
	}
}

static void data_written(struct i8042 *k, uint8_t v)
{
	uint8_t cmd = k->pending;

	k->status &= (uint8_t)~STATUS_COMMAND;
	k->pending = 0;
	switch (cmd) {
	case CMD_WRITE_CTR:
		k->ctr = v;
		return;
	case CMD_WRITE_OUTPUT:
		if (!(v & OUTPUT_NOT_RESET))
			vm_set_end(k->vm, VM_RESET, "keyboard controller");
		return;
	case CMD_LOOP_MOUSE:
		/* Not what was sent, so that a probe neither finds a mouse port nor waits. */
		return reply(k, (uint8_t)~v, 0);
	default:
		return reply(k, REPLY_RESEND, STATUS_TIMEOUT);
	}
}

/* One set of ops per port; each range is one byte long, so there is only offset 0. */
static void data_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct i8042 *k = owner;

	(void)off;
	pthread_mutex_lock(&k->lock);
	bus_store(data, len, k->data);
	k->status &= (uint8_t) ~(STATUS_FULL | STATUS_TIMEOUT);
	pthread_mutex_unlock(&k->lock);
}

static void data_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct i8042 *k = owner;

	(void)off;
	pthread_mutex_lock(&k->lock);
	data_written(k, (uint8_t)bus_load(data, len));
	pthread_mutex_unlock(&k->lock);
}

static void status_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct i8042 *k = owner;

	(void)off;
	pthread_mutex_lock(&k->lock);
	bus_store(data, len, k->status);
	pthread_mutex_unlock(&k->lock);
}

static void command_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct i8042 *k = owner;

	(void)off;
	pthread_mutex_lock(&k->lock);
	command(k, (uint8_t)bus_load(data, len));
	pthread_mutex_unlock(&k->lock);
}

static const struct bus_ops data_ops = {.read = data_read, .write = data_write};

static const struct bus_ops command_ops = {.read = status_read, .write = command_write};

static void i8042_destroy(struct device *d)
{
	struct i8042 *k = container_of(d, struct i8042, base);

	bus_remove(&k->vm->pio, PORT_DATA, k);
	bus_remove(&k->vm->pio, PORT_COMMAND, k);
	irq_fini(&k->irq);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static int i8042_plug(struct i8042 *k)
{
	struct bus_range range = {
		.base = PORT_DATA, .len = 1, .ops = &data_ops, .owner = k, .name = k->base.name};
	const struct vm_platform node = {.hid = "PNP0303",
					 .base = PORT_DATA,
					 .len = 1,
					 .is_pio = true,
					 .port2 = PORT_COMMAND,
					 .gsi = GSI_KEYBOARD};
	int r = irq_edge_init(&k->irq, k->vm, GSI_KEYBOARD);

	if (!r)
		r = bus_add(&k->vm->pio, &range);
	range.base = PORT_COMMAND;
	range.ops = &command_ops;
	if (!r)
		r = bus_add(&k->vm->pio, &range);
	if (!r)
		r = vm_platform_add(k->vm, &node);
	if (r)
		log_err("%s: ports 0x60, 0x64 or interrupt 1 (%s): %s", k->base.name,
			log_remedy(-r, "another device has them"), strerror(-r));
	return r;
}

static int i8042_create(struct vm *vm, const void *cfg, unsigned index, struct device **out)
{
	struct i8042 *k = calloc(1, sizeof(*k));
	int r;

	(void)cfg;
	if (!k)
		return -ENOMEM;
	device_init(&k->base, &i8042_device, index, i8042_destroy);
	k->vm = vm;
	k->irq = IRQ_INIT;
	pthread_mutex_init(&k->lock, NULL);
	k->status = STATUS_POST_PASSED | STATUS_UNLOCKED;
	k->ctr = CTR_POST_PASSED | CTR_NO_MOUSE | CTR_TRANSLATE;
	r = i8042_plug(k);
	if (r) {
		i8042_destroy(&k->base);
		return r;
	}
	*out = &k->base;
	return 0;
}

const struct device_type i8042_device = {
	.name = "i8042",
	.section = "i8042",
	.help = "keyboard controller without a keyboard: the guest's way to reset",
	.class = DEVICE_PLATFORM,
	.create = i8042_create,
};
