// SPDX-License-Identifier: Apache-2.0
/*
 * t_platform.c - the registry, and the devices that are only ports: i8042, pvpanic, rtc.
 */
#include "tap.h"
#include "../devices/table.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <misc/pvpanic.h>
#include <sys/eventfd.h>
#include <time.h>

static struct vm *vm;
/* The first descriptor a device opens: the eventfd of its interrupt, if it has one. */
static int irq_fd;

static struct device *plug(const struct device_type *type)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct device *d = NULL;

	need(!vm_create_bare(&vm, &params));
	irq_fd = dup(vm->end_fd);
	need(irq_fd >= 0);
	close(irq_fd);
	need(!type->create(vm, NULL, 0, &d));
	return d;
}

static void unplug(struct device *d)
{
	d->destroy(d);
	vm_destroy(vm);
}

static uint8_t in8(uint16_t port)
{
	uint8_t v = 0;

	bus_read(&vm->pio, port, &v, 1);
	return v;
}

static void out8(uint16_t port, uint8_t v)
{
	bus_write(&vm->pio, port, &v, 1);
}

/* Every length at every offset of the range and around it: no bytes but those asked for may change. */
static void test_widths(uint16_t base, unsigned n)
{
	unsigned spilled = 0;

	for (unsigned port = base - 8u; port < base + n + 8u; port++) {
		for (unsigned len = 1; len <= 8; len++) {
			uint8_t buf[16];

			memset(buf, 0xa5, sizeof(buf));
			bus_read(&vm->pio, port, buf, len);
			for (unsigned i = len; i < sizeof(buf); i++)
				spilled += buf[i] != 0xa5;
		}
	}
	is(spilled, 0, "reads of 1 to 8 bytes around port 0x%x give just those", base);
}

/* The same, handed to the device itself, which a bus would not do for all of them. */
static void test_ops(uint16_t base)
{
	const struct bus_range *r = NULL;
	uint8_t buf[8] = {0};

	for (unsigned i = 0; i < vm->pio.n; i++)
		if (vm->pio.range[i].base == base)
			r = &vm->pio.range[i];
	need(r);
	for (uint64_t off = 0; off < r->len + 8; off++) {
		for (unsigned len = 1; len <= 8; len++) {
			r->ops->read(r->owner, off, buf, len);
			memset(buf, 0, sizeof(buf));
			r->ops->write(r->owner, off, buf, len);
		}
	}
	is(vm_get_end(vm), VM_RUNNING, "writes of zeros of any width at 0x%x end nothing", base);
}

/* ---- registry ---- */

static void test_table(void)
{
	unsigned n = 0, drive = 0, share = 0;

	for (; device_types[n]; n++) {
		const struct device_type *t = device_types[n];

		drive = t == &blk_device ? n : drive;
		share = t == &fs_device ? n : share;
		if (!t->name || !t->section || !t->help || !t->create)
			ok(0, "row %u has a name, a section, a help text and a create()", n);
		if (t->id_key && !opt_find(&t->opts, t->id_key, strlen(t->id_key)))
			ok(0, "the id key of %s is one of its keys", t->name);
	}
	is(n, 8, "there are eight types of devices");
	ok(device_types[0] == &serial_device, "the console is the first");
	ok(drive < share, "drives come before shares");
}

static void test_names(void)
{
	struct device d;

	device_init(&d, &blk_device, 3, NULL);
	ok(!strcmp(d.name, "blk3"), "one of many has its number in its name");
	device_init(&d, &rng_device, 0, NULL);
	ok(!strcmp(d.name, "rng"), "the only one has none");
}

/* ---- i8042 ---- */

static int kbd_irqs(void)
{
	eventfd_t n = 0;

	return eventfd_read(irq_fd, &n) ? 0 : (int)n;
}

/* What a probe does: never more than a look at the status until the answer is there. */
static int ask(uint8_t cmd, int data)
{
	out8(0x64, cmd);
	if (data >= 0)
		out8(0x60, (uint8_t)data);
	return in8(0x64) & 1 ? in8(0x60) : -1;
}

static void test_i8042_probe(void)
{
	struct device *d = plug(&i8042_device);

	is(in8(0x64) & 0x03, 0, "no byte waits at the start, and the controller is ready");
	ok(in8(0x64) & 0x10, "the keyboard lock is open");
	is(ask(0xaa, -1), 0x55, "the self test passes");
	is(ask(0xab, -1), 0x00, "so does the test of the keyboard port");
	is(in8(0x64) & 0x01, 0, "reading takes the byte");
	is(ask(0x20, -1), ask(0x20, -1), "the control byte reads the same twice");
	is(ask(0x60, 0x64), -1, "writing the control byte has no answer");
	is(ask(0x20, -1), 0x64, "and reads back");
	ok(ask(0xd3, 0x5a) != 0x5a, "the loop of the mouse port does not loop");
	ok(ask(0xa9, -1) > 0 && in8(0x60) != 0xff && in8(0x60) != 0xfa,
	   "its test says that there is no mouse");
	is(ask(0xd0, -1) & 0x03, 0x03, "the output port says that reset is off and A20 is on");
	is(ask(0xad, -1), -1, "disabling the keyboard has no answer");
	is(vm_get_end(vm), VM_RUNNING, "none of this ends the machine");
	is(vm->nplatform, 1, "it is in the boot tables");
	test_widths(0x60, 5);
	unplug(d);
}

static void test_i8042_keyboard(void)
{
	struct device *d = plug(&i8042_device);

	out8(0x60, 0xf2);
	is(in8(0x64) & 0x41, 0x41,
	   "what is sent to the keyboard is answered at once, as a time-out");
	is(in8(0x60), 0xfe, "with a request to resend");
	is(kbd_irqs(), 0, "without an interrupt, as they are off");
	ask(0x60, 0x01);
	out8(0x60, 0xff);
	is(kbd_irqs(), 1, "with one when they are on");
	out8(0x64, 0xd4);
	out8(0x60, 0xff);
	is(in8(0x60), 0xfe, "the mouse answers like the keyboard");
	test_ops(0x64);
	unplug(d);
}

static void test_i8042_reset(uint8_t cmd, int data, enum vm_end end, const char *what)
{
	struct device *d = plug(&i8042_device);

	out8(0x64, cmd);
	if (data >= 0)
		out8(0x60, (uint8_t)data);
	is(vm_get_end(vm), end, "%s", what);
	unplug(d);
}

/* ---- pvpanic ---- */

static void test_pvpanic(void)
{
	struct device *d = plug(&pvpanic_device);

	is(in8(0x505), PVPANIC_PANICKED | PVPANIC_CRASH_LOADED,
	   "the port says which events it knows");
	test_widths(0x505, 1);
	test_ops(0x505);
	out8(0x505, PVPANIC_CRASH_LOADED);
	is(vm_get_end(vm), VM_RUNNING, "a guest that starts its crash kernel goes on");
	out8(0x505, PVPANIC_PANICKED);
	is(vm_get_end(vm), VM_PANIC, "a panic ends the machine, as a panic");
	ok(!strcmp(vm->platform[0].hid, "QEMU0001") && vm->platform[0].gsi == -1,
	   "the boot tables have it");
	unplug(d);
}

/* ---- rtc ---- */

static uint8_t cmos(uint8_t reg)
{
	out8(0x70, reg);
	return in8(0x71);
}

static int bcd(uint8_t v)
{
	return (v >> 4) * 10 + (v & 15);
}

/* The time as a driver reads it: again if the second changed meanwhile. */
static time_t read_clock(int (*num)(uint8_t))
{
	struct tm tm;
	int second;

	do {
		second = num(cmos(0));
		tm = (struct tm){.tm_sec = second,
				 .tm_min = num(cmos(2)),
				 .tm_hour = num(cmos(4)),
				 .tm_mday = num(cmos(7)),
				 .tm_mon = num(cmos(8)) - 1,
				 .tm_year = num(cmos(0x32)) * 100 + num(cmos(9)) - 1900};
	} while (num(cmos(0)) != second);
	return timegm(&tm);
}

static int plain(uint8_t v)
{
	return v;
}

static void test_rtc(void)
{
	struct device *d = plug(&rtc_device);
	time_t before = time(NULL), t = read_clock(bcd);
	uint8_t control = cmos(11);

	ok(t >= before && t <= time(NULL), "the clock has the host's time");
	is(cmos(10) & 0x80, 0, "no update is in progress");
	is(control & 0x06, 0x02, "it counts 24 hours, in BCD");
	is(cmos(13), 0x80, "the battery is good");
	is(cmos(12), 0, "no interrupt is pending");
	ok(bcd(cmos(6)) >= 1 && bcd(cmos(6)) <= 7, "the day of the week is one");
	out8(0x70, 11);
	out8(0x71, control | 0x04);
	before = time(NULL);
	t = read_clock(plain);
	ok(t >= before && t <= time(NULL), "in binary too, if the guest wants that");
	is(cmos(0x80 | 11), control | 0x04, "the bit that masks NMIs is not part of the index");
	out8(0x70, 9);
	out8(0x71, 12);
	t = read_clock(plain);
	ok(t >= before && t <= time(NULL), "setting the clock does not change it");
	out8(0x70, 0x40);
	out8(0x71, 0x77);
	is(cmos(0x40), 0x77, "other bytes are memory");
	is(in8(0x70), 0xff, "the index cannot be read");
	test_widths(0x70, 2);
	test_ops(0x70);
	unplug(d);
}

static void test_clash(void)
{
	struct device *d = plug(&rtc_device), *again = NULL;

	is(rtc_device.create(vm, NULL, 1, &again), -EEXIST,
	   "two devices cannot have the same ports");
	ok(!again, "and nothing is given back");
	is(bcd(cmos(0x32)), 20, "the first one still answers");
	unplug(d);
}

int main(void)
{
	test_table();
	test_names();
	test_i8042_probe();
	test_i8042_keyboard();
	test_i8042_reset(0xfe, -1, VM_RESET, "pulsing the reset line resets");
	test_i8042_reset(0xf0, -1, VM_RESET, "pulsing all lines resets");
	test_i8042_reset(0xff, -1, VM_RUNNING, "pulsing no line does nothing");
	test_i8042_reset(0xd1, 0x02, VM_RESET, "an output port with the reset bit low resets");
	test_i8042_reset(0xd1, 0x03, VM_RUNNING, "one with the bit high does not");
	test_i8042_reset(0x60, 0x00, VM_RUNNING, "nor does the same byte for another command");
	test_pvpanic();
	test_rtc();
	test_clash();
	return done();
}
