/*
 * The stepper: it looks at memory after every single instruction of an operation.
 *
 * The operation runs on a stack of its own, one instruction at a time. The stepper executes copies
 * of its instructions, each followed by a jump to the stepper (pieces.h), which calls run->point()
 * on another stack. An instruction that cannot be copied is executed under the processor's trap
 * flag, EFLAGS.TF; with run->by_traps all are, which shows the same and takes fifty times as long.
 * What point() finds in memory is what SIGKILL at that instruction leaves there, because stores
 * retire in order. point() decides how to go on:
 *
 *      STEP_ON    to the next instruction
 *      STEP_STOP  no more points: the operation runs to its end
 *
 * or it calls step_branch() first, which saves the world (registers, the operation's stack,
 * run->memory). After point() has returned, the operation runs to its end at its own address and in
 * the memory as point() left it; then the stepper calls run->ended(), puts the world back and goes
 * on stepping. So "stopped here, others went on, resumed" is tried at each instruction of one run.
 *
 * Always true: point() and ended() see the operation stopped between two instructions; they may
 * call any function that takes no lock that the operation could hold (shm/ and ring/ take none). It
 * works on x86-64 only, for one run at a time and one thread.
 */
#ifndef SB_TESTS_STEPPER_H
#define SB_TESTS_STEPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_MEMORY_MAX 8

enum step_verdict { STEP_ON, STEP_STOP };

/* At which points point() is called: at each one, where shared memory may differ from that of the
 * point before, where the next instruction may load or store there. The others are counted. */
enum step_wanted { STEP_EACH, STEP_STORED, STEP_TOUCHING };

/* What ended a play or a run before its time. */
enum step_end { STEP_DONE, STEP_HANGS, STEP_CRASHES, STEP_TOO_LONG };

struct step_memory {
        void *at;
        size_t size;
};

struct step_run {
        void (*operation)(void *context);
        enum step_verdict (*point)(void *context, uint64_t number, uintptr_t address);
        void (*ended)(void *context, uint64_t number); /* a branch's end; NULL without branches */
        void *context;
        /* what a branch puts back; unused entries have size 0 */
        struct step_memory memory[STEP_MEMORY_MAX];
        struct step_memory shared; /* for touches and changed; size 0: no question */
        enum step_wanted wanted;   /* point() may say it anew */
        uint64_t point_limit;      /* more instructions than this: STEP_TOO_LONG */
        bool by_traps;             /* the trap flag for each instruction */
        uint64_t points;           /* out: instructions seen */
        uint64_t branches;         /* out */
        /* out: the address of the instruction that comes next at the last point */
        uintptr_t address;
        /* out, for point(): memory other than the operation's stack may differ from that of the
         * point before */
        bool stored;
        bool changed; /* out, for point(): the same of shared alone */
        /* out, for point(): the next instruction may load or store in shared. Where it does not,
         * what others do there before it is what they do behind it. */
        bool touches;
};

/**
 * step_run() - run an operation, and look at memory after each instruction
 * @run: what to run; points, branches and address are written
 *
 * Return: STEP_DONE; STEP_TOO_LONG; STEP_HANGS, STEP_CRASHES: the operation itself did, alone or in
 * a branch.
 */
enum step_end step_run(struct step_run *run);
/**
 * step_forget() - clear what earlier operations left on the operations' stack
 *
 * Two runs of one operation then see the same, where it copies bytes that it never wrote: those
 * between the members of a struct, or a word that only aligns the stack.
 */
void step_forget(void);

#define STEP_REGISTERS 17 /* rax rbx rcx rdx rsi rdi rbp r8 to r15 rsp, flags */

/* In point(): the operation's registers, STEP_REGISTERS words. */
const uint64_t *step_registers(void);
/* In point(): what changes in run->memory from here on is put back when the resumed operation has
 * ended. */
void step_branch(void);

/**
 * step_play() - call something that may hang or crash, inside point(), ended() or outside of a run
 * @play:    the function
 * @context: its argument
 *
 * Return: STEP_DONE, STEP_HANGS (it used up half a second of processor time), STEP_CRASHES
 * (SIGSEGV, SIGBUS, SIGILL, SIGFPE).
 */
enum step_end step_play(void (*play)(void *context), void *context);

/* "function at file:line" of an instruction, or its address where no symbol is known; static
 * buffer. */
const char *step_where(uintptr_t address);
const char *step_end_text(enum step_end end);

#endif
