// SPDX-License-Identifier: Apache-2.0
/*
 * randread.c - N reads of 4 KiB at random places of a file or disk, one at a time: O_DIRECT, or with -m by touching a
 * mapping; with -j by so many processes at once, N each. Static, for an initramfs. The offsets are the same in every run.
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096u

static uint64_t state = 0x9e3779b97f4a7c15;

static uint32_t random_u32(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

static void read_all(const char *path, bool map, unsigned n)
{
	static uint8_t buf[BLOCK] __attribute__((aligned(BLOCK)));
	int fd = open(path, map ? O_RDONLY : O_RDONLY | O_DIRECT);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	uint8_t *file = NULL;

	if (size < BLOCK)
		err(1, "%s", path);
	if (map)
		file = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		err(1, "mmap");
	while (n--) {
		off_t off = (off_t)(random_u32() % (uint32_t)(size / BLOCK)) * BLOCK;

		if (map)
			memcpy(buf, file + off, BLOCK);
		else if (pread(fd, buf, BLOCK, off) != BLOCK)
			err(1, "read");
	}
}

int main(int argc, char **argv)
{
	unsigned jobs = 1, n;
	bool map = false;
	int status = 0, o;

	while ((o = getopt(argc, argv, "mj:")) != -1) {
		if (o == 'm')
			map = true;
		else
			jobs = o == 'j' ? (unsigned)atoi(optarg) : 0;
	}
	if (argc != optind + 2 || !jobs)
		errx(2, "usage: randread [-m] [-j JOBS] FILE N");
	n = (unsigned)atoi(argv[optind + 1]);
	for (unsigned i = 1; i < jobs; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			state *= 2 * i + 1; /* other places */
			read_all(argv[optind], map, n);
			return 0;
		}
	}
	read_all(argv[optind], map, n);
	while (wait(&o) > 0)
		status |= o;
	return status != 0;
}
