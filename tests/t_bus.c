// SPDX-License-Identifier: Apache-2.0
/*
 * t_bus.c - who answers an access, and what an access gets that nobody answers.
 *
 * The owners note what they were asked. One test moves a range while other threads use it, as a
 * guest does with a BAR.
 */
#include "../vmm/bus.h"
#include "capture.h"
#include "tap.h"

struct owner {
	uint64_t off, written;
	unsigned len, calls;
	struct bus *remove_from; /* takes itself out of this bus when it is read */
	uint64_t base;
};

static void owner_read(void *o, uint64_t off, void *data, unsigned len)
{
	struct owner *owner = o;

	owner->off = off;
	owner->len = len;
	owner->calls++;
	bus_store(data, len, 0x1122334455667788 + off);
	if (owner->remove_from)
		bus_remove(owner->remove_from, owner->base, owner);
}

static void owner_write(void *o, uint64_t off, const void *data, unsigned len)
{
	struct owner *owner = o;

	owner->off = off;
	owner->len = len;
	owner->calls++;
	owner->written = bus_load(data, len);
}

static const struct bus_ops owner_ops = {.read = owner_read, .write = owner_write};

static int add(struct bus *b, uint64_t base, uint64_t len, struct owner *o)
{
	return bus_add(
		b,
		&(struct bus_range){
			.base = base, .len = len, .ops = &owner_ops, .owner = o, .name = "test"});
}

static uint64_t read_at(struct bus *b, uint64_t addr, unsigned len)
{
	uint64_t v = 0;

	bus_read(b, addr, &v, len);
	return v;
}

static void test_delivery(void)
{
	struct owner low = {0}, high = {0};
	uint64_t v = htole64(0xa1a2a3a4a5a6a7a8);
	struct bus b;

	bus_init(&b, "mmio");
	need(!add(&b, 0x2000, 0x100, &high) && !add(&b, 0x1000, 0x1000, &low));
	is(read_at(&b, 0x1ff8, 8), 0x1122334455667788 + 0xff8, "an access reaches its owner");
	ok(low.off == 0xff8 && low.len == 8 && !high.calls,
	   "with its offset and length, and nobody else");
	for (unsigned len = 1; len <= 8; len++) {
		bus_write(&b, 0x2001, &v, len);
		ok(high.off == 1 && high.len == len &&
			   high.written == (len == 8
						    ? 0xa1a2a3a4a5a6a7a8
						    : 0xa1a2a3a4a5a6a7a8 & ((1ull << 8 * len) - 1)),
		   "a write of %u bytes arrives whole and unaligned", len);
	}
	bus_fini(&b);
}

static void test_nobody(void)
{
	struct owner o = {0};
	uint64_t v = 0, data[4] = {0};
	struct bus b;

	bus_init(&b, "pio");
	is(read_at(&b, 0x80, 1), 0xff, "a read on an empty bus is all ones");
	need(!add(&b, 0x1000, 0x10, &o));
	is(read_at(&b, 0xfff, 1), 0xff, "a read just below a range is all ones");
	is(read_at(&b, 0x1010, 4), 0xffffffff, "a read just above a range is all ones");
	is(read_at(&b, 0x100e, 4), 0xffffffff, "a read over the end of a range is all ones");
	is(read_at(&b, 0xffe, 4), 0xffffffff, "a read over the start of a range is all ones");
	is(read_at(&b, UINT64_MAX, 8), -1, "a read at the end of the address space is all ones");
	bus_write(&b, 0x100e, &v, 4);
	bus_write(&b, 0x80, &v, 1);
	bus_read(&b, 0x1000, data, 9);
	bus_write(&b, 0x1000, data, 9);
	bus_write(&b, 0x1000, data, 0);
	ok(!o.calls, "and none of that, nor an odd length, reaches the owner");
	ok(data[0] == UINT64_MAX && data[1] == 0xff && !data[2],
	   "an odd length reads as all ones, to its end");

	need(!add(&b, 0x1010, 0x10, &o));
	is(read_at(&b, 0x100e, 4), 0xffffffff, "a read over two ranges side by side is all ones");
	bus_remove(&b, 0x1000, &o);
	is(read_at(&b, 0x1000, 2), 0xffff, "a removed range reads as all ones");
	is(o.calls, 0, "and its owner is left alone");
	bus_fini(&b);
}

static void test_silent_owner_read(void *o, uint64_t off, void *data, unsigned len)
{
	(void)o;
	(void)off;
	(void)data;
	(void)len;
}

static void test_silent_owner(void)
{
	static const struct bus_ops ops = {.read = test_silent_owner_read, .write = owner_write};
	struct bus b;

	bus_init(&b, "mmio");
	need(!bus_add(&b, &(struct bus_range){.base = 0, .len = 8, .ops = &ops, .name = "silent"}));
	is(read_at(&b, 0, 4), 0xffffffff, "what an owner does not answer is ones, not our stack");
	bus_fini(&b);
}

static void test_add(void)
{
	struct owner o = {0}, other = {0};
	struct bus b;
	unsigned n = 0;

	bus_init(&b, "mmio");
	need(!add(&b, 0x1000, 0x1000, &o));
	is(add(&b, 0x1000, 0x1000, &o), -EEXIST, "the same range twice is refused");
	is(add(&b, 0x1fff, 1, &o), -EEXIST, "a range inside another is refused");
	is(add(&b, 0x0, 0x1001, &o), -EEXIST, "a range over the start of another is refused");
	is(add(&b, 0x0, 0x10000, &o), -EEXIST, "a range around another is refused");
	is(add(&b, 0x3000, 0, &o), -EINVAL, "an empty range is refused");
	is(add(&b, UINT64_MAX - 1, 4, &o), -EINVAL, "a range that wraps is refused");
	ok(!add(&b, 0x0, 0x1000, &o) && !add(&b, 0x2000, 0x1000, &o), "ranges may touch");
	bus_remove(&b, 0x1000, &other);
	bus_remove(&b, 0x1001, &o);
	bus_remove(&b, UINT64_MAX, &o);
	is(b.n, 3, "a range is removed by its owner and its base only");
	while (!add(&b, 0x10000 + n * 0x10, 0x10, &o))
		n++;
	is(n, BUS_RANGES - 3, "the table takes as many ranges as it has room for");
	is(add(&b, 0x80000, 1, &o), -ENOSPC, "and refuses the next");
	bus_remove(&b, 0x10000, &o);
	is(add(&b, 0x80000, 1, &o), 0, "until one is removed");
	bus_fini(&b);
}

static void test_callback_removes(void)
{
	struct bus b;
	struct owner o = {.remove_from = &b, .base = 0x100};

	bus_init(&b, "mmio");
	need(!add(&b, 0x100, 8, &o));
	read_at(&b, 0x100, 4);
	ok(o.calls == 1 && b.n == 0, "an owner may remove his range while he is called");
	bus_fini(&b);
}

static void test_log(void)
{
	struct capture cap;
	char text[8192];
	struct bus b;
	unsigned lines = 0;

	capture_begin(&cap);
	bus_init(&b, "pio");
	for (unsigned port = 0; port < 65536; port++)
		read_at(&b, port, 1);
	is(lseek(cap.memfd, 0, SEEK_END), 0, "a guest that tries every port prints nothing");
	log_set_level(LOG_DEBUG);
	for (unsigned port = 0; port < 65536; port++)
		read_at(&b, port, 1);
	log_set_level(LOG_WARN);
	capture_end(&cap, text, sizeof(text));
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	ok(lines >= 10 && lines < 60, "and with debugging on a few lines a second");
	bus_fini(&b);
}

/* ---- a range moves while others use it ---- */

struct mover {
	struct bus *bus;
	struct owner *owner;
	bool stop;
};

static void *move(void *arg)
{
	struct mover *m = arg;

	for (unsigned i = 0; i < 2000; i++) {
		bus_remove(m->bus, i % 2 ? 0x3000 : 0x1000, m->owner);
		need(!add(m->bus, i % 2 ? 0x1000 : 0x3000, 8, m->owner));
	}
	__atomic_store_n(&m->stop, true, __ATOMIC_RELAXED);
	return NULL;
}

static void fixed_read(void *o, uint64_t off, void *data, unsigned len)
{
	bus_store(data, len, (uintptr_t)o + off);
}

static void test_move(void)
{
	static const struct bus_ops ops = {.read = fixed_read, .write = owner_write};
	struct owner moving = {0};
	struct mover m = {.owner = &moving};
	unsigned wrong = 0, rounds = 0;
	struct bus b;
	pthread_t t;

	bus_init(&b, "mmio");
	m.bus = &b;
	need(!bus_add(&b, &(struct bus_range){.base = 0x2000,
					      .len = 8,
					      .ops = &ops,
					      .owner = (void *)0x5000,
					      .name = "still"}));
	need(!add(&b, 0x1000, 8, &moving));
	need(!pthread_create(&t, NULL, move, &m));
	do {
		uint64_t v = read_at(&b, 0x1000, 8);

		wrong += v != UINT64_MAX && v != 0x1122334455667788;
		wrong += read_at(&b, 0x2004, 4) != 0x5004;
		rounds++;
	} while (!__atomic_load_n(&m.stop, __ATOMIC_RELAXED));
	pthread_join(t, NULL);
	ok(rounds && !wrong, "while a range moves, an access meets it whole or not at all, and "
			     "others are not disturbed");
	is(read_at(&b, 0x1000, 8), 0x1122334455667788, "and it ends where it was put");
	bus_fini(&b);
}

int main(void)
{
	test_delivery();
	test_nobody();
	test_silent_owner();
	test_add();
	test_callback_removes();
	test_log();
	test_move();
	return done();
}
