// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - the command line: options, then jobs in their order, then the power off.
 *
 *   DEV[N]:OP[,OP..][:bs=4k,128k][:qd=1,16][:t=MS][:n=COUNT][:size=SPAN][:files=N][:file=NAME][:dir=NAME][:queues=N]
 *         [:id=TEXT]
 *
 * DEV is blk, fs, 9p or rng (N: which of them, from 0), host or end. A benchmark OP is run for every bs and qd and prints
 * one RESULT line each; a test OP prints lines in TAP. Words without a colon are options.
 *
 *   blk    test testro ring reset irq registers, read write randread randwrite randrw flush exit doorbell
 *   fs     test testro queues more dax daxro, read write randread randwrite getattr lookup fsync stat openread create unlink
 *          readdir readdirplus daxread exit doorbell
 *   9p     test testro, the same benchmarks but daxread
 *   rng    test          host   test, spin pio cpuid
 *   end    poweroff acpi-reset pci-reset i8042-reset panic triple-fault hang
 */
#include "start.h"
#include "virtio.h"

struct options options = {.indirect = true, .event_idx = true};

static void blk_run(struct vdev *d, struct job *j)
{
	if (text_equal(j->op, "test"))
		blk_test(d, j);
	else if (text_equal(j->op, "testro"))
		blk_test_readonly(d);
	else if (text_equal(j->op, "ring"))
		ring_test(d);
	else if (text_equal(j->op, "reset"))
		reset_test(d);
	else if (text_equal(j->op, "irq"))
		irq_test(d);
	else if (text_equal(j->op, "registers"))
		register_test(d);
	else
		blk_job(d, j);
}

static void fs_run(struct vdev *d, struct job *j)
{
	if (text_equal(j->op, "test"))
		fs_test(d, j);
	else if (text_equal(j->op, "testro"))
		fs_test_readonly(d);
	else if (text_equal(j->op, "queues"))
		fs_queue_test(d, j);
	else if (text_equal(j->op, "more"))
		fs_more_test(d);
	else if (text_equal(j->op, "dax"))
		fs_dax_test(d);
	else if (text_equal(j->op, "daxro"))
		fs_dax_test_readonly(d);
	else
		fs_job(d, j);
}

static void p9_run(struct vdev *d, struct job *j)
{
	if (text_equal(j->op, "test"))
		p9_test(d);
	else if (text_equal(j->op, "testro"))
		p9_test_readonly(d);
	else
		p9_job(d, j);
}

static void rng_run(struct vdev *d, struct job *j)
{
	(void)j;
	rng_test(d);
}

static const struct {
	const char *name;
	uint16_t type;
	void (*run)(struct vdev *, struct job *);
} kinds[] = {
	{"blk", VIRTIO_ID_BLOCK, blk_run},
	{"fs", VIRTIO_ID_FS, fs_run},
	{"9p", VIRTIO_ID_9P, p9_run},
	{"rng", VIRTIO_ID_RNG, rng_run},
};

static void run_on_device(const char *dev, struct job *j)
{
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		const char *nth = dev + strlen(kinds[i].name);
		struct vdev *d;

		if (!text_begins(dev, kinds[i].name))
			continue;
		d = virtio_find(kinds[i].type, (unsigned)text_number(nth, NULL));
		if (!d)
			give_up("%s:%s: there is no such device", dev, j->op);
		kinds[i].run(d, j);
		return;
	}
	give_up("%s: unknown", dev);
}

static void run_job(const char *dev, struct job *j)
{
	if (text_equal(dev, "host") && text_equal(j->op, "test"))
		platform_test();
	else if (text_equal(dev, "host"))
		host_job(j);
	else if (text_equal(dev, "end"))
		end_job(j->op);
	else
		run_on_device(dev, j);
}

/* ---- words of the command line ---- */

struct spec {
	char dev[16];
	const char *ops, *bss, *qds;
	struct job job;
};

static void parse_field(struct spec *s, unsigned field, const char *f)
{
	struct job *j = &s->job;

	if (field == 0)
		text_item(f, s->dev, sizeof(s->dev));
	else if (field == 1)
		s->ops = f;
	else if (text_begins(f, "bs="))
		s->bss = f + 3;
	else if (text_begins(f, "qd="))
		s->qds = f + 3;
	else if (text_begins(f, "n="))
		j->n = text_number(f + 2, NULL);
	else if (text_begins(f, "t="))
		j->ms = (uint32_t)text_number(f + 2, NULL);
	else if (text_begins(f, "size="))
		j->size = text_number(f + 5, NULL);
	else if (text_begins(f, "files="))
		j->files = (uint32_t)text_number(f + 6, NULL);
	else if (text_begins(f, "queues="))
		j->queues = (uint32_t)text_number(f + 7, NULL);
	else if (text_begins(f, "file="))
		text_item(f + 5, j->file, sizeof(j->file));
	else if (text_begins(f, "dir="))
		text_item(f + 4, j->dir, sizeof(j->dir));
	else if (text_begins(f, "id="))
		text_item(f + 3, j->id, sizeof(j->id));
	else
		give_up("unknown key %s", f);
}

/* Splits word in place. */
static void parse_spec(struct spec *s, char *word)
{
	char *f = word;

	for (unsigned field = 0; f; field++) {
		char *end = f;

		while (*end && *end != ':')
			end++;
		if (*end)
			*end++ = 0;
		else
			end = NULL;
		parse_field(s, field, f);
		f = end;
	}
}

static void run_op(const struct spec *s, const char *op)
{
	char bs[16], qd[16];

	for (const char *b = s->bss; b;) {
		b = text_item(b, bs, sizeof(bs));
		for (const char *q = s->qds; q;) {
			struct job j = s->job;

			q = text_item(q, qd, sizeof(qd));
			j.op = op;
			j.bs = (uint32_t)text_number(bs, NULL);
			j.qd = (uint32_t)text_number(qd, NULL);
			if (j.bs > 1u << 20 || !j.qd)
				give_up("bs=%s qd=%s: out of range", bs, qd);
			run_job(s->dev, &j);
			if (options.step)
				console_wait_key();
		}
	}
}

static void run_spec(char *word)
{
	struct spec s = {.ops = "",
			 .bss = "4096",
			 .qds = "1",
			 .job = {.ms = 1000, .files = 1000, .file = "bench.dat", .dir = "small"}};
	char op[24];

	parse_spec(&s, word);
	for (const char *o = s.ops; o;) {
		o = text_item(o, op, sizeof(op));
		run_op(&s, op);
	}
}

static void set_option(const char *word)
{
	if (text_equal(word, "noindirect"))
		options.indirect = false;
	else if (text_equal(word, "noevent"))
		options.event_idx = false;
	else if (text_equal(word, "quick"))
		options.quick = true;
	else if (text_equal(word, "step"))
		options.step = true;
	else if (text_begins(word, "sg="))
		options.sg = (uint32_t)text_number(word + 3, NULL);
	else if (text_begins(word, "tsc_khz="))
		clock_tsc_khz = text_number(word + 8, NULL);
}

/* Other words (console=ttyS0, root=...) are the VMM's for Linux. */
static void each_word(void (*fn)(char *), bool jobs)
{
	static char word[512];

	for (const char *p = cmdline; *p;) {
		size_t n = 0;
		bool colon = false;

		while (*p == ' ')
			p++;
		for (; *p && *p != ' ' && n + 1 < sizeof(word); p++) {
			colon |= *p == ':' && n;
			word[n++] = *p;
		}
		word[n] = 0;
		if (n && colon == jobs && !text_begins(word, "virtio_mmio."))
			fn(word);
	}
}

static void option_word(char *word)
{
	set_option(word);
}

void payload_main(void)
{
	each_word(option_word, false);
	clock_init();
	/* Short, so that whoever measures how soon a machine starts sees it soon. */
	print("payload: ready, %lu us\n", clock_us_since_start());
	print("payload: tsc_khz=%lu: %s\n", clock_tsc_khz, cmdline);
	virtio_find_all();
	if (options.step) {
		print("payload: waits\n");
		console_wait_key();
	}
	each_word(run_spec, true);
	tap_end();
	print("payload: end\n");
	end_power_off();
}
