/*
 * The trap-flag stepper; see stepper.h.
 *
 * step_enter() (assembly below) changes to the operation's stack, sets the trap flag, calls the
 * operation and meets an int3 when it returns. All else happens in the SIGTRAP handler: a trap
 * behind the int3 is the end of the operation or of a branch, every other trap is a point. A branch
 * ends by putting saved registers into the frame of the signal that the int3 raised.
 *
 * Hangs are found by processor time, not by the clock: a profiling timer counts ticks during which
 * the same play or branch was running. A loaded machine hangs nothing.
 */
#define _GNU_SOURCE
#include "stepper.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <unistd.h>

#define TRAP_FLAG     0x100
#define RED_ZONE      128
#define STACK_SIZE    (256u << 10)
#define HANDLER_SIZE  (1u << 20)
#define XSTATE_MAX    (16u << 10)
#define TICK_US       50000
#define TICKS_TO_HANG 10
#define FX_SW_BYTES_AT                                                                             \
        464 /* of the kernel's words in the 512 bytes of fxsave: magic, then the whole size */
#define FX_SW_MAGIC 0x46505853u

void step_enter(void *context, void (*operation)(void *context), void *stack_top);
extern const char step_returned[], step_after[];

__asm__(".text\n"
        ".p2align 4\n"
        ".globl step_enter\n"
        ".type step_enter, @function\n"
        "step_enter:\n"
        "       push %rbp\n"
        "       push %rbx\n"
        "       push %r12\n"
        "       push %r13\n"
        "       push %r14\n"
        "       push %r15\n"
        "       mov %rsp, %rbx\n"
        "       mov %rdx, %rsp\n"
        "       pushfq\n"
        "       orq $0x100, (%rsp)\n"
        "       popfq\n"
        "       call *%rsi\n"
        ".globl step_returned\n"
        "step_returned:\n"
        "       int3\n"
        ".globl step_after\n"
        "step_after:\n"
        "       mov %rbx, %rsp\n"
        "       pop %r15\n"
        "       pop %r14\n"
        "       pop %r13\n"
        "       pop %r12\n"
        "       pop %rbx\n"
        "       pop %rbp\n"
        "       ret\n"
        ".size step_enter, . - step_enter\n");

struct world {
        gregset_t registers;
        unsigned char *stack_from;
        size_t xstate_size;
        unsigned char stack[STACK_SIZE];
        unsigned char xstate[XSTATE_MAX];
        unsigned char *memory[STEP_MEMORY_MAX];
};

static unsigned char operation_stack[STACK_SIZE] __attribute__((aligned(64)));
static unsigned char handler_stack[HANDLER_SIZE] __attribute__((aligned(64)));
static struct world world;

static struct step_run *running;
static ucontext_t *stopped_at;
static bool in_branch, ready;
static sigjmp_buf run_exit, play_exit;
static volatile sig_atomic_t playing;
/* Who runs now, and who ran at the last tick. */
static volatile uint64_t turn, turn_of_tick;
static volatile int ticks;

static size_t xstate_size_of(const unsigned char *area)
{
        uint32_t magic, size;

        if (!area)
                return 0;
        memcpy(&magic, area + FX_SW_BYTES_AT, sizeof(magic));
        memcpy(&size, area + FX_SW_BYTES_AT + 4, sizeof(size));
        if (magic != FX_SW_MAGIC)
                return 512;
        if (size > XSTATE_MAX)
                abort();
        return size;
}

static void world_save(ucontext_t *at)
{
        uintptr_t from = (uintptr_t)at->uc_mcontext.gregs[REG_RSP] - RED_ZONE;

        memcpy(world.registers, at->uc_mcontext.gregs, sizeof(world.registers));
        world.stack_from = (unsigned char *)from;
        memcpy(world.stack, world.stack_from,
                (size_t)(operation_stack + STACK_SIZE - world.stack_from));
        world.xstate_size = xstate_size_of((const unsigned char *)at->uc_mcontext.fpregs);
        if (world.xstate_size)
                memcpy(world.xstate, at->uc_mcontext.fpregs, world.xstate_size);
        for (int i = 0; i < STEP_MEMORY_MAX && running->memory[i].size; i++)
                memcpy(world.memory[i], running->memory[i].at, running->memory[i].size);
}

static void world_restore(ucontext_t *at)
{
        memcpy(at->uc_mcontext.gregs, world.registers, sizeof(world.registers));
        memcpy(world.stack_from, world.stack,
                (size_t)(operation_stack + STACK_SIZE - world.stack_from));
        if (world.xstate_size)
                memcpy(at->uc_mcontext.fpregs, world.xstate, world.xstate_size);
        for (int i = 0; i < STEP_MEMORY_MAX && running->memory[i].size; i++)
                memcpy(running->memory[i].at, world.memory[i], running->memory[i].size);
}

static void operation_returned(ucontext_t *at)
{
        if (in_branch) {
                in_branch = false;
                turn++;
                running->ended(running->context, running->points - 1);
                world_restore(at);
        } else {
                at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        }
}

static void on_trap(int signal, siginfo_t *info, void *ucontext)
{
        ucontext_t *at = ucontext;
        uintptr_t address = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
        enum step_verdict verdict;

        (void)signal;
        (void)info;
        if (!running)
                abort();
        turn++;
        if (address == (uintptr_t)step_after) {
                operation_returned(at);
                return;
        }
        if (running->points == running->point_limit)
                siglongjmp(run_exit, STEP_TOO_LONG);
        running->address = address;
        running->points++;
        stopped_at = at;
        verdict = running->point(running->context, running->points - 1, address);
        turn++;
        if (in_branch || verdict == STEP_STOP)
                at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

void step_branch(void)
{
        world_save(stopped_at);
        in_branch = true;
        running->branches++;
}

static void leave(enum step_end end)
{
        if (playing)
                siglongjmp(play_exit, end);
        if (running)
                siglongjmp(run_exit, end);
}

static void on_tick(int signal)
{
        (void)signal;
        if (turn_of_tick != turn || (!running && !playing)) {
                turn_of_tick = turn;
                ticks = 0;
        } else if (++ticks == TICKS_TO_HANG) {
                ticks = 0;
                leave(STEP_HANGS);
        }
}

static void on_crash(int signal_number)
{
        leave(STEP_CRASHES);
        /* Not ours: die of it. */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
}

static void handle(int signal, void (*action)(int))
{
        struct sigaction how = {
                .sa_handler = action, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART};

        sigaction(signal, &how, NULL);
}

static void get_ready(void)
{
        stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
        struct sigaction trap = {
                .sa_sigaction = on_trap, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
        struct itimerval tick = {{0, TICK_US}, {0, TICK_US}};

        if (ready)
                return;
        ready = true;
        sigaltstack(&stack, NULL);
        sigaction(SIGTRAP, &trap, NULL);
        handle(SIGPROF, on_tick);
        handle(SIGSEGV, on_crash);
        handle(SIGBUS, on_crash);
        handle(SIGILL, on_crash);
        handle(SIGFPE, on_crash);
        setitimer(ITIMER_PROF, &tick, NULL);
}

enum step_end step_run(struct step_run *run)
{
        enum step_end end;

        get_ready();
        run->points = run->branches = 0;
        for (int i = 0; i < STEP_MEMORY_MAX && run->memory[i].size; i++)
                world.memory[i] = malloc(run->memory[i].size);
        running = run;
        in_branch = false;
        turn++;
        end = (enum step_end)sigsetjmp(run_exit, 0);
        if (end == STEP_DONE)
                step_enter(run->context, run->operation, operation_stack + STACK_SIZE);
        running = NULL;
        for (int i = 0; i < STEP_MEMORY_MAX; i++) {
                free(world.memory[i]);
                world.memory[i] = NULL;
        }
        return end;
}

enum step_end step_play(void (*play)(void *context), void *context)
{
        enum step_end end;

        get_ready();
        turn++;
        end = (enum step_end)sigsetjmp(play_exit, 0);
        if (end == STEP_DONE) {
                playing = 1;
                play(context);
        }
        playing = 0;
        return end;
}

const char *step_end_text(enum step_end end)
{
        static const char *const texts[] = {
                "done", "hangs", "crashes", "takes too many instructions"};

        return texts[end];
}

extern const char __executable_start[];

const char *step_where(uintptr_t address)
{
        static char text[256];
        char command[128], function[96] = "", place[128] = "";
        FILE *pipe;

        snprintf(text, sizeof(text), "instruction 0x%lx", (unsigned long)address);
        snprintf(command, sizeof(command), "addr2line -s -f -e /proc/%d/exe 0x%lx 2>/dev/null",
                (int)getpid(), (unsigned long)(address - (uintptr_t)__executable_start));
        pipe = popen(command, "r");
        if (!pipe)
                return text;
        if (fscanf(pipe, "%95s %127s", function, place) == 2)
                snprintf(text, sizeof(text), "%s at %s", function, place);
        pclose(pipe);
        return text;
}
