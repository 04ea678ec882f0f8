// SPDX-License-Identifier: Apache-2.0
/*
 * t_blk_crash.c - the image of a machine that is killed at work holds what the machine had promised.
 *
 * A child opens an image as a machine does, and a driver in it writes records to scattered places, on two queues at depth,
 * with flushes in between. What it has asked for and what it was answered it notes in memory that we share. We kill it with
 * SIGKILL, look at each sector, and the next child goes on with the image as it is. A sector tells who wrote it: the number
 * of the record and the place are in it, and all of its bytes follow from them.
 *
 * What a kill shows: that no answer runs ahead of what was done, that nothing is torn within a sector, and that no other
 * place is touched. What it cannot show: a flush that does nothing, because the host's page cache outlives the process. So
 * power fails too, as far as that can be played: on the engine of threads fdatasync() is ours. It copies the image as it is
 * when the call begins, and that is the medium from when the call returns on; after the kill the medium has to hold all
 * that was flushed. What the ring makes of its fdatasync, and the host's disk of any, is not seen here.
 *
 * SEED=N runs N again, as far as threads do.
 */
#include "blk_rig.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* The image is of slots, each with one write out at most: the order of two is not promised. Its last sector is nobody's. */
#define SLOTS    64u
#define SLOT     16u
#define PLACES   (SLOTS * SLOT)
#define IMAGE    (PLACES * 512)
#define QUEUES   2u
#define JOBS     16u /* of a queue, with four descriptors each */
#define DATA_MAX (SLOT * 512)

static struct shared {
	/* Numbers of records: the last one whose flush was completed, the last one that was acknowledged, the last one. */
	struct {
		uint32_t flushed, acked, out;
	} at[PLACES];
	uint32_t seq, acks, flushes, errors;
	unsigned medium;
	uint8_t media[2][IMAGE];
} * shared;

static uint64_t dice_state;

static unsigned dice(unsigned sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (unsigned)(dice_state >> 20) % sides;
}

/* ---- records ---- */

static void record_fill(uint8_t *p, uint32_t seq, uint32_t place)
{
	uint64_t words[64] = {(uint64_t)seq << 32 | place};

	for (unsigned i = 1; i < ARRAY_LEN(words); i++)
		words[i] = (words[i - 1] ^ words[i - 1] >> 29) * 0xbf58476d1ce4e5b9ull + i;
	memcpy(p, words, sizeof(words));
}

#define TORN UINT32_MAX

/* The number of the record that this sector of it is of. */
static uint32_t record_of(const uint8_t *p, uint32_t place)
{
	uint8_t want[512];
	uint64_t first;

	memcpy(&first, p, sizeof(first));
	record_fill(want, (uint32_t)(first >> 32), place);
	return memcmp(p, want, sizeof(want)) ? TORN : (uint32_t)(first >> 32);
}

/* ---- the medium ---- */

static bool play_medium;
static pthread_mutex_t medium_lock = PTHREAD_MUTEX_INITIALIZER;

/* A thread of the pool calls this, under its filter. */
int fdatasync(int fd)
{
	unsigned next;
	ssize_t n;

	if (!play_medium)
		return (int)syscall(SYS_fdatasync, fd);
	pthread_mutex_lock(&medium_lock);
	next = !shared->medium;
	n = preadv2(file, &(struct iovec){shared->media[next], IMAGE}, 1, 0, 0);
	/* One store: whenever we are killed, one of the two is whole. */
	__atomic_store_n(&shared->medium, next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&medium_lock);
	return n == IMAGE ? 0 : -1;
}

/* ---- the driver, in the child ---- */

static struct job {
	bool busy;
	uint32_t type, seq, first, n; /* of a write: its record, and where that lies */
	uint64_t header, data, status;
	uint32_t acked[PLACES]; /* of a flush: what was acknowledged when it was asked for */
} jobs[QUEUES][JOBS];
static bool slot_busy[SLOTS];
static bool through; /* no flushes: what is acknowledged is durable */

static void job_memory(struct job *j)
{
	j->header = fg_alloc(fg, sizeof(struct virtio_blk_outhdr), 16);
	j->data = fg_alloc(fg, DATA_MAX + 16, 4096);
	j->status = fg_alloc(fg, 1, 16);
}

/* Half of all are whole blocks, aligned, in one piece; the others lie and are cut anyhow. */
static void job_write(struct job *j)
{
	unsigned slot = dice(SLOTS);

	while (slot_busy[slot])
		slot = (slot + 1) % SLOTS;
	slot_busy[slot] = true;
	j->type = VIRTIO_BLK_T_OUT;
	j->seq = ++shared->seq;
	j->n = dice(2) ? 8 : 1 + dice(SLOT - 1);
	j->first = slot * SLOT + (j->n == 8 ? 0 : dice(SLOT - j->n));
	for (uint32_t i = 0; i < j->n; i++)
		shared->at[j->first + i].out = j->seq;
}

static void job_flush(struct job *j)
{
	j->type = VIRTIO_BLK_T_FLUSH;
	j->n = 0;
	for (unsigned i = 0; i < PLACES; i++)
		j->acked[i] = shared->at[i].acked;
}

static void job_submit(unsigned q, unsigned k)
{
	struct job *j = &jobs[q][k];
	const struct virtio_blk_outhdr hdr = header(j->type, j->first);
	const uint16_t d = (uint16_t)(4 * k), last = (uint16_t)(d + 3);
	const uint32_t len = j->n * 512, cut = j->n == 8 ? 0 : dice(len + 1);
	const uint64_t data = j->data + (j->n == 8 ? 0 : 16 * dice(2));
	struct fg_queue *fq = &fg->q[q];
	uint16_t next = d;

	memcpy(fg_ptr(fg, j->header, sizeof(hdr)), &hdr, sizeof(hdr));
	*(uint8_t *)fg_ptr(fg, j->status, 1) = 0xff;
	for (uint32_t i = 0; i < j->n; i++)
		record_fill(fg_ptr(fg, data + 512 * i, 512), j->seq, j->first + i);
	if (cut && cut < len)
		fg_desc(fq, next = (uint16_t)(d + 2), data + cut, len - cut, VRING_DESC_F_NEXT,
			last);
	if (len)
		fg_desc(fq, (uint16_t)(d + 1), data, next == d ? len : cut, VRING_DESC_F_NEXT,
			next == d ? last : next);
	fg_desc(fq, d, j->header, sizeof(hdr), VRING_DESC_F_NEXT, len ? (uint16_t)(d + 1) : last);
	fg_desc(fq, last, j->status, 1, VRING_DESC_F_WRITE, 0);
	j->busy = true;
	fg_avail_push(fq, d);
	fg_kick(fq);
}

static void job_done(struct job *j)
{
	j->busy = false;
	if (*(uint8_t *)fg_ptr(fg, j->status, 1) != VIRTIO_BLK_S_OK) {
		shared->errors++;
		return;
	}
	if (j->type == VIRTIO_BLK_T_FLUSH) {
		for (unsigned i = 0; i < PLACES; i++)
			shared->at[i].flushed = MAX(shared->at[i].flushed, j->acked[i]);
		shared->flushes++;
		return;
	}
	slot_busy[j->first / SLOT] = false;
	for (uint32_t i = 0; i < j->n; i++) {
		shared->at[j->first + i].acked = j->seq;
		if (through)
			shared->at[j->first + i].flushed = j->seq;
	}
	shared->acks++;
}

static _Noreturn void at_work(struct blk_config cfg, unsigned enough, int ready)
{
	unsigned out[QUEUES] = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state *= 0x9e3779b97f4a7c15ull; /* not the numbers that the parent goes on with */
	cfg.queues = QUEUES;
	open_disk(cfg, F(MQ) | (through ? 0 : FLUSH));
	for (unsigned i = 0; i < QUEUES * JOBS; i++)
		job_memory(&jobs[i / JOBS][i % JOBS]);
	for (unsigned acks = shared->acks;;) {
		const unsigned q = dice(QUEUES);
		unsigned k = 0;

		if (out[q] < JOBS && dice(8)) {
			while (jobs[q][k].busy)
				k++;
			if (through || dice(10))
				job_write(&jobs[q][k]);
			else
				job_flush(&jobs[q][k]);
			job_submit(q, k);
			out[q]++;
		} else if (out[q]) {
			const int head = fg_used(&fg->q[q], NULL);

			need(head >= 0 && head % 4 == 0 && jobs[q][head / 4].busy);
			job_done(&jobs[q][head / 4]);
			out[q]--;
		}
		if (enough && shared->acks - acks >= enough) {
			enough = 0;
			need(write(ready, "x", 1) == 1);
		}
	}
}

/* ---- the judge ---- */

static struct {
	unsigned killed, lost, stale, strange, old, new, lost_power, resized;
} found;

static void judge_sector(uint32_t place, const uint8_t *image, const uint8_t *medium)
{
	const uint32_t flushed = shared->at[place].flushed, acked = shared->at[place].acked;
	const uint32_t out = shared->at[place].out;
	const uint32_t seq = record_of(image, place), kept = record_of(medium, place);

	if (seq == acked || seq == out) {
		found.old += seq != out;
		found.new += seq != acked;
	} else if (seq < flushed) {
		found.lost++;
	} else if (seq < acked) {
		found.stale++;
	} else {
		found.strange++;
	}
	/* The copy may have met a write that was under way, but not one that was over. */
	if (play_medium && (kept == TORN ? out == flushed : kept < flushed || kept > out))
		found.lost_power++;
	shared->at[place].flushed = shared->at[place].acked = shared->at[place].out = seq;
}

static void judge(void)
{
	static uint8_t image[IMAGE];
	const uint8_t *medium = shared->media[shared->medium];
	struct stat st;

	need(!fstat(file, &st) && pread(file, image, IMAGE, 0) == IMAGE);
	found.resized += st.st_size != IMAGE;
	for (uint32_t i = 0; i < PLACES; i++)
		judge_sector(i, image + i * 512, medium + i * 512);
	memcpy(shared->media[shared->medium], image, IMAGE);
}

/*
 * A write by O_DIRECT may outlive the process. The lock does as long, so that the next machine does not meet it, and
 * neither do we.
 */
static void wait_for_lock(void)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	alarm(20);
	need(!fcntl(file, F_OFD_SETLKW, &whole));
	alarm(0);
	whole.l_type = F_UNLCK;
	need(!fcntl(file, F_OFD_SETLK, &whole));
}

static void round_of(struct blk_config cfg)
{
	const unsigned enough = 1 + dice(80);
	const struct timespec more = {.tv_nsec = dice(400000)};
	int ready[2], status;
	pid_t pid;
	char c;

	need(!pipe2(ready, O_CLOEXEC));
	pid = fork();
	need(pid >= 0);
	if (!pid)
		at_work(cfg, enough, ready[1]);
	close(ready[1]);
	need(read(ready[0], &c, 1) == 1);
	nanosleep(&more, NULL);
	need(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
	close(ready[0]);
	found.killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	wait_for_lock();
	judge();
}

static void test_crash(struct blk_config cfg, unsigned rounds, const char *what)
{
	memset(&found, 0, sizeof(found));
	shared->acks = shared->flushes = shared->errors = 0;
	play_medium = cfg.io_engine == BLK_ENGINE_SYNC;
	for (unsigned i = 0; i < rounds; i++)
		round_of(cfg);
	is(found.killed, rounds, "%s: %u machines are killed at work", what, rounds);
	ok(found.old && found.new && shared->acks > rounds &&
		   (through || shared->flushes > rounds / 4),
	   "with writes under way of which some were done, and flushes behind them");
	is(shared->errors, 0, "no request had failed");
	is(found.lost, 0, "what was flushed is in the image");
	is(found.stale, 0, "so is all else that was acknowledged");
	is(found.strange, 0, "what was not is old or new in each sector, and nothing else changed");
	is(found.resized, 0, "the image is as long as it was");
	if (play_medium)
		is(found.lost_power, 0,
		   "and had power failed too, what was flushed would be there");
	printf("# %u writes and %u flushes; of those under way %u sectors were old and %u new\n",
	       shared->acks, shared->flushes, found.old, found.new);
}

static void begin(void)
{
	const char *seed = getenv("SEED");

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	need(shared != MAP_FAILED);
	dice_state =
		seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	printf("# SEED=%llu\n", (unsigned long long)dice_state);
	dice_state = dice_state * 2 + 1;
	rig_begin();
	for (uint32_t i = 0; i < PLACES; i++)
		record_fill(shared->media[0] + i * 512, 0, i);
	need(pwrite(file, shared->media[0], IMAGE, 0) == IMAGE);
}

static bool can_direct(void)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC | O_DIRECT);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int main(void)
{
	struct blk_config ring = PLAIN, threads = PLAIN;

	threads.io_engine = BLK_ENGINE_SYNC;
	begin();
	test_crash(ring, 25, "ring");
	test_crash(threads, 25, "threads");
	ring.direct = threads.direct = true;
	if (can_direct()) {
		test_crash(ring, 25, "ring, direct");
		test_crash(threads, 25, "threads, direct");
	} else {
		skip("the file system knows no O_DIRECT", "killed machines with direct");
	}
	threads.direct = false;
	through = true;
	test_crash(threads, 15, "threads, without flushes");
	rig_end();
	return done();
}
