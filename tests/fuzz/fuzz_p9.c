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
#include <signal.h>
#include <sys/resource.h>

#define FILE_MAX   MIB(4)
#define PARKED_MAX 16

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int top, outside; /* what holds the share, and what is beside it */
static struct stat before[2];
static struct sent *parked[PARKED_MAX];
static unsigned nparked;

/* ---- the tree ---- */

static void tree_clear(void)
{
	if (unlinkat(top, "share", AT_REMOVEDIR) && errno == ENOENT)
		return;
	must(!fchmodat(top, "share", 0700, 0)); /* whatever it is by now */
	door.dir = openat(top, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(door.dir >= 0);
	host_clear(door.dir);
	close(door.dir);
	must(!unlinkat(top, "share", AT_REMOVEDIR));
}

static void tree_make(void)
{
	must(!mkdirat(top, "share", 0755));
	door.dir = openat(top, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(door.dir >= 0);
	host_write("f", "contents of a file", 18);
	must(!mkdirat(door.dir, "d", 0755));
	host_write("d/g", "", 0);
	must(!symlinkat("../outside/secret", door.dir, "s"));
	must(!mkfifoat(door.dir, "p", 0600));
	close(door.dir);
}

static void look_outside(struct stat st[2])
{
	must(!fstat(outside, &st[0]) && !fstatat(outside, "secret", &st[1], AT_SYMLINK_NOFOLLOW));
}

/* Times too: nobody has so much as tried. */
static void check_outside(void)
{
	struct stat now[2];

	look_outside(now);
	for (unsigned i = 0; i < 2; i++)
		must(now[i].st_ino == before[i].st_ino && now[i].st_mode == before[i].st_mode &&
		     now[i].st_uid == before[i].st_uid && now[i].st_nlink == before[i].st_nlink &&
		     now[i].st_size == before[i].st_size &&
		     !memcmp(&now[i].st_mtim, &before[i].st_mtim, sizeof(struct timespec)) &&
		     !memcmp(&now[i].st_ctim, &before[i].st_ctim, sizeof(struct timespec)));
}

/* ---- the server ---- */

static struct share_config share_of(uint8_t bits, uint8_t owner)
{
	const bool root = share_owner_passes();
	struct share_config c = {.path = door.top,
				 .readonly = (bits & 3) == 3,
				 .xattr = !(bits & 4),
				 .locks = bits & 8 ? SHARE_LOCKS_HOST : SHARE_LOCKS_GUEST,
				 .fd_budget = bits & 64 ? 32 : 0,
				 .owner = owner % 4};

	if (c.owner == SHARE_OWNER_PASSTHROUGH && !root)
		c.owner = SHARE_OWNER_AUTO;
	c.posix_acl = root && c.xattr && bits & 128 && c.owner < SHARE_OWNER_SQUASH;
	return c;
}

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

static void tear_down(void)
{
	iothread_destroy(door.io);
	unlinkat(outside, "secret", 0);
	unlinkat(top, "outside", AT_REMOVEDIR);
	*strrchr(door.top, '/') = 0;
	rmdir(door.top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const struct rlimit limit = {FILE_MAX, FILE_MAX};
	struct share_config share = {.path = door.top};
	size_t n;

	(void)argc;
	(void)argv;
	/* The sanitizers make calls that no thread of ours may. */
	setenv("WHERRY_SECCOMP", "off", 1);
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	door_set_up("fuzz_p9");
	top = door.dir;
	must(!mkdirat(top, "outside", 0755));
	outside = openat(top, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	door.dir = outside;
	host_write("secret", "nobody has a right to this", 26);
	look_outside(before);
	n = strlen(door.top);
	strcpy(door.top + n, "/share");
	tree_make();
	/* What the thread is prepared with is the same for every share. */
	must(!share_open(&door.share, "p9", &share));
	must(!iothread_create(&door.io, "p9", LOOP_AUTO, 64, &share_syscalls));
	must(!iothread_start(door.io, door_init, NULL));
	share_close(door.share);
	tree_clear();
	atexit(tear_down);
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
