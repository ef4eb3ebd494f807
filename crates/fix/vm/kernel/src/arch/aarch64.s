// QEMU enters here at the physical address, in EL1, with the MMU off.
.section .boot, "ax"
.global boot
boot:
    mov x19, #0
    b cpu_start

// A CPU that PSCI has started enters here. x0 contains its number.
.global boot_other
boot_other:
    mov x19, x0

cpu_start:
    ldr x0, =0x4404ff           // MAIR: Normal Write-Back, Device-nGnRE, and Normal Non-cacheable
    msr mair_el1, x0
    ldr x0, =0x15b5103510       // TCR: 48 bits and 4 KiB in both halves, inner shareable, write-back, 48-bit
    msr tcr_el1, x0             // physical addresses, 16-bit ASIDs
    adrp x0, kernel_table
    msr ttbr1_el1, x0
    adrp x0, identity_table
    msr ttbr0_el1, x0
    isb
    tlbi vmalle1
    dsb nsh
    mrs x0, sctlr_el1
    ldr x1, =0x1005             // instruction cache, data cache, MMU
    orr x0, x0, x1
    bic x0, x0, #2              // no alignment checks
    msr sctlr_el1, x0
    isb
    ldr x0, =high
    br x0
high:
    ldr x0, =STACKS
    add x1, x19, #1
    add x0, x0, x1, lsl #STACK_SHIFT
    mov sp, x0
    mov x0, x19
    mov x29, #0
    mov x30, #0
    bl cpu_main
.ltorg

.data
.balign 4096
// 512 GiB of physical memory, at the beginning of the kernel's half. The first GiB contains devices.
kernel_table:
    .quad memory_table - HIGH + 3
    .fill 511, 8, 0
identity_table:
    .quad memory_table - HIGH + 3
    .fill 511, 8, 0
// The table for the lower half while no space is loaded.
.global empty_table
empty_table:
    .fill 512, 8, 0
memory_table:
    .quad 0x0060000000000405    // device, attribute 1, never executed
    .set page, 0x40000000
    .rept 511
    .quad page + 0x0040000000000701    // 1 GiB of memory, inner shareable, not accessible in user mode
    .set page, page + 0x40000000
    .endr

.text
.balign 2048
.global vectors
vectors:
    // Exceptions taken from the kernel. Interrupts are masked, so any such exception is a bug.
    .rept 8
    .balign 128
    b kernel_trap
    .endr
    .balign 128
    stp x0, x1, [sp, #-16]!     // a synchronous exception of a program
    mov x1, #0
    b trap
    .balign 128
    stp x0, x1, [sp, #-16]!     // an interrupt
    mov x1, #1
    b trap
    .rept 6
    .balign 128
    b kernel_trap
    .endr

trap:
    mrs x0, tpidr_el1           // the program's registers
    stp x2, x3, [x0, #16]
    stp x4, x5, [x0, #32]
    stp x6, x7, [x0, #48]
    stp x8, x9, [x0, #64]
    stp x10, x11, [x0, #80]
    stp x12, x13, [x0, #96]
    stp x14, x15, [x0, #112]
    stp x16, x17, [x0, #128]
    stp x18, x19, [x0, #144]
    stp x20, x21, [x0, #160]
    stp x22, x23, [x0, #176]
    stp x24, x25, [x0, #192]
    stp x26, x27, [x0, #208]
    stp x28, x29, [x0, #224]
    str x30, [x0, #240]
    ldp x2, x3, [sp], #16
    stp x2, x3, [x0]
    mrs x2, sp_el0
    mrs x3, elr_el1
    stp x2, x3, [x0, #248]
    mrs x2, spsr_el1
    stp x2, x1, [x0, #264]
    mrs x2, esr_el1
    mrs x3, far_el1
    stp x2, x3, [x0, #280]
    // Returns to the caller of `enter_user`.
    ldp x19, x20, [sp], #16
    ldp x21, x22, [sp], #16
    ldp x23, x24, [sp], #16
    ldp x25, x26, [sp], #16
    ldp x27, x28, [sp], #16
    ldp x29, x30, [sp], #16
    ret

// enter_user(registers): runs a program until it traps.
.global enter_user
enter_user:
    stp x29, x30, [sp, #-16]!
    stp x27, x28, [sp, #-16]!
    stp x25, x26, [sp, #-16]!
    stp x23, x24, [sp, #-16]!
    stp x21, x22, [sp, #-16]!
    stp x19, x20, [sp, #-16]!
    msr tpidr_el1, x0
    ldp x2, x3, [x0, #248]
    msr sp_el0, x2
    msr elr_el1, x3
    ldr x2, [x0, #264]
    msr spsr_el1, x2
    ldp x2, x3, [x0, #16]
    ldp x4, x5, [x0, #32]
    ldp x6, x7, [x0, #48]
    ldp x8, x9, [x0, #64]
    ldp x10, x11, [x0, #80]
    ldp x12, x13, [x0, #96]
    ldp x14, x15, [x0, #112]
    ldp x16, x17, [x0, #128]
    ldp x18, x19, [x0, #144]
    ldp x20, x21, [x0, #160]
    ldp x22, x23, [x0, #176]
    ldp x24, x25, [x0, #192]
    ldp x26, x27, [x0, #208]
    ldp x28, x29, [x0, #224]
    ldr x30, [x0, #240]
    ldp x0, x1, [x0]
    eret

kernel_trap:
    mrs x0, esr_el1
    mrs x1, elr_el1
    mrs x2, far_el1
    b kernel_trap_report

// User-mode code that every space of a storm maps. The code is position-independent. Each routine passes its
// result as the first argument of a system call.
.section .rodata
.balign 16
.global user_code, user_load, user_store, user_watch, user_write, user_code_end
user_code:
user_load:                      // (address)
    ldr x0, [x0]
    svc #0
user_store:                     // (address, value)
    str x1, [x0]
    svc #0
user_watch:                     // (address, value): loads until the word differs, at most 5,000 times
    mov x3, #5000
1:  ldr x2, [x0]
    cmp x2, x1
    b.ne 2f
    subs x3, x3, #1
    b.ne 1b
2:  mov x0, x2
    svc #0
user_write:                     // (address, value): stores 5,000 increasing values, beginning with the value
    mov x3, #5000
1:  str x1, [x0]
    add x1, x1, #1
    subs x3, x3, #1
    b.ne 1b
    mov x0, x1
    svc #0
user_code_end:
.text
