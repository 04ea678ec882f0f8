// SPDX-License-Identifier: Apache-2.0
/*
 * boot.h - kernel image, initrd and command line into RAM.
 *
 * Told apart by content: bzImage (x86 boot protocol >= 2.12 with XLF_KERNEL_64, entered at its 64-bit entry), ELF
 * vmlinux by its PVH note (XEN_ELFNOTE_PHYS32_ENTRY) or, without one, its 64-bit entry. Everything else is refused by
 * name: wrong architecture, truncated, gzip, EFI zboot. The initrd goes to the highest page-aligned place below
 * initrd_addr_max, the low RAM end and 4 GiB, above the kernel's init_size (hard cases C8, C9).
 */
#ifndef VMM_BOOT_H
#define VMM_BOOT_H

#include "arch.h"

struct mem;

struct boot_files {
	int kernel_fd, initrd_fd;              /* initrd_fd -1: none. Borrowed, read with pread. */
	const char *kernel_path, *initrd_path; /* for messages */
	const char *cmdline;
};

/*
 * Loads and fills *out (entry, addresses, setup header, command line). RAM must be zero as made. Errors are one
 * logged line with object and remedy: -ENOEXEC image not understood or truncated, -ENOMEM does not fit (says how much
 * RAM is needed), -E2BIG command line longer than the image's cmdline_size, -EIO read failed.
 */
int boot_load(struct mem *, const struct boot_files *, struct arch_boot *out) must_check;

/* Inserts params before a " -- " of cmdline or at its end (hard case C12); -E2BIG if it does not fit cap. */
int boot_cmdline_add(char *cmdline, size_t cap, const char *params) must_check;

#endif
