// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_p9.c - the 9P server fed with messages by libFuzzer, on a real directory beside one that must not change.
 *
 * An input says how the share is configured and then what is asked of it:
 *
 *   server | share | owner | (type | spoil | room / 16 | fields of the body ...) ...
 *
 * p9_guess.h makes messages of it. Every one must be answered or refused, whatever it says, and nothing may be left when the
 * session ends. What was changed is taken back before the next input; files cannot grow beyond RLIMIT_FSIZE.
 */
#include "../p9_guess.h"
#include "tree.h"

#define PARKED_MAX 16

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sent *parked[PARKED_MAX];
static unsigned nparked;

/* ---- the server ---- */

static void server_open(struct input *in)
{
	const uint8_t bits = (uint8_t)take(in, 1), mine = (uint8_t)take(in, 1);
	const struct share_config share = share_of(mine, (uint8_t)take(in, 1));
	const struct p9_config cfg = {.msize_max = DOOR_MSIZE, .multidevs = bits % 3};

	must(!share_open(&door.share, "p9", &share));
	must(!p9_create(&door.p9, "p9", door.share, &cfg));
	if (bits & 4)
		return; /* no session yet */
	guess_session(bits & 8 ? P9_MSIZE_MIN : DOOR_MSIZE);
	if (bits & 16 && !share.readonly)
		make_slow(2);
}

static void server_close(void)
{
	loop_call(door.io, door_end, NULL);
	for (; nparked; nparked--) {
		sent_judge(parked[nparked - 1]);
		sent_free(parked[nparked - 1]);
	}
	/* By the iothread, which then has done with the last answer too. */
	must(held_only(0));
	p9_destroy(door.p9);
	share_close(door.share);
}

/* ---- requests ---- */

/* What is agreed on from now on is in the answer; what comes in between is not measured. */
static void judge_version(struct sent *s)
{
	struct p9_rversion o = {{0}};
	int r;

	door.msize = 0;
	r = sent_judge(s);
	if (r >= (int)sizeof(o) + 2 + 8 && r != DOOR_SILENCE)
		memcpy(&o, s->wr + P9_HEADER, sizeof(o));
	door.msize = le32_get(o.msize);
}

/* Who waits for a lock may do so for a second, and who flushes him. */
static void judge(struct sent *s)
{
	if ((s->type == P9_TLOCK || s->type == P9_TFLUSH) && !s->refused && !sent_answered(s)) {
		parked[nparked++] = s;
		return;
	}
	if (s->type == P9_TVERSION)
		judge_version(s);
	else
		sent_judge(s);
	sent_free(s);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	tree_set_up("fuzz_p9");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	tree_make();
	door.tag = 0;
	door.msize = 0;
	server_open(&in);
	while (in.left && nparked < PARKED_MAX)
		judge(sent_send(guess(&in)));
	server_close();
	tree_clear();
	check_outside();
	if (tap_failed)
		abort();
	return 0;
}
