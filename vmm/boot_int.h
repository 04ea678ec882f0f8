// SPDX-License-Identifier: Apache-2.0
/*
 * boot_int.h - what boot.c and the image kinds (boot_bzimage.c, boot_elf.c) share, and nobody else.
 *
 * A kind checks its header, asks boot_kernel_check() for the place it wants, loads, and fills the
 * kernel's part of arch_boot and the two limits in the loader. Every function that fails has logged
 * one line that names the file.
 */
#ifndef VMM_BOOT_INT_H
#define VMM_BOOT_INT_H

#include "boot.h"

/* Enough for every magic, the ELF header and the longest setup header (0x202 + 255). */
#define BOOT_HEAD_LEN 1024u

struct boot_file {
	int fd;
	const char *what, *path; /* "kernel", "initrd" */
	uint64_t size;
};

struct boot_loader {
	const struct mem *mem;
	struct boot_file kernel;
	uint8_t head[BOOT_HEAD_LEN]; /* the first bytes of the kernel, zero where it is shorter */
	uint64_t initrd_end;         /* the kernel finds no initrd byte at or above this */
	size_t cmdline_max;          /* without the NUL */
	struct arch_boot *boot;
};

/* -ENOEXEC (truncated) unless n bytes at off are in the file. */
int boot_file_check(const struct boot_file *, uint64_t off, uint64_t n) must_check;
/* n bytes at off, which were checked to be in the file; -EIO. */
int boot_file_read(const struct boot_file *, uint64_t off, void *dst, uint64_t n) must_check;
/* The same into RAM, where [addr, addr + n) was checked too. */
int boot_file_load(const struct boot_loader *, const struct boot_file *, uint64_t off,
		   uint64_t addr, uint64_t n) must_check;
/* Whether the kernel can have [start, start + len): 0, -ENOEXEC (never), -ENOMEM (with more RAM). */
int boot_kernel_check(const struct boot_loader *, uint64_t start, uint64_t len) must_check;
/* Says why this is no kernel for us; -ENOEXEC. */
int boot_kernel_refuse(const struct boot_loader *, const char *why) must_check;

bool boot_is_bzimage(const struct boot_loader *);
int boot_load_bzimage(struct boot_loader *) must_check;
int boot_load_elf(struct boot_loader *) must_check;

#endif
