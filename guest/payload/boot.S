// SPDX-License-Identifier: Apache-2.0
/*
 * boot.S - the payload's entries: every one ends in payload_main() in ring 3, interrupts off, ports allowed.
 *
 *   image + 0       32-bit entry: PVH (ebx = hvm_start_info), or Linux's 32-bit protocol (esi = boot_params)
 *   image + 0x200   64-bit entry: Linux's 64-bit protocol (rsi = boot_params); the ELF file's entry too
 *
 * As little as possible runs in ring 0, which some hosts only emulate: page tables and GDT are laid out by the
 * linker. Such hosts also run ring 3 at full speed only with Linux's own selectors (0x33, 0x2b).
 * Spec: the Xen x86/HVM direct boot ABI (PVH); Linux Documentation/arch/x86/boot.rst. Calls: start.c, main.c.
 */
#define CODE64	0x10
#define DATA0	0x18
#define DATA3	0x2b
#define CODE3	0x33
#define TSS	0x40

#define CR0	0x80050033	/* PG AM WP NE ET MP PE */
#define CR4	0x620		/* PAE OSFXSR OSXMMEXCPT */
#define EFER	0x901		/* NXE LME SCE */

	.section .note.pvh, "a", @note
	.balign	4
	.long	4, 8, 18		/* name, descriptor, XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz	"Xen"
	.quad	start32

	.section .head, "ax", @progbits
	.code32
	.globl	start32
start32:
	cli
	cld
	mov	$stack0_top, %esp
	lgdt	gdt_desc
	mov	$CR4, %eax
	mov	%eax, %cr4
	mov	$pml4, %eax
	mov	%eax, %cr3
	mov	$0xc0000080, %ecx
	mov	$EFER, %eax
	xor	%edx, %edx
	wrmsr
	mov	$CR0, %eax
	mov	%eax, %cr0
	ljmp	$CODE64, $long_mode

	.org	0x200
	.code64
	.globl	start64
start64:
	cli
	cld
	xor	%ebx, %ebx		/* no PVH start info this way */
	mov	$stack0_top, %esp
	lgdt	gdt_desc
	mov	$pml4, %eax
	mov	%rax, %cr3
	mov	$CR4, %eax
	mov	%rax, %cr4
	pushq	$CODE64
	pushq	$long_mode
	lretq

long_mode:
	mov	$DATA0, %eax
	mov	%eax, %ss
	mov	$DATA3, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %fs
	mov	%eax, %gs
	mov	$stack0_top, %esp
	mov	$TSS, %eax
	ltr	%ax
	mov	%ebx, %edi
	mov	%esi, %esi
	call	start_ring0
	lidt	idt_desc
	pushq	$DATA3			/* to ring 3; IOPL 3, interrupts off */
	pushq	$stack3_top
	pushq	$0x3002
	pushq	$CODE3
	pushq	$start_ring3
	iretq

/*
 * Exceptions: reported, then a triple fault ends the machine. Ring 3 comes here on purpose too, by ud2 (software
 * interrupts are not emulated everywhere), because only ring 0 can make a triple fault.
 */
	.globl	traps
	.balign	16
traps:
	.set	i, 0
	.rept	32
	.balign	16
	.if	(i == 8) || ((i >= 10) && (i <= 14)) || (i == 17) || (i == 21)
	nop				/* the processor has pushed an error code */
	.else
	pushq	$0
	.endif
	pushq	$i
	jmp	trap_common
	.set	i, i + 1
	.endr
trap_common:
	mov	%rsp, %rdi		/* vector, error, rip, cs, rflags, rsp, ss */
	mov	%cr2, %rsi
	and	$-16, %rsp
	call	start_trap
	lidt	idt_none
	mov	$1, %eax
	shl	$46, %rax
	mov	(%rax), %eax		/* nothing is mapped there */
1:	hlt
	jmp	1b

	.section .data
	.balign	8
	.word	0, 0, 0
gdt_desc:
	.word	gdt_end - gdt - 1
	.quad	gdt
	.word	0, 0, 0
idt_desc:
	.word	32 * 16 - 1
	.quad	idt
	.word	0, 0, 0
idt_none:
	.word	0
	.quad	0

	.balign	16
gdt:
	.quad	0
	.quad	0x00cf9b000000ffff	/* 0x08 code32, ring 0 */
	.quad	0x00af9b000000ffff	/* 0x10 code64, ring 0 */
	.quad	0x00cf93000000ffff	/* 0x18 data, ring 0 */
	.quad	0x00cffb000000ffff	/* 0x20 code32, ring 3 */
	.quad	0x00cff3000000ffff	/* 0x28 data, ring 3 */
	.quad	0x00affb000000ffff	/* 0x30 code64, ring 3 */
	.quad	0
	.word	0x68 + 8192		/* 0x40 TSS; its base is below 16 MiB */
	.word	tss_lo
	.byte	tss_mid, 0x89, 0, 0
	.quad	0
gdt_end:

	.balign	16
	.globl	idt, tss
idt:	.fill	32 * 16, 1, 0
tss:	.long	0
	.quad	stack0_top		/* rsp0 */
	.fill	0x66 - 12, 1, 0
	.word	0x68			/* the bitmap: every port is allowed, as IOPL 3 is */
	.fill	8192, 1, 0		/* not taken over by every host's iretq */
	.byte	0xff

/* Identity map of the first 4 GiB in 2 MiB pages, user-accessible, accessed and dirty already; map.c adds to it. */
	.balign	4096
	.globl	pml4
pml4:	.quad	pdpt + 0x67
	.fill	511, 8, 0
pdpt:	.set	i, 0
	.rept	4
	.quad	pd + i * 4096 + 0x67
	.set	i, i + 1
	.endr
	.fill	508, 8, 0
pd:	.set	i, 0
	.rept	2048
	.quad	i * 0x200000 + 0xe7
	.set	i, i + 1
	.endr

	.section .bss.pool, "aw", @nobits
	.balign	16
	.fill	8192
stack0_top:
	.fill	65536
stack3_top:
	.section .note.GNU-stack, "", @progbits
