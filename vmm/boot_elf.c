// SPDX-License-Identifier: Apache-2.0
/*
 * boot_elf.c - ELF vmlinux: its segments into RAM, its PVH note or its 64-bit entry.
 *
 * All segments are measured and checked before the first is loaded, at their physical addresses.
 * Every field of the file is bounded before use. RAM is zero when this runs, so bss is not cleared
 * again (which would only touch pages). Runs on the main thread before any vCPU.
 * Spec: ELF-64; the Xen x86/HVM direct boot ABI (PVH). Calls: boot_int.h, log.h.
 */
#include "boot_int.h"
#include "log.h"
#include "mem.h"
#include <elf.h>

/*
 * What a Linux vmlinux, which has no header to say it, takes: its COMMAND_LINE_SIZE less the NUL
 * (hard case C11).
 */
#define ELF_CMDLINE_MAX 2047u
#define ELF_PHDRS       32u
#define ELF_NOTES_LEN   KIB(64)
#define NOTE_PVH        18u /* XEN_ELFNOTE_PHYS32_ENTRY */

struct elf {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[ELF_PHDRS];
	uint64_t start, end; /* of all segments */
};

static const char *elf_machine(unsigned machine)
{
	switch (machine) {
	case EM_AARCH64:
		return "arm64";
	case EM_ARM:
		return "32-bit arm";
	case EM_386:
		return "32-bit x86";
	case EM_RISCV:
		return "riscv";
	case EM_S390:
		return "s390";
	case EM_PPC64:
		return "ppc64";
	default:
		return "another architecture";
	}
}

/*
 * e_ident, e_type and e_machine lie at the same place in ELF-32, so this may look at them before
 * the class is known.
 */
static int elf_check(const struct boot_loader *l, const Elf64_Ehdr *eh)
{
	if (boot_file_check(&l->kernel, 0, sizeof(*eh)))
		return -ENOEXEC;
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return boot_kernel_refuse(l, "a big-endian ELF file; this machine is x86_64");
	if (eh->e_machine != EM_X86_64) {
		log_err("%s %s: an ELF file for %s; this machine is x86_64", l->kernel.what,
			l->kernel.path, elf_machine(eh->e_machine));
		return -ENOEXEC;
	}
	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return boot_kernel_refuse(l, "a 32-bit ELF file; use a 64-bit kernel");
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return boot_kernel_refuse(
			l, "an ELF file, but not an executable one; use vmlinux itself");
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum == 0 || eh->e_phnum > ELF_PHDRS)
		return boot_kernel_refuse(l, "its ELF program headers are not a kernel's; damaged");
	return 0;
}

static int elf_read(const struct boot_loader *l, struct elf *elf)
{
	uint64_t len;
	int err;

	memcpy(&elf->eh, l->head, sizeof(elf->eh));
	err = elf_check(l, &elf->eh);
	if (err)
		return err;
	len = elf->eh.e_phnum * sizeof(Elf64_Phdr);
	err = boot_file_check(&l->kernel, elf->eh.e_phoff, len);
	if (err)
		return err;
	return boot_file_read(&l->kernel, elf->eh.e_phoff, elf->ph, len);
}

static bool elf_is_loaded(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_memsz > 0;
}

/*
 * Checks every segment before the first is loaded, so that the RAM asked for is what the whole
 * kernel needs.
 */
static int elf_measure(const struct boot_loader *l, struct elf *elf)
{
	elf->start = UINT64_MAX;
	for (unsigned i = 0; i < elf->eh.e_phnum; i++) {
		const Elf64_Phdr *ph = &elf->ph[i];
		uint64_t end;

		if (!elf_is_loaded(ph))
			continue;
		if (ph->p_filesz > ph->p_memsz)
			return boot_kernel_refuse(
				l, "an ELF segment is longer in the file than in memory; damaged");
		if (boot_file_check(&l->kernel, ph->p_offset, ph->p_filesz))
			return -ENOEXEC;
		if (__builtin_add_overflow(ph->p_paddr, ph->p_memsz, &end))
			end = UINT64_MAX;
		elf->start = MIN(elf->start, ph->p_paddr);
		elf->end = MAX(elf->end, end);
	}
	if (elf->end == 0)
		return boot_kernel_refuse(
			l, "an ELF file without a loadable segment; use vmlinux itself");
	return boot_kernel_check(l, elf->start, elf->end - elf->start);
}

/* The entry in one note's descriptor: Linux writes 8 bytes in 64-bit kernels, others 4. */
static int elf_note_value(const struct boot_loader *l, uint64_t off, const Elf64_Nhdr *nh,
			  uint64_t *value)
{
	le64 v = le64_of(0);
	int err = boot_file_read(&l->kernel, off, &v, MIN((uint64_t)nh->n_descsz, sizeof(v)));

	if (!err)
		*value = le64_get(v);
	return err;
}

/* Looks for the PVH entry in one PT_NOTE segment: *entry stays as it was if it is not there. */
static int elf_note_search(const struct boot_loader *l, const Elf64_Phdr *ph, uint64_t *entry)
{
	uint64_t align = ph->p_align == 8 ? 8 : 4;
	uint64_t end = ph->p_offset + MIN(ph->p_filesz, ELF_NOTES_LEN);

	/* All sums are of a 64 KiB window in the file plus 32-bit lengths: none can overflow. */
	for (uint64_t off = ph->p_offset; off + sizeof(Elf64_Nhdr) <= end;) {
		uint64_t name_off = off + sizeof(Elf64_Nhdr), desc_off;
		char name[4] = {0};
		Elf64_Nhdr nh;
		int err = boot_file_read(&l->kernel, off, &nh, sizeof(nh));

		if (err)
			return err;
		desc_off = name_off + ALIGN_UP((uint64_t)nh.n_namesz, align);
		off = desc_off + ALIGN_UP((uint64_t)nh.n_descsz, align);
		if (nh.n_type != NOTE_PVH || nh.n_namesz != sizeof(name) ||
		    desc_off + nh.n_descsz > end)
			continue;
		err = boot_file_read(&l->kernel, name_off, name, sizeof(name));
		if (err)
			return err;
		if (!memcmp(name, "Xen", sizeof(name)) && nh.n_descsz >= 4)
			return elf_note_value(l, desc_off, &nh, entry);
	}
	return 0;
}

/* *entry: the PVH entry, or 0 if there is no such note. */
static int elf_pvh_entry(const struct boot_loader *l, const struct elf *elf, uint64_t *entry)
{
	*entry = 0;
	for (unsigned i = 0; i < elf->eh.e_phnum && !*entry; i++) {
		const Elf64_Phdr *ph = &elf->ph[i];
		int err;

		if (ph->p_type != PT_NOTE)
			continue;
		err = boot_file_check(&l->kernel, ph->p_offset, ph->p_filesz);
		if (err)
			return err;
		err = elf_note_search(l, ph, entry);
		if (err)
			return err;
	}
	return 0;
}

static int elf_load_segments(const struct boot_loader *l, const struct elf *elf)
{
	for (unsigned i = 0; i < elf->eh.e_phnum; i++) {
		const Elf64_Phdr *ph = &elf->ph[i];
		int err;

		if (!elf_is_loaded(ph) || ph->p_filesz == 0)
			continue;
		err = boot_file_load(l, &l->kernel, ph->p_offset, ph->p_paddr, ph->p_filesz);
		if (err)
			return err;
	}
	return 0;
}

int boot_load_elf(struct boot_loader *l)
{
	struct elf elf = {0};
	uint64_t pvh, entry;
	int err;

	err = elf_read(l, &elf);
	if (err)
		return err;
	err = elf_measure(l, &elf);
	if (err)
		return err;
	err = elf_pvh_entry(l, &elf, &pvh);
	if (err)
		return err;
	entry = pvh ? pvh : elf.eh.e_entry;
	if (entry < elf.start || entry >= elf.end)
		return boot_kernel_refuse(l, "its entry point is outside its segments; damaged");
	err = elf_load_segments(l, &elf);
	if (err)
		return err;

	l->boot->entry = pvh ? ARCH_ENTRY_PVH32 : ARCH_ENTRY_LINUX64;
	l->boot->entry_addr = entry;
	l->boot->kernel_start = elf.start;
	l->boot->kernel_end = elf.end;
	l->initrd_end = MEM_LOW_END;
	l->cmdline_max = ELF_CMDLINE_MAX;
	return 0;
}
