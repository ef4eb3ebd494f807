# PVH boot (xen/include/public/arch-x86/hvm/start_info.h): QEMU enters in protected mode, without paging.
.section .note, "a", @note
    .long 4, 8, 18              # the sizes of name and description; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad boot
    # The sources of this kernel, for knee.
    .long 5, 8, 1
    .asciz "knee"
    .balign 4
    .quad SOURCES

# The tables of the kernel's half. The first entry also maps the boot code at its physical address.
.section .boot, "awx", @progbits
.balign 4096
.global kernel_root
kernel_root:
    .quad identity + 3
    .fill 255, 8, 0
    .quad direct + 3            # 0xffff800000000000: 4 GiB of physical memory
    .fill 254, 8, 0
    .quad high + 3
identity:
    .quad memory + 3
    .fill 511, 8, 0
direct:
    .quad memory + 3, memory + 0x1003, memory + 0x2003, memory + 0x3003
    .fill 508, 8, 0
high:
    .fill 510, 8, 0
    .quad memory + 3            # 0xffffffff80000000: the kernel
    .quad 0
memory:
    .set page, 0
    .rept 2048
    .quad page + 0x83           # present, writable, 2 MiB
    .set page, page + 0x200000
    .endr

.balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff    # 0x08: kernel code, 64 bits
    .quad 0x00cf93000000ffff    # 0x10: kernel data
    .quad 0                     # 0x18: unused; `sysret` would require 32-bit user code here
    .quad 0x00cff3000000ffff    # 0x20: user data
    .quad 0x00affb000000ffff    # 0x28: user code, 64 bits
    .quad 0x00cf9b000000ffff    # 0x30: code, 32 bits
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .long gdt

.code32
.global boot
boot:
    cli
    cld
    lgdtl gdt_pointer
    ljmpl $0x30, $cpu_start

# Every CPU starts here in protected mode.
cpu_start:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $0x20, %eax            # PAE
    movl %eax, %cr4
    movl $kernel_root, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx      # EFER: system calls, long mode, no-execute
    rdmsr
    orl $0x901, %eax
    wrmsr
    movl $0x277, %ecx           # PAT: entry 1 is write combining, and the others are as after a reset
    movl $0x00070106, %eax
    movl $0x00070406, %edx
    wrmsr
    movl $0x80010001, %eax      # paging, write protection in the kernel, protected mode
    movl %eax, %cr0
    ljmpl $0x08, $long_start
.code64
long_start:
    movl $1, %eax               # the local APIC ID, which is the CPU's number under QEMU
    cpuid
    shrl $24, %ebx
    movl %ebx, %edi
    leal 1(%rbx), %eax
    shlq $STACK_SHIFT, %rax
    movabsq $STACKS, %rsp
    addq %rax, %rsp
    xorl %ebp, %ebp
    movabsq $cpu_main, %rax
    call *%rax

# Copied to 0x8000, where a CPU starts in real mode.
.global trampoline, trampoline_end
.code16
trampoline:
    cli
    lgdtl %cs:trampoline_gdt - trampoline
    movl $1, %eax
    movl %eax, %cr0
    ljmpl $0x30, $cpu_start
.balign 8
trampoline_gdt:
    .word gdt_end - gdt - 1
    .long gdt
trampoline_end:
.code64

.text
# A stub per vector. The CPU has pushed SS, RSP, RFLAGS, CS and RIP, and an error code for some vectors.
.balign 16
.global vectors
vectors:
    .set vector, 0
    .rept 256
    .balign 16
    .if vector != 8 && (vector < 10 || vector > 14) && vector != 17 && vector != 21 && vector != 29 && vector != 30
    pushq $0
    .endif
    pushq $vector
    jmp trap
    .set vector, vector + 1
    .endr

trap:
    testb $3, 24(%rsp)
    jz kernel_trap
    swapgs
save:
    # The pushed frame is the end of a `Registers`. Push the other registers below it.
    pushq %r15
    pushq %r14
    pushq %r13
    pushq %r12
    pushq %r11
    pushq %r10
    pushq %r9
    pushq %r8
    pushq %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %rbx
    pushq %rax
    # Returns to the caller of `enter_user`.
    movq %gs:8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbp
    popq %rbx
    ret

.global syscall_entry
syscall_entry:
    swapgs
    movq %rsp, %gs:16
    movq %gs:0, %rsp
    pushq $0x23                 # SS
    pushq %gs:16                # RSP
    pushq %r11                  # RFLAGS
    pushq $0x2b                 # CS
    pushq %rcx                  # RIP
    pushq $0
    pushq $256                  # not a vector: a system call
    jmp save

# enter_user(registers): runs a program until it traps.
.global enter_user
enter_user:
    pushq %rbx
    pushq %rbp
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %gs:8
    leaq REGISTERS_SIZE(%rdi), %rax
    movq %rax, %gs:0            # where a trap pushes the registers
    movq %gs:24, %rcx
    movq %rax, 4(%rcx)          # RSP0 of the task-state segment
    movq %rdi, %rsp
    popq %rax
    popq %rbx
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rbp
    popq %r8
    popq %r9
    popq %r10
    popq %r11
    popq %r12
    popq %r13
    popq %r14
    popq %r15
    addq $16, %rsp              # vector and error code
    swapgs
    iretq

# An interrupt of an idle CPU, or an unexpected exception.
kernel_trap:
    cmpq $0x40, (%rsp)
    jb 1f
    pushq %rax
    movabsq $0xffff8000fee000b0, %rax
    movl $0, (%rax)             # end of interrupt
    popq %rax
    addq $16, %rsp
    iretq
1:  movq %rsp, %rdi
    subq $8, %rsp
    andq $-16, %rsp
    call kernel_trap_report

# Position-independent code for user mode, which every space of a storm maps. Each routine passes its result
# as the first argument of a system call.
.section .rodata
.balign 16
.global user_code, user_load, user_store, user_watch, user_write, user_arm, user_code_end
user_code:
user_load:                      # (address)
    movq (%rdi), %rdi
    syscall
user_store:                     # (address, value)
    movq %rsi, (%rdi)
    syscall
user_watch:                     # (address, value): loads until the word differs, at most 5,000 times
    movl $5000, %ecx
1:  movq (%rdi), %rax
    cmpq %rsi, %rax
    jne 2f
    decl %ecx
    jnz 1b
2:  movq %rax, %rdi
    syscall
user_write:                     # (address, value): stores 5,000 increasing values, beginning with the value
    movl $5000, %ecx
1:  movq %rsi, (%rdi)
    incq %rsi
    decl %ecx
    jnz 1b
    movq %rsi, %rdi
    syscall
# The instructions by which knee's QEMU plugin learns where interrupts and faults enter the kernel, and then
# the mark that arms the plugin (crate knee-marks). None of them has any effect on a CPU.
user_arm:
    nopl vectors + 16 * 14(%rbx, %rsi, 2)       # a page fault
    nopl vectors + 16 * 0x40(%rbx, %rbp, 2)     # interrupts: an IPI, the timer, a spurious one
    nopl vectors + 16 * 0x41(%rbx, %rbp, 2)
    nopl vectors + 16 * 0xff(%rbx, %rbp, 2)
    nopl 0x6b6e0003(%rax, %rax)
    syscall
user_code_end:
.text
