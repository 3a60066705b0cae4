// Start code of programs that are linked here and run on older systems. From glibc 2.34 on, the
// start code leaves calling initializers to the C library's newer start function, which older
// systems lack. This one passes a function that calls them, as start code before glibc 2.34 did.

using Initializer = void (*)(int, char**, char**);

extern "C" {
// Bounds of the list of initializers, set by the linker.
[[gnu::visibility("hidden")]] extern Initializer __init_array_start[];
[[gnu::visibility("hidden")]] extern Initializer __init_array_end[];

// Identifies the program when destructors are registered.
[[gnu::visibility("hidden")]] void* __dso_handle = nullptr;

[[gnu::visibility("hidden"), gnu::used]] void cntk_reader_initialize(int count, char** arguments,
                                                                     char** environment) {
  for (Initializer* one = __init_array_start; one != __init_array_end; ++one) {
    (*one)(count, arguments, environment);
  }
}
}

// __libc_start_main(main, count, arguments, initialize, finish = nothing, finish of the dynamic
// linker, end of the stack).
#if defined(__x86_64__)
asm(R"(
.globl _start
.type _start, @function
_start:
  xor %ebp, %ebp
  mov %rdx, %r9
  pop %rsi
  mov %rsp, %rdx
  and $-16, %rsp
  push %rax
  push %rsp
  xor %r8d, %r8d
  lea cntk_reader_initialize(%rip), %rcx
  mov main@GOTPCREL(%rip), %rdi
  call *__libc_start_main@GOTPCREL(%rip)
  hlt
)");
#elif defined(__aarch64__)
asm(R"(
.globl _start
.type _start, %function
_start:
  mov x29, #0
  mov x30, #0
  mov x5, x0
  ldr x1, [sp]
  add x2, sp, #8
  mov x6, sp
  adrp x0, :got:main
  ldr x0, [x0, #:got_lo12:main]
  adrp x3, cntk_reader_initialize
  add x3, x3, #:lo12:cntk_reader_initialize
  mov x4, #0
  bl __libc_start_main
  brk #1
)");
#else
#error "This processor has no start code here."
#endif
