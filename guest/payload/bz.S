// SPDX-License-Identifier: Apache-2.0
/*
 * bz.S - the same image as a bzImage: Linux's setup header in front, then what objcopy made of the ELF file.
 *
 * For loaders that take only that. All three entries work: 64-bit (protected-mode part + 0x200), 32-bit (+ 0), and
 * real mode, whose few lines below do no more than enter protected mode with esi at the header.
 * Spec: Linux Documentation/arch/x86/boot.rst, protocol 2.12.
 */
	.code16
	.section .text
	.globl	_start
_start:
	.org	0x1f1
	.byte	1			/* setup_sects */
	.word	0
	.long	(image_end - image) / 16
	.word	0, 0, 0
	.word	0xaa55
	.org	0x200
	.byte	0xeb, real - 1f		/* a jump, and so the header's length */
1:	.ascii	"HdrS"
	.word	0x020c
	.long	0
	.word	0, 0
	.byte	0, 1			/* type_of_loader; loadflags: LOADED_HIGH */
	.word	0
	.long	0x100000		/* code32_start */
	.long	0, 0, 0
	.word	0xe000			/* heap_end_ptr */
	.byte	0, 0
	.long	0			/* cmd_line_ptr */
	.long	0x7fffffff		/* initrd_addr_max */
	.long	0x200000		/* kernel_alignment */
	.byte	0, 21			/* not relocatable; min_alignment */
	.word	1			/* xloadflags: XLF_KERNEL_64 */
	.long	2047			/* cmdline_size */
	.long	0
	.quad	0
	.long	0, 0
	.quad	0
	.quad	0x100000		/* pref_address */
	.long	INIT_SIZE
	.long	0
real:	cli				/* ds is this segment */
	xor	%esi, %esi
	mov	%ds, %si
	shl	$4, %esi		/* the header in place serves as boot_params */
	lea	gdt16 - _start(%esi), %eax
	mov	%eax, gdt16d + 2 - _start
	lgdt	gdt16d - _start
	xor	%ebx, %ebx
	mov	%cr0, %eax
	or	$1, %al
	mov	%eax, %cr0
	lea	prot - _start(%esi), %eax
	mov	%eax, vec - _start
	ljmpl	*(vec - _start)
	.code32
prot:	mov	$0x18, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	mov	$0x100000, %eax
	jmp	*%eax
	.balign	8
gdt16:	.quad	0, 0
	.quad	0x00cf9b000000ffff
	.quad	0x00cf93000000ffff
gdt16d:	.word	31
	.long	0
vec:	.long	0
	.word	0x10
	.org	0x400
image:
	.incbin	FLAT
	.balign	16			/* its length is told in these */
image_end:
	.section .note.GNU-stack, "", @progbits
