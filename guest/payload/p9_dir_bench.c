// SPDX-License-Identifier: Apache-2.0
/*
 * p9_dir_bench.c - how fast entries of job.dir come over 9p: an operation is one entry.
 *
 * readdir: the directory is opened, read to its end in requests of job.bs bytes, and closed. readdirplus: 9p has no such
 * request; each entry is then walked to, its attributes are asked for, and it is let go. Calls: p9.c.
 */
#include "bench.h"
#include "p9.h"
#include <linux/fcntl.h>

#define ENTRY_FIXED 24u /* qid[13] offset[8] type[1] name-length[2] */
#define ONE         (P9_SLOT + 0)

static uint64_t read_piece(uint64_t *off, uint32_t bs, char (*names)[32], uint32_t max, uint32_t *n)
{
	uint32_t len, step;

	p9_begin(0, P9_TREADDIR);
	p9_u32(0, ONE + 1);
	p9_u64(0, *off);
	p9_u32(0, bs);
	len = p9_call(pool, bs);
	*n = 0;
	for (uint32_t at = 0; at < len && *n < max; at += step, ++*n) {
		uint16_t name;

		memcpy(off, pool + at + 13, sizeof(*off));
		memcpy(&name, pool + at + 22, sizeof(name));
		step = ENTRY_FIXED + name;
		if (name >= sizeof(names[0]))
			give_up("9p: a name of %u bytes: they may have 31 here", name);
		memset(names[*n], 0, sizeof(names[*n]));
		memcpy(names[*n], pool + at + ENTRY_FIXED, name);
	}
	return len;
}

/* Not at the directory itself and the one above: a kernel has those, and no server need walk to ".". */
static void look_at(const char *name)
{
	if (text_equal(name, ".") || text_equal(name, ".."))
		return;
	p9_walk(P9_DIR, ONE, name);
	p9_begin(0, P9_TGETATTR);
	p9_u32(0, ONE);
	p9_u64(0, P9_ALL);
	p9_call(NULL, 0);
	p9_clunk(ONE);
}

static uint64_t read_once(const struct job *j, bool plus)
{
	static char names[SLOT_BYTES / ENTRY_FIXED][32];
	uint64_t off = 0, entries = 0;
	uint32_t n;

	p9_walk(P9_DIR, ONE + 1, NULL);
	p9_open(ONE + 1, O_RDONLY | O_DIRECTORY);
	while (read_piece(&off, j->bs, names, ARRAY_LEN(names), &n)) {
		entries += n;
		for (uint32_t i = 0; plus && i < n; i++)
			look_at(names[i]);
	}
	p9_clunk(ONE + 1);
	return entries;
}

void p9_dir_job(struct job *j, bool plus)
{
	struct vq *q = p9_queue();
	uint64_t kicks = q->kicks, kick_cycles = q->kick_cycles, t0 = cpu_tsc();
	struct tally t = {0};

	p9_walk(P9_ROOT, P9_DIR, j->dir);
	stat_begin();
	do {
		uint64_t begun = cpu_tsc(), n = read_once(j, plus), took = cpu_tsc() - begun;

		t.cycles += took;
		t.all += n;
		for (uint64_t i = 0; i < n; i++)
			stat_add(took / n);
	} while (!clock_passed(t0, j->ms));
	t.kicks = q->kicks - kicks;
	t.kick_cycles = q->kick_cycles - kick_cycles;
	p9_clunk(P9_DIR);
	j->qd = 1;
	stat_print("9p", j, &t);
}
