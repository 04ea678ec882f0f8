// SPDX-License-Identifier: Apache-2.0
/*
 * randread.c - N reads of 4 KiB at random places of a file, one at a time: O_DIRECT, or with -m by touching a mapping.
 * Static, for an initramfs. The offsets are the same in every run.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096u

static uint32_t random_u32(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

int main(int argc, char **argv)
{
	static uint8_t buf[BLOCK] __attribute__((aligned(BLOCK)));
	int map = argc == 4 && !strcmp(argv[1], "-m");
	uint8_t *file = NULL;
	struct stat st;
	unsigned n;
	int fd;

	if (argc != 3 + map)
		errx(2, "usage: randread [-m] FILE N");
	fd = open(argv[1 + map], map ? O_RDONLY : O_RDONLY | O_DIRECT);
	if (fd < 0 || fstat(fd, &st) || st.st_size < BLOCK)
		err(1, "%s", argv[1 + map]);
	if (map)
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		err(1, "mmap");
	n = (unsigned)atoi(argv[2 + map]);
	while (n--) {
		off_t off = (off_t)(random_u32() % (uint32_t)(st.st_size / BLOCK)) * BLOCK;

		if (map)
			memcpy(buf, file + off, BLOCK);
		else if (pread(fd, buf, BLOCK, off) != BLOCK)
			err(1, "read");
	}
	return 0;
}
