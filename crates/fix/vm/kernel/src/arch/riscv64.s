# OpenSBI enters at the physical address, in S mode, without paging. a0 contains the number of the boot hart.
# OpenSBI may boot any hart.
.section .boot, "ax"
.global boot
boot:
    lla t0, boot_hart
    sd a0, (t0)
    # The tables: 512 GiB of physical memory at 0 and at the beginning of the kernel's half.
    lla t0, memory_table
    lla t1, kernel_table
    srli t2, t0, 2
    ori t2, t2, 1
    sd t2, (t1)
    li t3, 2048
    add t3, t1, t3
    sd t2, (t3)
    li t2, 0xef                 # a page of the kernel: global, accessed, dirty
    li t3, 512
    li t4, 1 << 28
1:  sd t2, (t0)
    add t2, t2, t4
    addi t0, t0, 8
    addi t3, t3, -1
    bnez t3, 1b
    li s0, 0
    j cpu_start

# A hart that the first CPU has started enters here. a1 contains the number of the CPU.
.global boot_other
boot_other:
    mv s0, a1

cpu_start:
    lla t0, kernel_table
    srli t0, t0, 12
    li t1, 9 << 60              # Sv48
    or t0, t0, t1
    sfence.vma
    csrw satp, t0
    sfence.vma
    lla t0, absolute
    ld t1, 0(t0)
    jr t1
high:
    lla t0, absolute
    ld sp, 8(t0)
    addi t1, s0, 1
    slli t1, t1, STACK_SHIFT
    add sp, sp, t1
    mv a0, s0
    li ra, 0
    call cpu_main
.balign 8
absolute:
    .quad high, STACKS

.data
.balign 8
.global boot_hart
boot_hart:
    .quad 0
.balign 4096
.global kernel_table
kernel_table:
    .fill 512, 8, 0
memory_table:
    .fill 512, 8, 0

.text
.balign 4
.global trap
trap:
    csrrw a0, sscratch, a0      # sscratch: the program's registers, or 0 in the kernel
    beqz a0, kernel_trap
    sd ra, 0(a0)
    sd sp, 8(a0)
    sd gp, 16(a0)
    sd tp, 24(a0)
    sd t0, 32(a0)
    sd t1, 40(a0)
    sd t2, 48(a0)
    sd s0, 56(a0)
    sd s1, 64(a0)
    sd a1, 80(a0)
    sd a2, 88(a0)
    sd a3, 96(a0)
    sd a4, 104(a0)
    sd a5, 112(a0)
    sd a6, 120(a0)
    sd a7, 128(a0)
    sd s2, 136(a0)
    sd s3, 144(a0)
    sd s4, 152(a0)
    sd s5, 160(a0)
    sd s6, 168(a0)
    sd s7, 176(a0)
    sd s8, 184(a0)
    sd s9, 192(a0)
    sd s10, 200(a0)
    sd s11, 208(a0)
    sd t3, 216(a0)
    sd t4, 224(a0)
    sd t5, 232(a0)
    sd t6, 240(a0)
    csrrw t0, sscratch, zero
    sd t0, 72(a0)
    csrr t0, sepc
    sd t0, 248(a0)
    csrr t0, scause
    sd t0, 256(a0)
    csrr t0, stval
    sd t0, 264(a0)
    # Returns to the caller of `enter_user`.
    ld sp, 272(a0)
    ld ra, 0(sp)
    ld gp, 8(sp)
    ld tp, 16(sp)
    ld s0, 24(sp)
    ld s1, 32(sp)
    ld s2, 40(sp)
    ld s3, 48(sp)
    ld s4, 56(sp)
    ld s5, 64(sp)
    ld s6, 72(sp)
    ld s7, 80(sp)
    ld s8, 88(sp)
    ld s9, 96(sp)
    ld s10, 104(sp)
    ld s11, 112(sp)
    addi sp, sp, 128
    ret

# enter_user(registers): runs a program until it traps.
.global enter_user
enter_user:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd gp, 8(sp)
    sd tp, 16(sp)
    sd s0, 24(sp)
    sd s1, 32(sp)
    sd s2, 40(sp)
    sd s3, 48(sp)
    sd s4, 56(sp)
    sd s5, 64(sp)
    sd s6, 72(sp)
    sd s7, 80(sp)
    sd s8, 88(sp)
    sd s9, 96(sp)
    sd s10, 104(sp)
    sd s11, 112(sp)
    sd sp, 272(a0)
    csrw sscratch, a0
    ld t0, 248(a0)
    csrw sepc, t0
    ld ra, 0(a0)
    ld sp, 8(a0)
    ld gp, 16(a0)
    ld tp, 24(a0)
    ld t0, 32(a0)
    ld t1, 40(a0)
    ld t2, 48(a0)
    ld s0, 56(a0)
    ld s1, 64(a0)
    ld a1, 80(a0)
    ld a2, 88(a0)
    ld a3, 96(a0)
    ld a4, 104(a0)
    ld a5, 112(a0)
    ld a6, 120(a0)
    ld a7, 128(a0)
    ld s2, 136(a0)
    ld s3, 144(a0)
    ld s4, 152(a0)
    ld s5, 160(a0)
    ld s6, 168(a0)
    ld s7, 176(a0)
    ld s8, 184(a0)
    ld s9, 192(a0)
    ld s10, 200(a0)
    ld s11, 208(a0)
    ld t3, 216(a0)
    ld t4, 224(a0)
    ld t5, 232(a0)
    ld t6, 240(a0)
    ld a0, 72(a0)
    sret

kernel_trap:
    csrr a0, scause
    csrr a1, sepc
    csrr a2, stval
    call kernel_trap_report

# Position-independent code for user mode, which every space of a storm maps. Each routine passes its result
# as the first argument of a system call.
.section .rodata
.balign 16
.global user_code, user_load, user_store, user_watch, user_write, user_code_end
user_code:
user_load:                      # (address)
    ld a0, 0(a0)
    ecall
user_store:                     # (address, value)
    sd a1, 0(a0)
    ecall
user_watch:                     # (address, value): loads until the word differs, at most 5,000 times
    li t0, 5000
1:  ld t1, 0(a0)
    bne t1, a1, 2f
    addi t0, t0, -1
    bnez t0, 1b
2:  mv a0, t1
    ecall
user_write:                     # (address, value): stores 5,000 increasing values, beginning with the value
    li t0, 5000
1:  sd a1, 0(a0)
    addi a1, a1, 1
    addi t0, t0, -1
    bnez t0, 1b
    mv a0, a1
    ecall
user_code_end:
.text
